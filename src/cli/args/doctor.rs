//! `acquire doctor`.

use std::path::PathBuf;

use clap::Args;

use crate::config::SandboxKind;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doctor {
    /// Where it is not set, the settings say.
    pub sandbox: Option<SandboxKind>,
    pub image: Option<String>,
    pub ask_models: bool,
    pub json: bool,
    pub config: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  acquire doctor
  Everything that costs nothing:
    acquire doctor --no-model
  With the image that brings a project's tests:
    acquire doctor --sandbox docker --image my-project:ci

Exit codes: 0 ready, 1 something is to do, 130 cancelled.";

/// Looks at everything that a run needs and says what is ready and what to do, a line each: settings, folders,
/// Docker engine, image, a sandbox tried from inside (privileges, seccomp, network, quota), models.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RawDoctor {
    /// The sandbox to try; without it the setting `sandbox.kind`
    #[arg(long, value_enum, value_name = "KIND")]
    sandbox: Option<SandboxKind>,
    /// Docker image to try; without it the setting `sandbox.image`
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Do not ask the models; a small call to each is made without it
    #[arg(long)]
    no_model: bool,
    /// Print a JSON list of {name, state, text} instead
    #[arg(long)]
    json: bool,
    /// Settings file; without it ./acquire.toml, else ~/.config/acquire/acquire.toml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl RawDoctor {
    pub fn with_meaning(self) -> Doctor {
        let Self { sandbox, image, no_model, json, config } = self;
        Doctor { sandbox, image, ask_models: !no_model, json, config }
    }
}
