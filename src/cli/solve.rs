//! `acquire solve`: a whole run without writes to GitHub.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use crate::{
    config::{self, Environment},
    domain::RunId,
    method::ports::Clock,
    repo::Source,
    report::{self, Left},
    runs::{self, Host, Request, Solved, Start, StartError},
    store::Outcome,
};

use super::{
    args,
    process::{self, CANCELLED, SystemClock, UsageError},
    progress,
};

pub async fn run(solve: args::Solve) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process()?;
    let loaded =
        config::load(solve.config.as_deref(), &environment).map_err(|e| UsageError(e.to_string()))?;
    let mut settings = loaded.settings;
    if let Some(usd) = solve.max_usd {
        settings.limits.run.usd = usd;
    }
    let config = solve.config.and(loaded.file);
    let redact = runs::redactor(runs::scanner(&settings, &environment));
    let random = process::random()?;
    let clock = SystemClock::start();
    let start = match solve.folder {
        args::Folder::Resume { folder, .. } => {
            Start::Resume { folder: environment.working_folder.join(folder) }
        }
        args::Folder::New { out, task } => {
            let id = RunId::new(clock.now(), random.run_id);
            let folder = out.unwrap_or_else(|| settings.paths.runs.join(id.as_str()));
            let request = Request {
                repo: repo_text(task.repo, &environment),
                issue: task.issue,
                base: task.base,
                knowledge: solve.knowledge,
                questions: solve.questions.unwrap_or(settings.method.questions) as usize,
                patch: solve.patch,
                image: solve.image,
                sandbox: solve.sandbox.unwrap_or(settings.sandbox.kind),
            };
            Start::Fresh { request, folder: environment.working_folder.join(folder) }
        }
    };
    let host = Host {
        settings,
        progress: progress::on_stderr(redact.clone(), &environment),
        environment,
        clock: Arc::new(clock),
        cancel: process::cancel_on_signals()?,
        random,
    };
    let solved = match runs::solve(start, solve.replies, host).await {
        Ok(solved) => solved,
        Err(StartError::Usage { text, .. }) => return Err(UsageError(text).into()),
        Err(StartError::Cancelled) => return Ok(ExitCode::from(CANCELLED)),
        Err(error @ StartError::Failed { .. }) => return Err(error.into()),
    };
    let left = Left {
        folder: &solved.folder,
        files: &solved.files,
        priced: solved.priced,
        can_go_on: solved.can_go_on,
        config: config.as_deref(),
    };
    let ending = redact(&report::ending(&solved.summary, solved.knowledge.as_ref(), left));
    if solve.json {
        println!("{}", redact(&serde_json::to_string_pretty(&solved.summary)?));
        eprintln!("{ending}");
    } else {
        println!("{ending}");
    }
    Ok(exit_code(&solved))
}

/// Paths are kept absolute: a run may be resumed from another folder.
fn repo_text(repo: Source, environment: &Environment) -> String {
    match repo {
        Source::Folder(path) => {
            let path: PathBuf = environment.working_folder.join(path).components().collect();
            path.to_string_lossy().into_owned()
        }
        Source::Web(url) => url.into(),
    }
}

pub fn exit_code(solved: &Solved) -> ExitCode {
    ExitCode::from(match solved.summary.outcome {
        Outcome::Patch | Outcome::NoPatch | Outcome::KnowledgeOnly => 0,
        Outcome::Failed if solved.usage => 2,
        Outcome::Failed => 1,
        Outcome::Cancelled => CANCELLED,
    })
}
