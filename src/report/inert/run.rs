//! A stretch of rendered text, and where each part of it stands in the source.

use std::ops::Range;

/// Text that GitHub renders in one piece, though a parser may hand it out in several.
#[derive(Debug, Default)]
pub struct Run {
    rendered: String,
    pieces: Vec<Piece>,
}

#[derive(Debug)]
struct Piece {
    /// Where it begins in the rendered text.
    at: usize,
    source: Range<usize>,
    /// Rendered as written; not an entity.
    literal: bool,
    /// A backslash stands before it that is not rendered.
    escaped: bool,
}

impl Run {
    pub fn push(&mut self, text: &str, rendered: &str, source: Range<usize>) {
        let covered = self.pieces.last().is_some_and(|last| last.source.end == source.start);
        let escaped = !covered && text[..source.start].ends_with('\\');
        let literal = text[source.clone()] == *rendered;
        self.pieces.push(Piece { at: self.rendered.len(), source, literal, escaped });
        self.rendered.push_str(rendered);
    }

    pub fn rendered(&self) -> &str {
        &self.rendered
    }

    /// Where a range of the rendered text stands in the source, and what is rendered there: more than was
    /// asked for when an end lies within an entity. The range must not be empty.
    pub fn source(&self, wanted: Range<usize>) -> (Range<usize>, &str) {
        let first = self.piece_at(wanted.start);
        let last = self.piece_at(wanted.end - 1);
        let (mut start, mut from) = (first.source.start, first.at);
        if first.literal {
            start += wanted.start - first.at;
            from = wanted.start;
        }
        if first.escaped && start == first.source.start {
            start -= 1;
        }
        let (end, to) = if last.literal {
            (last.source.start + (wanted.end - last.at), wanted.end)
        } else {
            let next = self.pieces.iter().find(|piece| piece.at > last.at);
            (last.source.end, next.map_or(self.rendered.len(), |piece| piece.at))
        };
        (start..end, &self.rendered[from..to])
    }

    /// Where in the source the character stands that is rendered at `at`, if it stands there as such: not as an
    /// entity, nor with a backslash before it.
    pub fn unescaped(&self, at: usize) -> Option<usize> {
        let piece = self.piece_at(at);
        let escaped = piece.escaped && at == piece.at;
        (piece.literal && !escaped).then(|| piece.source.start + (at - piece.at))
    }

    fn piece_at(&self, rendered: usize) -> &Piece {
        let after = self.pieces.partition_point(|piece| piece.at <= rendered);
        &self.pieces[after - 1]
    }
}
