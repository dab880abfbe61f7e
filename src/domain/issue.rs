//! The issue that a run works on.

use serde::{Deserialize, Serialize};

use super::IssueNumber;

/// An issue as its author wrote it. Untrusted: a model reads it only through `gate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    /// Absent where the issue came from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<IssueNumber>,
    pub title: String,
    pub body: String,
}
