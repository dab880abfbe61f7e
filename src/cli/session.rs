//! What a command that starts a run takes of its process, and how it ends.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::Context;

use crate::{
    config::{self, Environment, Settings},
    domain::RunId,
    method::ports::Clock,
    repo::Source,
    report,
    runs::{self, Host, KnowledgeKind, Replies, Solved, Start, StartError},
    store::{Outcome, Redactor},
};

use super::{
    output,
    process::{self, CANCELLED, SystemClock, UsageError},
    progress,
};

pub struct Session {
    pub host: Host,
    pub redact: Redactor,
    /// The settings file that was named on the command line, where it was read.
    pub config: Option<PathBuf>,
    /// The limit that was named on the command line.
    pub max_usd: Option<f64>,
    /// The id that a new run gets.
    run_id: RunId,
}

impl Session {
    /// `max_usd` goes before what the settings say of a run's money, and must be one that can be kept, unless no
    /// model is asked.
    pub fn start(config: Option<PathBuf>, max_usd: Option<f64>, replies: &Replies) -> anyhow::Result<Self> {
        let environment = Environment::of_process()?;
        let loaded = config::load(config.as_deref(), &environment).map_err(|e| UsageError(e.to_string()))?;
        let mut settings = loaded.settings;
        if let Some(most) = max_usd {
            settings.limits.run.usd = most;
            if replies.replay.is_none() {
                let unpriced = runs::unpriced_model(&settings, &environment);
                if let Some(model) = unpriced.map_err(|error| UsageError(error.to_string()))? {
                    return Err(UsageError(report::unpriced(&model)).into());
                }
            }
        }
        let session = Self::with(environment, settings, config.and(loaded.file))?;
        Ok(Self { max_usd, ..session })
    }

    /// With settings that are there already.
    pub fn with(
        environment: Environment,
        settings: Settings,
        config: Option<PathBuf>,
    ) -> anyhow::Result<Self> {
        let redact = runs::redactor(runs::scanner(&settings, &environment));
        let random = process::random()?;
        let clock = SystemClock::start();
        let run_id = RunId::new(clock.now(), random.run_id);
        let host = Host {
            settings,
            progress: progress::on_stderr(redact.clone(), &environment),
            environment,
            clock: Arc::new(clock),
            cancel: process::cancel_on_signals()?,
            random,
        };
        Ok(Self { host, redact, config, max_usd: None, run_id })
    }

    /// Where a run lives: absolute, and without `out` where the settings say.
    pub fn folder(&self, out: Option<PathBuf>) -> PathBuf {
        let out = out.unwrap_or_else(|| self.host.settings.paths.runs.join(self.run_id.as_str()));
        self.host.environment.working_folder.join(out)
    }

    /// A run that goes on, in its folder. `ask` goes on with questions of a person, `solve` with all others.
    pub async fn resume(&self, folder: PathBuf, asked: bool) -> anyhow::Result<Start> {
        let folder = self.folder(Some(folder));
        let request = runs::stored_request(&folder, self.redact.clone()).await.map_err(told)?;
        if (request.knowledge == KnowledgeKind::Asked) == asked {
            return Ok(Start::Resume { folder });
        }
        let (holds, command) =
            if asked { ("holds no questions", "solve") } else { ("holds questions", "ask") };
        let folder = folder.display();
        Err(UsageError(format!("{folder} {holds}; go on with it by `acquire {command} --resume`")).into())
    }

    /// Paths are kept absolute: a run may be resumed from another folder.
    pub fn repo(&self, repo: Source) -> String {
        match repo {
            Source::Folder(path) => {
                let path: PathBuf = self.host.environment.working_folder.join(path).components().collect();
                path.to_string_lossy().into_owned()
            }
            Source::Web(url) => url.into(),
        }
    }

    /// Runs it to its end; `Err` in the inner result is the exit code of one that was cancelled before it began.
    pub async fn run(&self, start: Start, replies: Replies) -> anyhow::Result<Result<Solved, ExitCode>> {
        match runs::solve(start, replies, self.host.clone()).await {
            Ok(solved) => Ok(Ok(solved)),
            Err(StartError::Cancelled) => Ok(Err(ExitCode::from(CANCELLED))),
            Err(error) => Err(told(error)),
        }
    }
}

/// Prints what a run came to. Where that cannot be, it still lies in the run's folder.
pub fn print(solved: &Solved, text: &str) -> anyhow::Result<()> {
    let where_it_is = || format!("the result lies in {}, but is not shown", solved.folder.display());
    output::print(text).with_context(where_it_is)
}

/// A start that failed, with the exit code that belongs to it.
pub fn told(error: StartError) -> anyhow::Error {
    match error {
        StartError::Usage { text, .. } => UsageError(text).into(),
        other => other.into(),
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
