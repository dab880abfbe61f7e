//! Secrets that markdown spells in its own way: with a backslash before `_`, as an entity, in two pieces of
//! which one is bold. Readers see them whole, or nearly, so a text that will be rendered is scanned in more
//! readings than its source. Where only such a reading holds a secret, its lines go as a whole: what else
//! stands there may be a part of it.

use std::{ops::Range, sync::LazyLock};

use pulldown_cmark::{CowStr, Event, Tag};
use regex::{Captures, Regex};

use super::{Finding, Scanner, apart};
use crate::gate::{
    markdown::{is_block_border, parser},
    sanitize::is_invisible,
};

/// Taking a line out can change what the next one is; a text that takes more looks than this goes whole.
const MOST_LOOKS: usize = 5;
/// How often what is escaped can have been escaped itself.
const MOST_ESCAPES: usize = 3;

impl Scanner {
    /// As [`Scanner::redact`], for text that is rendered as markdown.
    pub fn redact_markdown(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for _ in 0..MOST_LOOKS {
            let found = self.scan_markdown(&text);
            let Some(first) = found.first() else { return text };
            let mut clean = String::with_capacity(text.len());
            let (mut done, mut kind) = (0, first.kind);
            for finding in found {
                clean.push_str(&text[done..finding.range.start]);
                clean.push_str(&format!("[redacted: {}]", finding.kind));
                (done, kind) = (finding.range.end, kind.min(finding.kind));
            }
            clean.push_str(&text[done..]);
            if clean == text {
                return format!("[redacted: {kind}]\n");
            }
            text = clean;
        }
        match self.scan_markdown(&text).iter().map(|finding| finding.kind).min() {
            Some(kind) => format!("[redacted: {kind}]\n"),
            None => text,
        }
    }

    /// What to replace, in order and apart from each other, on borders of characters.
    fn scan_markdown(&self, text: &str) -> Vec<Finding> {
        let mut found = self.scan(text.as_bytes());
        for finding in &mut found {
            finding.range =
                text.floor_char_boundary(finding.range.start)..text.ceil_char_boundary(finding.range.end);
        }
        let plain: Vec<Range<usize>> = found.iter().map(|finding| finding.range.clone()).collect();
        for reading in readings(text) {
            for Finding { kind, range } in self.scan(reading.text.as_bytes()) {
                let source = reading.source(range);
                if !plain.iter().any(|plain| plain.start <= source.start && source.end <= plain.end) {
                    found.push(Finding { kind, range: lines(text, source) });
                }
            }
        }
        apart(found)
    }
}

/// The lines that hold the range, without the marks that make them a quote, an item, a heading or a fence.
fn lines(text: &str, range: Range<usize>) -> Range<usize> {
    static MARKS: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"^(?:[ \t]|>|[-*+][ \t]|[0-9]{1,9}[.)][ \t]|#{1,6}[ \t]|`{3,}|~{3,})*"));
    let start = text[..range.start].rfind('\n').map_or(0, |at| at + 1);
    let last = range.end.max(range.start + 1).min(text.len()) - 1;
    let last = text.floor_char_boundary(last);
    let end = text[last..].find('\n').map_or(text.len(), |at| last + at);
    let marks = MARKS.find(&text[start..end.max(start)]).map_or(0, |marks| marks.len());
    (start + marks).min(range.start)..end
}

/// A text as somebody reads it, and where in the source each byte of it stands.
#[derive(Default)]
struct Reading {
    text: String,
    places: Vec<Range<usize>>,
}

/// What the text renders as and the text itself, each with fewer and fewer escapes and marks.
fn readings(text: &str) -> Vec<Reading> {
    let mut all = Vec::new();
    for mut reading in [Reading::source_of(text), Reading::rendered(text)] {
        for _ in 0..=MOST_ESCAPES {
            let without_tags = reading.without_tags();
            let next = reading.unescaped();
            all.extend([without_tags.without_marks(), without_tags, reading]);
            reading = next;
        }
    }
    all
}

impl Reading {
    fn source_of(text: &str) -> Self {
        let mut reading = Self::default();
        reading.push_source(text, 0);
        reading
    }

