//! The product's own words: types that are valid once they exist.
//!
//! Text from outside becomes one of these at the border, or is refused there with an error that says
//! what was wrong. Nothing in here does input or output.

mod account;
mod address;
mod issue;
mod knowledge;
mod names;
mod patch;
mod tree;

pub use account::{Account, Money, Price, Tokens};
pub use address::is_loopback;
pub use issue::Issue;
pub use knowledge::{
    Answer, AnswerStatus, Block, Category, Check, Citation, Knowledge, Origin, Pair, Question,
};
pub use names::{AgentName, CommitId, InvalidName, IssueNumber, RepoId, RepoPath, RunId};
pub use patch::{LeftOut, Patch, PatchSummary};
pub use tree::{Change, FileMode, TreeChanges, TreePath};
