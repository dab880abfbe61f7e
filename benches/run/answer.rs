//! `answer`: how long the stage of four parallel Answerers takes, beside the slowest of them.
//!
//! Whole runs of the program without a Resolver. Every reply of the model comes after 200 ms. An Answerer's
//! seconds reach from its first request to its checked submission: its wait for the model, its sandbox and the
//! tree that all of them share, its commands. What the stage takes beyond the slowest of them is waiting that
//! parallel agents should not have.

use std::{collections::HashMap, time::Duration};

use acquire::{
    domain::{FileMode, RepoPath},
    repo,
    store::RunSummary,
};
use anyhow::{Context, ensure};
use serde_json::json;

use super::{
    program::{Home, Task},
    rows::{Row, median},
    script::{Model, Reply, Script, bashes, questions, submit},
};

const RUNS: usize = 10;
const DELAY: Duration = Duration::from_millis(200);
const FILES: usize = 300;
/// What each Answerer is asked, and its steps.
const ANSWERERS: [(&str, u32); 4] = [
    ("How is a value made?", 6),
    ("Who reads a value?", 7),
    ("Where do values lie?", 9),
    ("What does a value rely on?", 10),
];

pub async fn rows() -> anyhow::Result<Vec<Row>> {
    let home = Home::new()?;
    let repo = home.path("repo");
    repo::create_repository(repo.clone(), files(), "Start".to_owned()).await?;
    let model = Model::start(script()).await;
    let task = Task {
        repo: &repo,
        issue: "# A value is wrong\n\nIt should be another.\n",
        base_url: &model.base_url(),
        questions: ANSWERERS.len(),
        patch: false,
    };
    let mut runs = Vec::new();
    for number in 1..=RUNS {
        let run = times(&home.solve(&task)?.finish().await?)?;
        eprintln!("run: {number} of {RUNS}: the stage {} s, the slowest {} s", run.0, run.1);
        runs.push(run);
    }
    let (stage, slowest): (Vec<f64>, Vec<f64>) = runs.iter().copied().unzip();
    let share = median(runs.iter().map(|(stage, slowest)| stage / slowest).collect());
    Ok(vec![
        Row::told("answer_stage", median(stage), "s")
            .beside("the slowest of its 4 Answerers", median(slowest)),
        Row::at_most("answer_stage_share", share, "of the slowest Answerer's time", 1.15),
    ])
}

/// Seconds of the stage, and of its slowest agent.
fn times(summary: &RunSummary) -> anyhow::Result<(f64, f64)> {
    let stage =
        summary.stages.iter().find(|stage| stage.name == "answer").context("there is no such stage")?;
    // An answer that does not hold goes back once, which would be one more step.
    let steps: Vec<u32> = stage.agents.iter().map(|agent| agent.steps).collect();
    ensure!(steps == ANSWERERS.map(|(_, steps)| steps), "the agents took {steps:?} steps");
    Ok((stage.seconds, stage.agents.iter().map(|agent| agent.seconds).fold(0.0, f64::max)))
}

fn script() -> Script {
    let answerers = (0..).zip(ANSWERERS).map(|(number, (question, steps))| {
        let look = |step: usize| {
            let file = path(number * 50 + step);
            let read = format!("sed -n 1,40p {file}");
            later(bashes(&["grep -rn value_0007 src | head -20", &read, "git log --oneline -- src | head"]))
        };
        let mut replies: Vec<Reply> = (1..steps as usize).map(look).collect();
        replies.push(later(submit(answer(number))));
        (question.to_owned(), replies)
    });
    Script {
        questioner: vec![later(questions(&ANSWERERS.map(|(question, _)| question)))],
        answerers: answerers.collect::<HashMap<_, _>>(),
        resolver: Vec::new(),
    }
}

fn later(reply: Reply) -> Reply {
    Reply::After(DELAY, Box::new(reply))
}

/// With citations that hold.
fn answer(number: usize) -> serde_json::Value {
    let citation = |file: usize| {
        let quote = format!("value_{file:04} = {file}");
        json!({"path": path(file), "start": 2, "end": 4, "quote": quote})
    };
    let citations: Vec<_> = (0..6).map(|file| citation(number * 50 + file)).collect();
    let text =
        format!("It is assigned in `{}` [1] and in five more files [2] [3] [4] [5] [6].", path(number * 50));
    json!({"answer": text, "citations": citations, "gaps": []})
}

fn path(number: usize) -> String {
    format!("src/part{:02}/file{number:04}.py", number % 20)
}

fn files() -> Vec<(RepoPath, FileMode, Vec<u8>)> {
    let file = |number: usize| {
        let path = RepoPath::parse(&path(number)).expect("it is relative and plain");
        (path, FileMode::Regular, format!("value_{number:04} = {number}\n").repeat(200).into_bytes())
    };
    (0..FILES).map(file).collect()
}
