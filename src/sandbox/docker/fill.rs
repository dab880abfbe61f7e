//! What goes into a workspace: the base commit's tree, a repository without anything newer, and what an
//! earlier process of the run had saved.

use tokio::sync::mpsc;

use super::spec::HISTORY;
use crate::{
    domain::TreeChanges,
    method::ports::{SandboxError, SourceError, SourceTree},
    sandbox::session::{Fill, Session},
};

/// Entries between the reader of the repository and the writer into the sandbox; a file may be large.
const AHEAD: usize = 8;

/// Fills a fresh sandbox.
///
/// # Errors
/// [`SandboxError::Limit`] when the workspace is too small, [`SandboxError::Lost`] when the sandbox
/// breaks off, [`SandboxError::Unavailable`] when the repository cannot be read.
pub(super) async fn fill(
    session: &Session,
    source: &dyn SourceTree,
    changes: &TreeChanges,
) -> Result<(), SandboxError> {
    let (to, from) = mpsc::channel(AHEAD);
    let (fed, filled) = tokio::join!(feed(source, changes, to), session.fill(from));
    // A sandbox that stops taking entries also stops the reader, so its reason is the first.
    let filled = filled?;
    fed.map_err(|error| SandboxError::Unavailable(format!("the repository cannot be read: {error}")))?;
    tracing::debug!(entries = filled.entries, bytes = filled.bytes, "workspace filled");
    Ok(())
}

async fn feed(
    source: &dyn SourceTree,
    changes: &TreeChanges,
    to: mpsc::Sender<Fill>,
) -> Result<(), SourceError> {
    let (base_to, mut base_from) = mpsc::channel(AHEAD);
    let sandbox = &to;
    // Owns its end of the channel: when the sandbox takes no more, the reader must not wait for room.
    let pass_on = async move {
        while let Some(change) = base_from.recv().await {
            if sandbox.send(Fill::Base(change)).await.is_err() {
                break;
            }
        }
    };
    let (streamed, ()) = tokio::join!(source.stream_files(base_to), pass_on);
    streamed?;
    let git = source.git_files(HISTORY).await?.into_iter().map(Fill::Git);
    let saved = changes.changed.iter().cloned().map(Fill::Saved);
    let removed = changes.removed.iter().cloned().map(Fill::Removed);
    for entry in git.chain(saved).chain(removed) {
        if to.send(entry).await.is_err() {
            break;
        }
    }
    Ok(())
}
