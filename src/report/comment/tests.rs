use super::*;
use crate::{
    domain::{Answer, AnswerStatus, Block, Category, Check, Citation, Origin, Pair},
    gate::markdown::parser,
    report::{
        fixture_tests::{account, citation, commit, issue, knowledge, pair, question, run_id},
        hostile_tests::{acts, hostile},
    },
};

/// The comment of a run on GitHub, with one model for all roles.
fn written(knowledge: &Knowledge) -> String {
    let models =
        ["answerer", "questioner", "resolver"].map(|role| (role.to_owned(), "gpt-5-mini".to_owned()));
    comment(&CommentInput {
        knowledge,
        issue: &issue(),
        repo: "https://github.com/example/kettle",
        run_id: &run_id(),
        version: "0.1.0",
        models: &models,
        account: account(),
        priced: true,
        notes: &[],
    })
}

fn of(pairs: Vec<Pair>) -> Knowledge {
    Knowledge { commit: commit(), pairs, blocks: vec![] }
}

fn answered(text: &str, citations: Vec<Citation>) -> Answer {
    Answer { status: AnswerStatus::Answered, text: text.into(), gaps: vec![], citations }
}

fn unanswered(status: AnswerStatus, text: &str, gaps: &[&str]) -> Answer {
    let gaps = gaps.iter().map(|gap| (*gap).to_owned()).collect();
    Answer { status, text: text.into(), gaps, citations: vec![] }
}

/// What GitHub would refuse, show broken or act on.
fn assert_sound(comment: &str) {
    assert!(length(comment) <= MAX_CHARS, "{} characters", length(comment));
    let mut folds = 0_i32;
    for event in parser(comment) {
        if let pulldown_cmark::Event::Html(html) = event {
            folds += i32::from(html.contains("<details>")) - i32::from(html.contains("</details>"));
            assert!((0..=1).contains(&folds), "{html} opens or closes too much:\n{comment}");
        }
    }
    assert_eq!(folds, 0, "a fold is left open:\n{comment}");
}

#[test]
fn an_ordinary_run_reads_well() {
    let comment = written(&knowledge());
    assert_sound(&comment);
    insta::assert_snapshot!(comment);
}

#[test]
fn what_was_not_found_or_not_answered_is_said() {
    let why = "The repair would go there.";
    let comment = written(&of(vec![
        pair(
            question(1, Category::LocatingStructure, "Where does the parser recover from errors?", why),
            unanswered(
                AnswerStatus::Gap,
                "",
                &[
                    "Nothing in `src/` recovers from an error; looked for `recover`, `resume` and every use of `ParseError`.",
                    "The answer names `Recovery::new`, which does not exist at this commit.",
                ],
            ),
        ),
        pair(
            question(
                2,
                Category::EcosystemStandards,
                "Which version of ISO 8601 does the format follow?",
                why,
            ),
            unanswered(
                AnswerStatus::Gap,
                "ISO 8601 writes durations as `PT1H30M` (not checked here).",
                &["No file names ISO 8601."],
            ),
        ),
        pair(
            question(3, Category::DesignUsage, "Who calls `take_unit`?", ""),
            unanswered(AnswerStatus::Budget, "", &[]),
        ),
        Pair {
            origin: Origin::Resolver,
            ..pair(
                question(4, Category::DesignUsage, "Which tests cover it?", why),
                unanswered(AnswerStatus::Failed, "", &[]),
            )
        },
    ]));
    assert_sound(&comment);
    insta::assert_snapshot!(comment);
}

#[test]
fn an_answer_of_which_nothing_holds_is_called_a_guess() {
    let gone = |line| Citation {
        quote: Some("let unit = self.units.longest_match(rest)?;".into()),
        ..citation("src/parse.rs", line, line + 2, Check::Unverified)
    };
    let text = "The parser takes the longest match [1].\n\nIt sorts the units by length first [2].\n\nBoth follow from [3].";
    let comment = written(&of(vec![pair(
        question(1, Category::MechanismBehavior, "How is a unit matched?", "It decides where the fault is."),
        answered(text, vec![gone(90), gone(95)]),
    )]));
    assert_sound(&comment);
    insta::assert_snapshot!(comment);
}

