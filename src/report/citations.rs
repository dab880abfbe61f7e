//! Citations as readers see them: what was cited, where it is, and whether the host found it there.

use std::collections::BTreeMap;

use crate::{
    domain::{Check, Citation},
    gate::{prose::citation_marks, shown},
};

use super::{
    inert::inert_line,
    markdown::{code_block, code_span, details, link},
};

/// Longest quote that is shown, in characters.
const MAX_QUOTE: usize = 2_000;

fn mark(check: Check) -> &'static str {
    match check {
        Check::Verified => "✓",
        Check::Moved => "↷",
        Check::Unverified => "⚠",
    }
}

/// `3 verified ✓, 1 unverified ⚠`, or nothing when there are none.
pub(super) fn tally(citations: &[&Citation]) -> Option<String> {
    let words = [(Check::Verified, "verified"), (Check::Moved, "moved"), (Check::Unverified, "unverified")];
    let parts: Vec<String> = words
        .into_iter()
        .map(|(check, word)| (citations.iter().filter(|one| one.check == check).count(), check, word))
        .filter(|(count, ..)| *count > 0)
        .map(|(count, check, word)| format!("{count} {word} {}", mark(check)))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn place(citation: &Citation) -> String {
    let lines = match citation.start == citation.end {
        true => format!("{}", citation.start),
        false => format!("{}–{}", citation.start, citation.end),
    };
    code_span(&format!("{}:{lines}", shown::path(citation.path.as_bytes())))
}

/// One line a citation, and the quotes to unfold where `quotes` are wanted.
pub(super) fn evidence(citations: &[Citation], quotes: bool) -> String {
    if citations.is_empty() {
        return String::new();
    }
    let mut lines = "**Evidence**\n\n".to_owned();
    for (number, citation) in (1..).zip(citations) {
        let symbol = citation.symbol.as_deref().filter(|symbol| !symbol.trim().is_empty());
        let symbol =
            symbol.map(|symbol| format!(" · {}", code_span(&shown::text(symbol)))).unwrap_or_default();
        let note = match citation.check {
            Check::Verified => "",
            Check::Moved => " · *found at other lines than the answer gave; corrected*",
            Check::Unverified => " · *not found there*",
        };
        let where_it_is = link(&place(citation), citation.permalink.as_deref());
        lines.push_str(&format!("- {} **[{number}]** {where_it_is}{symbol}{note}\n", mark(citation.check)));
    }
    if quotes {
        lines.push_str(&quoted(citations));
    }
    lines
}

fn quoted(citations: &[Citation]) -> String {
    let mut quotes = String::new();
    for (number, citation) in (1..).zip(citations) {
        let Some(quote) = citation.quote.as_deref().filter(|quote| !quote.trim().is_empty()) else {
            continue;
        };
        let mut text = shown::text(quote.trim_matches('\n'));
        if let Some((end, _)) = text.char_indices().nth(MAX_QUOTE) {
            text.truncate(end);
            text.push('…');
        }
        quotes.push_str(&format!("[{number}] {}\n\n", place(citation)));
        quotes.push_str(&code_block(language(&citation.path), &text));
        quotes.push_str("\n\n");
    }
    if quotes.is_empty() { quotes } else { format!("\n{}\n", details("Quoted lines", &quotes)) }
}

/// The language that GitHub colours a file in: mostly its name's ending.
fn language(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let is_word = extension.len() <= 10 && extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_word { extension } else { "" }
}

/// Turns `[1]` in an inert text into a link to what it cites, with a warning where that was not found.
/// Numbers that cite nothing are marked so.
pub(super) fn linked(text: &str, citations: &[Citation]) -> String {
    let by_number: BTreeMap<u32, &Citation> = (1..).zip(citations).collect();
    let mut result = String::with_capacity(text.len());
    let mut done = 0;
    for found in citation_marks(text) {
        result.push_str(&text[done..found.range.start]);
        for number in found.numbers {
            result.push_str(&match by_number.get(&number) {
                Some(citation) => {
                    let warning = if citation.check == Check::Unverified { "⚠" } else { "" };
                    link(&format!("[{number}]{warning}"), citation.permalink.as_deref())
                }
                None => format!("[{number}: no such citation]"),
            });
        }
        done = found.range.end;
    }
    result.push_str(&text[done..]);
    result
}

/// A list of gaps, one a line.
pub(super) fn gaps(gaps: &[String]) -> String {
    gaps.iter().map(|gap| format!("- {}\n", inert_line(gap))).collect()
}
