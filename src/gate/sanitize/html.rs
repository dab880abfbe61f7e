//! Raw HTML as a browser reads it, spread over the pieces of a markdown text.
//!
//! Markdown hands raw HTML through piece by piece; a comment or a quoted attribute that is left open in one
//! piece swallows everything up to a later piece, or to the end. So the pieces are read as one text, and
//! each token knows which part of the source it takes up, all that lies between included.

use std::ops::Range;

/// Marks the border of two pieces. The source has none: it is an invisible character.
const BORDER: u8 = 0;

/// The raw HTML of a text, piece after piece.
#[derive(Default)]
pub(super) struct Pieces {
    text: String,
    /// Where a piece starts in `text`, and where in the source.
    starts: Vec<(usize, usize)>,
    source_end: usize,
}

impl Pieces {
    /// `joined` where the piece is the next line of the block that the last one belongs to.
    pub fn push(&mut self, source: &str, range: Range<usize>, joined: bool) {
        if !joined && !self.text.is_empty() {
            self.starts.push((self.text.len(), range.start));
            self.text.push(BORDER as char);
        }
        self.starts.push((self.text.len(), range.start));
        self.text.push_str(&source[range]);
        self.source_end = source.len();
    }

    fn source_offset(&self, at: usize) -> usize {
        let piece = self.starts.partition_point(|(start, _)| *start <= at);
        let (start, offset) = self.starts[piece.saturating_sub(1)];
        offset + (at - start)
    }

    /// The source between two places of `text`. Past the last byte means to the end of the source.
    fn source_range(&self, range: Range<usize>) -> Range<usize> {
        let start = self.source_offset(range.start);
        if range.end > self.text.len() {
            return start..self.source_end;
        }
        // The end belongs to the piece of the last byte, not to the piece that starts after it.
        let end = if range.end > range.start { self.source_offset(range.end - 1) + 1 } else { start };
        start..end
    }
}

#[derive(Debug, PartialEq)]
pub(super) enum Token {
    /// Text between tags; it lies within one block.
    Text(Range<usize>),
    /// A comment, a declaration, or what browsers take for one.
    Comment(Range<usize>),
    Tag(Tag),
}

#[derive(Debug, PartialEq)]
pub(super) struct Tag {
    pub range: Range<usize>,
    /// Lower case.
    pub name: String,
    pub closing: bool,
    /// It has its `>`.
    pub complete: bool,
    pub attributes: Vec<Attribute>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Attribute {
    /// White space before it included.
    pub range: Range<usize>,
    /// Lower case.
    pub name: String,
    pub value: String,
}

/// All ranges in the tokens are ranges of the source.
pub(super) fn tokens(pieces: &Pieces) -> Vec<Token> {
    let mut reader = Reader { pieces, bytes: pieces.text.as_bytes(), at: 0 };
    let mut tokens = Vec::new();
    while reader.at < reader.bytes.len() {
        reader.next_into(&mut tokens);
    }
    tokens
}

struct Reader<'a> {
    pieces: &'a Pieces,
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn next_into(&mut self, tokens: &mut Vec<Token>) {
        let start = self.at;
        let rest = &self.bytes[start..];
        let letter = |at: usize| rest.get(at).is_some_and(u8::is_ascii_alphabetic);
        if rest.starts_with(b"<!--") {
            self.at = self.comment_end(start + 4);
            tokens.push(Token::Comment(self.pieces.source_range(start..self.at)));
        } else if rest.starts_with(b"<!")
            || rest.starts_with(b"<?")
            || (rest.starts_with(b"</") && !letter(2))
        {
            let opens_piece = start == 0 || self.bytes[start - 1] == BORDER;
            if opens_piece && rest[1] == b'!' && rest.get(2).is_some_and(u8::is_ascii_lowercase) {
                // A declaration to newer readers of markdown, but not to GitHub: only its mark goes.
                self.at = start + 2;
            } else {
                self.at = self.find(start, |b| b == b'>' || b == BORDER);
                self.at += usize::from(self.bytes.get(self.at) == Some(&b'>'));
            }
            tokens.push(Token::Comment(self.pieces.source_range(start..self.at)));
        } else if rest.starts_with(b"</") || (rest.starts_with(b"<") && letter(1)) {
            let tag = self.tag();
            tokens.push(Token::Tag(tag));
        } else if rest[0] == BORDER {
            self.at += 1;
        } else {
            self.at = self.find(start + 1, |b| b == b'<' || b == BORDER);
            tokens.push(Token::Text(self.pieces.source_range(start..self.at)));
        }
    }

    /// The first place from `from` on whose byte fits, or the end.
    fn find(&self, from: usize, fits: impl Fn(u8) -> bool) -> usize {
        self.bytes[from..].iter().position(|b| fits(*b)).map_or(self.bytes.len(), |at| from + at)
    }

