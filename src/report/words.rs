//! Words and figures that several texts share.

use crate::{
    domain::{Account, AnswerStatus, Category, Check, Citation, Knowledge, Money, Tokens},
    gate::shown::number,
};

use super::markdown::{code_span, exact};

pub fn category(category: Category) -> &'static str {
    match category {
        Category::MechanismBehavior => "How it works",
        Category::DesignUsage => "Contracts and use",
        Category::LocatingStructure => "Where it is",
        Category::EcosystemStandards => "What it assumes of the outside",
    }
}

/// A note about an agent, named by what readers know: the question that it answered.
pub fn note_about(agent: &str, note: &str) -> String {
    match agent.strip_prefix("answerer-") {
        Some(number) => format!("question {number}: {note}"),
        None => format!("{agent}: {note}"),
    }
}

/// Signs that only this program gives, and those that look like them: in the words of others they are taken for text.
pub const SIGNS: &str = "\u{2713}\u{2714}\u{2705}\u{2611}\u{1F5F8}\u{1F5F9}\u{237B}\u{21AA}\u{2937}";

/// The sign that stands beside a citation.
pub fn check_mark(check: Check) -> &'static str {
    match check {
        Check::Verified => "✓",
        Check::Moved => "↪",
        Check::Unverified => "⚠",
    }
}

/// What the host has to say of a citation, beyond that it holds.
pub fn check_remark(check: Check) -> Option<&'static str> {
    match check {
        Check::Verified => None,
        Check::Moved => Some("at other lines than were given"),
        Check::Unverified => Some("not found there"),
    }
}

/// Why there is no answer, or whatever `what` names.
pub fn nothing_found(what: &str, status: AnswerStatus) -> Option<String> {
    match status {
        AnswerStatus::Answered => None,
        AnswerStatus::Gap => Some("Not found in this repository.".to_owned()),
        AnswerStatus::Budget => {
            Some(format!("No {what}: a limit on steps, money or time ended the search first."))
        }
        AnswerStatus::Failed => Some(format!("No {what}: the search ended without one.")),
    }
}

/// `2 answered, 1 not found in the repository`.
pub fn answered(knowledge: &Knowledge) -> String {
    let count = |status| knowledge.pairs.iter().filter(|pair| pair.answer.status == status).count();
    let kinds = [
        (count(AnswerStatus::Answered), "answered"),
        (count(AnswerStatus::Gap), "not found in the repository"),
        (count(AnswerStatus::Budget) + count(AnswerStatus::Failed), "without an answer"),
    ];
    let named: Vec<String> =
        kinds.iter().filter(|(count, _)| *count > 0).map(|(count, kind)| format!("{count} {kind}")).collect();
    named.join(", ")
}

/// What the marks beside citations mean, and what they do not.
pub fn legend(checks: Checks) -> Option<String> {
    if checks.total() == 0 {
        return None;
    }
    let mut legend = format!("A program looked up each citation: {}.", checks.meanings());
    if checks.verified > 0 {
        legend.push_str(" A ✓ does not say that the conclusion is right.");
    }
    Some(legend)
}

/// How many citations stand how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checks {
    pub verified: usize,
    pub moved: usize,
    pub unverified: usize,
}

impl Checks {
    pub fn of<'a>(citations: impl IntoIterator<Item = &'a Citation>) -> Self {
        let mut checks = Self::default();
        for citation in citations {
            match citation.check {
                Check::Verified => checks.verified += 1,
                Check::Moved => checks.moved += 1,
                Check::Unverified => checks.unverified += 1,
            }
        }
        checks
    }

    /// What the marks that occur mean.
    pub fn meanings(self) -> String {
        let kinds = [
            (self.verified, "✓ the quoted line, or the symbol, stands at that place"),
            (self.moved, "↪ it stood elsewhere in the file, corrected"),
            (self.unverified, "⚠ not found"),
        ];
        let named: Vec<&str> = kinds.iter().filter(|(count, _)| *count > 0).map(|(_, what)| *what).collect();
        named.join("; ")
    }

    pub fn total(self) -> usize {
        self.verified + self.moved + self.unverified
    }

    /// `3 ✓ verified, 1 ↪ moved`; what there is none of is not named.
    pub fn words(self) -> String {
        let kinds =
            [(self.verified, "✓ verified"), (self.moved, "↪ moved"), (self.unverified, "⚠ unverified")];
        let named: Vec<String> = kinds
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, kind)| format!("{count} {kind}"))
            .collect();
        if named.is_empty() { "none".to_owned() } else { named.join(", ") }
    }
}

