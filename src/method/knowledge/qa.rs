//! `qa`: questions, then parallel independent answers (ACQUIRE, III-B).

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::join_all;

use crate::{
    agent::Exit,
    domain::{AgentName, Answer, Knowledge, Origin, Pair, Question},
    method::{
        checkpoint::{checkpoint, store, stored},
        context::{AgentReport, RunContext, RunError, StageReport},
        ports::{Answerer, Ended, KnowledgeSource},
        question,
    },
};

pub struct QuestionsAndAnswers {
    pub answerer: Arc<dyn Answerer>,
}

#[async_trait]
impl KnowledgeSource for QuestionsAndAnswers {
    fn name(&self) -> &'static str {
        "qa"
    }

    async fn acquire(
        &self,
        context: &RunContext,
        stages: &mut Vec<StageReport>,
    ) -> Result<Knowledge, RunError> {
        let questions = checkpoint(context, "question", stages, async {
            let Ended { report, result } = question::ask(context).await;
            (vec![report], result)
        })
        .await?;
        let pairs = checkpoint(context, "answer", stages, async {
            // All of them end before any error counts: what finished is stored, whatever befell its siblings.
            let answers =
                join_all((1..).zip(&questions).map(|(number, q)| self.one(context, number, q))).await;
            let (reports, answers): (Vec<_>, Vec<_>) =
                answers.into_iter().map(|e| (e.report, e.result)).unzip();
            let pairs = (questions.iter().zip(answers))
                .map(|(question, answer)| {
                    Ok(Pair { origin: Origin::Questioner, question: question.clone(), answer: answer? })
                })
                .collect::<Result<Vec<_>, _>>();
            (reports, pairs)
        })
        .await?;
        Ok(Knowledge { commit: context.tree.commit().clone(), pairs, blocks: Vec::new() })
    }
}

impl QuestionsAndAnswers {
    /// One Answerer, with a checkpoint of its own: it is never asked or paid again.
    async fn one(&self, context: &RunContext, number: usize, question: &Question) -> Ended<Answer> {
        let name = format!("answer-{number}");
        match stored::<(AgentReport, Answer)>(context, &name).await {
            Ok(Some((report, answer))) => {
                context.restore(&AgentName::answerer(number), &report);
                return Ended { report, result: Ok(answer) };
            }
            Ok(None) => {}
            Err(error) => {
                let report = AgentReport::new(&AgentName::answerer(number), Exit::Failed);
                return Ended { report, result: Err(error) };
            }
        }
        let mut ended = self.answerer.answer(context, number, question).await;
        if let Ok(answer) = &ended.result
            && let Err(error) = store(context, &name, &(&ended.report, answer)).await
        {
            ended.result = Err(error);
        }
        ended
    }
}
