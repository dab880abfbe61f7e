//! What is told while a run goes on, and the time.

use std::time::Duration;

use crate::domain::{Account, AgentName, Money};

/// Something worth showing while a run goes on.
#[derive(Debug, Clone)]
pub enum Event {
    StageStarted {
        name: &'static str,
    },
    StageFinished {
        name: &'static str,
        account: Account,
        resumed: bool,
    },
    AgentStarted {
        agent: AgentName,
    },
    /// A model call is under way.
    AgentThinks {
        agent: AgentName,
        step: u32,
    },
    /// A command runs.
    AgentRuns {
        agent: AgentName,
        step: u32,
        command: String,
    },
    AgentFinished {
        agent: AgentName,
        exit: &'static str,
        account: Account,
    },
    Spent {
        total: Money,
    },
    /// Plain words for people, such as which sandbox was taken.
    Note {
        text: String,
    },
}

pub trait Progress: Send + Sync {
    fn report(&self, event: Event);
}

/// Time as a value, so that tests are exact.
pub trait Clock: Send + Sync {
    fn now(&self) -> jiff::Timestamp;
    /// Since an arbitrary start.
    fn monotonic(&self) -> Duration;
}
