//! Keeps a text within GitHub's limit by leaving out whole parts of it, never by cutting into one.

use pulldown_cmark::Event;

use crate::gate::markdown::parser;

/// Most characters of a comment or a pull request's body. GitHub refuses above 65,536.
pub const MAX_CHARS: usize = 60_000;

/// A part that is kept or left out as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Blocks of markdown.
    Text(String),
    /// What follows is folded under this summary, up to the next [`Piece::Close`].
    Open(String),
    Close,
}

impl Piece {
    fn markdown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Open(summary) => format!("<details>\n<summary>{summary}</summary>"),
            Self::Close => CLOSE.to_owned(),
        }
    }
}

const CLOSE: &str = "</details>";
const BETWEEN: &str = "\n\n";

/// The top-level blocks of a markdown text that can stand anywhere.
pub fn blocks(text: &str) -> Vec<Piece> {
    let mut blocks = Vec::new();
    let mut depth = 0;
    for (event, range) in parser(text).into_offset_iter() {
        if depth == 0 {
            // An indented block begins with the spaces that make it one.
            let start = text[..range.start].rfind('\n').map_or(0, |at| at + 1);
            blocks.push(Piece::Text(text[start..range.end].trim_end().to_owned()));
        }
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            _ => {}
        }
    }
    blocks
}

/// As GitHub may count at worst: a character of four bytes counts twice.
pub fn length(text: &str) -> usize {
    text.encode_utf16().count()
}

pub fn join<'a>(pieces: impl IntoIterator<Item = &'a Piece>) -> String {
    pieces.into_iter().map(Piece::markdown).collect::<Vec<_>>().join(BETWEEN)
}

/// How many of the pieces, from the first, fit into `room` characters, the ends of what they leave open
/// included. A fold that would be empty is not begun.
pub fn fitting(pieces: &[Piece], room: usize) -> usize {
    let (mut used, mut open, mut fits) = (0, 0_usize, 0);
    for (at, piece) in pieces.iter().enumerate() {
        used += length(&piece.markdown()) + BETWEEN.len();
        match piece {
            Piece::Open(_) => open += 1,
            Piece::Close => open = open.saturating_sub(1),
            Piece::Text(_) => {}
        }
        if used + open * (CLOSE.len() + BETWEEN.len()) > room {
            break;
        }
        if !matches!(piece, Piece::Open(_)) {
            fits = at + 1;
        }
    }
    fits
}

/// The first pieces, and an end for each fold among them that is left open.
pub fn closed(pieces: &[Piece]) -> Vec<Piece> {
    let opened = pieces.iter().filter(|piece| matches!(piece, Piece::Open(_))).count();
    let closed = pieces.iter().filter(|piece| matches!(piece, Piece::Close)).count();
    let missing = std::iter::repeat_n(Piece::Close, opened.saturating_sub(closed));
    pieces.iter().cloned().chain(missing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(length: usize) -> Piece {
        Piece::Text("x".repeat(length))
    }

    #[test]
    fn case_16_whole_parts_are_left_out_and_folds_stay_balanced() {
        let pieces = [text(10), Piece::Open("more".into()), text(10), text(10), Piece::Close, text(10)];
        let whole = length(&join(&pieces)) + BETWEEN.len();
        assert_eq!(fitting(&pieces, whole), 6);
        assert_eq!(fitting(&pieces, whole - 1), 5);
        for room in 0..whole {
            let kept = closed(&pieces[..fitting(&pieces, room)]);
            let joined = join(&kept);
            assert!(length(&joined) <= room, "{room}: {joined}");
            assert_eq!(joined.matches("<details>").count(), joined.matches("</details>").count());
            assert!(!matches!(kept.as_slice(), [.., Piece::Open(_), Piece::Close]), "{room}: {joined}");
        }
    }

    #[test]
    fn blocks_are_whole() {
        let text = "a\nb\n\n- c\n\n  ```\n  d\n  ```\n- e\n\n    f\n\n---\n\n    g\n";
        let blocks = blocks(text);
        assert_eq!(blocks.len(), 4);
        assert_eq!(join(&blocks), text.trim_end());
    }

    #[test]
    fn characters_are_counted_at_their_worst() {
        assert_eq!(length("aé🦀"), 4);
    }
}
