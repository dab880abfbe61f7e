//! The paragraphs of a markdown text.

use std::ops::Range;

use pulldown_cmark::{Event, Tag, TagEnd};

use super::citations::citation_marks;
use crate::gate::markdown;

/// A block of the text, or one item of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paragraph {
    /// As it stands in the source, without white space at its end.
    pub text: String,
    /// Where it stands.
    pub range: Range<usize>,
    pub kind: ParagraphKind,
    /// Numbers of the citations that it refers to, without repetition.
    pub cited: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParagraphKind {
    Prose,
    /// Prose that ends in a colon: what it leads to carries the claim.
    LeadIn,
    /// With all that is nested in it.
    Item,
    Table,
    Quote,
    /// Also a paragraph that is bold as a whole.
    Heading,
    Code,
    /// Rules, raw HTML, footnotes.
    Other,
}

impl Paragraph {
    /// It says something and refers to no citation.
    pub fn is_uncited(&self) -> bool {
        use ParagraphKind::{Item, Prose, Quote, Table};
        matches!(self.kind, Prose | Item | Table | Quote) && self.cited.is_empty()
    }
}

/// Splits a text at its blocks, never within a fence; items of outer lists stand alone.
pub fn paragraphs(text: &str) -> Vec<Paragraph> {
    let mut marks = citation_marks(text).into_iter().peekable();
    let mut paragraphs = Vec::new();
    let mut depth = 0u32;
    // Depth at which the block that is being read was opened.
    let mut open: Option<u32> = None;
    let mut push = |kind: ParagraphKind, range: Range<usize>| {
        let source = text[range.clone()].trim_end();
        let range = range.start..range.start + source.len();
        let mut cited = Vec::new();
        while marks.next_if(|mark| mark.range.end <= range.start).is_some() {}
        while let Some(mark) = marks.next_if(|mark| mark.range.start < range.end) {
            for number in mark.numbers {
                if !cited.contains(&number) {
                    cited.push(number);
                }
            }
        }
        let kind = match kind {
            ParagraphKind::Prose if is_bold(source) => ParagraphKind::Heading,
            ParagraphKind::Prose if source.trim_end_matches(['*', '_']).ends_with(':') => {
                ParagraphKind::LeadIn
            }
            kind => kind,
        };
        paragraphs.push(Paragraph { text: source.to_owned(), range, kind, cited });
    };
    for (event, range) in markdown::parser(text).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if open.is_none() && !matches!(tag, Tag::List(_)) {
                    open = Some(depth);
                    push(kind_of(&tag), range);
                }
                depth += 1;
            }
            Event::End(_) => {
                depth = depth.saturating_sub(1);
                if open == Some(depth) {
                    open = None;
                }
            }
            Event::Rule if open.is_none() => push(ParagraphKind::Other, range),
            _ => {}
        }
    }
    paragraphs
}

fn is_bold(text: &str) -> bool {
    let inner = text.strip_prefix("**").and_then(|rest| rest.strip_suffix("**"));
    inner.is_some_and(|inner| !inner.is_empty() && !inner.contains("**"))
}

/// Whether words can be added at the end of the text, on its last line.
pub fn ends_in_text(text: &str) -> bool {
    let mut ends = false;
    let mut in_block = false;
    for event in markdown::parser(text) {
        match event {
            Event::Start(Tag::CodeBlock(_) | Tag::Table(_) | Tag::HtmlBlock) => in_block = true,
            Event::End(TagEnd::CodeBlock | TagEnd::Table | TagEnd::HtmlBlock) => in_block = false,
            Event::Start(_) | Event::End(_) => continue,
            _ => {}
        }
        ends = !in_block && !matches!(event, Event::End(_) | Event::Rule);
    }
    ends
}

fn kind_of(tag: &Tag<'_>) -> ParagraphKind {
    match tag {
        Tag::Paragraph => ParagraphKind::Prose,
        Tag::Item => ParagraphKind::Item,
        Tag::Heading { .. } => ParagraphKind::Heading,
        Tag::CodeBlock(_) => ParagraphKind::Code,
        Tag::Table(_) => ParagraphKind::Table,
        Tag::BlockQuote(_) => ParagraphKind::Quote,
        _ => ParagraphKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn blocks_and_outer_list_items_are_paragraphs() {
        let text = "First line\nof one [2] [1] [2].\n\nNot cited.\n\nSteps:\n\n- one [3]\n  - nested\n\n    ```\n    fence [9]\n    ```\n- two\n\n\
            ```py\na = b[1]\n\nc\n```\n\n# Heading\n\n> quote\n\n| a |\n|---|\n| b [4] |\n\n---\n**Note:**";
        let shown: String = paragraphs(text)
            .iter()
            .map(|one| format!("{:?} {:?} {:?}\n", one.kind, one.cited, one.text))
            .collect();
        insta::assert_snapshot!(shown, @r##"
        Prose [2, 1] "First line\nof one [2] [1] [2]."
        Prose [] "Not cited."
        LeadIn [] "Steps:"
        Item [3] "- one [3]\n  - nested\n\n    ```\n    fence [9]\n    ```"
        Item [] "- two"
        Code [] "```py\na = b[1]\n\nc\n```"
        Heading [] "# Heading"
        Quote [] "> quote"
        Table [4] "| a |\n|---|\n| b [4] |"
        Other [] "---"
        Heading [] "**Note:**"
        "##);
        let uncited: Vec<_> =
            paragraphs(text).into_iter().filter(Paragraph::is_uncited).map(|one| one.text).collect();
        assert_eq!(uncited, ["Not cited.", "- two", "> quote"]);
    }

    #[test]
    fn words_can_be_added_after_text_only() {
        for yes in ["a", "- a `b`", "- a\n  - b", "> a", "```\na\n```\n\n*b*"] {
            assert!(ends_in_text(yes), "{yes}");
        }
        for no in ["", "```\na\n```", "- a\n\n  ```\n  b\n  ```", "|a|\n|-|\n|b|", "a\n\n---", "<p>a</p>"] {
            assert!(!ends_in_text(no), "{no}");
        }
    }

    #[test]
    fn an_unclosed_fence_is_one_paragraph_to_the_end() {
        let all = paragraphs("a\n\n```\nb\n\nc\n");
        assert_eq!(all.len(), 2);
        assert_eq!(all[1].text, "```\nb\n\nc");
    }

    proptest! {
        #[test]
        fn paragraphs_are_in_order_and_lie_in_the_text(text in "([a-z \n`*>\\[\\]1-]|\n\n|```|- ){0,60}") {
            let mut end = 0;
            for one in paragraphs(&text) {
                prop_assert!(one.range.start >= end && one.range.end <= text.len());
                prop_assert_eq!(&text[one.range.clone()], one.text.as_str());
                end = one.range.end;
            }
        }
    }
}