/// `1 file`, `2 files`.
pub fn counted(count: usize, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", number(count as u64))
}

/// Wall-clock time to the second: `12 s`, `3 min 5 s`, `1 h 4 min`.
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// Money spent. Without prices of all models, what is known is a lower bound.
pub fn money(spent: Money, priced: bool) -> String {
    let amount = if spent > Money::ZERO && spent < Money::from_usd(0.001) {
        "under $0.001".to_owned()
    } else {
        spent.to_string()
    };
    match (priced, spent) {
        (true, _) => amount,
        (false, Money::ZERO) => "price unknown".to_owned(),
        (false, _) => format!("at least {amount} (a price is unknown)"),
    }
}

pub fn tokens(tokens: Tokens) -> String {
    let cached =
        if tokens.cached > 0 { format!(" ({} cached)", number(tokens.cached)) } else { String::new() };
    format!("{} tokens in{cached}, {} out", number(tokens.input), number(tokens.output))
}

/// Names of models with the roles they had; one name that had them all stands alone.
pub fn models(by_role: &[(String, String)]) -> String {
    let mut names: Vec<(&str, Vec<&str>)> = Vec::new();
    for (role, name) in by_role {
        match names.iter_mut().find(|(known, _)| known == name) {
            Some((_, roles)) => roles.push(role),
            None => names.push((name, vec![role])),
        }
    }
    let shown = |name: &str| code_span(&cut(&exact(name), 100));
    match names.as_slice() {
        [] => "no model".to_owned(),
        [(name, _)] => format!("model {}", shown(name)),
        several => {
            let all: Vec<String> = several
                .iter()
                .map(|(name, roles)| format!("{} ({})", shown(name), roles.join(", ")))
                .collect();
            format!("models {}", all.join(", "))
        }
    }
}

/// Tokens, money and time, for a line of figures.
pub fn account(account: &Account, priced: bool) -> [String; 3] {
    [tokens(account.tokens), money(account.usd, priced), duration(account.seconds)]
}

/// At most `most` characters, the last of them `…` where something was cut.
pub fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!([0.4, 59.6, 185.0, 3_840.0].map(duration), ["0 s", "1 min 0 s", "3 min 5 s", "1 h 4 min"]);
        assert_eq!([0, 1, 2_000].map(|n| counted(n, "file")), ["0 files", "1 file", "2,000 files"]);
        assert_eq!(
            tokens(Tokens { input: 84_210, cached: 61_000, output: 3_100 }),
            "84,210 tokens in (61,000 cached), 3,100 out"
        );
        assert_eq!(tokens(Tokens { input: 5, cached: 0, output: 1 }), "5 tokens in, 1 out");
    }

    #[test]
    fn an_unknown_price_is_never_shown_as_free() {
        assert_eq!(money(Money::ZERO, false), "price unknown");
        assert_eq!(money(Money::from_usd(0.02), false), "at least $0.020 (a price is unknown)");
        assert_eq!(money(Money::ZERO, true), "$0.000");
        assert_eq!(money(Money::from_usd(0.0004), true), "under $0.001");
        assert_eq!(money(Money::from_usd(0.0244), true), "$0.024");
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äö ü ß", 4), "äö…");
    }
}