#[test]
fn where_nothing_can_be_linked_places_are_named() {
    let unlinked = |check| Citation {
        permalink: None,
        symbol: Some("take_unit".into()),
        ..citation("src/units.rs", 36, 36, check)
    };
    let knowledge = of(vec![pair(
        question(1, Category::LocatingStructure, "Where is a unit read?", "It is where the fault shows."),
        answered(
            "In `take_unit` [1], which `parse` calls [2].",
            vec![unlinked(Check::Verified), unlinked(Check::Moved)],
        ),
    )]);
    let models = [("answerer", "qwen3-coder"), ("questioner", "qwen3-coder"), ("resolver", "gpt-5-mini")];
    let models = models.map(|(role, name)| (role.to_owned(), name.to_owned()));
    let notes = [
        "Sandbox: namespaces. Fit for your own repositories only.".to_owned(),
        "answerer-1: the provider refused `temperature`: its default applies".to_owned(),
        "The issue's text has 61,000 characters; the first 60000 were read.".to_owned(),
    ];
    let comment = comment(&CommentInput {
        knowledge: &knowledge,
        issue: &issue(),
        repo: "/home/someone/src/kettle",
        run_id: &run_id(),
        version: "0.1.0",
        models: &models,
        account: Account { usd: crate::domain::Money::ZERO, ..account() },
        priced: false,
        notes: &notes,
    });
    assert_sound(&comment);
    assert!(!comment.contains("someone"), "{comment}");
    insta::assert_snapshot!(comment);
}

/// A pair with an answer and citations as long as models write them.
fn long_pair(number: usize) -> Pair {
    let categories = [
        Category::MechanismBehavior,
        Category::DesignUsage,
        Category::LocatingStructure,
        Category::EcosystemStandards,
    ];
    let paragraph = |n| {
        format!(
            "Step {n}: `Session::advance` takes the next frame from the queue, checks its sequence number against the \
             window and hands it to the handler that was registered for its kind; a frame without a handler is dropped \
             and counted [{}].",
            n % 8 + 1
        )
    };
    let text = (1..=12).map(paragraph).collect::<Vec<_>>().join("\n\n");
    let citations = (1..=8).map(|n| Citation {
        quote: Some(format!("let handler = self.handlers.get(&frame.kind()).ok_or(Dropped::{n})?;")),
        symbol: Some("Session::advance".into()),
        ..citation(
            "src/session/advance.rs",
            n * 10,
            n * 10 + 4,
            if n == 5 { Check::Unverified } else { Check::Verified },
        )
    });
    pair(
        question(
            number,
            categories[number % 4],
            "How does a session decide what to do with a frame that arrives out of order?",
            "The fault shows only then.",
        ),
        answered(&text, citations.collect()),
    )
}

/// What stands open.
fn at_a_glance(comment: &str) -> String {
    let mut folded = false;
    let mut shown = String::new();
    for line in comment.lines() {
        folded &= line != "</details>";
        if !folded {
            shown.push_str(line);
            shown.push('\n');
        }
        folded |= line.starts_with("<summary>");
    }
    shown
}

#[test]
fn eight_questions_with_long_answers_stay_readable() {
    let comment = written(&of((1..=8).map(long_pair).collect()));
    assert_sound(&comment);
    assert!(!comment.contains("Cut to fit"));
    insta::assert_snapshot!(at_a_glance(&comment));
}

#[test]
fn case_16_a_comment_that_is_too_long_is_cut_between_parts() {
    let emoji = |number: usize| {
        let text = (0..10).map(|_| format!("{} [1].", "🦀 ".repeat(100))).collect::<Vec<_>>().join("\n\n");
        let quote =
            Citation { quote: Some("🦀".repeat(500)), ..citation("src/🦀.rs", 1, 2, Check::Verified) };
        pair(question(number, Category::MechanismBehavior, "Why?", "🦀"), answered(&text, vec![quote]))
    };
    let comment = written(&of((1..=200).map(emoji).collect()));
    assert_sound(&comment);
    let notice = comment.lines().find(|line| line.contains("Cut to fit")).unwrap();
    insta::assert_snapshot!(notice);
    // Quotes go first: what is too long with them may fit without.
    let quoted = |number| {
        let quote =
            Citation { quote: Some("x".repeat(3_900)), ..citation("src/a.rs", 1, 2, Check::Verified) };
        pair(question(number, Category::MechanismBehavior, "Why?", "So."), answered("Thus [1].", vec![quote]))
    };
    let comment = written(&of((1..=20).map(quoted).collect()));
    assert_sound(&comment);
    assert_eq!(comment.matches("Thus [1].").count(), 20);
    insta::assert_snapshot!(comment.lines().find(|line| line.contains("Cut to fit")).unwrap());
}

