//! The comment in all its forms, as snapshots to be read.

use super::*;
use crate::{
    domain::Check,
    report::sample::{Sample, citation},
};

fn shown(sample: &Sample) -> String {
    comment(&CommentInput { knowledge: &sample.knowledge, run: sample.run(), notices: &[] })
}

#[test]
fn answers_with_checked_citations() {
    let sample = Sample::new();
    let notices = ["The issue's text has 80,000 characters; the first 60,000 were read.".to_owned()];
    let input = CommentInput { knowledge: &sample.knowledge, run: sample.run(), notices: &notices };
    insta::assert_snapshot!(comment(&input));
}

#[test]
fn gaps_budgets_and_failures_are_said_as_such() {
    let mut sample = Sample::new();
    let mut failed = sample.knowledge.pairs[1].clone();
    let [gap, budget] = &mut sample.knowledge.pairs[..] else { unreachable!() };
    gap.answer = Answer {
        status: AnswerStatus::Gap,
        text: "Nothing in this repository parses offsets.".into(),
        gaps: vec![
            "`parse_offset`: no definition and no call in any file".into(),
            "a test that mentions `+0530`".into(),
        ],
        citations: vec![],
    };
    budget.answer.status = AnswerStatus::Budget;
    failed.origin = Origin::Resolver;
    failed.answer =
        Answer { status: AnswerStatus::Failed, text: String::new(), gaps: vec![], citations: vec![] };
    sample.knowledge.pairs.push(failed);
    insta::assert_snapshot!(shown(&sample));
}

#[test]
fn nothing_verified_is_said_first() {
    let mut sample = Sample::new();
    for pair in &mut sample.knowledge.pairs {
        for citation in &mut pair.answer.citations {
            citation.check = Check::Unverified;
            citation.permalink = None;
        }
    }
    insta::assert_snapshot!(shown(&sample));
}

#[test]
fn no_questions_no_price_and_no_web_address() {
    let mut sample = Sample::new();
    sample.knowledge.pairs.clear();
    let run = RunFacts { price_known: false, repo: None, ..sample.run() };
    insta::assert_snapshot!(comment(&CommentInput { knowledge: &sample.knowledge, run, notices: &[] }));
}

#[test]
fn a_proposal_is_a_section_of_its_own() {
    let mut sample = Sample::new();
    sample.knowledge.pairs.clear();
    sample.knowledge.blocks.push(Block {
        kind: "proposal".into(),
        text: "The root cause is the split at `:` [1].\n\nTake offsets without a colon as well.".into(),
        citations: vec![citation("src/dates/parse.py", 41, 58, Check::Verified)],
    });
    insta::assert_snapshot!(shown(&sample));
}

#[test]
fn s_34_hostile_words_stay_words() {
    let mut sample = Sample::new();
    let pair = &mut sample.knowledge.pairs[0];
    pair.question.text = "# Big\n\n<!-- hidden -->@octocat fixes #1 [click](https://evil.example)".into();
    pair.question.why = "</sub></details> ![x](y)".into();
    pair.answer.text = "</details>\n\n# Title\n\n@octocat, fixes #12. See https://evil.example/a and [here](https://evil.example) [1].\n\n\
        <img src=x onerror=alert(1)> [9]\n\n[1]: https://evil.example\n\n```\nunclosed <!-- [1] @octocat"
        .into();
    pair.answer.gaps = vec!["```\n@octocat\n\n# x".into(), "- [ ] /merge".into()];
    pair.answer.citations[0].path = "a`b\n](https://evil.example)".into();
    pair.answer.citations[0].quote = Some("```\n</details>\n````\n\u{202E}evil".into());
    pair.answer.citations[0].symbol = Some("` @octocat `".into());
    pair.answer.citations[0].permalink = Some("https://evil.example/) [x](y".into());
    sample.knowledge.pairs.truncate(1);
    insta::assert_snapshot!(shown(&sample));
}

#[test]
fn s_34_a_comment_that_is_too_long_loses_its_quotes_and_then_its_end() {
    let mut sample = Sample::new();
    let long_quote = "    value = parse(text)\n".repeat(80);
    sample.knowledge.pairs[0].answer.citations = (1..60)
        .map(|line| Citation {
            quote: Some(long_quote.clone()),
            ..citation("a.py", line, line, Check::Verified)
        })
        .collect();
    let without_quotes = shown(&sample);
    assert!(without_quotes.chars().count() < MAX_CHARS);
    assert!(!without_quotes.contains("value = parse"), "quotes go first");
    assert!(without_quotes.contains("### 2."), "and nothing else does");

    sample.knowledge.pairs[0].answer.text =
        "A paragraph that says a lot about `parse` and cites it [1].\n\n```py\nparse(text)\n```\n\n"
            .repeat(2_000);
    let cut = shown(&sample);
    assert!(cut.chars().count() <= MAX_CHARS);
    let lines: Vec<&str> = cut.lines().collect();
    let count = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
    assert_eq!(count("<details>"), count("</details>"));
    assert_eq!(count("```") % 2, 0);
    let end = lines[lines.len() - 12..].join("\n");
    insta::assert_snapshot!(end);
}

#[test]
fn long_answers_are_folded_between_paragraphs_but_not_within_lists() {
    let mut sample = Sample::new();
    let filler = "Words that fill a paragraph and are cited [1]. ".repeat(12);
    let list = "- an item that is cited as well [1]\n".repeat(60);
    sample.knowledge.pairs.truncate(1);
    sample.knowledge.pairs[0].answer.text = format!("{filler}\n\n{filler}\n\nThe list:\n\n{list}\n{filler}");
    let text = shown(&sample);
    let folded = text.split_once("<summary>The rest of this answer</summary>").expect("a fold").1;
    assert!(!folded.contains("- an item"), "the list is not torn apart");
    assert!(folded.trim_start().starts_with("Words that fill"));
}
