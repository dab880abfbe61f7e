//! A model's words as words: nothing in them pings, links, closes, commands, or breaks out of its place.
//!
//! Code is left alone, since GitHub does nothing with it. Outside of it mentions and references get an
//! invisible space after their mark (written as an entity, so that the source shows it), addresses become
//! code, links become their text and address, images go, raw HTML and definitions are escaped, headings
//! become bold text, and a fence that is left open is closed.

use std::{ops::Range, sync::LazyLock};

use pulldown_cmark::{CodeBlockKind, Event, LinkType, Tag, TagEnd};
use regex::Regex;

use super::markdown::{code_block, code_span};
use crate::gate::{edits::Edits, markdown, sanitize::is_invisible};

/// Rounds before a text that keeps making new markup is shown as code.
const MAX_ROUNDS: usize = 8;

static ADDRESS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?:(?:https?|ftp)://|www\.)[^\s<>`|]+")
        .expect("the pattern ships with the program, and tests use it")
});

/// Zero width, written so that the source shows it.
const SPACE: &str = "&#8203;";

/// Entities that may stay, ours among them. Others could spell what would be neutralised if it were plain.
const HARMLESS: [&str; 5] = ["&lt;", "&gt;", "&amp;", "&#8203;", "&#47;"];

/// Makes a model's markdown inert.
pub fn inert(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut text: String = text.chars().filter(|c| !is_invisible(*c)).collect();
    for _ in 0..MAX_ROUNDS {
        let edits = look(&text);
        if edits.is_empty() {
            return text;
        }
        text = edits.apply(&text);
    }
    code_block("", &text)
}

/// The edits of one round.
fn look(text: &str) -> Edits {
    let mut edits = Edits::default();
    let parser = markdown::parser(text);
    for (_, definition) in parser.reference_definitions().iter() {
        edits.insert(definition.span.start, "\\");
    }
    let mut walk = Walk { text, edits, code: Vec::new(), open: Vec::new(), depth: 0 };
    for (event, range) in parser.into_offset_iter() {
        walk.event(event, range);
    }
    let Walk { mut edits, code, .. } = walk;
    for row in markdown::unseen_tables(text) {
        edits.insert(row.mark, "\\");
    }
    let mut code = code.into_iter().peekable();
    for address in ADDRESS.find_iter(text) {
        while code.next_if(|range| range.end <= address.start()).is_some() {}
        if code.peek().is_none_or(|range| range.start >= address.end()) {
            let shown = address.as_str().trim_end_matches(|c: char| ".,;:!?)]}'\"*_~|".contains(c));
            edits.replace(address.start()..address.start() + shown.len(), code_span(shown));
        }
    }
    edits
}

struct Walk<'a> {
    text: &'a str,
    edits: Edits,
    /// Code spans and blocks, in order.
    code: Vec<Range<usize>>,
    /// Links and headings that are open, with where their text starts and ends as far as seen.
    open: Vec<Option<Range<usize>>>,
    /// How many blocks are open.
    depth: usize,
}

