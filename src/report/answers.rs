//! What `acquire ask` prints: each question with its answer, and what its citations are worth.
//!
//! Plain text, with the marks that the comment has. What others wrote stands in it with its control characters
//! spelled out, and indented: what begins at the left margin is the host's word.

use crate::{
    domain::{Answer, AnswerStatus, Check, Citation, Knowledge, Pair},
    gate::shown,
};

use super::{
    comment::marked,
    missing_name,
    terminal::part,
    words::{self, Checks, cut},
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
    let mut paragraphs = Vec::new();
    paragraphs.extend(words::nothing_found("answer", *status));
    let holds = citations.iter().any(|citation| citation.check != Check::Unverified);
    if *status == AnswerStatus::Answered && !holds {
        paragraphs.push("⚠ No citation of this answer holds: read it as a guess.".to_owned());
    }
    let text = marked(text, citations);
    if !text.trim().is_empty() {
        paragraphs.push(indented(text.trim_end()));
    }
    let places: Vec<String> =
        (1..).zip(citations).map(|(number, citation)| place(number, citation)).collect();
    if !places.is_empty() {
        paragraphs.push(places.join("\n"));
    }
    let (invented, gaps): (Vec<&String>, Vec<&String>) =
        gaps.iter().partition(|gap| missing_name(gap).is_some());
    if !invented.is_empty() {
        let names: Vec<&str> = invented.into_iter().filter_map(|gap| missing_name(gap)).collect();
        paragraphs.push(format!("⚠ Named in the answer but not in the repository: {}", names.join(", ")));
    }
    if !gaps.is_empty() {
        let gaps: Vec<String> = gaps.into_iter().map(|gap| format!("  - {}", one_line(gap))).collect();
        paragraphs.push(format!("Not found:\n{}", gaps.join("\n")));
    }
    let title = format!("{number}. {}", one_line(&pair.question.text));
    part(&shown::text(&title), &shown::text(&paragraphs.join("\n\n")))
}

fn indented(text: &str) -> String {
    let indent = |line: &str| if line.trim().is_empty() { String::new() } else { format!("  {line}") };
    text.lines().map(indent).collect::<Vec<_>>().join("\n")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
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
