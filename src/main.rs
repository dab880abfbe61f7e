#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

fn main() -> ExitCode {
    // The namespaces sandbox starts this program once more, as the first process inside.
    acquire::sandbox::namespaces::launched().unwrap_or_else(acquire::cli::main)
}
