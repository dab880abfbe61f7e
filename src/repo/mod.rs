//! Git through libgit2: mirrors in, trees out, trees in, patches out.
//!
//! What holds here:
//! - No git program is ever started, and libgit2 runs none: no hook, no filter driver, no credential helper.
//! - The source of a run is only read. Everything written goes into a bare repository in the cache folder.
//! - No settings of the user, the machine or a repository reach libgit2 (`engine`, `store`).
//! - Every libgit2 call runs on a blocking thread with a `git2::Repository` of its own (S-51).
//! - The network is reached through `transport` alone: one host, no redirects, tokens only in a header.

mod agent_repository;
mod border;
mod compare;
mod create;
mod edit;
mod engine;
mod failure;
mod fetch;
mod history;
mod kept_packs;
mod lock;
mod mirror;
mod patch;
mod push;
mod revision;
mod source;
mod store;
mod transport;
mod tree;
mod walk;

pub use create::create_repository;
pub use mirror::{Mirror, Settings};
pub use push::PushError;
pub use source::Source;
pub use transport::Credential;
pub use tree::CommitTree;