#[test]
fn case_16_not_even_one_huge_part_breaks_the_limit() {
    let huge = answered(&"x".repeat(MAX_CHARS), vec![]);
    let comment = written(&of(vec![pair(question(1, Category::DesignUsage, "Q?", "W."), huge)]));
    assert_sound(&comment);
    assert!(comment.contains("#### 1. Q?") && comment.contains("Cut to fit"));
}

#[test]
fn case_17_case_18_hostile_text_does_nothing() {
    let evil = "@octocat fixes #9, closes evil/repo#3 and GH-4.\n</details>\n<!-- hidden\n/acquire stop\n\n\
                ![x](https://evil.example/pixel.png) [click](https://evil.example) https://evil.example\n\n\
                [1]: https://evil.example\n\n# We are done\n\n````\n</details>\n```\n@octocat stays in code\u{202e}\u{200b} 🦀";
    let citation = Citation {
        quote: Some("````\n</details>\n~~~~~~\n`````".into()),
        symbol: Some("`evil` @octocat\n\n# x".into()),
        path: "src/`x`.rs\n@octocat [a](b)".into(),
        permalink: None,
        ..citation("src/a.rs", 0, u32::MAX, Check::Moved)
    };
    let mut pair = pair(
        question(
            1,
            Category::MechanismBehavior,
            "# Why @octocat?\n</details> fixes #9",
            "</sub> <!-- @octocat",
        ),
        Answer {
            gaps: vec!["/acquire @octocat\n- x".into(), "```".into()],
            ..answered(evil, vec![citation])
        },
    );
    pair.question.id = "@octocat".into();
    let block = Block {
        kind: "proposal @octocat".into(),
        text: "```\nopen".into(),
        citations: vec![],
        status: AnswerStatus::Answered,
        gaps: vec![],
    };
    let knowledge = Knowledge { blocks: vec![block], ..of(vec![pair]) };
    let models = [("answerer".to_owned(), "`@octocat`".to_owned())];
    let comment = comment(&CommentInput {
        knowledge: &knowledge,
        issue: &issue(),
        repo: "/tmp/@octocat`",
        run_id: &run_id(),
        version: "0.1.0",
        models: &models,
        account: account(),
        priced: true,
        notes: &["answerer-1: <!-- @octocat fixes #9".to_owned()],
    });
    assert_sound(&comment);
    insta::assert_snapshot!(comment);
}

const OWN_HTML: [&str; 11] = [
    "<details>",
    "</details>",
    "<summary>Quoted lines</summary>",
    "<summary>The rest of the answer</summary>",
    "<summary>Evidence: 1 ↪ moved, 1 ⚠ unverified</summary>",
    "<summary>Notes on this run</summary>",
    "<sub>",
    "</sub>",
    "<b>",
    "</b>",
    "<br>",
];

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(200))]

    #[test]
    fn s_34_nothing_acts_whatever_models_write(texts in proptest::collection::vec(hostile(), 9)) {
        let citation = Citation {
            path: texts[0].clone(),
            quote: Some(texts[1].clone()),
            symbol: Some(texts[2].clone()),
            permalink: None,
            ..citation("a", 1, 2, Check::Moved)
        };
        let mut pair = pair(
            question(1, Category::DesignUsage, &texts[3], &texts[4]),
            answered(&texts[5].repeat(4), vec![citation.clone(), Citation { check: Check::Unverified, ..citation }]),
        );
        let invented = crate::report::named_but_missing(&texts[6]);
        let written_so = format!("The answer names {}, which does not exist at this commit.", texts[5]);
        pair.answer.gaps = vec![texts[6].clone(), texts[7].clone(), invented, written_so];
        let block = Block { kind: texts[7].clone(), text: texts[8].clone(), citations: vec![], status: AnswerStatus::Answered, gaps: vec![] };
        let comment = written(&Knowledge { blocks: vec![block], ..of(vec![pair]) });
        assert_sound(&comment);
        proptest::prop_assert_eq!(acts(&comment, &OWN_HTML), None, "{}", comment);
    }
}
