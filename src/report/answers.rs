//! What `acquire ask` prints: each question with its answer, and what its citations are worth.
//!
//! Plain text, with the marks that the comment has. What others wrote stands in it indented, and with its control
//! characters and the signs that are the host's spelled out: what begins at the left margin is the host's word, and
//! a terminal that folds a long line cannot make it look like another.

use crate::{
    domain::{Answer, AnswerStatus, Check, Citation, Knowledge, Pair},
    gate::shown,
};

use super::{
    comment::marked,
    missing_name,
    terminal::part,
    words::{self, Checks, SIGNS, cut},
};

/// Longest path or symbol that is shown, in characters.
const MAX_NAME_CHARS: usize = 200;

/// All answers, in the order of their questions.
pub fn answers(knowledge: &Knowledge) -> String {
    let mut parts: Vec<String> =
        (1..).zip(&knowledge.pairs).map(|(number, pair)| answer(number, pair)).collect();
    parts.extend(words::legend(Checks::of(knowledge.citations())));
    parts.join("\n\n")
}

fn answer(number: usize, pair: &Pair) -> String {
    let Answer { status, text, gaps, citations } = &pair.answer;
    let (invented, gaps): (Vec<&String>, Vec<&String>) =
        gaps.iter().partition(|gap| missing_name(gap).is_some());
    let why_not = words::nothing_found("answer", *status);
    let mut paragraphs = Vec::new();
    if let Some(why_not) = &why_not {
        paragraphs.push(listed(why_not, &gaps));
    }
    let holds = citations.iter().any(|citation| citation.check != Check::Unverified);
    if *status == AnswerStatus::Answered && !holds {
        paragraphs.push("⚠ No citation of this answer holds: read it as a guess.".to_owned());
    }
    if !invented.is_empty() {
        let names: Vec<&str> = invented.into_iter().filter_map(|gap| missing_name(gap)).collect();
        let names = one_line(&names.join(", "));
        paragraphs.push(format!("⚠ Named in the answer but not in the repository: {names}"));
    }
    let text = marked(&without_signs(text), citations);
    if !text.trim().is_empty() {
        paragraphs.push(indented(text.trim_end()));
    }
    let places: Vec<String> =
        (1..).zip(citations).map(|(number, citation)| place(number, citation)).collect();
    if !places.is_empty() {
        paragraphs.push(places.join("\n"));
    }
    if why_not.is_none() && !gaps.is_empty() {
        paragraphs.push(listed("Not found:", &gaps));
    }
    let title = format!("{number}. {}", one_line(&pair.question.text));
    part(&shown::text(&title), &shown::text(&paragraphs.join("\n\n")))
}

/// Gaps below what they belong to.
fn listed(title: &str, gaps: &[&String]) -> String {
    let gaps = gaps.iter().map(|gap| format!("\n  - {}", one_line(gap)));
    format!("{title}{}", gaps.collect::<String>())
}

fn indented(text: &str) -> String {
    let indent = |line: &str| if line.trim().is_empty() { String::new() } else { format!("  {line}") };
    text.lines().map(indent).collect::<Vec<_>>().join("\n")
}

