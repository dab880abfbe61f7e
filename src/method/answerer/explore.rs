//! `explore`: an agent with a shell and no write access (ACQUIRE, III-B2).
//!
//! Each Answerer sees the issue, its own question and run-wide facts.

use async_trait::async_trait;
use minijinja::context;
use serde_json::Value;

use crate::{
    agent::prompt,
    domain::{AgentName, Answer, Question},
    method::{
        context::RunContext,
        ports::{Answerer, Ended, Message},
        reader::{Reading, read},
    },
};

pub struct Explore;

#[async_trait]
impl Answerer for Explore {
    fn name(&self) -> &'static str {
        "explore"
    }

    async fn answer(&self, context: &RunContext, number: usize, question: &Question) -> Ended<Answer> {
        let reading = Reading {
            name: AgentName::answerer(number),
            opening: opening(context, question),
            asked: question.text.clone(),
        };
        read(context, reading).await
    }
}

fn opening(context: &RunContext, question: &Question) -> Vec<Message> {
    let (issue, environment) = (context.issue_text(), context.environment.as_str());
    let text = context.fence.fence("question", &question.text);
    let category = question.category.and_then(|category| serde_json::to_value(category).ok());
    let task = match category.as_ref().and_then(Value::as_str) {
        Some(category) => {
            let variables = context! { issue, environment, category, question => text };
            prompt::render("answerer/task.md", variables)
        }
        None => {
            prompt::render("answerer/uncategorised.md", context! { issue, environment, question => text })
        }
    };
    let system = if context.issue.is_none() { "answerer/asked.md" } else { "answerer/system.md" };
    vec![Message::System { content: prompt::render(system, context! {}) }, Message::User { content: task }]
}
