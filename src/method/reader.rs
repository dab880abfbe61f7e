//! Readers: agents that may read the repository and change nothing, and hand in a text with its evidence.
//!
//! Answerers are readers, and so is the agent that writes a proposal: they differ in what they are told and
//! asked, not in how they work, what they may use, and how the host holds them to what they cite.

mod submit;

use crate::{
    agent::Exit,
    domain::{AgentName, Answer, AnswerStatus},
    method::{
        context::{AgentReport, RunContext, RunError},
        ports::{Access, Ended, Message, StoreError},
    },
};

use submit::SubmitAnswer;

/// What a reader is to do.
pub struct Reading {
    pub name: AgentName,
    pub opening: Vec<Message>,
    /// What was asked, as it came from outside. It and the issue may be named without standing in the repository.
    pub asked: String,
}

/// Lets a reader work, with the model and within the limits of an Answerer. What it hands in is looked up; what
/// does not hold goes back to it once.
pub async fn read(context: &RunContext, reading: Reading) -> Ended<Answer> {
    let Reading { name, opening, asked } = reading;
    let bench = context.workbench(&name, Access::ReadOnly);
    let submit = SubmitAnswer {
        tree: context.tree.clone(),
        symbols: context.symbols.clone(),
        given: format!("{}\n{}\n{asked}", context.admitted.title, context.admitted.body),
        given_as: if context.issue.is_none() { "question" } else { "issue" },
    };
    let (model, settings) = (&context.models.answerer, &context.settings.answerer);
    let agent = context.agent(&name, model, settings, &bench, opening, submit);
    let finished = agent.run(&context.services).await;
    bench.close().await;
    let report = AgentReport::of(&name, &finished);
    let result = match (finished.exit, finished.submission, finished.error) {
        (_, _, Some(error)) => Err(error.into()),
        (Exit::Cancelled, ..) => Err(RunError::Cancelled),
        (Exit::Submitted, Some(submission), _) => serde_json::from_value(submission).map_err(|e| {
            StoreError { what: format!("the stored answer of {name}"), reason: e.to_string() }.into()
        }),
        (Exit::FormatErrors | Exit::Failed | Exit::Submitted, ..) => Ok(unanswered(AnswerStatus::Failed)),
        (Exit::StepLimit | Exit::CostLimit | Exit::TimeLimit, ..) => Ok(unanswered(AnswerStatus::Budget)),
    };
    Ended { report, result }
}

fn unanswered(status: AnswerStatus) -> Answer {
    Answer { status, text: String::new(), gaps: Vec::new(), citations: Vec::new() }
}