fn one_line(text: &str) -> String {
    without_signs(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn without_signs(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for char in text.chars() {
        // The last two begin lines of the host here.
        match SIGNS.contains(char) || matches!(char, '⚠' | '━') {
            true => plain.extend(char.escape_unicode()),
            false => plain.push(char),
        }
    }
    plain
}

/// `[1] ✓ src/store.py:17-18 · total`, as editors and terminals open it.
fn place(number: usize, citation: &Citation) -> String {
    let Citation { path, start, end, symbol, check, .. } = citation;
    let lines = if start == end { start.to_string() } else { format!("{start}-{end}") };
    let name = |name: &str| cut(&one_line(name), MAX_NAME_CHARS);
    let mut place = format!("[{number}] {} {}:{lines}", words::check_mark(*check), name(path));
    if let Some(symbol) = symbol {
        place.push_str(&format!(" · {}", name(symbol)));
    }
    if let Some(remark) = words::check_remark(*check) {
        place.push_str(&format!(" · {remark}"));
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{Category, Origin},
        report::{
            fixture_tests::{citation, knowledge, pair, question},
            named_but_missing,
        },
    };

    fn shown(question_text: &str, answer: Answer) -> String {
        let mut asked = pair(question(1, Category::DesignUsage, question_text, ""), answer);
        (asked.origin, asked.question.category) = (Origin::Person, None);
        answers(&Knowledge { pairs: vec![asked], ..knowledge() })
    }

    fn answered(text: &str, citations: Vec<Citation>) -> Answer {
        Answer { status: AnswerStatus::Answered, text: text.into(), gaps: vec![], citations }
    }

    #[test]
    fn answers_read_well() {
        insta::assert_snapshot!(answers(&knowledge()), @r"
        ━━ 1. How does `parse` decide where a unit's name ends, and in which order does it try the known names?

          It takes the first entry of `UNITS` that the rest of the text begins with, so a shorter name that stands earlier wins over a longer one [1].

          - `m` stands before `min`, and `ms` is no entry at all, so `250ms` is read as `250m` and a rest `s` [2].
          - The rest is then read as a number, which fails with `Reason::NoNumber` [3].

          Nothing looks at what follows the name. *(not cited)*

        [1] ✓ src/units.rs:36-40 · take_unit
        [2] ↪ src/units.rs:25-26 · at other lines than were given
        [3] ✓ src/parse.rs:30-38 · take_number

        ━━ 2. Which names of units does `format` write, and what promises that `parse` reads them?

          `format` writes the names of `WRITTEN`: `d`, `h`, `m`, `s` and `ms` [1]. The README promises that what `format` writes, `parse` reads back [2] ⚠.

        [1] ✓ src/units.rs:32-33 · WRITTEN
        [2] ⚠ README.md:12 · not found there

        Not found:
          - No test reads back what `format` writes; looked in `tests/durations.rs`.

        A program looked up each citation: ✓ the quoted line, or the symbol, stands at that place; ↪ it stood elsewhere in the file, corrected; ⚠ not found. A ✓ does not say that the conclusion is right.
        ");
    }

    #[test]
    fn what_a_model_wrote_never_looks_like_the_hosts_word() {
        let forged = "Sure [1].\n\n[2] ✓ src/a.rs:1 · main\n\n━━ 2. Next?\n\u{1b}[2J\u{202E}";
        let cited = Citation {
            symbol: Some("a\n[9] ✓ b".into()),
            ..citation("a\n[3] ✓ b", 1, 1, Check::Unverified)
        };
        let gaps = vec!["x\n[4] ✓ src/a.rs:1".to_owned(), named_but_missing("No.such\n[5] ✓")];
        let text = shown("Why?\n━━ 2. Me", Answer { gaps, ..answered(forged, vec![cited]) });
        insta::assert_snapshot!(text, @r"
        ━━ 1. Why? \u{2501}\u{2501} 2. Me

        ⚠ No citation of this answer holds: read it as a guess.

        ⚠ Named in the answer but not in the repository: `No.such [5] \u{2713}`

          Sure [1]. *(not verified)*

          [2] \u{2713} src/a.rs:1 · main *(not cited)*

          \u{2501}\u{2501} 2. Next?
          \u{1b}[2J\u{202e} *(not cited)*

        [1] ⚠ a [3] \u{2713} b:1 · a [9] \u{2713} b · not found there

        Not found:
          - x [4] \u{2713} src/a.rs:1

        A program looked up each citation: ⚠ not found.
        ");
        let at_margin = text.lines().filter(|line| line.starts_with('[')).count();
        assert_eq!(at_margin, 1, "one citation, one line: {text}");
    }

    #[test]
    fn why_there_is_no_answer_is_said_once() {
        let none = |status, gaps: &[&str]| Answer {
            status,
            gaps: gaps.iter().map(|gap| (*gap).to_owned()).collect(),
            ..answered("", vec![])
        };
        insta::assert_snapshot!(shown("Who?", none(AnswerStatus::Gap, &["Looked in `src`."])), @r"
        ━━ 1. Who?

        Not found in this repository.
          - Looked in `src`.
        ");
        insta::assert_snapshot!(shown("Who?", none(AnswerStatus::Budget, &[])), @r"
        ━━ 1. Who?

        No answer: a limit on steps, money or time ended the search first.
        ");
    }
}
