//! One look at a text: what in it is hidden, as edits that take it out.

use std::{collections::HashSet, ops::Range};

use pulldown_cmark::{CodeBlockKind, Event, LinkType, Tag, TagEnd};

use super::{
    Removed, hidden,
    html::{self, Pieces, Token},
    invisible,
};
use crate::gate::{
    edits::Edits,
    markdown::{self, is_block_border},
};

/// What one look found. Empty edits mean that nothing hidden is left.
#[derive(Default)]
pub(super) struct Pass {
    pub edits: Edits,
    pub removed: Removed,
}

/// `text` has no invisible characters.
pub(super) fn look(text: &str) -> Pass {
    let mut pass = Pass::default();
    let parser = markdown::parser(text);
    let definitions: Vec<Definition> = parser
        .reference_definitions()
        .iter()
        .map(|(label, definition)| Definition {
            key: label.to_lowercase(),
            span: definition.span.clone(),
            plain: format!("[{label}]: {}", escaped(&definition.dest)),
            titled: definition.title.is_some(),
        })
        .collect();
    let mut walk = Walk {
        text,
        pass: &mut pass,
        outline: Outline::default(),
        links: Vec::new(),
        after_html: false,
        cells_end: 0,
    };
    for (event, range) in parser.into_offset_iter() {
        walk.event(event, range);
    }
    let mut outline = walk.outline;
    outline.close_run();
    let tokens = html::tokens(&outline.html);
    hidden::markup(text, &tokens, &mut pass);
    let markup = tokens.iter().filter_map(|token| match token {
        Token::Text(_) => None,
        Token::Comment(range) => Some(range),
        Token::Tag(tag) => Some(&tag.range),
    });
    let holes = merged(outline.code.iter().chain(markup).cloned().collect());
    let texts = tokens.iter().filter_map(|token| match token {
        Token::Text(range) => Some(range),
        _ => None,
    });
    for run in outline.runs.iter().chain(texts) {
        hidden::comment_openers(text, run.clone(), &holes, &mut pass);
    }
    outline.definitions(text, &definitions, &mut pass);
    outline.entities(text, &mut pass);
    for table in markdown::unseen_tables(text) {
        hidden::cells(text, table.rows, table.columns, &mut pass);
    }
    pass
}

/// In order, those that touch or overlap made one.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

struct Definition {
    /// Labels are compared without case.
    key: String,
    span: Range<usize>,
    /// The definition without a title.
    plain: String,
    titled: bool,
}

/// Where what is, in source ranges; filled while the text is walked through.
#[derive(Default)]
struct Outline {
    /// Code spans and blocks, delimiters included; in order.
    code: Vec<Range<usize>>,
    /// Inline text without a block border in it.
    runs: Vec<Range<usize>>,
    run: Option<Range<usize>>,
    /// What is shown; lines that nothing of this touches hold definitions.
    shown: Vec<Range<usize>>,
    html: Pieces,
    footnotes: Vec<(String, Range<usize>)>,
    /// Labels of footnotes and definitions that the text refers to.
    used: HashSet<String>,
    used_footnotes: HashSet<String>,
}

impl Outline {
    fn close_run(&mut self) {
        self.runs.extend(self.run.take());
    }

    fn extend_run(&mut self, range: &Range<usize>) {
        let run = self.run.get_or_insert(range.clone());
        run.start = run.start.min(range.start);
        run.end = run.end.max(range.end);
    }

    /// Definitions are never shown: unused and doubled ones go, the others lose their titles.
    fn definitions(&self, text: &str, definitions: &[Definition], pass: &mut Pass) {
        let mut kept: Vec<Range<usize>> = Vec::new();
        for definition in definitions.iter().filter(|one| self.used.contains(&one.key)) {
            if definition.titled {
                pass.removed.titles += 1;
                pass.edits.replace(definition.span.clone(), definition.plain.clone());
            }
            kept.push(definition.span.clone());
        }
        for (label, range) in &self.footnotes {
            if !self.used_footnotes.contains(label) {
                pass.removed.definitions += 1;
                pass.edits.remove(range.clone());
            }
        }
        let mut shown: Vec<Range<usize>> = self.shown.iter().cloned().chain(kept).collect();
        shown.sort_by_key(|range| range.start);
        let (mut next, mut end_of_shown, mut at) = (0, 0, 0);
        for line in text.split_inclusive('\n') {
            let range = at..at + line.trim_end().len();
            at += line.len();
            while shown.get(next).is_some_and(|one| one.start < range.end) {
                end_of_shown = end_of_shown.max(shown[next].end);
                next += 1;
            }
            // Past the markers of quotes and list items.
            let marker = |c: char| c.is_whitespace() || c.is_ascii_digit() || ">-+*.)".contains(c);
            let words = range.start + (line.len() - line.trim_start_matches(marker).len());
            if end_of_shown <= range.start && words < range.end {
                pass.removed.definitions += 1;
                pass.edits.remove(words..range.end);
            }
        }
    }

    /// Entities of invisible characters, outside code.
    fn entities(&self, text: &str, pass: &mut Pass) {
        let mut code = self.code.iter().peekable();
        for (at, _) in text.match_indices('&') {
            while code.next_if(|range| range.end <= at).is_some() {}
            if code.peek().is_some_and(|range| range.contains(&at)) {
                continue;
            }
            if let Some((length, c)) = invisible::entity(&text[at..])
                && invisible::is_invisible(c)
            {
                pass.removed.entities += 1;
                pass.edits.remove(at..at + length);
            }
        }
    }
}

struct Walk<'a> {
    text: &'a str,
    pass: &'a mut Pass,
    outline: Outline,
    links: Vec<OpenLink>,
    /// The last event was raw HTML of a block.
    after_html: bool,
    /// Where the last table cell ended.
    cells_end: usize,
}

