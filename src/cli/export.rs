//! `acquire export`: a run's trajectories for other programs.

use std::process::ExitCode;

use crate::store;

use super::{args::Export, output::print, process::UsageError};

pub fn run(export: Export) -> anyhow::Result<ExitCode> {
    let out = export.out.unwrap_or_else(|| export.run.join("trajectories"));
    let files =
        store::export_trajectories(&export.run, &out).map_err(|e| UsageError(e.without_its_kind()))?;
    for file in files {
        print(file.display())?;
    }
    Ok(ExitCode::SUCCESS)
}
