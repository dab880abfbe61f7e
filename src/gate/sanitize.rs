//! S-05: what a model reads of an issue is what people see of it.
//!
//! Text on GitHub can hold words that are rendered nowhere: comments, alternative texts, titles, attributes,
//! hidden elements, definitions that nothing refers to, characters without a shape. They come out here, and
//! are counted. Inside code only invisible characters do.
//!
//! Taking one thing out can make another appear, so looks are repeated until one finds nothing: the result
//! is stable by construction. A text that is made to need many looks is flattened instead, which takes the
//! characters that all markup needs; so the time is bounded.

mod hidden;
mod html;
mod invisible;
mod pass;

use std::fmt;

use pulldown_cmark::{Event, Tag, TagEnd};
use serde::{Deserialize, Serialize};

use super::markdown;

pub(crate) use invisible::is_invisible;

/// Looks before a text is flattened. People's texts need three at most.
const MAX_LOOKS: usize = 12;

/// Text without hidden parts, and what was taken out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sanitized {
    pub text: String,
    pub removed: Removed,
}

/// How many hidden things of each kind were taken out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// Characters without a shape.
    pub invisible: usize,
    /// HTML comments and declarations.
    pub comments: usize,
    /// Alternative texts of images.
    pub alt_texts: usize,
    /// Titles of links and images, and what stands after a code fence but is no language.
    pub titles: usize,
    /// Attributes of HTML elements.
    pub attributes: usize,
    /// HTML elements that are not shown, and tags that GitHub does not know.
    pub elements: usize,
    /// Entities of invisible characters.
    pub entities: usize,
    /// Link and footnote definitions that nothing refers to.
    pub definitions: usize,
    /// Table cells beyond the last column.
    pub cells: usize,
    /// The text was made to hide things in one another, and lost all characters that markup needs.
    pub flattened: bool,
}

impl Removed {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn add(&mut self, other: Self) {
        self.invisible += other.invisible;
        self.comments += other.comments;
        self.alt_texts += other.alt_texts;
        self.titles += other.titles;
        self.attributes += other.attributes;
        self.elements += other.elements;
        self.entities += other.entities;
        self.definitions += other.definitions;
        self.cells += other.cells;
        self.flattened |= other.flattened;
    }
}

/// For people: `2 HTML comments, 1 title`, or `nothing`.
impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            (self.invisible, "invisible character"),
            (self.comments, "HTML comment"),
            (self.alt_texts, "alternative text"),
            (self.titles, "title"),
            (self.attributes, "HTML attribute"),
            (self.elements, "hidden HTML element"),
            (self.entities, "invisible entity"),
            (self.definitions, "unused definition"),
            (self.cells, "hidden table cell"),
        ];
        let mut parts: Vec<String> = kinds
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, kind)| match (count, kind.strip_suffix('y')) {
                (1, _) => format!("1 {kind}"),
                (_, Some(stem)) => format!("{count} {stem}ies"),
                (_, None) => format!("{count} {kind}s"),
            })
            .collect();
        if self.flattened {
            parts.push("all markup".to_owned());
        }
        f.write_str(if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }.as_str())
    }
}

/// Takes out what is hidden. Idempotent; never panics; linear in the length of the text.
pub fn sanitize(text: &str) -> Sanitized {
    let (mut text, invisible) = invisible::strip(text);
    let mut removed = Removed { invisible, ..Removed::default() };
    for _ in 0..MAX_LOOKS {
        let found = pass::look(&text);
        if found.edits.is_empty() {
            return Sanitized { text, removed };
        }
        text = found.edits.apply(&text);
        removed.add(found.removed);
    }
    text.retain(|c| !"<&[`~|".contains(c));
    removed.flattened = true;
    Sanitized { text, removed }
}

impl Sanitized {
    /// Whether anything is left to read: letters or digits outside images.
    pub fn has_words(&self) -> bool {
        let worded = |text: &str| text.contains(char::is_alphanumeric);
        let mut pieces = html::Pieces::default();
        let mut images = 0;
        for (event, range) in markdown::parser(&self.text).into_offset_iter() {
            match event {
                Event::Start(Tag::Image { .. }) => images += 1,
                Event::End(TagEnd::Image) => images -= 1,
                Event::Text(text) | Event::Code(text) if images == 0 && worded(&text) => return true,
                Event::Html(_) => pieces.push(&self.text, range, false),
                _ => {}
            }
        }
        html::tokens(&pieces)
            .iter()
            .any(|token| matches!(token, html::Token::Text(range) if worded(&self.text[range.clone()])))
    }
}

#[cfg(test)]
mod tests;
