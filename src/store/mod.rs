//! What a run leaves on disk, in one folder (`--out DIR`), so that it survives a kill and can go on.
//!
//! | path | holds | written |
//! |---|---|---|
//! | `trajectories/AGENT.jsonl` | the opening, then a turn a line | appended when a turn is complete |
//! | `trees/AGENT/TURN.delta` | what changed in the workspace | atomically |
//! | `stages/NAME.json` | a stage's output | atomically |
//! | `run.json`, `comment.md`, … | the results ([`write_results`]) | atomically |
//! | `account.open` | nothing that matters; left behind by a process that was killed while it could pay | atomically |
//! | `run.lock` | nothing that matters; locked while a process works here | |
//!
//! Invariants:
//! - **A kill at any moment loses at most what was being written.** Appends go to the kernel in one write
//!   and are cut back to the last whole line on the next open; everything else appears by a rename.
//! - **Power loss** may cost the turns since the last stage output or saved tree: those two are brought to
//!   the disk with everything before them, single turns are not. Syncing every turn costs milliseconds a
//!   step on ordinary disks, and all it would save is model calls.
//! - **No name on disk comes from text that somebody else wrote**: agents and stages are named by this
//!   program, and an agent's paths are content.
//! - **A run's folder may have come from somebody else**: what is read in it is a regular file of a limited size,
//!   and no link in it is followed. The folder itself may be named by a link.
//! - **Text is redacted on its way to the disk** ([`Redactor`]); saved trees are not, since a resumed run
//!   must find its workspace exactly. A folder made here is therefore readable by its owner only.

mod atomic;
mod delta;
mod export;
mod files;
mod output;
mod redact;
mod regular;
mod run_json;
mod trajectory;
mod trees;

pub use atomic::write as write_atomically;
pub use export::export_trajectories;
pub use files::{RunFolder, make_run_folder};
pub use output::{Results, write_results, write_summary};
pub use redact::Redactor;
pub use regular::{open_regular, read_at_most, too_large};
pub use run_json::{
    AgentExit, AgentSummary, ErrorSummary, IssueSummary, Outcome, RunSummary, StageSummary, Strategy, Usage,
};

use std::{fmt, path::Path};

use crate::method::ports::StoreError;

/// An error about a file: the path, what was wrong, and what to do.
fn file_error(path: &Path, reason: impl fmt::Display) -> StoreError {
    StoreError { what: path.display().to_string(), reason: reason.to_string() }
}

#[cfg(test)]
mod examples {
    use serde_json::json;

    use crate::method::ports::{Opening, Turn};

    pub fn example_opening() -> Opening {
        serde_json::from_value(json!({
            "agent": "resolver",
            "model": "m",
            "messages": [{"role": "system", "content": "one\ntwo"}],
            "tools": [],
            "volatile": [],
        }))
        .unwrap()
    }

    pub fn example_turn(number: u32, text: &str) -> Turn {
        serde_json::from_value(json!({
            "turn": number,
            "messages": [{"role": "user", "content": text}],
            "finish": "stop",
            "observed": [],
            "account": {"steps": 1, "seconds": 0.5, "usd": 0.001, "tokens": {"input": 9, "cached": 0, "output": 1}},
            "at": "2026-11-30T10:00:00Z",
        }))
        .unwrap()
    }
}
