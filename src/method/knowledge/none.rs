//! `none`: no stage 1. The Resolver alone, the baseline of every comparison.

use async_trait::async_trait;

use crate::{
    domain::Knowledge,
    method::{
        context::{RunContext, RunError, StageReport},
        ports::KnowledgeSource,
    },
};

pub struct Nothing;

#[async_trait]
impl KnowledgeSource for Nothing {
    fn name(&self) -> &'static str {
        "none"
    }

    async fn acquire(&self, context: &RunContext, _: &mut Vec<StageReport>) -> Result<Knowledge, RunError> {
        Ok(Knowledge::empty(context.tree.commit().clone()))
    }
}
