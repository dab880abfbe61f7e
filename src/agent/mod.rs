//! The scaffold under every agent that acts: ask the model, run what it calls, show what came of it,
//! until it submits or a limit ends it. The shape is mini-SWE-agent's: one linear history, one shell tool, a
//! fresh shell for every command, submission by a call of its own.
//!
//! Invariants
//! - A conversation only grows, but for a compaction. A turn is stored when it is complete, or cut off after
//!   its reply was paid, and never changed afterwards; a resumed agent continues from exactly the messages that
//!   are stored.
//! - Every model call is reserved in the run's ledger before it and settled after it, failed ones too.
//! - Text from a model reaches the sandbox as the body of one command and nothing on the host.

mod act;
mod compact;
mod conversation;
mod cut;
pub mod harvest;
pub mod ledger;
mod limits;
pub mod observation;
mod paid;
pub mod prompt;
mod run;
pub mod shell;
mod tests_run;
pub mod workbench;

pub use cut::stage as cut_stage;
pub use limits::{Exit, Limits, declined};
pub(crate) use paid::{Unpaid, paid};
pub use run::{Agent, AgentError, Finished, Services, Stop};

#[cfg(test)]
mod tests;
