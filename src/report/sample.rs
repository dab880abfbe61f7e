//! A run to word, for the tests of this room.

use crate::domain::{
    Account, Answer, AnswerStatus, Category, Check, Citation, CommitId, Knowledge, Money, Origin, Pair,
    Question, RepoId, RunId, Tokens,
};

use super::RunFacts;

pub(super) struct Sample {
    pub knowledge: Knowledge,
    pub run_id: RunId,
    pub commit: CommitId,
    pub repo: RepoId,
}

pub(super) const MODELS: &[(&str, &str)] = &[("Questioner", "gpt-5-mini"), ("Answerers", "gpt-5-mini")];

impl Sample {
    /// Two answered questions about a date parser.
    pub fn new() -> Self {
        let commit = CommitId::parse("b0f0d7e2c3a14f5960718293a4b5c6d7e8f90a1b").unwrap();
        let knowledge = Knowledge { commit: commit.clone(), pairs: vec![first(), second()], blocks: vec![] };
        let repo = RepoId::from_url("https://github.com/example/dates").unwrap();
        let run_id = RunId::new("2026-11-30T15:33:44Z".parse().unwrap(), [0xA1, 0xB2, 0xC3]);
        Self { knowledge, run_id, commit, repo }
    }

    pub fn run(&self) -> RunFacts<'_> {
        let tokens = Tokens { input: 212_340, cached: 180_100, output: 6_120 };
        RunFacts {
            run_id: &self.run_id,
            version: "0.1.0",
            models: MODELS,
            account: Account { steps: 41, seconds: 125.4, usd: Money::from_usd(0.0243), tokens },
            price_known: true,
            commit: &self.commit,
            repo: Some(&self.repo),
        }
    }
}

pub(super) fn citation(path: &str, start: u32, end: u32, check: Check) -> Citation {
    let commit = "b0f0d7e2c3a14f5960718293a4b5c6d7e8f90a1b";
    let permalink = format!("https://github.com/example/dates/blob/{commit}/{path}#L{start}-L{end}");
    let (quote, symbol) = (None, None);
    Citation { path: path.into(), start, end, quote, symbol, check, permalink: Some(permalink) }
}

fn first() -> Pair {
    let quote = "def parse_offset(text):\n    sign = -1 if text[0] == \"-\" else 1\n    hours, minutes = text[1:].split(\":\")";
    let mut offset = citation("src/dates/parse.py", 41, 58, Check::Verified);
    offset.quote = Some(quote.into());
    offset.symbol = Some("parse_offset".into());
    let mut caller = citation("src/dates/parse.py", 97, 97, Check::Verified);
    caller.symbol = Some("parse_datetime".into());
    let mut moved = citation("tests/test_parse.py", 12, 20, Check::Moved);
    moved.quote = Some("@pytest.mark.parametrize(\"text\", [\"+02:00\", \"-05:30\", \"Z\"])".into());
    Pair {
        origin: Origin::Questioner,
        question: Question {
            id: "q1".into(),
            category: Category::MechanismBehavior,
            text: "How does `parse_datetime` turn the UTC offset of a string into a `timezone`, and which spellings does it take?".into(),
            why: "The issue reports that `+0530` is refused; the repair depends on where the colon is required.".into(),
        },
        answer: Answer {
            status: AnswerStatus::Answered,
            text: "`parse_datetime` cuts the offset off with a regular expression and hands it to `parse_offset` [2]. There the text after the sign is split at `:`, so an offset without a colon raises `ValueError` before a `timezone` is built [1].\n\n\
                Three spellings are taken:\n\n\
                - `+02:00` and `-05:30`: sign, hours, minutes [1]\n\
                - `Z`: handled before the split [1]\n\n\
                The tests cover exactly these and no offset without a colon [3].\n\n\
                ISO 8601 allows the basic form `+0530` as well."
                .into(),
            gaps: vec![],
            citations: vec![offset, caller, moved],
        },
    }
}

fn second() -> Pair {
    let mut registry = citation("src/dates/formats.py", 8, 31, Check::Verified);
    registry.symbol = Some("FORMATS".into());
    let unverified = citation("src/dates/cli.py", 60, 64, Check::Unverified);
    Pair {
        origin: Origin::Questioner,
        question: Question {
            id: "q2".into(),
            category: Category::LocatingStructure,
            text: "Which other places of the code read or write offsets?".into(),
            why: "They must stay consistent with the parser.".into(),
        },
        answer: Answer {
            status: AnswerStatus::Answered,
            text: "The formatter writes offsets with a colon, from the table in `FORMATS` [1]. The command line passes `--tz` through unparsed [2].".into(),
            gaps: vec!["Whether the documentation promises the basic form: there is no `docs` folder at this commit.".into()],
            citations: vec![registry, unverified],
        },
    }
}
