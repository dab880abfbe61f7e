//! What the method is put together from; each has several implementations.

use async_trait::async_trait;

use crate::{
    domain::{Answer, Knowledge, Question},
    method::{
        context::{AgentReport, RunContext, RunError, StageReport},
        resolver::Resolution,
    },
};

/// How an agent ended: its result, and what it used either way.
pub struct Ended<T> {
    pub report: AgentReport,
    pub result: Result<T, RunError>,
}

/// Stage 1: whatever is learned before the repair.
#[async_trait]
pub trait KnowledgeSource: Send + Sync {
    /// As the settings and `run.json` name it.
    fn name(&self) -> &'static str;
    /// Runs its stages, each with its checkpoint, and reports what they used.
    async fn acquire(
        &self,
        context: &RunContext,
        stages: &mut Vec<StageReport>,
    ) -> Result<Knowledge, RunError>;
}

/// Answers one question from the repository.
#[async_trait]
pub trait Answerer: Send + Sync {
    fn name(&self) -> &'static str;
    /// `number` counts from 1. The Answerer gets the issue, this question and run-wide facts, nothing else.
    async fn answer(&self, context: &RunContext, number: usize, question: &Question) -> Ended<Answer>;
}

/// Stage 2: from issue and knowledge to a patch.
#[async_trait]
pub trait Resolver: Send + Sync {
    fn name(&self) -> &'static str;
    async fn resolve(&self, context: &RunContext, knowledge: &Knowledge) -> Ended<Resolution>;
}
