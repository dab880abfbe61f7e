//! GitHub's REST API, read-only so far: an issue by its number.

mod issue;

pub use issue::{IssueError, IssueReader, IssueRef};
