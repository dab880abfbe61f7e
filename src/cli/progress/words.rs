//! The words for events, apart from how they reach the screen.

use crate::{
    domain::{Account, Money},
    method::ports::Event,
    store::Redactor,
};

/// A line's text from others is cut after this many characters.
const MOST_CHARS: usize = 160;

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
                format!("agent {agent}: step {step}: runs: {}", self.foreign(command))
            }
            Event::AgentFinished { agent, exit, account } => {
                format!("agent {agent}: {}", agent_end(exit, account))
            }
            Event::Spent { .. } => return None,
            Event::Note { text } => format!("note: {}", self.foreign(text)),
        })
    }

    /// Text that somebody else wrote, as one line that only shows what it says.
    ///
    /// Secrets go first: cut short or escaped, they would not be recognised.
    pub fn foreign(&self, text: &str) -> String {
        let clean = (self.redact)(text.trim());
        let mut line = String::new();
        for (count, character) in clean.chars().enumerate() {
            if count == MOST_CHARS {
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
    let Account { steps, tokens, .. } = account;
    let plural = if *steps == 1 { "" } else { "s" };
    format!("{exit} after {steps} step{plural}, {}, {} tokens", time_and_money(account), tokens.total())
}

pub fn stage_end(account: &Account, resumed: bool) -> String {
    let origin = if resumed { "finished earlier" } else { "finished" };
    format!("{origin}: {}", time_and_money(account))
}

pub fn spent(total: Money) -> String {
    format!("{total} spent")
}

/// Where no price is known there is no money to tell.
fn time_and_money(account: &Account) -> String {
    let seconds = account.seconds.round() as u64;
    let money = if account.usd == Money::ZERO { String::new() } else { format!(", {}", account.usd) };
    match seconds / 60 {
        0 => format!("{seconds} s{money}"),
        minutes => format!("{minutes} min {} s{money}", seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;

    #[test]
    fn foreign_text_stays_on_its_line_and_hides_nothing() {
        let shown = |text: &str| words().foreign(text);
        assert_eq!(shown(" cat <<'E'\nx\tüß \"a\\b\"\nE\n"), r#"cat <<'E'\nx\tüß "a\b"\nE"#);
        assert_eq!(shown("\r\x1b]0;title\x07\u{9b}2J"), r"\u{1b}]0;title\u{7}\u{9b}2J");
        assert_eq!(shown("a\u{200b}\u{202e}\u{ad}\u{e0041}"), r"a\u{200b}\u{202e}\u{ad}\u{e0041}");
        assert_eq!(shown(&"é".repeat(161)), "é".repeat(160) + "…");
    }

    #[test]
    fn s_33_a_secret_that_the_cut_would_halve_is_still_taken_out() {
        let line = words().foreign(&("x".repeat(157) + "hunter2"));
        assert!(!line.contains("hun"), "{line}");
    }
}
