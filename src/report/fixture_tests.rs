//! Runs as tests of texts need them.

use crate::domain::{
    Account, Answer, AnswerStatus, Category, Check, Citation, CommitId, Issue, IssueNumber, Knowledge, Money,
    Origin, Pair, Question, RunId, Tokens,
};

pub fn commit() -> CommitId {
    CommitId::parse("3f1c9a7be0d24458a1c6f0b92d7e5a4c8b6d1e2f").unwrap()
}

pub fn run_id() -> RunId {
    RunId::try_from("20261130-153344-a1b2c3".to_owned()).unwrap()
}

pub fn issue() -> Issue {
    Issue {
        number: Some(IssueNumber(7)),
        title: "`parse` does not read what `format` writes: \"250ms\" is an error".into(),
        body: "It fails.".into(),
    }
}

pub fn account() -> Account {
    Account {
        steps: 31,
        seconds: 192.4,
        usd: Money::from_usd(0.0243),
        tokens: Tokens { input: 184_210, cached: 161_000, output: 6_103 },
    }
}

/// Linked, as in a run on GitHub.
pub fn citation(path: &str, start: u32, end: u32, check: Check) -> Citation {
    let plain = Citation { path: path.into(), start, end, quote: None, symbol: None, check, permalink: None };
    let repo = crate::domain::RepoId::from_url("https://github.com/example/kettle").unwrap();
    Citation { permalink: crate::report::permalink(&repo, &commit(), &plain), ..plain }
}

pub fn question(number: usize, category: Category, text: &str, why: &str) -> Question {
    Question { id: format!("q{number}"), category: Some(category), text: text.into(), why: why.into() }
}

pub fn pair(question: Question, answer: Answer) -> Pair {
    Pair { origin: Origin::Questioner, question, answer }
}

/// The two answers of an ordinary run.
pub fn knowledge() -> Knowledge {
    let first = pair(
        question(
            1,
            Category::MechanismBehavior,
            "How does `parse` decide where a unit's name ends, and in which order does it try the known names?",
            "The order decides whether a name that begins like a shorter one can ever be read.",
        ),
        Answer {
            status: AnswerStatus::Answered,
            text: "It takes the first entry of `UNITS` that the rest of the text begins with, so a shorter name \
                   that stands earlier wins over a longer one [1].\n\n\
                   - `m` stands before `min`, and `ms` is no entry at all, so `250ms` is read as `250m` and a rest `s` [2].\n\
                   - The rest is then read as a number, which fails with `Reason::NoNumber` [3].\n\n\
                   Nothing looks at what follows the name."
                .into(),
            gaps: vec![],
            citations: vec![
                Citation {
                    quote: Some(".find_map(|unit| text.strip_prefix(unit.name).map(|rest| (*unit, rest)))".into()),
                    symbol: Some("take_unit".into()),
                    ..citation("src/units.rs", 36, 40, Check::Verified)
                },
                Citation {
                    quote: Some("    unit(\"m\", MINUTE),\n    unit(\"min\", MINUTE),".into()),
                    ..citation("src/units.rs", 25, 26, Check::Moved)
                },
                Citation {
                    symbol: Some("take_number".into()),
                    ..citation("src/parse.rs", 30, 38, Check::Verified)
                },
            ],
        },
    );
    let second = pair(
        question(
            2,
            Category::DesignUsage,
            "Which names of units does `format` write, and what promises that `parse` reads them?",
            "The repair must hold for every name that is written, not for one.",
        ),
        Answer {
            status: AnswerStatus::Answered,
            text: "`format` writes the names of `WRITTEN`: `d`, `h`, `m`, `s` and `ms` [1]. The README promises \
                   that what `format` writes, `parse` reads back [2]."
                .into(),
            gaps: vec!["No test reads back what `format` writes; looked in `tests/durations.rs`.".into()],
            citations: vec![
                Citation {
                    symbol: Some("WRITTEN".into()),
                    ..citation("src/units.rs", 32, 33, Check::Verified)
                },
                Citation {
                    quote: Some("What `format` writes, `parse` reads back.".into()),
                    ..citation("README.md", 12, 12, Check::Unverified)
                },
            ],
        },
    );
    Knowledge { commit: commit(), pairs: vec![first, second], blocks: vec![] }
}
