//! The `redgreen` binary: everything is in the library.

fn main() -> std::process::ExitCode {
    // Before anything that starts a thread: the sandbox runs this binary again as its helper.
    redgreen::sandbox::local::helper_main_if_asked().unwrap_or_else(redgreen::cli::main)
}
