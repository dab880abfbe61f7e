//! `acquire ask`: answers to the questions of a person, with checked citations.

use std::process::ExitCode;

use serde_json::json;

use crate::{
    report::{self, Left},
    runs::{self, KnowledgeKind, Request, Solved, Start},
    store::Outcome,
};

use super::{
    args::{self, AskFolder, Questions},
    output,
    process::CANCELLED,
    session::{self, Session, exit_code, told},
};

pub async fn run(ask: args::Ask) -> anyhow::Result<ExitCode> {
    let session = Session::start(ask.config, ask.max_usd, &ask.replies)?;
    let settings = &session.host.settings;
    let start = match ask.folder {
        AskFolder::Resume { folder } => session.resume(folder, true).await?,
        AskFolder::New { out, repo, questions, issue, base } => {
            let asked = tokio::select! {
                biased;
                () = session.host.cancel.cancelled() => return Ok(ExitCode::from(CANCELLED)),
                asked = read(questions) => asked?,
            };
            let request = Request {
                repo: session.repo(repo),
                issue,
                base,
                knowledge: KnowledgeKind::Asked,
                questions: 0,
                asked,
                answerer: ask.answerer,
                patch: false,
                image: ask.image,
                sandbox: ask.sandbox.unwrap_or(settings.sandbox.kind),
            };
            Start::Fresh { request, folder: session.folder(out) }
        }
    };
    let solved = match session.run(start, ask.replies).await? {
        Ok(solved) => solved,
        Err(code) => return Ok(code),
    };
    let left = Left {
        folder: &solved.folder,
        files: &solved.files,
        priced: solved.priced,
        can_go_on: solved.can_go_on,
        config: session.config.as_deref(),
        max_usd: session.max_usd,
    };
    let ending = report::ending(&solved.summary, solved.knowledge.as_ref(), left);
    if ask.json {
        let both = json!({ "run": &solved.summary, "knowledge": &solved.knowledge });
        let printed = session::print(&solved, &(session.redact)(&serde_json::to_string_pretty(&both)?));
        output::tell((session.redact)(&ending));
        printed?;
    } else {
        let answers = solved.knowledge.as_ref().map(report::answers);
        let shown: Vec<String> = answers.into_iter().chain([ending]).collect();
        session::print(&solved, &(session.redact)(&shown.join("\n\n")))?;
    }
    Ok(if is_unanswered(&solved) { ExitCode::from(1) } else { exit_code(&solved) })
}

/// The questions, wherever they are. A person may still be typing them.
async fn read(questions: Questions) -> anyhow::Result<Vec<String>> {
    let read = tokio::task::spawn_blocking(|| match questions {
        Questions::Given(questions) => Ok(questions),
        Questions::File(file) => runs::questions_from_file(&file),
        Questions::Stdin => runs::questions_from_stdin(),
    });
    read.await?.map_err(told)
}

/// Whether the search for an answer did not come to its end. Not to have found one is an end.
fn is_unanswered(solved: &Solved) -> bool {
    let mut pairs = solved.knowledge.iter().flat_map(|knowledge| &knowledge.pairs);
    solved.summary.outcome == Outcome::KnowledgeOnly && pairs.any(|pair| !pair.answer.status.is_finished())
}
