//! `qa` and `freeq`: questions, then parallel independent answers (ACQUIRE, III-B and V-C2).

use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    domain::{Knowledge, Origin},
    method::{
        checkpoint::checkpoint,
        context::{RunContext, RunError, StageReport},
        ports::{Answerer, Ended, KnowledgeSource},
        question::{self, Template},
    },
};

use super::answers::answers;

pub struct QuestionsAndAnswers {
    pub template: Template,
    pub answerer: Arc<dyn Answerer>,
}

#[async_trait]
impl KnowledgeSource for QuestionsAndAnswers {
    fn name(&self) -> &'static str {
        match self.template {
            Template::Categories => "qa",
            Template::Free => "freeq",
        }
    }

    async fn acquire(
        &self,
        context: &RunContext,
        stages: &mut Vec<StageReport>,
    ) -> Result<Knowledge, RunError> {
        let questions = checkpoint(context, "question", stages, async {
            let Ended { report, result } = question::ask(context, self.template).await;
            (vec![report], result)
        })
        .await?;
        let pairs = answers(context, stages, &*self.answerer, Origin::Questioner, &questions).await?;
        Ok(Knowledge { commit: context.tree.commit().clone(), pairs, blocks: Vec::new() })
    }
}
