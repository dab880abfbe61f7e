//! One commit onto one branch of the web host (S-56).

use git2::{PushOptions, Reference, RemoteCallbacks, RemoteRedirect};

use super::{
    engine::{blocking, git_error, shown},
    mirror::{Mirror, parse},
    source::Source,
    transport::Session,
};
use crate::{domain::CommitId, method::ports::SourceError};

#[derive(Debug, Clone, thiserror::Error)]
pub enum PushError {
    /// The server took the objects but not the branch, such as a protected branch or a hook that objects.
    #[error("the server refused to update {reference}: {reason}")]
    Refused { reference: String, reason: String },
    /// The branch has commits that the pushed one does not build on. Nothing was sent.
    #[error("{reference} has moved on; it is not overwritten")]
    Moved { reference: String },
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl Mirror {
    /// Puts `commit`, which the mirror holds, onto `branch` of the web host. Never overwrites: a branch that
    /// exists must be an ancestor.
    pub async fn push(&self, commit: &CommitId, branch: &str) -> Result<(), PushError> {
        let Source::Web(url) = self.source.clone() else {
            return Err(SourceError::Input("a folder is never pushed to".into()).into());
        };
        let reference = format!("refs/heads/{branch}");
        if !Reference::is_valid_name(&reference) {
            return Err(SourceError::Input(format!("{:?} is not a branch name", shown(branch))).into());
        }
        let (store, settings, id) = (self.store.clone(), self.settings.clone(), parse(commit)?);
        blocking(move |token| {
            let pushing = git_error("pushing");
            let repository = store.repository()?;
            let mut remote = repository.remote_anonymous(url.as_str()).map_err(&pushing)?;
            let session = Session::new(&url, settings.credential.as_ref(), settings.limits(), token)?;
            let mut refusal = None;
            let mut moved = false;
            let pushed = session.run(
                || {
                    let mut callbacks = RemoteCallbacks::new();
                    callbacks.push_update_reference(|_, status| {
                        refusal = refusal.take().or(status.map(shown));
                        Ok(())
                    });
                    let mut options = PushOptions::new();
                    options.remote_callbacks(callbacks).follow_redirects(RemoteRedirect::None);
                    remote.push(&[format!("{id}:{reference}")], Some(&mut options))
                },
                |error| {
                    moved = error.code() == git2::ErrorCode::NotFastForward;
                    pushing(error)
                },
            );
            match (pushed, refusal) {
                (_, Some(reason)) => Err(PushError::Refused { reference, reason }),
                (Err(_), None) if moved => Err(PushError::Moved { reference }),
                (pushed, None) => pushed.map_err(PushError::Source),
            }
        })
        .await
    }
}