struct OpenLink {
    /// Where its text ends, as far as seen.
    inner_end: usize,
    /// The destination of an inline link that has a title.
    titled: Option<String>,
}

impl Walk<'_> {
    fn event(&mut self, event: Event<'_>, range: Range<usize>) {
        if is_block_border(&event) {
            self.outline.close_run();
        } else if !matches!(event, Event::Start(_) | Event::End(_)) {
            self.outline.extend_run(&range);
            self.outline.shown.push(range.clone());
        }
        if !matches!(event, Event::End(TagEnd::Link))
            && let Some(link) = self.links.last_mut()
        {
            link.inner_end = range.end.max(link.inner_end);
        }
        let joined = std::mem::replace(&mut self.after_html, matches!(event, Event::Html(_)));
        match event {
            Event::Start(tag) => self.start(tag, range),
            Event::End(TagEnd::Link) => self.link_end(&range),
            Event::End(TagEnd::TableCell) => self.cells_end = range.end,
            Event::End(TagEnd::TableRow) => self.row_end(&range),
            Event::FootnoteReference(label) => {
                self.outline.used_footnotes.insert(label.to_lowercase());
            }
            Event::Code(_) => self.outline.code.push(range),
            Event::Rule => self.outline.shown.push(range),
            Event::Html(_) => {
                self.outline.html.push(self.text, range.clone(), joined);
                self.outline.shown.push(range);
            }
            Event::InlineHtml(_) => self.outline.html.push(self.text, range, false),
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>, range: Range<usize>) {
        match tag {
            Tag::CodeBlock(kind) => {
                if matches!(&kind, CodeBlockKind::Fenced(info) if !is_language(info.trim())) {
                    self.shorten_info(&range);
                }
                self.outline.code.push(range.clone());
                self.outline.shown.push(range);
            }
            Tag::Heading { .. } | Tag::Table(_) | Tag::Paragraph => self.outline.shown.push(range),
            // Their first line is a mark that counts as shown.
            Tag::BlockQuote(Some(_)) => self.outline.shown.push(range.start..range.start + 1),
            Tag::FootnoteDefinition(label) => {
                self.outline.shown.push(range.start..range.start + 1);
                self.outline.footnotes.push((label.to_lowercase(), range));
            }
            Tag::Image { link_type, dest_url, title, id } => {
                self.outline.used.insert(id.to_lowercase());
                self.image(range, link_type, &dest_url, &title);
            }
            Tag::Link { link_type, dest_url, title, id } => {
                self.outline.used.insert(id.to_lowercase());
                let titled = link_type == LinkType::Inline && !title.is_empty();
                self.links.push(OpenLink {
                    inner_end: range.start + 1,
                    titled: titled.then(|| escaped(&dest_url)),
                });
            }
            _ => {}
        }
    }

    /// What stands after a fence is shown nowhere: only the name of a language stays.
    fn shorten_info(&mut self, block: &Range<usize>) {
        let first_line = self.text[block.clone()].lines().next().unwrap_or_default();
        let info = first_line.trim_start_matches(['`', '~', ' ', '\t']);
        let start = block.start + (first_line.len() - info.len());
        let word = info.split_whitespace().next().filter(|word| is_language(word)).unwrap_or_default();
        if start + word.len() < block.start + first_line.len() {
            self.pass.removed.titles += 1;
            self.pass.edits.remove(start + word.len()..block.start + first_line.len());
        }
    }

    /// An image is its destination: the alternative text and the title are shown only to some.
    fn image(&mut self, range: Range<usize>, link_type: LinkType, destination: &str, title: &str) {
        let has_alt = link_type != LinkType::Inline || !self.text[range.clone()].starts_with("![](");
        self.pass.removed.alt_texts += usize::from(has_alt);
        self.pass.removed.titles += usize::from(!title.is_empty());
        if has_alt || !title.is_empty() {
            self.pass.edits.replace(range, format!("![]({})", escaped(destination)));
        }
    }

    fn link_end(&mut self, range: &Range<usize>) {
        let Some(link) = self.links.pop() else { return };
        if let Some(destination) = link.titled
            && let Some(close) = self.text[link.inner_end..range.end].find(']')
        {
            self.pass.removed.titles += 1;
            self.pass.edits.replace(link.inner_end + close..range.end, format!("]({destination})"));
        }
    }

    /// Cells beyond the head's are not shown.
    fn row_end(&mut self, row: &Range<usize>) {
        let end = row.start + self.text[row.clone()].trim_end().len();
        if self.cells_end < end
            && self.text[self.cells_end..end].contains(|c: char| c != '|' && !c.is_whitespace())
        {
            self.pass.removed.cells += 1;
            self.pass.edits.replace(self.cells_end..end, "|");
        }
    }
}

/// `rust`, `c++`, `objective-c`, and nothing at all.
fn is_language(word: &str) -> bool {
    word.len() <= 20 && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-#._".contains(&byte))
}

/// The destination as it can stand in any markdown.
fn escaped(destination: &str) -> String {
    let mut result = String::with_capacity(destination.len());
    for (at, byte) in destination.bytes().enumerate() {
        if byte == b'&' {
            let word =
                destination[at + 1..].trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '#');
            result.push_str(if word.starts_with(';') { "&amp;" } else { "&" });
        } else if byte.is_ascii_alphanumeric() || b"-._~:/?#@!$'*+,;=%".contains(&byte) {
            result.push(byte as char);
        } else {
            result.push_str(&format!("%{byte:02X}"));
        }
    }
    if result.is_empty() { "<>".to_owned() } else { result }
}
