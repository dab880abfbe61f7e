//! `asked`: the questions of a person, answered like a Questioner's. `acquire ask`.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    domain::{Knowledge, Origin, Question},
    method::{
        context::{RunContext, RunError, StageReport},
        ports::{Answerer, KnowledgeSource},
    },
};

use super::answers::answers;

pub struct AskedQuestions {
    questions: Vec<Question>,
    answerer: Arc<dyn Answerer>,
}

impl AskedQuestions {
    /// `texts` have been through `gate::questions`.
    pub fn new(texts: Vec<String>, answerer: Arc<dyn Answerer>) -> Self {
        let question =
            |(number, text)| Question { id: format!("q{number}"), category: None, text, why: String::new() };
        Self { questions: (1..).zip(texts).map(question).collect(), answerer }
    }
}

#[async_trait]
impl KnowledgeSource for AskedQuestions {
    fn name(&self) -> &'static str {
        "asked"
    }

    async fn acquire(
        &self,
        context: &RunContext,
        stages: &mut Vec<StageReport>,
    ) -> Result<Knowledge, RunError> {
        let pairs = answers(context, stages, &*self.answerer, Origin::Person, &self.questions).await?;
        Ok(Knowledge { commit: context.tree.commit().clone(), pairs, blocks: Vec::new() })
    }
}
