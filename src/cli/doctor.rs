//! `acquire doctor`: what is ready, and what to do.

use std::{cell::RefCell, process::ExitCode, sync::Arc};

use crate::{
    config::{self, Environment},
    domain::RunId,
    method::ports::{Clock, Event, Progress},
    report::doctor::{Examined, State, diagnosis, examined},
    runs::{self, Checkup, Host},
};

use super::{
    args, output,
    process::{self, CANCELLED, SystemClock},
};

/// What a sandbox says while it is made is no finding.
struct Quiet;

impl Progress for Quiet {
    fn report(&self, _: Event) {}
}

pub async fn run(doctor: args::Doctor) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process()?;
    // Before signals are listened to: whatever the file is, Ctrl-C ends the wait for it.
    let loaded = config::load(doctor.config.as_deref(), &environment);
    let cancel = process::cancel_on_signals()?;
    let json = doctor.json;
    let printed = RefCell::new(Ok(()));
    let say = |line: String| {
        // What cannot be shown at once is told at the end: the checks themselves go on.
        if !json && printed.borrow().is_ok() {
            *printed.borrow_mut() = output::print(line);
        }
    };
    let mut all = Vec::new();
    match loaded {
        Ok(loaded) => {
            let redact = runs::redactor(runs::scanner(&loaded.settings, &environment));
            let show = |it: &Examined| say(redact(&examined(it)));
            let from = match &loaded.file {
                Some(file) => format!("{}, and ACQUIRE_… variables", file.display()),
                None => "no file; defaults and ACQUIRE_… variables".to_owned(),
            };
            let settings = Examined::new("settings", State::Ok, from);
            show(&settings);
            all.push(settings);
            let clock = SystemClock::start();
            let random = process::random()?;
            let checkup = Checkup {
                id: RunId::new(clock.now(), random.run_id),
                sandbox: doctor.sandbox.unwrap_or(loaded.settings.sandbox.kind),
                image: doctor.image,
                ask_models: doctor.ask_models,
            };
            let host = Host {
                settings: loaded.settings,
                environment,
                progress: Arc::new(Quiet),
                clock: Arc::new(clock),
                cancel: cancel.clone(),
                random,
            };
            all.extend(runs::examine(&checkup, &host, show).await);
            for it in &mut all {
                it.text = redact(&it.text);
            }
        }
        Err(error) => {
            let settings = Examined::new("settings", State::Failed, error.to_string());
            say(examined(&settings));
            all.push(settings);
        }
    }
    if json {
        output::print(serde_json::to_string_pretty(&all)?)?;
    }
    say(diagnosis(&all));
    printed.into_inner()?;
    if cancel.is_cancelled() {
        return Ok(ExitCode::from(CANCELLED));
    }
    Ok(ExitCode::from(u8::from(all.iter().any(|it| it.state == State::Failed))))
}
