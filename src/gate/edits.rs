//! Replacements in a text, collected first and made at once.

use std::{cmp::Reverse, ops::Range};

/// Replacements by byte range of the original text. Where two overlap, the one that starts first wins, and
/// of those that start together the longest.
#[derive(Debug, Default)]
pub(crate) struct Edits(Vec<(Range<usize>, String)>);

impl Edits {
    pub fn replace(&mut self, range: Range<usize>, with: impl Into<String>) {
        self.0.push((range, with.into()));
    }

    pub fn remove(&mut self, range: Range<usize>) {
        self.replace(range, "");
    }

    pub fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replace(at..at, text);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ranges must lie on character boundaries of `text`.
    pub fn apply(mut self, text: &str) -> String {
        self.0.sort_by_key(|(range, _)| (range.start, Reverse(range.end)));
        let mut result = String::with_capacity(text.len());
        let mut done = 0;
        for (range, with) in self.0 {
            if range.start < done {
                continue;
            }
            result.push_str(&text[done..range.start]);
            result.push_str(&with);
            done = range.end;
        }
        result.push_str(&text[done..]);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outer_of_two_edits_wins_whatever_their_order() {
        let mut edits = Edits::default();
        edits.remove(4..5);
        edits.replace(2..6, "-");
        edits.replace(5..8, "lost");
        edits.insert(8, "!");
        assert_eq!(edits.apply("0123456789"), "01-67!89");
    }
}
