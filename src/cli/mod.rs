//! The command line: one file a command, what it was asked ([`args`]), and what it shows meanwhile
//! ([`progress`]).

pub mod args;
mod ask;
mod bench;
mod demo;
mod doctor;
mod export;
mod process;
pub mod progress;
mod session;
mod solve;

use std::process::ExitCode;

use args::Command;

/// Reads the command line, runs the command, and gives the process's exit code: 0 finished, 1 failed,
/// 2 usage or configuration, 130 cancelled.
pub fn main() -> ExitCode {
    let command = match args::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(error) => {
            // Help goes to stdout, a usage error to stderr; a closed stream changes nothing.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    process::start_logging();
    crate::model::install_tls();
    let ended = process::block_on(async {
        match command {
            Command::Ask(ask) => ask::run(*ask).await,
            Command::Bench(bench) => bench::run(*bench).await,
            Command::Demo(demo) => demo::run(demo).await,
            Command::Solve(solve) => solve::run(*solve).await,
            Command::Export(export) => export::run(export),
            Command::Doctor(doctor) => doctor::run(doctor).await,
        }
    });
    match ended.and_then(|ended| ended) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(if error.is::<process::UsageError>() { 2 } else { 1 })
        }
    }
}