impl Walk<'_> {
    fn event(&mut self, event: Event<'_>, range: Range<usize>) {
        if !matches!(event, Event::End(TagEnd::Link | TagEnd::Heading(_))) {
            for inner in &mut self.open {
                let inner = inner.get_or_insert(range.clone());
                inner.end = inner.end.max(range.end);
            }
        }
        match event {
            Event::Start(tag) => {
                self.start(&tag, &range);
                self.depth += 1;
            }
            Event::End(tag) => {
                self.depth -= 1;
                self.end(tag, &range);
            }
            Event::Code(_) => self.code.push(range),
            Event::Html(_) | Event::InlineHtml(_) => {
                for (at, _) in self.text[range.clone()].match_indices('<') {
                    self.edits.replace(range.start + at..range.start + at + 1, "&lt;");
                }
            }
            Event::Text(shown) => self.plain(&shown, range),
            _ => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>, range: &Range<usize>) {
        match tag {
            Tag::CodeBlock(kind) => {
                self.code.push(range.clone());
                if matches!(kind, CodeBlockKind::Fenced(_)) && self.depth == 0 {
                    self.close_fence(range);
                }
            }
            Tag::Image { .. } => self.edits.replace(range.clone(), "*(an image was left out)*"),
            Tag::Link { link_type: LinkType::Autolink | LinkType::Email, dest_url, .. } => {
                self.edits.replace(range.clone(), code_span(dest_url));
                self.open.push(None);
            }
            Tag::Link { .. } | Tag::Heading { .. } => self.open.push(None),
            Tag::FootnoteDefinition(_) => self.edits.insert(range.start, "\\"),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd, range: &Range<usize>) {
        match tag {
            TagEnd::Link => {
                let inner = self.open.pop().flatten().unwrap_or(range.start + 1..range.start + 1);
                self.link(range, inner);
            }
            TagEnd::Heading(_) => {
                let inner = self.open.pop().flatten();
                self.heading(range, inner);
            }
            _ => {}
        }
    }

    /// `[text](address)` becomes its text and the address as code. Links by reference fall apart with their
    /// definitions.
    fn link(&mut self, range: &Range<usize>, inner: Range<usize>) {
        let source = &self.text[range.clone()];
        let tail = &self.text[inner.end..range.end];
        let address = tail.split_once("](").map(|(_, address)| address.trim_end_matches(')').trim());
        if let Some(address) = address.filter(|_| source.starts_with('[')) {
            self.edits.remove(range.start..range.start + 1);
            let shown = if address.is_empty() { String::new() } else { format!(" ({})", code_span(address)) };
            self.edits.replace(inner.end..range.end, shown);
        }
    }

    fn heading(&mut self, range: &Range<usize>, inner: Option<Range<usize>>) {
        let end = range.start + self.text[range.clone()].trim_end().len();
        let Some(inner) = inner else { return self.edits.remove(range.start..end) };
        let mark = if self.text[inner.clone()].contains("**") { "" } else { "**" };
        let gap = if self.depth == 0 { "\n" } else { "" };
        self.edits.replace(range.start..inner.start, mark);
        self.edits.replace(inner.end..end.max(inner.end), format!("{mark}{gap}"));
    }

    fn close_fence(&mut self, range: &Range<usize>) {
        let source = self.text[range.clone()].trim_end();
        let first = source.lines().next().unwrap_or_default().trim_start();
        let Some(mark) = first.chars().next() else { return };
        let length = first.chars().take_while(|c| *c == mark).count();
        let last = source.lines().skip(1).last().unwrap_or_default().trim();
        let is_closed = last.len() >= length && last.chars().all(|c| c == mark);
        if !is_closed && range.end >= self.text.trim_end().len() {
            self.edits.insert(range.end, format!("\n{}", mark.to_string().repeat(length)));
        }
    }

    /// Plain text as the parser hands it out: a piece of the source, or one entity.
    fn plain(&mut self, shown: &str, range: Range<usize>) {
        if self.code.last().is_some_and(|code| code.end >= range.end) {
            return;
        }
        let source = &self.text[range.clone()];
        if source != shown {
            if source.starts_with('&') && !HARMLESS.contains(&source) {
                self.edits.replace(range.start..range.start + 1, "&amp;");
            }
            return;
        }
        // An address can be spelled with escapes.
        let escaped = self.text[..range.start].ends_with('\\') && source.starts_with([':', '/']);
        if escaped && !self.text[range.start + 1..].starts_with(SPACE) {
            self.edits.insert(range.start + 1, SPACE);
        }
        let mut line_before = self.text[..range.start].chars().rev().take_while(|c| *c != '\n');
        if source.starts_with('/') && line_before.all(|c| " \t>-*+".contains(c)) {
            self.edits.replace(range.start..range.start + 1, "&#47;");
        }
        for (at, c) in source.char_indices().filter(|(_, c)| matches!(c, '<' | '@' | '#' | '-' | '`')) {
            let at = range.start + at;
            if c == '<' {
                self.edits.replace(at..at + 1, "&lt;");
            } else if c == '`' {
                // GitHub's parser loses code spans after a backtick that opens none.
                let escapes = self.text[..at].bytes().rev().take_while(|byte| *byte == b'\\').count();
                if escapes.is_multiple_of(2) {
                    self.edits.insert(at, "\\");
                }
            } else if self.pings(at, c) {
                self.edits.insert(at + 1, SPACE);
            }
        }
    }

    /// Whether the mark at `at` makes what follows a mention or a reference.
    fn pings(&self, at: usize, mark: char) -> bool {
        let Some(next) = self.text[at + 1..].chars().next() else { return false };
        match mark {
            '@' => next.is_alphanumeric() || next == '_',
            '#' => next.is_ascii_digit(),
            _ => {
                let before = at.checked_sub(2).and_then(|start| self.text.get(start..at));
                next.is_ascii_digit() && before.is_some_and(|mark| mark.eq_ignore_ascii_case("gh"))
            }
        }
    }
}

/// As [`inert`], for a place that has room for one line.
pub(super) fn inert_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let safe = inert(&line);
    // What would open a block at the start of a line becomes more than a line.
    if safe.contains('\n') || starts_block(&safe) { code_span(&line) } else { safe }
}

