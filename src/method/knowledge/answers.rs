//! The stage `answer`: an Answerer for each question, side by side and apart from one another.

use futures_util::{StreamExt, stream};

use crate::{
    agent::Exit,
    domain::{AgentName, Answer, Origin, Pair, Question},
    method::{
        checkpoint::{checkpoint, store, stored},
        context::{AgentReport, RunContext, RunError, StageReport},
        ports::{Answerer, Ended},
    },
};

/// Answerers that work at the same time, at most; each has a sandbox of its own. More than a Questioner asks.
const AT_ONCE: usize = 8;

/// Has every question answered. The pairs come in the order of the questions.
pub async fn answers(
    context: &RunContext,
    stages: &mut Vec<StageReport>,
    answerer: &dyn Answerer,
    origin: Origin,
    questions: &[Question],
) -> Result<Vec<Pair>, RunError> {
    checkpoint(context, "answer", stages, async {
        // All of them end before any error counts: what finished is stored, whatever befell its siblings.
        let all = (1..).zip(questions).map(|(number, question)| one(context, answerer, number, question));
        let all: Vec<_> = all.collect();
        let answers: Vec<Ended<Answer>> = stream::iter(all).buffered(AT_ONCE).collect().await;
        let (reports, answers): (Vec<_>, Vec<_>) = answers.into_iter().map(|e| (e.report, e.result)).unzip();
        let pairs = (questions.iter().zip(answers))
            .map(|(question, answer)| Ok(Pair { origin, question: question.clone(), answer: answer? }))
            .collect::<Result<Vec<_>, _>>();
        (reports, pairs)
    })
    .await
}

/// One Answerer, with a checkpoint of its own: it is never asked or paid again.
async fn one(
    context: &RunContext,
    answerer: &dyn Answerer,
    number: usize,
    question: &Question,
) -> Ended<Answer> {
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
    let mut ended = answerer.answer(context, number, question).await;
    if let Ok(answer) = &ended.result
        && let Err(error) = store(context, &name, &(&ended.report, answer)).await
    {
        ended.result = Err(error);
    }
    ended
}
