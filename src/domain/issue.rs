//! The issue that a run works on.

use serde::{Deserialize, Serialize};

use super::IssueNumber;

/// An issue as its author wrote it. Untrusted: a model reads it only through `gate`.
///
/// The default, which is empty, stands for no issue: one without words is never worked on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    /// Absent where the issue came from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<IssueNumber>,
    pub title: String,
    pub body: String,
}

impl Issue {
    /// Whether there is none: a run that only answers questions needs no issue.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}
