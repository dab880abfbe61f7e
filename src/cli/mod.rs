//! The command line: one file a command, what it was asked ([`args`]), what it shows meanwhile
//! ([`progress`]), and the streams that all of it goes to ([`output`]).

pub mod args;
mod ask;
mod bench;
mod demo;
mod doctor;
mod export;
mod output;
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
        Err(error) => return output::show_usage(&error),
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
            output::tell(format_args!("error: {error:#}"));
            ExitCode::from(if error.is::<process::UsageError>() { 2 } else { 1 })
        }
    }
}