fn starts_block(line: &str) -> bool {
    let first = markdown::parser(line).next();
    !matches!(first, None | Some(Event::Start(Tag::Paragraph)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn s_34_mentions_references_and_commands_do_nothing() {
        for (text, expected) in [
            (
                "Ask @octocat, fixes #12 and o/r#3, GH-4.",
                "Ask @&#8203;octocat, fixes #&#8203;12 and o/r#&#8203;3, GH-&#8203;4.",
            ),
            ("`@octocat #12` C# a@ # x", "`@octocat #12` C# a@ # x"),
            ("&#64;octocat &lt;b&gt; \\@octocat", "&amp;#&#8203;64;octocat &lt;b&gt; \\@&#8203;octocat"),
            ("/merge\n- /close now\na /path", "&#47;merge\n- &#47;close now\na /path"),
            ("see https://github.com/o/r/issues/1.", "see `https://github.com/o/r/issues/1`."),
            ("https:\\//x.y https\\://x.y", "https:\\/&#8203;/x.y https\\:&#8203;//x.y"),
            ("(www.x.org/a_b_c) <https://y> <me@x.org>", "(`www.x.org/a_b_c`) `https://y` `me@x.org`"),
            ("[a `b` @c](http://x \"t\") [d][e] [](y)", "a `b` @&#8203;c (`http://x \"t\"`) [d][e]  (`y`)"),
            ("![a](b) ![c][d]\n\n[d]: e", "*(an image was left out)* *(an image was left out)*\n\n\\[d]: e"),
        ] {
            assert_eq!(inert(text), expected, "{text}");
        }
    }

    #[test]
    fn s_34_nothing_breaks_out_of_its_place() {
        for (text, expected) in [
            ("a <!-- b --> </details> <b>c</b>", "a &lt;!-- b --> &lt;/details> &lt;b>c&lt;/b>"),
            ("<!-- open\n\nb", "&lt;!-- open\n\nb"),
            ("</details>\n\nb", "&lt;/details>\n\nb"),
            ("# A\nb\n\nC **d**\n===\n", "**A**\n\nb\n\nC **d**\n\n"),
            ("[1]: http://evil\n[1]: b\n\n[1]", "\\[1]: `http://evil`\n[1]: b\n\n[1]"),
            ("[^1]: a\n\nb[^1]", "\\[^1]: a\n\nb[^1]"),
            ("```py\na <b> @c", "```py\na <b> @c\n```"),
            ("~~~~\n~~~\n", "~~~~\n~~~\n\n~~~~"),
            ("`` a `b` c", "\\`\\` a `b` c"),
            ("a `b\n|-|\n<c>` d", "a `b\n\\|-|\n<c>` d"),
            ("a\u{202E}b\u{200B}\r\nc", "ab\nc"),
        ] {
            assert_eq!(inert(text), expected, "{text}");
        }
    }

    #[test]
    fn a_line_stays_a_line() {
        assert_eq!(inert_line("a\n\n# b `c`"), "a # b `c`");
        assert_eq!(inert_line("```x"), "```` ```x ````");
        assert_eq!(inert_line("> @a"), "`> @a`");
        assert_eq!(inert_line("- a"), "`- a`");
    }

    #[test]
    fn long_texts_take_no_longer_than_linear_time() {
        for part in [
            "[a](b) ",
            "`",
            "<",
            "@a #1 ",
            "http://x ",
            "# a\n",
            "[a]: b\n",
            "> ",
            "a\n|-|\n",
            "/ ",
            "![",
            "- ",
        ] {
            let text = part.repeat(200_000 / part.len());
            let start = std::time::Instant::now();
            inert(&text);
            assert!(start.elapsed().as_secs() < 20, "{part:?} took {:?}", start.elapsed());
        }
    }

    fn fragments() -> impl Strategy<Value = String> {
        let fragment = prop::sample::select(vec![
            "<!--",
            "-->",
            "<b>",
            "</details>",
            "<",
            ">",
            "&lt;",
            "&#64;",
            "@a",
            "#1",
            "`",
            "```",
            "~~~",
            "\n",
            "\n\n",
            "[",
            "]",
            "](",
            ")",
            "![",
            "[a]: b",
            "[^a]: ",
            "[^a]",
            "# ",
            "===",
            "- ",
            "> ",
            "    ",
            "http://x",
            "www.y",
            "*",
            "_",
            "\\",
            "|",
            "|-|",
            "a",
            " ",
            "/merge",
            "é",
        ]);
        prop::collection::vec(fragment, 0..30).prop_map(|parts| parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn s_34_what_is_inert_has_no_links_html_or_headings_and_ends(text in fragments()) {
            let safe = inert(&text);
            let whole = format!("{safe}\n\nend of it");
            let mut depth = 0;
            let mut ended = false;
            let parser = markdown::parser(&whole);
            prop_assert_eq!(parser.reference_definitions().iter().count(), 0);
            for event in parser {
                match event {
                    Event::Start(tag) => {
                        depth += 1;
                        let is_bad = matches!(
                            tag,
                            Tag::Link { .. } | Tag::Image { .. } | Tag::HtmlBlock | Tag::FootnoteDefinition(_) | Tag::Heading { .. }
                        );
                        prop_assert!(!is_bad, "{tag:?} in {safe}");
                    }
                    Event::End(_) => depth -= 1,
                    Event::Html(html) | Event::InlineHtml(html) => prop_assert!(false, "{html} in {safe}"),
                    Event::Text(text) if depth == 1 && &*text == "end of it" => ended = true,
                    _ => {}
                }
            }
            prop_assert!(ended, "swallowed by {safe}");
        }
    }
}
