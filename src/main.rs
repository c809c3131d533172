//! The `redgreen` binary: everything is in the library.

/// Reports and resumed runs are many small pieces of text: with the system's allocator a third more time goes into them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    // Before anything that starts a thread: the sandbox runs this binary again as its helper.
    redgreen::sandbox::local::helper_main_if_asked().unwrap_or_else(redgreen::cli::main)
}
