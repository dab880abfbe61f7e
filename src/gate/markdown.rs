//! What the gate's markdown readers share. The dialect is GitHub's, as near as the parser comes.

use std::{ops::Range, sync::LazyLock};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use regex::Regex;

pub(crate) fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(
        text,
        Options::ENABLE_TABLES
            | Options::ENABLE_FOOTNOTES
            | Options::ENABLE_STRIKETHROUGH
            | Options::ENABLE_TASKLISTS
            | Options::ENABLE_GFM,
    )
}

/// Whether the event opens or closes a block, or is one, so that no inline text runs across it.
pub(crate) fn is_block_border(event: &Event<'_>) -> bool {
    match event {
        Event::Start(tag) => !matches!(
            tag,
            Tag::Emphasis
                | Tag::Strong
                | Tag::Strikethrough
                | Tag::Superscript
                | Tag::Subscript
                | Tag::Link { .. }
                | Tag::Image { .. }
        ),
        Event::End(tag) => !matches!(
            tag,
            TagEnd::Emphasis
                | TagEnd::Strong
                | TagEnd::Strikethrough
                | TagEnd::Superscript
                | TagEnd::Subscript
                | TagEnd::Link
                | TagEnd::Image
        ),
        Event::Rule | Event::Html(_) => true,
        _ => false,
    }
}

/// A table that GitHub sees and the parser does not, such as one whose head has no bar.
pub(crate) struct UnseenTable {
    /// What follows the row, to the next empty line; empty where another such table has it already.
    pub rows: Range<usize>,
    pub columns: usize,
}

/// All of them, in order.
pub(crate) fn unseen_tables(text: &str) -> Vec<UnseenTable> {
    static ROW: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?m)^[ \t>]*([|:\-][ \t|:\-]*)$")
            .expect("the pattern ships with the program, and tests use it")
    });
    let rows = ROW.captures_iter(text).filter_map(|captures| captures.get(1));
    let marked: Vec<_> =
        rows.filter_map(|row| Some((row, row.start() + row.as_str().find(['|', ':'])?))).collect();
    if marked.is_empty() {
        return Vec::new();
    }
    let mut seen: Vec<Range<usize>> = Vec::new();
    for (event, range) in parser(text).into_offset_iter() {
        if matches!(event, Event::Start(Tag::Table(_) | Tag::CodeBlock(_) | Tag::HtmlBlock)) {
            seen.push(range);
        }
    }
    let mut tables = Vec::new();
    let mut taken = 0;
    for (row, mark) in marked {
        let next = seen.partition_point(|range| range.end <= mark);
        let Some(columns) = columns(row.as_str()) else { continue };
        if seen.get(next).is_some_and(|range| range.contains(&mark)) {
            continue;
        }
        let mut rows = row.end()..row.end();
        if row.start() >= taken {
            let after = text[row.end()..].find('\n').map_or(text.len(), |at| row.end() + at + 1);
            taken = text[after..].find("\n\n").map_or(text.len(), |at| after + at + 1);
            rows = after..taken;
        }
        tables.push(UnseenTable { rows, columns });
    }
    tables
}

/// How many columns a delimiter row makes; `None` when it is none.
fn columns(row: &str) -> Option<usize> {
    let row = row.trim();
    let row = row.strip_prefix('|').unwrap_or(row);
    let row = row.strip_suffix('|').unwrap_or(row);
    let is_cell = |cell: &str| {
        let cell = cell.trim();
        let cell = cell.strip_prefix(':').unwrap_or(cell);
        let dashes = cell.strip_suffix(':').unwrap_or(cell);
        !dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-')
    };
    row.split('|').all(is_cell).then(|| row.split('|').count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_only_github_sees_are_found() {
        let columns = |text: &str| unseen_tables(text).iter().map(|table| table.columns).collect::<Vec<_>>();
        assert_eq!(columns("a\n|-|\nb | c\n\nd"), [1]);
        assert_eq!(columns("> a `\n> :-: | -\n> b"), [2]);
        assert_eq!(columns("|a|\n|-|\n|b|\n"), [0; 0], "the parser sees it too");
        assert_eq!(columns("```\na\n|-|\n```\n\n---\n\n- a\n\n||"), [0; 0]);
        let text = "a\n|-|\nb | c\n\nd";
        assert_eq!(&text[unseen_tables(text)[0].rows.clone()], "b | c\n");
    }
}
