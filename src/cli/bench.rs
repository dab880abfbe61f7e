//! `acquire bench`: many runs, compared.

use std::{fs::OpenOptions, io, path::Path, process::ExitCode, sync::Arc};

use crate::{
    bench::{self, Arm, Bench, BenchError, Process, Surroundings, Template},
    config::{self, Environment},
    method::ports::Progress,
    runs::{self, Random},
    store::{Redactor, open_regular},
};

use super::{
    args, output,
    process::{self, CANCELLED, SystemClock, UsageError},
    progress,
};

/// Where benches lie that name no folder.
const FOLDER: &str = ".acquire/bench";

pub async fn run(asked: args::BenchSolve) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process()?;
    let loaded =
        config::load(asked.config.as_deref(), &environment).map_err(|e| UsageError(e.to_string()))?;
    let settings = loaded.settings;
    let redact = runs::redactor(runs::scanner(&settings, &environment));
    let questions = match asked.questions.as_slice() {
        [] => vec![settings.method.questions as usize],
        numbers => numbers.iter().map(|number| *number as usize).collect(),
    };
    let data = environment.working_folder.join(asked.data);
    let named = || Path::new(FOLDER).join(data.file_stem().unwrap_or("instances".as_ref()));
    let out = environment.working_folder.join(asked.out.unwrap_or_else(named));
    let bench = Bench {
        only: asked.only,
        arms: Arm::all(&asked.knowledge, &questions),
        out,
        jobs: asked.jobs,
        max_usd: asked.max_usd,
        repo: absolute(asked.repo, &environment),
        image: asked.image,
        scorer: asked.scorer,
        sandbox: asked.sandbox.unwrap_or(settings.sandbox.kind),
        again: asked.again,
        judge: asked.judge,
        replay: asked.replay.map(|file| environment.working_folder.join(file)),
        data,
    };
    let around = Surroundings {
        settings,
        environment,
        clock: Arc::new(SystemClock::start()),
        cancel: process::cancel_on_signals()?,
        process: Arc::new(Terminal { redact }),
    };
    let ended = bench::solve(bench, around).await.map_err(|error: BenchError| match error.is_usage() {
        true => UsageError(error.to_string()).into(),
        false => anyhow::Error::from(error),
    })?;
    if asked.json {
        let printed = output::print(&ended.json);
        output::tell(&ended.table);
        printed?;
    } else {
        output::print(&ended.table)?;
    }
    Ok(ExitCode::from(match (ended.is_cut_short(), ended.is_whole()) {
        (true, _) => CANCELLED,
        (false, true) => 0,
        (false, false) => 1,
    }))
}

/// A folder is kept absolute, since a bench may go on from another one.
fn absolute(repo: Template, environment: &Environment) -> Template {
    if repo.text().contains("://") { repo } else { repo.below(&environment.working_folder) }
}

/// This process, for the runs of a bench.
struct Terminal {
    redact: Redactor,
}

impl Process for Terminal {
    fn random(&self) -> Result<Random, String> {
        process::random().map_err(|error| error.to_string())
    }

    fn log(&self, file: &Path) -> io::Result<Arc<dyn Progress>> {
        let file = open_regular(file, OpenOptions::new().create(true).append(true))?;
        Ok(progress::to_file(file, self.redact.clone()))
    }

    fn say(&self, line: &str) {
        output::tell((self.redact)(line));
    }
}