    /// What is shown, a line a block; after it what links point to, which is shown on asking.
    fn rendered(text: &str) -> Self {
        let mut reading = Self::default();
        let mut asides: Vec<(CowStr<'_>, Range<usize>)> = Vec::new();
        for (event, range) in parser(text).into_offset_iter() {
            if is_block_border(&event) {
                let at = if matches!(event, Event::End(_)) { range.end } else { range.start };
                reading.push("\n", at..at);
            }
            match event {
                // Tags are taken out later.
                Event::Text(shown) | Event::Code(shown) | Event::InlineHtml(shown) | Event::Html(shown) => {
                    reading.push_shown(&shown, text, range);
                }
                Event::SoftBreak | Event::HardBreak => reading.push("\n", range.start..range.start),
                Event::Start(Tag::Link { dest_url, title, .. } | Tag::Image { dest_url, title, .. }) => {
                    asides.extend([(dest_url, range.clone()), (title, range)]);
                }
                _ => {}
            }
        }
        for (aside, range) in asides {
            reading.push("\n", range.start..range.start);
            reading.push_shown(&aside, text, range);
        }
        reading
    }

    /// Backslashes, entities and the escapes of URLs resolved once, wherever they stand: a secret that a code
    /// block shows with a backslash in it is no secret either.
    fn unescaped(&self) -> Self {
        static ESCAPE: LazyLock<Regex> = LazyLock::new(|| {
            pattern(
                r"\\([!-/:-@\[-`{-~])|&(#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31};);?|%([2-7][0-9A-Fa-f])",
            )
        });
        self.replaced(&ESCAPE, |found| {
            if let Some(escaped) = found.get(1) {
                return escaped.as_str().to_owned();
            }
            if let Some(digits) = found.get(3) {
                return u8::from_str_radix(digits.as_str(), 16)
                    .map_or_else(|_| found[0].to_owned(), |byte| char::from(byte).to_string());
            }
            let entity = format!("&{};", found[2].trim_end_matches(';'));
            // A letter before it, since a line that starts with what it stands for could be a block's mark.
            let shown = parser(&format!("x{entity}")).fold(String::new(), |mut shown, event| {
                if let Event::Text(text) = event {
                    shown.push_str(&text);
                }
                shown
            });
            shown[1..].to_owned()
        })
    }

    fn without_tags(&self) -> Self {
        static TAG: LazyLock<Regex> = LazyLock::new(|| pattern(r"<!--(?s:.*?)-->|</?[A-Za-z][^<>]{0,400}>"));
        self.replaced(&TAG, |_| String::new())
    }

    /// Without the marks of emphasis and code, whatever the parser takes them for.
    fn without_marks(&self) -> Self {
        static MARK: LazyLock<Regex> = LazyLock::new(|| pattern(r"[*`]|~~"));
        self.replaced(&MARK, |_| String::new())
    }

    fn replaced(&self, what: &Regex, by: impl Fn(&Captures<'_>) -> String) -> Self {
        let mut reading = Self::default();
        let mut done = 0;
        for captures in what.captures_iter(&self.text) {
            let Some(found) = captures.get(0) else { continue };
            reading.copy(self, done..found.start());
            reading.push(&by(&captures), self.source(found.range()));
            done = found.end();
        }
        reading.copy(self, done..self.text.len());
        reading
    }

    fn copy(&mut self, from: &Self, range: Range<usize>) {
        self.text.push_str(&from.text[range.clone()]);
        self.places.extend_from_slice(&from.places[range]);
    }

    /// Text that stands in the source as it is.
    fn push_source(&mut self, text: &str, start: usize) {
        for (at, char) in text.char_indices() {
            let at = start + at;
            self.push_char(char, at..at + char.len_utf8());
        }
    }

    /// What `range` of the source shows, which often stands there as it is.
    fn push_shown(&mut self, shown: &str, source: &str, range: Range<usize>) {
        match source[range.clone()].find(shown) {
            Some(at) => self.push_source(shown, range.start + at),
            None => self.push(shown, range),
        }
    }

    fn push(&mut self, text: &str, place: Range<usize>) {
        for char in text.chars() {
            self.push_char(char, place.clone());
        }
    }

    fn push_char(&mut self, char: char, place: Range<usize>) {
        if !is_invisible(char) {
            self.text.push(char);
            self.places.extend(std::iter::repeat_n(place, char.len_utf8()));
        }
    }

    fn source(&self, range: Range<usize>) -> Range<usize> {
        let places = &self.places[range];
        // Links come after the text that they stand in, so places are not in order.
        let start = places.iter().map(|place| place.start).min().unwrap_or(0);
        start..places.iter().map(|place| place.end).max().unwrap_or(start)
    }
}

fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern ships with the program, and tests use it")
}
