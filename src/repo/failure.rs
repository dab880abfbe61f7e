//! Why a transfer ended, sorted by who must act.

use std::time::Duration;

use url::Url;

use super::engine::shown;
use crate::method::ports::SourceError;

/// Why a transfer ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    #[error("the server answered {status}: {}", hint(*.status, *.token_sent))]
    Unauthorized { status: u16, token_sent: bool },
    /// Also what a web host says of a private repository, to those who may not know of it.
    #[error("the server answered 404: {}", hint(404, *.token_sent))]
    NotFound { token_sent: bool },
    #[error("the server redirects to {to:?}; redirects are not followed: give that address instead")]
    Redirected { to: String },
    #[error("the server answered {status}; try again later")]
    Status { status: u16 },
    #[error("what answers there is no git server (content type {content_type:?})")]
    NotGit { content_type: String },
    #[error("cannot connect: {0}")]
    Unreachable(String),
    #[error("the connection broke: {0}")]
    Broken(String),
    #[error("the server was silent for {} s", .0.as_secs_f32())]
    Silent(Duration),
    #[error("it took longer than the limit of {} s; raise the limit on time if this is expected", .0.as_secs_f32())]
    TooSlow(Duration),
    #[error("it sends more than the limit of {0} bytes; raise the limit on size if this is expected")]
    TooLarge(u64),
    #[error("cancelled")]
    Cancelled,
    /// Somebody rewrote the address under way.
    #[error("libgit2 asked for another address than the one given")]
    WrongAddress,
}

/// Web hosts answer the same for a repository that does not exist and one that the asker may not see.
fn hint(status: u16, token_sent: bool) -> &'static str {
    match (status, token_sent) {
        (_, false) => {
            "there is no such repository, or it is private: set GITHUB_TOKEN to a token that may read it"
        }
        (401, true) => "the token is not valid; it may have expired",
        (404, true) => "there is no such repository, or the token may not read it",
        (_, true) => "the token may not do this here; check its repositories and permissions",
    }
}

impl Failure {
    /// As an error about the repository at `url`.
    pub(super) fn about(self, url: &Url) -> SourceError {
        let text = format!("{}: {self}", shown(url.as_str()));
        match self {
            Self::Unauthorized { .. } => SourceError::Authentication(text),
            Self::NotFound { .. } | Self::Redirected { .. } | Self::NotGit { .. } => SourceError::Input(text),
            Self::Silent(_) | Self::TooSlow(_) | Self::TooLarge(_) => SourceError::Limit(text),
            _ => SourceError::Git(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_52_failures_sort_by_who_must_act() {
        let url = Url::parse("https://github.com/o/n").unwrap();
        let sorted = |failure: Failure| failure.about(&url);
        assert!(matches!(
            sorted(Failure::Unauthorized { status: 401, token_sent: false }),
            SourceError::Authentication(text) if text.contains("GITHUB_TOKEN")
        ));
        assert!(matches!(
            sorted(Failure::NotFound { token_sent: false }),
            SourceError::Input(text) if text.contains("private")
        ));
        assert!(matches!(sorted(Failure::TooLarge(1)), SourceError::Limit(_)));
        assert!(matches!(sorted(Failure::Status { status: 502 }), SourceError::Git(_)));
    }
}
