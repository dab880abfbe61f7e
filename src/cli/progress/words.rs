//! The words for events, apart from how they reach the screen.

use crate::{
    domain::{Account, Money},
    method::ports::Event,
    report::{counted, duration, money, tokens},
    store::Redactor,
};

/// A command is cut after this many characters.
const MOST_CHARS: usize = 160;
/// A note is for people to read to its end, but may repeat what others wrote.
const MOST_NOTE_CHARS: usize = 1_000;

pub struct Words {
    redact: Redactor,
}

impl Words {
    pub fn new(redact: Redactor) -> Self {
        Self { redact }
    }

    /// The plain line for an event. Money has no line of its own: agents and stages tell theirs.
    pub fn line(&self, event: &Event) -> Option<String> {
        Some(match event {
            Event::StageStarted { name } => format!("stage {name}: started"),
            Event::StageFinished { name, account, resumed } => {
                format!("stage {name}: {}", stage_end(account, *resumed))
            }
            Event::AgentStarted { agent } => format!("agent {agent}: started"),
            Event::AgentThinks { agent, step } => format!("agent {agent}: step {step}: asks the model"),
            Event::AgentRuns { agent, step, command } => {
                format!("agent {agent}: step {step}: runs: {}", self.command(command))
            }
            Event::AgentFinished { agent, exit, account } => {
                format!("agent {agent}: {}", agent_end(exit, account))
            }
            Event::Spent { .. } => return None,
            Event::Note { text } => format!("note: {}", self.note(text)),
        })
    }

    pub fn note(&self, text: &str) -> String {
        self.line_of(text, MOST_NOTE_CHARS)
    }

    pub fn command(&self, text: &str) -> String {
        self.line_of(text, MOST_CHARS)
    }

    /// Text that somebody else wrote, as one line that only shows what it says.
    ///
    /// Secrets go first: cut short or escaped, they would not be recognised.
    fn line_of(&self, text: &str, most: usize) -> String {
        let clean = (self.redact)(text.trim());
        let mut line = String::new();
        for (count, character) in clean.chars().enumerate() {
            if count == most {
                line.push('…');
                break;
            }
            match character {
                '"' | '\'' | '\\' => line.push(character),
                // Escapes what has no glyph of its own: control, format and combining characters.
                other => line.extend(other.escape_debug()),
            }
        }
        line
    }
}

pub fn agent_end(exit: &str, account: &Account) -> String {
    let steps = counted(account.steps as usize, "step");
    format!("{} after {steps}, {}, {}", end(exit), time_and_money(account), tokens(account.tokens))
}

/// How an agent ended, by the name that `run.json` has for it.
fn end(exit: &str) -> &str {
    match exit {
        "step_limit" => "reached its limit of steps",
        "cost_limit" => "reached its limit of money or tokens",
        "time_limit" => "reached its limit of time",
        "format_errors" => "ended, since its replies could not be read,",
        other => other,
    }
}

pub fn stage_end(account: &Account, resumed: bool) -> String {
    let origin = if resumed { "finished earlier" } else { "finished" };
    format!("{origin}: {}", time_and_money(account))
}

/// Nothing where no price is known.
pub fn spent(total: Money) -> Option<String> {
    (total > Money::ZERO).then(|| format!("{} spent", money(total, true)))
}

/// Where no price is known there is no money to tell.
fn time_and_money(account: &Account) -> String {
    let time = duration(account.seconds);
    if account.usd == Money::ZERO { time } else { format!("{time}, {}", money(account.usd, true)) }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::words, *};

    #[test]
    fn foreign_text_stays_on_its_line_and_hides_nothing() {
        let shown = |text: &str| words().command(text);
        assert_eq!(shown(" cat <<'E'\nx\tüß \"a\\b\"\nE\n"), r#"cat <<'E'\nx\tüß "a\b"\nE"#);
        assert_eq!(shown("\r\x1b]0;title\x07\u{9b}2J"), r"\u{1b}]0;title\u{7}\u{9b}2J");
        assert_eq!(shown("a\u{200b}\u{202e}\u{ad}\u{e0041}"), r"a\u{200b}\u{202e}\u{ad}\u{e0041}");
        assert_eq!(shown(&"é".repeat(161)), "é".repeat(160) + "…");
        assert_eq!(words().note(&"é".repeat(1_000)), "é".repeat(1_000));
        assert_eq!(words().note(&"é".repeat(1_001)), "é".repeat(1_000) + "…");
    }

    #[test]
    fn ends_of_agents_are_told_in_words() {
        let account = Account { steps: 1, seconds: 75.4, usd: Money::from_usd(0.0004), ..Account::default() };
        let all = ["submitted", "step_limit", "cost_limit", "time_limit", "format_errors", "failed"];
        insta::assert_snapshot!(all.map(|exit| agent_end(exit, &account)).join("\n"), @"
        submitted after 1 step, 1 min 15 s, under $0.001, 0 tokens in, 0 out
        reached its limit of steps after 1 step, 1 min 15 s, under $0.001, 0 tokens in, 0 out
        reached its limit of money or tokens after 1 step, 1 min 15 s, under $0.001, 0 tokens in, 0 out
        reached its limit of time after 1 step, 1 min 15 s, under $0.001, 0 tokens in, 0 out
        ended, since its replies could not be read, after 1 step, 1 min 15 s, under $0.001, 0 tokens in, 0 out
        failed after 1 step, 1 min 15 s, under $0.001, 0 tokens in, 0 out
        ");
        assert_eq!(spent(Money::ZERO), None);
    }

    #[test]
    fn s_33_a_secret_that_the_cut_would_halve_is_still_taken_out() {
        let line = words().command(&("x".repeat(157) + "hunter2"));
        assert!(!line.contains("hun"), "{line}");
    }
}
