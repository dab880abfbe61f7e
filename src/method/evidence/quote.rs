//! Where a quote stands in a file, white space folded.

/// A quote, folded.
pub(super) struct Quote(String);

/// Fewest characters in a quote that are not space, nor stand for bytes that are no text.
const MIN_CHARS: usize = 12;
/// Of longer lines, in bytes, only the quote is shown, on one line.
const MAX_SHOWN_LINE: usize = 1_000;

impl Quote {
    /// `None` for a quote that is too short to identify a place.
    pub fn parse(text: &str) -> Option<Self> {
        let solid = text.chars().filter(|c| !c.is_whitespace() && *c != '\u{FFFD}').count();
        (solid >= MIN_CHARS).then(|| Self(text.split_whitespace().collect::<Vec<_>>().join(" ")))
    }

    /// First and last of these lines, counted from 1, between which it first stands as a whole.
    pub fn place(&self, lines: &[&str]) -> Option<(u32, u32)> {
        self.places(lines, u32::MAX).first().copied()
    }

    /// What those of `lines` say where it stands: whole lines, as the file has them. How a model broke, indented
    /// and cut them could change what they mean, and is never shown.
    pub fn own_text(&self, lines: &[&str], (first, last): (u32, u32)) -> String {
        let own = &lines[first as usize - 1..last as usize];
        if own.iter().any(|line| line.len() > MAX_SHOWN_LINE) {
            return self.0.clone();
        }
        own.join("\n")
    }

    /// The first two places where it stands, as first and last lines counted from 1: whether there is exactly
    /// one is all that matters. Of the occurrences that begin on one line the first counts.
    pub fn places(&self, lines: &[&str], longest: u32) -> Vec<(u32, u32)> {
        let folded = Folded::of(lines);
        let mut places = Vec::new();
        let mut from = 0;
        while let Some(found) = folded.text[from..].find(&self.0).filter(|_| places.len() < 2) {
            let start = from + found;
            let place = (folded.line_at(start), folded.line_at(start + self.0.len() - 1));
            if place.1 - place.0 < longest {
                places.push(place);
            }
            from = folded.start_after(place.0);
        }
        places
    }
}

/// Lines as one text, each run of white space in it one space.
struct Folded {
    text: String,
    /// Byte offset where each line with words begins, and its number from 1.
    lines: Vec<(usize, u32)>,
}

impl Folded {
    fn of(lines: &[&str]) -> Self {
        let mut folded = Self { text: String::new(), lines: Vec::new() };
        for (number, line) in (1u32..).zip(lines) {
            let mut words = line.split_whitespace().peekable();
            if words.peek().is_none() {
                continue;
            }
            if !folded.text.is_empty() {
                folded.text.push(' ');
            }
            folded.lines.push((folded.text.len(), number));
            folded.text.push_str(&words.collect::<Vec<_>>().join(" "));
        }
        folded
    }

    /// The line of a byte of a word.
    fn line_at(&self, offset: usize) -> u32 {
        self.lines[self.lines.partition_point(|(start, _)| *start <= offset) - 1].1
    }

    /// Where the next line with words begins.
    fn start_after(&self, line: u32) -> usize {
        let next = self.lines.get(self.lines.partition_point(|(_, number)| *number <= line));
        next.map_or(self.text.len(), |(start, _)| *start)
    }
}
