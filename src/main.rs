//! The `redgreen` binary: everything is in the library.

fn main() -> std::process::ExitCode {
    redgreen::cli::main()
}
