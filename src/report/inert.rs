//! S-34: what a model wrote does nothing on GitHub but be read.
//!
//! Outside code: mentions, references to issues, bare URLs, e-mail addresses and commands to bots become code
//! spans, which GitHub leaves alone; links go unless they lead into the repository, images go, HTML becomes
//! text, definitions that could give other text a meaning do too, headings sink below ours. Code stays as it
//! is, but a fence that was left open is closed.
//!
//! GitHub looks for mentions and references in the text that it renders, so the search is for rendered text
//! and not for source: `&#64;` and `\@` are `@` here too.
//!
//! GitHub's parser is another one than ours, and edits can make markup of what was none. So characters that are
//! text, but might be read as markup, are escaped; and looks are repeated until one finds nothing: the result is
//! stable by construction, and the look that found nothing is the proof that nothing is left. A text that is
//! made to need many looks becomes one code block.

mod run;
mod tokens;

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, LinkType, Tag, TagEnd};

use crate::gate::{
    edits::Edits,
    markdown::{is_block_border, parser},
};

use super::{
    fit::{Piece, blocks},
    markdown::{code_span, fence, visible},
    words::cut,
};
use run::Run;

/// Looks before a text becomes a code block. What models write needs three at most.
const MAX_LOOKS: usize = 12;
/// Longest destination or alternative text that is shown, in characters.
const MAX_SHOWN_CHARS: usize = 200;
/// Headings of a text stand at this level or below.
const HEADING: &str = "#####";

/// Where links may lead.
#[derive(Debug, Clone, Default)]
pub struct Links(Option<url::Url>);

impl Links {
    /// Nowhere.
    pub fn none() -> Self {
        Self(None)
    }

    /// Below this URL, which ends with a slash.
    pub fn below(base: &str) -> Self {
        Self(url::Url::parse(base).ok().filter(|url| url.path().ends_with('/')))
    }

    fn allow(&self, target: &str) -> bool {
        // Parsed, so that `..` and user names cannot lead elsewhere.
        let (Some(base), Ok(target)) = (&self.0, url::Url::parse(target)) else { return false };
        target.origin() == base.origin()
            && target.username().is_empty()
            && target.password().is_none()
            && target.path().starts_with(base.path())
    }
}

/// Markdown that can stand between blank lines anywhere in a comment. Idempotent; never panics; linear in the
/// length of the text.
pub fn inert(text: &str, links: &Links) -> String {
    let mut text = with_plain_fences(&visible(text)).trim_matches('\n').trim_end().to_owned();
    for _ in 0..MAX_LOOKS {
        let edits = Look::at(&text, links);
        if edits.is_empty() {
            return text;
        }
        text = edits.apply(&text).trim_matches('\n').trim_end().to_owned();
    }
    fence(&text, "")
}

