//! Every word that users read. Pure: plain values in, markdown out.
//!
//! What a model wrote passes through [`inert`] on its way; what the host says is told apart from it.

mod citations;
mod comment;
mod failure;
mod inert;
mod markdown;
mod pull_request;
mod run;
#[cfg(test)]
mod sample;

pub use comment::{CommentInput, comment};
pub use failure::{FailureInput, failure};
pub use inert::inert;
pub use pull_request::{
    IssueReference, NoPatch, PullRequestInput, PullRequestText, TestReport, no_patch, pull_request,
};
pub use run::RunFacts;
