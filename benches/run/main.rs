//! `scripts/bench answer|prepare|memory|prefix`: what a whole run costs in time and memory.
//!
//! The argument names the figure. Where a run of the program is measured, it is the program as it is shipped,
//! with the Docker sandbox, on a model whose replies are scripted.

mod answer;
mod memory;
mod prefix;
mod program;
#[path = "../../tests/git/project.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod project;
mod repositories;
mod resident;
#[path = "../rows.rs"]
mod rows;
#[path = "../sandboxes.rs"]
mod sandboxes;
#[path = "../../tests/support/script.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod script;
mod second_run;
#[path = "../../tests/git/server.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod server;
mod shared_tree;

use std::{path::PathBuf, process::ExitCode};

use anyhow::bail;
use rows::Row;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    match runtime.block_on(measure()) {
        Ok(rows) => {
            rows.iter().for_each(Row::print);
            ExitCode::from(u8::from(rows.iter().any(|row| !row.ok)))
        }
        Err(error) => {
            eprintln!("run: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure() -> anyhow::Result<Vec<Row>> {
    // Cargo adds `--bench`.
    let mut arguments = std::env::args_os().skip(1).filter(|argument| argument != "--bench");
    let figure = arguments.next().unwrap_or_default();
    let folders: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
    match figure.to_str() {
        Some("answer") => answer::rows().await,
        Some("prepare") => {
            let mut rows = second_run::rows().await?;
            rows.extend(shared_tree::rows().await?);
            Ok(rows)
        }
        Some("memory") => memory::rows().await,
        Some("prefix") => prefix::rows(&folders).await,
        _ => bail!("the figures are answer, prepare, memory and prefix, not {figure:?}"),
    }
}