/// Not every parser takes a fence for the end of a block when a tab stands after it.
fn with_plain_fences(text: &str) -> String {
    fn plain(line: &str) -> &str {
        let trimmed = line.trim_end();
        if trimmed.ends_with("```") || trimmed.ends_with("~~~") { trimmed } else { line }
    }
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

/// The blocks of a text that was inert before something was added to it. Each of them is inert, also apart from
/// the others; where that cannot be, the text becomes one code block.
pub fn inert_blocks(text: &str, links: &Links) -> Vec<Piece> {
    let blocks = blocks(text);
    let is_inert = |block: &Piece| matches!(block, Piece::Text(text) if inert(text, links) == *text);
    if blocks.iter().all(is_inert) { blocks } else { vec![Piece::Text(fence(text, ""))] }
}

/// As [`inert`], for one line of text in a heading, a list item or a sentence; white space is folded.
pub fn inert_line(text: &str, links: &Links) -> String {
    let line = visible(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let inert = inert(&line, links);
    if line.is_empty() || is_one_paragraph(&line) && is_one_paragraph(&inert) {
        inert
    } else {
        code_span(&line)
    }
}

/// Whether GitHub shows a code block of this language as a formula, a diagram or a map, which can show anything.
fn is_drawn(language: &str) -> bool {
    let language = language.split([' ', ',', '{']).next().unwrap_or_default().to_ascii_lowercase();
    ["math", "mermaid", "geojson", "topojson", "stl"].contains(&language.as_str())
}

fn is_one_paragraph(text: &str) -> bool {
    let mut blocks = parser(text).filter(is_block_border);
    matches!(blocks.next(), Some(Event::Start(Tag::Paragraph))) && blocks.count() == 1
}

/// One look at a text.
struct Look<'a> {
    text: &'a str,
    links: &'a Links,
    edits: Edits,
    /// Text since the last event of another kind.
    run: Run,
    /// Whether `run` begins a line.
    at_line_start: bool,
    open_links: Vec<OpenLink>,
    images: usize,
    /// In a code block or an allowed `<https://…>`, whose text is left alone.
    in_verbatim: bool,
}

struct OpenLink {
    /// Set on a link that must go.
    destination: Option<String>,
    /// Where its text ends, as far as seen.
    text_end: usize,
}

impl<'a> Look<'a> {
    fn at(text: &'a str, links: &'a Links) -> Edits {
        let mut look = Self {
            text,
            links,
            edits: Edits::default(),
            run: Run::default(),
            at_line_start: true,
            open_links: Vec::new(),
            images: 0,
            in_verbatim: false,
        };
        let events = parser(text).into_offset_iter();
        for (_, definition) in events.reference_definitions().iter() {
            look.edits.insert(definition.span.start, "\\");
        }
        for (event, range) in events {
            look.event(event, range);
        }
        look.end_run();
        if look.edits.is_empty()
            && let Some(end) = missing_end(text)
        {
            look.edits.insert(text.len(), format!("\n{end}"));
        }
        look.edits
    }

    fn event(&mut self, event: Event<'_>, range: Range<usize>) {
        if !matches!(event, Event::End(TagEnd::Link))
            && let Some(link) = self.open_links.last_mut()
        {
            link.text_end = link.text_end.max(range.end);
        }
        if let Event::Text(text) = &event {
            if self.images == 0 && !self.in_verbatim {
                self.run.push(self.text, text, range);
            }
            return;
        }
        self.end_run();
        self.at_line_start = is_block_border(&event) || matches!(event, Event::SoftBreak | Event::HardBreak);
        match event {
            Event::Start(tag) => self.start(tag, range),
            Event::End(TagEnd::Link) => {
                self.in_verbatim = false;
                self.end_link(&range);
            }
            Event::End(TagEnd::Image) => self.images -= 1,
            Event::End(TagEnd::CodeBlock) => self.in_verbatim = false,
            // GitHub draws it as a box that somebody has ticked.
            Event::TaskListMarker(_) => self.edits.insert(range.start, "\\"),
            Event::Html(_) => self.escape_html(range),
            Event::InlineHtml(tag) if !(is_line_break(&tag) && self.stands_in_line(&range)) => {
                self.escape_html(range);
            }
            Event::Code(code) if begins_a_line_with_a_command(&self.text[range.clone()]) => {
                self.put_code(range, "", &code, "");
            }
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>, range: Range<usize>) {
        match tag {
            Tag::CodeBlock(kind) => {
                self.in_verbatim = true;
                if matches!(kind, CodeBlockKind::Fenced(language) if is_drawn(&language)) {
                    self.show_as_text(range);
                }
            }
            Tag::Heading { .. } => self.lower_heading(range),
            // It would stand at the end of the comment, far from its text.
            Tag::FootnoteDefinition(_) => self.edits.insert(range.start, "\\"),
            // GitHub makes an alert box of it, with a heading of its own.
            Tag::BlockQuote(Some(_)) => {
                if let Some(at) = self.text[range.clone()].find("[!") {
                    self.edits.insert(range.start + at, "\\");
                }
            }
            Tag::Image { .. } => {
                self.images += 1;
                if self.images == 1 {
                    self.replace_image(range);
                }
            }
            Tag::Link { link_type, dest_url, title, .. } => {
                let allowed = title.is_empty() && self.links.allow(&dest_url);
                let mut destination = None;
                match link_type {
                    LinkType::Autolink if allowed => self.in_verbatim = true,
                    LinkType::Autolink | LinkType::Email => {
                        let target = self.text[range.clone()].trim_matches(['<', '>']).to_owned();
                        self.put_code(range.clone(), "", &shown_target(&target), "");
                    }
                    LinkType::Inline if !allowed => destination = Some(dest_url.to_string()),
                    // Those by reference end with their definition.
                    _ => {}
                }
                self.open_links.push(OpenLink { destination, text_end: range.start + 1 });
            }
            _ => {}
        }
    }

    fn replace_image(&mut self, range: Range<usize>) {
        let alt = alternative_text(&self.text[range.clone()]);
        if alt.is_empty() {
            self.edits.replace(range, "(image left out)");
        } else {
            self.put_code(range, "(image ", &alt, " left out)");
        }
    }

    /// `[text](target)` becomes ``text (`target`)``; a text that is a number stays a reference to a citation.
    fn end_link(&mut self, range: &Range<usize>) {
        let Some(OpenLink { destination: Some(destination), text_end }) = self.open_links.pop() else {
            return;
        };
        let Some(close) = self.text[text_end..range.end].find(']').map(|at| text_end + at) else {
            self.edits.insert(range.start, "\\");
            return;
        };
        let text = &self.text[range.start + 1..close];
        let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !is_number {
            self.edits.remove(range.start..range.start + 1);
        }
        let bracket = if is_number { "]" } else { "" };
        if destination.is_empty() || destination.starts_with('#') || destination == text {
            self.edits.replace(close..range.end, bracket);
        } else {
            self.put_code(close..range.end, &format!("{bracket} ("), &shown_target(&destination), ")");
        }
    }

    /// Neutralises what the run says, and makes sure that what is text here is text to every parser.
    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        for token in tokens::find(run.rendered(), self.at_line_start) {
            let (source, shown) = run.source(token);
            self.put_code(source, "", shown, "");
        }
        for (at, harmless) in tokens::ambiguous(run.rendered()) {
            if let Some(source) = run.unescaped(at) {
                self.edits.replace(source..source + 1, harmless);
            }
        }
    }

    /// Puts a code span in the place of `range`, apart from what would become part of it.
    fn put_code(&mut self, range: Range<usize>, before: &str, code: &str, after: &str) {
        let joins_before = before.is_empty() && self.text[..range.start].ends_with(['`', '\\']);
        let joins_after = after.is_empty() && self.text[range.end..].starts_with('`');
        let space = |joins| if joins { " " } else { "" };
        let code = code_span(code);
        let text = format!("{}{before}{code}{after}{}", space(joins_before), space(joins_after));
        self.edits.replace(range, text);
    }

    fn escape_html(&mut self, range: Range<usize>) {
        for (at, _) in self.text[range.clone()].match_indices('<') {
            self.edits.replace(range.start + at..range.start + at + 1, "&lt;");
        }
    }

    /// Names no language for a fenced block that would be drawn.
    fn show_as_text(&mut self, block: Range<usize>) {
        let line = self.text[block.clone()].lines().next().unwrap_or_default();
        let fence = line.len() - line.trim_start().trim_start_matches(['`', '~']).len();
        self.edits.replace(block.start + fence..block.start + line.len(), "text");
    }

    /// Whether words stand before it in its line: a tag that begins a line may begin a block of HTML.
    fn stands_in_line(&self, range: &Range<usize>) -> bool {
        let line = self.text[..range.start].rfind('\n').map_or(0, |at| at + 1);
        self.text[line..range.start].contains(char::is_alphanumeric)
    }

    fn lower_heading(&mut self, range: Range<usize>) {
        let source = &self.text[range.clone()];
        let marks = source.bytes().take_while(|b| *b == b'#').count();
        let is_marked = marks > 0 && source[marks..].chars().next().is_none_or(char::is_whitespace);
        if is_marked && marks < HEADING.len() {
            self.edits.replace(range.start..range.start + marks, HEADING);
        } else if !is_marked {
            // A line of `=` or `-` below makes the text a heading.
            let underlined = source.trim_end();
            let line = underlined.rfind('\n').unwrap_or(0);
            if let Some(at) = underlined[line..].find(['=', '-']) {
                self.edits.remove(range.start + line + at..range.start + underlined.len());
            }
        }
    }
}

fn is_line_break(tag: &str) -> bool {
    let name = tag.trim_matches(['<', '>']).trim_end_matches('/').trim();
    name.eq_ignore_ascii_case("br")
}

/// Bots that read lines and not markdown find a command inside a code span too.
fn begins_a_line_with_a_command(code: &str) -> bool {
    code.lines().skip(1).any(|line| tokens::command(line.trim_start_matches(['>', ' ', '\t'])).is_some())
}

/// The words of an image's alternative text.
fn alternative_text(image: &str) -> String {
    let words = parser(image).filter_map(|event| match event {
        Event::Text(text) | Event::Code(text) => Some(text.replace('|', "/")),
        _ => None,
    });
    cut(&words.collect::<Vec<_>>().join(" "), MAX_SHOWN_CHARS)
}

/// A target as it can stand in a code span, also in a table.
fn shown_target(target: &str) -> String {
    cut(&target.replace('|', "%7C"), MAX_SHOWN_CHARS)
}

/// What must follow the text so that whatever comes after it stands on its own: the end of an open fence.
fn missing_end(text: &str) -> Option<String> {
    const AFTER: &str = "after";
    let followed = format!("{text}\n\n{AFTER}");
    let mut depth = 0;
    let mut fence = "```".to_owned();
    let mut stands_alone = false;
    for (event, range) in parser(&followed).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                stands_alone = depth == 0 && tag == Tag::Paragraph && followed[range.clone()] == *AFTER;
                depth += 1;
                if let Tag::CodeBlock(_) = tag {
                    let line = followed[range].trim_start();
                    let mark = line.chars().next().unwrap_or('`');
                    fence = line.chars().take_while(|c| *c == mark).collect();
                }
            }
            Event::End(_) => depth -= 1,
            _ => {}
        }
    }
    (!stands_alone).then_some(fence)
}

#[cfg(test)]
mod tests;
