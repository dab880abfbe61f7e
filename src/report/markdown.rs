//! Pieces of GitHub's markdown that hold any text.

use crate::gate::sanitize::is_invisible;

/// The text as one code span, white space folded.
pub fn code_span(text: &str) -> String {
    let text = visible(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let runs: Vec<usize> = ticks(&text).collect();
    let free = (1..).find(|length| !runs.contains(length)).unwrap_or(1);
    let ticks = "`".repeat(free);
    // The parser takes one space off at both ends.
    let space = if text.is_empty() || text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    let text = if text.is_empty() { " " } else { &text };
    format!("{ticks}{space}{text}{space}{ticks}")
}

/// The text as a code block whose fence nothing inside can close. `language` is letters, digits or nothing.
pub fn fence(text: &str, language: &str) -> String {
    let text = visible(text);
    let ticks = "`".repeat(ticks(&text).max().unwrap_or(0).max(2) + 1);
    let language: String = language.chars().filter(char::is_ascii_alphanumeric).collect();
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{ticks}{language}\n{text}{end}{ticks}")
}

/// Without the characters that nobody sees and that may show a text as another; line ends become `\n`.
pub fn visible(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n").chars().filter(|c| !is_invisible(*c)).collect()
}

/// A path or name with everything spelled out that nobody would see, or that markdown would take off: two files
/// must never look like one.
pub fn exact(name: &str) -> String {
    let mut shown = String::with_capacity(name.len());
    let mut chars = name.chars().peekable();
    let mut is_after_space = true;
    while let Some(char) = chars.next() {
        let is_space = char.is_whitespace();
        let is_plain = char == ' ' && !is_after_space && chars.peek().is_some();
        if is_invisible(char) || char.is_control() || is_space && !is_plain {
            shown.push_str(&format!("\\u{{{:x}}}", u32::from(char)));
        } else {
            shown.push(char);
        }
        is_after_space = is_space;
    }
    shown
}

/// What GitHub calls the language of a file.
pub fn language(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// Lengths of the runs of backticks.
fn ticks(text: &str) -> impl Iterator<Item = usize> {
    text.split(|c| c != '`').map(str::len)
}

#[cfg(test)]
mod tests {
    use pulldown_cmark::Event;

    use super::*;
    use crate::gate::markdown::parser;

    #[test]
    fn code_spans_and_fences_hold_what_would_close_them() {
        assert_eq!(code_span("a"), "`a`");
        assert_eq!(code_span("`a``"), "``` `a`` ```");
        assert_eq!(code_span(" a\n b "), "`a b`");
        assert_eq!(fence("x\n````\n", "rs"), "`````rs\nx\n````\n`````");
        assert_eq!(fence("x", "a b\n`"), "```ab\nx\n```");
        assert_eq!([language("a/b.rs"), language("Makefile"), language("a.b/c")], ["rs", "", ""]);
    }

    #[test]
    fn what_nobody_would_see_of_a_name_is_spelled_out() {
        for (name, shown) in [
            ("src/a b.py", "src/a b.py"),
            ("src/au\u{200b}th.py", "src/au\\u{200b}th.py"),
            ("gnp\u{202e}.py", "gnp\\u{202e}.py"),
            (" README.md", "\\u{20}README.md"),
            ("a ", "a\\u{20}"),
            ("a  b", "a \\u{20}b"),
            ("a\nb\u{a0}\u{2028}", "a\\u{a}b\\u{a0}\\u{2028}"),
        ] {
            assert_eq!(exact(name), shown);
            assert_eq!(exact(shown), shown);
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_code_span_holds_it_is_one_code_span(text in "[ -~`\n\u{200b}é]{0,30}") {
            let span = code_span(&text);
            let events: Vec<_> = parser(&span).collect();
            proptest::prop_assert_eq!(events.len(), 3, "{:?}", events);
            proptest::prop_assert!(matches!(&events[1], Event::Code(_)));
        }

        #[test]
        fn whatever_a_fence_holds_it_is_one_code_block(text in "[ -~`\n\u{200b}é]{0,30}") {
            let fenced = fence(&text, "rs");
            let blocks = parser(&fenced).filter(|e| matches!(e, Event::Start(_))).count();
            proptest::prop_assert_eq!(blocks, 1);
            proptest::prop_assert!(parser(&fenced).all(|e| !matches!(e, Event::Code(_))));
        }
    }
}
