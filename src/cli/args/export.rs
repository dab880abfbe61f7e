//! `acquire export`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    pub run: PathBuf,
    pub out: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  acquire export .acquire/runs/20261130-153344-a1b2c3
  mini-extra inspector .acquire/runs/20261130-153344-a1b2c3/trajectories";

/// Writes a run's trajectories in the form of mini-swe-agent (mini-swe-agent-1.1), a file an agent, for its
/// inspector and other viewers. A run that still goes on is exported as far as it is. Links in its folder are not
/// followed, since a run may be somebody else's.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RawExport {
    /// Folder of the run
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Folder for the files; without it RUN/trajectories
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl RawExport {
    pub fn with_meaning(self) -> Export {
        Export { run: self.run, out: self.out }
    }
}
