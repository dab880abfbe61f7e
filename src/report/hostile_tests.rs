//! Texts as someone might get a model to write them, and what they must not do.

use std::{ops::Range, sync::LazyLock};

use proptest::prelude::*;
use pulldown_cmark::{Event, Tag, TagEnd};
use regex::Regex;

use crate::gate::markdown::parser;

/// Where links may lead in these tests.
pub const BASE: &str = "https://github.com/o/r/blob/abc/";

/// A mention, a reference to an issue, or a URL: what GitHub acts on in rendered text.
static ACTING: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)@[a-z0-9]|#[0-9]|\bgh-[0-9]|[a-z]://|\bwww\.").unwrap());

/// What in the text would act on GitHub, of anything that is not in code. `own` is HTML that may stand there.
pub fn acts(text: &str, own: &[&str]) -> Option<String> {
    let mut verbatim = false;
    let mut run = String::new();
    let mut code: Vec<Range<usize>> = Vec::new();
    let events = parser(text).into_offset_iter();
    if let Some((label, _)) = events.reference_definitions().iter().next() {
        return Some(format!("a definition of {label}"));
    }
    for (event, range) in events.chain([(Event::Rule, 0..0)]) {
        if let Event::Text(text) = &event {
            run.push_str(if verbatim { "" } else { text });
            continue;
        }
        if ACTING.is_match(&run) {
            return Some(run);
        }
        run.clear();
        match event {
            Event::Start(Tag::CodeBlock(_)) => {
                verbatim = true;
                code.push(range);
            }
            Event::Start(Tag::Link { dest_url, .. }) if dest_url.starts_with(BASE) => verbatim = true,
            Event::End(TagEnd::CodeBlock | TagEnd::Link) => verbatim = false,
            Event::Start(Tag::Link { .. } | Tag::Image { .. } | Tag::FootnoteDefinition(_)) => {
                return Some(format!("{event:?}"));
            }
            Event::Html(html) | Event::InlineHtml(html) if !own.contains(&html.trim()) => {
                return Some(html.to_string());
            }
            _ => {}
        }
    }
    let begins_line = |at: usize| {
        let before = text[..at].trim_end_matches([' ', '\t']);
        (before.is_empty() || before.ends_with('\n')) && !code.iter().any(|block| block.contains(&at))
    };
    text.match_indices("/acquire").find(|(at, _)| begins_line(*at)).map(|(at, _)| text[at..].to_owned())
}

/// Markup of all kinds, and what is near it.
const PIECES: &str = "@ octocat # 12 o/r GH- fixes ` `` ``` ~~~ [ ] ( ) ]( ]: ![ < > <!-- --> <b> </details> <br> \
                      <details> https:// e.org www. /acquire / \\ &#64; &#35; &lt; & ; * ** _ ~~ - 1. === --- | a é 🦀 \" ' [1] [2] \
                      ! ^1 [^1]: : .. bors $ https://github.com/o/r/blob/abc/";
const SPACES: [&str; 14] = [
    "\n",
    "\n\n",
    " ",
    "  ",
    "    ",
    "\t",
    "\r",
    "\u{202e}",
    "\u{200b}",
    "- ",
    "1. ",
    "> ",
    "# ",
    "\n| a | b |\n|---|---|\n",
];

pub fn hostile() -> impl Strategy<Value = String> {
    let all: Vec<&str> = PIECES.split_whitespace().chain(SPACES).chain(SPACES).collect();
    prop::collection::vec(prop::sample::select(all), 0..24).prop_map(|all| all.concat())
}
