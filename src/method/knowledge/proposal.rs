//! `proposal`: one reader that writes root cause and fix strategy in place of questions and answers. The paper's
//! ablation ACQUIRE-Proposal (V-C1): the same scaffold as an Answerer's, another task.

use async_trait::async_trait;
use minijinja::context;

use crate::{
    agent::prompt,
    domain::{AgentName, Block, Knowledge},
    method::{
        checkpoint::checkpoint,
        context::{RunContext, RunError, StageReport},
        ports::{Ended, KnowledgeSource, Message},
        reader::{Reading, read},
    },
};

pub struct Proposal;

#[async_trait]
impl KnowledgeSource for Proposal {
    fn name(&self) -> &'static str {
        "proposal"
    }

    async fn acquire(
        &self,
        context: &RunContext,
        stages: &mut Vec<StageReport>,
    ) -> Result<Knowledge, RunError> {
        let proposal = checkpoint(context, "proposal", stages, async {
            let reading =
                Reading { name: AgentName::proposal(), opening: opening(context), asked: String::new() };
            let Ended { report, result } = read(context, reading).await;
            (vec![report], result)
        })
        .await?;
        Ok(Knowledge {
            commit: context.tree.commit().clone(),
            pairs: Vec::new(),
            blocks: vec![Block::new(self.name(), proposal)],
        })
    }
}

fn opening(context: &RunContext) -> Vec<Message> {
    let task = context! { issue => context.issue_text(), environment => context.environment.as_str() };
    vec![
        Message::System { content: prompt::render("proposal/system.md", context! {}) },
        Message::User { content: prompt::render("proposal/task.md", task) },
    ]
}
