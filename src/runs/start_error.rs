//! Why a run could not begin, or could not tell what it came to.

use crate::{
    agent::Stop,
    config::ConfigError,
    method::{
        context::RunError,
        ports::{SourceError, StoreError},
    },
};

/// `class` is what `run.json` shows.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The command or the settings are at fault: exit code 2.
    #[error("{text}")]
    Usage { class: &'static str, text: String },
    /// Everything else: exit code 1.
    #[error("{text}")]
    Failed { class: &'static str, text: String },
    #[error("cancelled")]
    Cancelled,
}

impl StartError {
    pub(super) fn usage(class: &'static str, what: impl std::fmt::Display) -> Self {
        Self::Usage { class, text: what.to_string() }
    }

    pub(super) fn failed(class: &'static str, what: impl std::fmt::Display) -> Self {
        Self::Failed { class, text: what.to_string() }
    }
}

impl From<StoreError> for StartError {
    fn from(error: StoreError) -> Self {
        Self::failed("run_state", error)
    }
}

impl From<ConfigError> for StartError {
    fn from(error: ConfigError) -> Self {
        Self::usage("settings", error)
    }
}

impl From<RunError> for StartError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Cancelled => Self::Cancelled,
            error => Self::failed(error.class(), error),
        }
    }
}

impl From<Stop> for StartError {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Cancelled => Self::Cancelled,
            Stop::TimeUp => RunError::TimeUp.into(),
        }
    }
}

impl From<SourceError> for StartError {
    fn from(error: SourceError) -> Self {
        let class = RunError::from(error.clone()).class();
        match error {
            SourceError::Input(_) => Self::usage(class, error),
            SourceError::Limit(_) | SourceError::Authentication(_) | SourceError::Git(_) => {
                Self::failed(class, error)
            }
        }
    }
}