    /// One past the text's end when nothing closes the comment.
    fn comment_end(&self, from: usize) -> usize {
        let rest = &self.bytes[from..];
        if rest.starts_with(b">") {
            return from + 1;
        }
        if rest.starts_with(b"->") {
            return from + 2;
        }
        let mut at = 0;
        while let Some(dashes) = rest[at..].windows(2).position(|two| two == b"--") {
            at += dashes + 2;
            // Any number of dashes may stand before the end.
            while rest.get(at) == Some(&b'-') {
                at += 1;
            }
            if rest[at..].starts_with(b">") {
                return from + at + 1;
            }
            if rest[at..].starts_with(b"!>") {
                return from + at + 2;
            }
        }
        self.bytes.len() + 1
    }

    fn tag(&mut self) -> Tag {
        let start = self.at;
        let closing = self.bytes[start + 1] == b'/';
        let name_start = start + 1 + usize::from(closing);
        self.at =
            self.find(name_start, |b| b.is_ascii_whitespace() || matches!(b, b'/' | b'>' | b'<' | BORDER));
        let name = self.pieces.text[name_start..self.at].to_ascii_lowercase();
        let mut attributes = Vec::new();
        let complete = loop {
            let before = self.at;
            if before > self.bytes.len() {
                break false;
            }
            self.at = self.find(before, |b| !b.is_ascii_whitespace() && b != b'/');
            match self.bytes.get(self.at) {
                // A tag within a tag is one to GitHub, though not to browsers: it is looked at for itself.
                None | Some(&BORDER | b'<') => break false,
                Some(b'>') => {
                    self.at += 1;
                    break true;
                }
                Some(_) => attributes.push(self.attribute(before)),
            }
        };
        let range = self.pieces.source_range(start..self.at);
        Tag { range, name, closing, complete, attributes }
    }

    /// `before` is where the white space before it starts. Leaves `at` past the end when a quote stays open.
    fn attribute(&mut self, before: usize) -> Attribute {
        let name_start = self.at;
        let ends = |b: u8| b.is_ascii_whitespace() || matches!(b, b'/' | b'>' | b'<' | b'=' | BORDER);
        self.at = self.find(name_start + 1, ends);
        let name = self.pieces.text[name_start..self.at].to_ascii_lowercase();
        let mut value = String::new();
        let equals = self.find(self.at, |b| !b.is_ascii_whitespace());
        if self.bytes.get(equals) == Some(&b'=') {
            let start = self.find(equals + 1, |b| !b.is_ascii_whitespace());
            match self.bytes.get(start) {
                Some(&quote @ (b'"' | b'\'')) => {
                    let end = self.find(start + 1, |b| b == quote);
                    value = self.pieces.text[start + 1..end].to_owned();
                    self.at = end + 1;
                    // An open quote takes everything; `end + 1` is past the end then.
                }
                _ => {
                    self.at =
                        self.find(start, |b| b.is_ascii_whitespace() || matches!(b, b'>' | b'<' | BORDER));
                    value = self.pieces.text[start..self.at].to_owned();
                }
            }
        }
        Attribute { range: self.pieces.source_range(before..self.at), name, value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pieces: &[&str]) -> Vec<String> {
        let source = pieces.join("~");
        let mut all = Pieces::default();
        let mut at = 0;
        for piece in pieces {
            all.push(&source, at..at + piece.len(), false);
            at += piece.len() + 1;
        }
        let show = |token: Token| match token {
            Token::Text(range) => format!("text {}", &source[range]),
            Token::Comment(range) => format!("comment {}", &source[range]),
            Token::Tag(tag) => {
                let attributes: Vec<_> =
                    tag.attributes.iter().map(|a| format!("{}={}", a.name, a.value)).collect();
                format!("tag {} {} {}", tag.name, attributes.join(","), &source[tag.range])
            }
        };
        tokens(&all).into_iter().map(show).collect()
    }

    #[test]
    fn tags_comments_and_text_are_told_apart() {
        assert_eq!(
            shown(&["a<B x='1>2' y=3 z/>b<!-- c --></B><?php ?><!x>"]),
            [
                "text a",
                "tag b x=1>2,y=3,z= <B x='1>2' y=3 z/>",
                "text b",
                "comment <!-- c -->",
                "tag b  </B>",
                "comment <?php ?>",
                "comment <!x>",
            ]
        );
        assert_eq!(shown(&["<!--> a <!---> b <!-- c --!> d"]).len(), 6);
    }

    #[test]
    fn what_is_left_open_takes_all_up_to_a_later_piece_or_the_end() {
        assert_eq!(shown(&["<b>", "<!-- a", "b --> c"]), ["tag b  <b>", "comment <!-- a~b -->", "text  c"]);
        assert_eq!(shown(&["<!-- a", "b"]), ["comment <!-- a~b"]);
        assert_eq!(shown(&["<b x=\"1", "2\">c"]), ["tag b x=1\u{0}2 <b x=\"1~2\">", "text c"]);
        assert_eq!(shown(&["<b x=\"1", "2"]), ["tag b x=1\u{0}2 <b x=\"1~2"]);
        assert_eq!(shown(&["<b x", "2"]), ["tag b x= <b x", "text 2"]);
    }
}
