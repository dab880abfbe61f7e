//! What a person sees while a run goes on: live lines on a terminal, plain lines elsewhere.
//!
//! All of it goes to stderr, so that stdout holds results only. Commands and notes hold text that models
//! and strangers wrote: before it is shown, secrets are taken out of it and characters that could move the
//! cursor or hide something are escaped.

mod live;
mod words;

use std::{
    fs::File,
    io::{self, IsTerminal, Write},
    sync::{Arc, Mutex, PoisonError},
};

use indicatif::ProgressDrawTarget;

use crate::{
    config::Environment,
    method::ports::{Event, Progress},
    store::Redactor,
};

use live::LiveProgress;
use words::Words;

/// Progress on stderr: live where it is a terminal that can move its cursor, else line by line. Colours
/// stay off where `NO_COLOR` is set.
pub fn on_stderr(redact: Redactor, environment: &Environment) -> Arc<dyn Progress> {
    let words = Words::new(redact);
    let is_set = |name| environment.variable(name).is_some_and(|value| !value.is_empty());
    let is_dumb = environment.variable("TERM").is_none_or(|kind| kind == "dumb");
    if io::stderr().is_terminal() && !is_dumb {
        Arc::new(LiveProgress::new(ProgressDrawTarget::stderr(), !is_set("NO_COLOR"), words))
    } else {
        Arc::new(PlainProgress::new(io::stderr(), words))
    }
}

/// The same as plain lines, in a file.
pub fn to_file(file: File, redact: Redactor) -> Arc<dyn Progress> {
    Arc::new(PlainProgress::new(file, Words::new(redact)))
}

/// A line an event: no times, no colours, so that logs can be compared and searched.
struct PlainProgress<W> {
    to: Mutex<W>,
    words: Words,
}

impl<W: Write + Send> PlainProgress<W> {
    fn new(to: W, words: Words) -> Self {
        Self { to: Mutex::new(to), words }
    }
}

impl<W: Write + Send> Progress for PlainProgress<W> {
    fn report(&self, event: Event) {
        let Some(line) = self.words.line(&event) else { return };
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        // A closed stderr must not end a run that has cost money.
        let _ = writeln!(to, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Account, AgentName, Money, Tokens};

    pub fn account() -> Account {
        Account {
            steps: 7,
            seconds: 75.4,
            usd: Money::from_usd(0.0123),
            tokens: Tokens { input: 40_000, cached: 30_000, output: 1_234 },
        }
    }

    /// A run with two Answerers, one of which was finished by an earlier process.
    pub fn story() -> Vec<Event> {
        let (first, second) = (AgentName::answerer(1), AgentName::answerer(2));
        vec![
            Event::Note { text: "the sandbox is docker".into() },
            Event::StageStarted { name: "question" },
            Event::StageFinished { name: "question", account: account(), resumed: true },
            Event::StageStarted { name: "answer" },
            Event::AgentStarted { agent: first.clone() },
            Event::AgentStarted { agent: second.clone() },
            Event::AgentThinks { agent: first.clone(), step: 1 },
            Event::AgentRuns {
                agent: first.clone(),
                step: 1,
                command: "rg -n \"key = hunter2\" \\\n  src\u{1b}[2J\u{202e}".into(),
            },
            Event::Spent { total: Money::from_usd(0.5) },
            Event::AgentFinished { agent: second, exit: "step_limit", account: account() },
            Event::AgentFinished { agent: first, exit: "submitted", account: account() },
            Event::StageFinished { name: "answer", account: account(), resumed: false },
        ]
    }

    pub fn words() -> Words {
        Words::new(Arc::new(|text| text.replace("hunter2", "[redacted]")))
    }

    #[test]
    fn s_33_plain_lines_tell_the_run_and_no_secret() {
        let progress = PlainProgress::new(Vec::new(), words());
        story().into_iter().for_each(|event| progress.report(event));
        let text = String::from_utf8(progress.to.into_inner().unwrap()).unwrap();
        insta::assert_snapshot!(text, @r#"
        note: the sandbox is docker
        stage question: started
        stage question: finished earlier: 1 min 15 s, $0.012
        stage answer: started
        agent answerer-1: started
        agent answerer-2: started
        agent answerer-1: step 1: asks the model
        agent answerer-1: step 1: runs: rg -n "key = [redacted]" \\n  src\u{1b}[2J\u{202e}
        agent answerer-2: reached its limit of steps after 7 steps, 1 min 15 s, $0.012, 40,000 tokens in (30,000 cached), 1,234 out
        agent answerer-1: submitted after 7 steps, 1 min 15 s, $0.012, 40,000 tokens in (30,000 cached), 1,234 out
        stage answer: finished: 1 min 15 s, $0.012
        "#);
    }
}
