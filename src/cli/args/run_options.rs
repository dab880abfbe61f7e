//! What can be said to every command that starts a run.

use std::path::PathBuf;

use clap::Args;

use crate::{
    config::SandboxKind,
    runs::{Replay, ReplaySource, Replies},
};

use super::dollars;

#[derive(Args)]
pub(super) struct RunOptions {
    /// Folder for the run's files; without it a new one below .acquire/runs (the setting `paths.runs`)
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub out: Option<PathBuf>,
    /// Docker image of the sandbox, with what the project's tests need
    #[arg(long, value_name = "IMAGE", conflicts_with = "resume")]
    pub image: Option<String>,
    /// Where agents' commands run; `auto` takes Docker where an engine answers, else namespaces
    #[arg(long, value_enum, value_name = "KIND", conflicts_with = "resume")]
    pub sandbox: Option<SandboxKind>,
    /// Most US dollars that the run may cost, what a resumed run cost before included; without it the setting
    /// `limits.run.usd` (10)
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub max_usd: Option<f64>,
    /// Record the model's replies
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Take the model's replies from a record
    #[arg(long, value_name = "FILE", conflicts_with = "record")]
    replay: Option<PathBuf>,
    /// Take recorded replies although the prompts differ
    #[arg(long, requires = "replay")]
    replay_lenient: bool,
    /// Go on with the run in this folder
    #[arg(long, value_name = "DIR")]
    pub resume: Option<PathBuf>,
    /// Settings file; without it ./acquire.toml, else ~/.config/acquire/acquire.toml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

impl RunOptions {
    /// Takes them out.
    pub fn replies(&mut self) -> Replies {
        let lenient = self.replay_lenient;
        let replay = self.replay.take().map(|file| Replay { source: ReplaySource::File(file), lenient });
        Replies { record: self.record.take(), replay }
    }
}
