//! References to citations: `[1]`, `[2, 3]`, `[4-6]`.

use std::{ops::Range, sync::LazyLock};

use pulldown_cmark::{Event, Tag};
use regex::Regex;

use crate::gate::markdown;

/// A reference to citations in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CitationMark {
    /// Brackets included.
    pub range: Range<usize>,
    /// Counted from 1, in the order given.
    pub numbers: Vec<u32>,
}

static MARK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\[(\d{1,3}(?:\s?[,;–-]\s?\d{1,3})*)\]")
        .expect("the pattern ships with the program, and tests use it")
});

/// All references outside code. `items[0]` is none, since a name stands before it; `[1]: …` is a definition.
pub fn citation_marks(text: &str) -> Vec<CitationMark> {
    let mut hidden: Vec<Range<usize>> = Vec::new();
    let parser = markdown::parser(text);
    hidden.extend(parser.reference_definitions().iter().map(|(_, definition)| definition.span.clone()));
    for (event, range) in parser.into_offset_iter() {
        if matches!(event, Event::Code(_) | Event::Start(Tag::CodeBlock(_))) {
            hidden.push(range);
        }
    }
    hidden.sort_by_key(|range| range.start);
    let mut hidden = hidden.into_iter().peekable();
    let mut marks: Vec<CitationMark> = Vec::new();
    for captures in MARK.captures_iter(text) {
        let (Some(whole), Some(numbers)) = (captures.get(0), captures.get(1)) else { continue };
        while hidden.next_if(|range| range.end <= whole.start()).is_some() {}
        if hidden.peek().is_some_and(|range| range.start < whole.end()) {
            continue;
        }
        let follows_mark = marks.last().is_some_and(|mark| mark.range.end == whole.start());
        let before = text[..whole.start()].chars().next_back();
        let is_index = before.is_some_and(|c| c.is_alphanumeric() || "_])`\\".contains(c));
        if is_index && !follows_mark {
            continue;
        }
        let numbers = numbers_of(numbers.as_str());
        if !numbers.is_empty() {
            marks.push(CitationMark { range: whole.range(), numbers });
        }
    }
    marks
}

/// `1, 3-5` is 1, 3, 4, 5. Zero is no citation.
fn numbers_of(list: &str) -> Vec<u32> {
    let mut numbers = Vec::new();
    for part in list.split([',', ';']) {
        let mut ends = part.split(['-', '–']).filter_map(|end| end.trim().parse::<u32>().ok());
        let Some(first) = ends.next() else { continue };
        let last = ends.next_back().unwrap_or(first);
        // Nobody means a hundred citations: such a range is something else.
        if first > 0 && (first..first + 50).contains(&last) {
            numbers.extend(first..=last);
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Vec<u32> {
        citation_marks(text).into_iter().flat_map(|mark| mark.numbers).collect()
    }

    #[test]
    fn citations_are_read_in_the_ways_that_models_write_them() {
        assert_eq!(numbers("A [1]. B [2][3] c[4] ([5, 6]); d [7–9]."), [1, 2, 3, 5, 6, 7, 8, 9]);
        assert_eq!(numbers("**Bold** [1](http://x) _it_[2]\n\n> quote [3]\n\n- item [4]"), [1, 3, 4]);
        assert_eq!(numbers("`x [1]` and `a`[2]\n\n```\n[3]\n```\n\n    [4]\n\n\\[5\\] [6]"), [6]);
        assert_eq!(numbers("args[1], f()[2], [0], [1000], [9-1], [x]"), [0; 0]);
        assert_eq!(numbers("See [1].\n\n[1]: src/a.py"), [1]);
    }
}
