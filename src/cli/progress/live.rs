//! Live lines: one for each stage, and below it one for each of its agents.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{
    domain::AgentName,
    method::ports::{Event, Progress},
};

use super::words::{Words, agent_end, spent, stage_end};

/// How often elapsed times move.
const TICK: Duration = Duration::from_millis(200);

pub struct LiveProgress {
    lines: MultiProgress,
    open: Mutex<OpenLines>,
    running: ProgressStyle,
    finished: ProgressStyle,
    words: Words,
}

/// Lines that still move. Dropping them, as a cancelled run does, takes them off the screen.
#[derive(Default)]
struct OpenLines {
    stage: Option<ProgressBar>,
    agents: HashMap<AgentName, ProgressBar>,
}

impl LiveProgress {
    pub fn new(target: ProgressDrawTarget, color: bool, words: Words) -> Self {
        let style = |template: &str| {
            ProgressStyle::with_template(template).expect("the templates below are well-formed")
        };
        let (running, finished) = if color {
            ("{spinner:.cyan} {prefix:.bold} {elapsed:.dim} {wide_msg}", "{prefix:.green.bold} {wide_msg}")
        } else {
            ("{spinner} {prefix} {elapsed} {wide_msg}", "{prefix} {wide_msg}")
        };
        Self {
            lines: MultiProgress::with_draw_target(target),
            open: Mutex::default(),
            running: style(running).tick_chars("-\\|/ "),
            finished: style(finished),
            words,
        }
    }

    fn start(&self, prefix: String) -> ProgressBar {
        let line = ProgressBar::no_length().with_style(self.running.clone()).with_prefix(prefix);
        let line = self.lines.add(line);
        line.enable_steady_tick(TICK);
        line
    }

    fn finish(&self, line: &ProgressBar, words: String) {
        line.set_style(self.finished.clone());
        line.finish_with_message(words);
    }
}

impl Progress for LiveProgress {
    fn report(&self, event: Event) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::StageStarted { name } => open.stage = Some(self.start(name.to_owned())),
            Event::StageFinished { name, account, resumed } => {
                let line = open.stage.take().unwrap_or_else(|| self.start(name.to_owned()));
                self.finish(&line, stage_end(&account, resumed));
            }
            Event::AgentStarted { agent } => {
                let line = self.start(format!("  {agent}"));
                open.agents.insert(agent, line);
            }
            Event::AgentThinks { agent, step } => {
                if let Some(line) = open.agents.get(&agent) {
                    line.set_message(format!("step {step}: asks the model"));
                }
            }
            Event::AgentRuns { agent, step, command } => {
                if let Some(line) = open.agents.get(&agent) {
                    line.set_message(format!("step {step}: {}", self.words.command(&command)));
                }
            }
            Event::AgentFinished { agent, exit, account } => {
                let line = open.agents.remove(&agent).unwrap_or_else(|| self.start(format!("  {agent}")));
                self.finish(&line, agent_end(exit, &account));
            }
            Event::Spent { total } => {
                if let (Some(line), Some(spent)) = (&open.stage, spent(total)) {
                    line.set_message(spent);
                }
            }
            Event::Note { text } => {
                // A terminal that is gone must not end a run that has cost money.
                let _ = self.lines.println(self.words.note(&text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use indicatif::TermLike;

    use super::super::tests::{story, words};
    use super::*;

    /// A terminal that keeps every byte it was sent.
    #[derive(Debug, Clone, Default)]
    struct Recorder(Arc<Mutex<String>>);

    impl Recorder {
        fn keep(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
    }

    impl TermLike for Recorder {
        fn width(&self) -> u16 {
            60
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.keep(text)?;
            self.keep("\n")
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.keep(text)
        }
        fn clear_line(&self) -> io::Result<()> {
            self.keep("\n")
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// All that reached the terminal, drawn again after every event.
    fn drawn(color: bool) -> String {
        let terminal = Recorder::default();
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(terminal.clone()), 255);
        let progress = LiveProgress::new(target, color, words());
        for event in story() {
            progress.report(event);
            let open = progress.open.lock().unwrap();
            open.agents.values().chain(&open.stage).for_each(ProgressBar::tick);
        }
        terminal.0.lock().unwrap().clone()
    }

    #[test]
    fn s_33_live_lines_tell_stage_agent_step_command_and_money_and_no_secret() {
        let text = drawn(false);
        for expected in [
            "the sandbox is docker",
            "question finished earlier: 1 min 15 s, $0.012",
            "answerer-1 0s step 1: asks the model",
            "$0.500 spent",
            "  answerer-1 submitted after 7 steps",
            "  answerer-2 reached its limit of steps",
            "answer finished: 1 min 15 s, $0.012",
        ] {
            assert!(text.contains(expected), "{expected:?} is not in {text}");
        }
        assert!(text.contains(r#"step 1: rg -n "key = [redacted]" \"#), "{text}");
        assert!(
            !text.contains("hunter2") && !text.contains('\u{202e}') && !text.contains('\u{1b}'),
            "{text}"
        );
    }
}
