//! What GitHub, its bots and its readers act on in rendered text.

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

use crate::report::words::SIGNS;

/// Broader than GitHub's own rules: what is caught in excess becomes a code span, which harms nobody.
static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    let token = r"(?xi)
          [a-z][a-z0-9+.-]* :// [^\s<>`|]*                   # a URL
        | www\. [^\s<>`|]*
        | [\w.+/-]* @ [a-z0-9_-] [\w./-]*                   # a mention or an e-mail address
        | (?: [\w.-]+ (?: / [\w.-]+ )? )? \# [0-9] \w*      # an issue, perhaps of another repository
        | (?-u:\b) gh- [0-9]+
        | (?-u:\B) : [a-z0-9_+-]* [a-z] [a-z0-9_+-]* :       # an emoji by its name, of a sign too";
    // A sign of a check, or one like it.
    Regex::new(&format!("{token}\n| [{SIGNS}]")).expect("the pattern is constant and a test uses it")
});

/// Byte ranges, in order and apart from each other.
pub fn find(text: &str, at_line_start: bool) -> Vec<Range<usize>> {
    let command = if at_line_start { command(text) } else { None };
    let mut tokens = Vec::new();
    let mut from = 0;
    while let Some(token) = TOKEN.find_at(text, from) {
        if is_part_of_a_path(text, token.range()) {
            // Another one may begin within it, such as a URL.
            from = token.start() + 1;
        } else {
            tokens.push(token.start()..token.start() + trimmed(token.as_str()).len());
            from = token.end();
        }
    }
    let mut apart: Vec<Range<usize>> = Vec::new();
    for token in command.into_iter().chain(tokens) {
        match apart.last_mut() {
            Some(last) if token.start <= last.end => last.end = last.end.max(token.end),
            _ => apart.push(token),
        }
    }
    apart
}

/// Whether what looks like an emoji's name is the middle of a `path::of::names`.
fn is_part_of_a_path(text: &str, token: Range<usize>) -> bool {
    text[token.clone()].starts_with(':')
        && (text[..token.start].ends_with(':') || text[token.end..].starts_with(':'))
}

/// Characters of a text that some parser might take for markup, by their place, with what shows the same and is
/// none: lone backticks, the beginnings of tags and footnotes, brackets that are nearly links or
/// definitions, and the borders of formulas, which draw signs and hide text.
pub fn ambiguous(text: &str) -> impl Iterator<Item = (usize, &'static str)> {
    text.match_indices(['`', '<', '[', '(', ':', '$']).filter_map(|(at, character)| {
        let next = text[at + 1..].chars().next();
        let harmless = match character {
            "`" => "&#96;",
            "$" => r"\$",
            "<" if next.is_some_and(|c| c.is_ascii_alphabetic() || "/!?".contains(c)) => "&lt;",
            // The beginning of a footnote, of an alert box, of a box that is ticked.
            "[" if matches!(next, Some('^' | '!')) => r"\[",
            "[" if ["[x]", "[X]", "[ ]"].iter().any(|ticked| text[at..].starts_with(ticked)) => r"\[",
            "(" if text[..at].ends_with(']') => r"\(",
            ":" if text[..at].ends_with(']') => r"\:",
            _ => return None,
        };
        Some((at, harmless))
    })
}

/// The command to a bot that a line begins with: its first word.
pub fn command(line: &str) -> Option<Range<usize>> {
    let start = line.len() - line.trim_start().len();
    let word = line[start..].split_whitespace().next()?;
    let is_command = word.strip_prefix('/').is_some_and(|name| name.starts_with(char::is_alphabetic))
        || word.eq_ignore_ascii_case("bors");
    // A backtick would end the code span.
    let word = word.split('`').next().unwrap_or(word);
    is_command.then(|| start..start + word.len())
}

/// Without the punctuation after it, but never without what makes it a token.
fn trimmed(token: &str) -> &str {
    let least = ["://", "www.", "@"]
        .iter()
        .filter_map(|mark| token.to_ascii_lowercase().find(mark).map(|at| at + mark.len()))
        .min()
        .unwrap_or(token.len());
    let count = |bracket: char| token.matches(bracket).count();
    // Brackets that close nothing, as GitHub takes them.
    let mut unopened = count(')').saturating_sub(count('('));
    let mut end = token.len();
    while let Some(last) = token[..end].chars().next_back().filter(|_| end > least) {
        match last {
            ')' if unopened > 0 => unopened -= 1,
            '.' | ',' | ':' | ';' | '!' | '?' | '\'' | '"' | '*' | '_' | '~' | ']' | '}' => {}
            _ => break,
        }
        end -= last.len_utf8();
    }
    &token[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        find(text, true).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn mentions_and_references_are_found_in_every_form() {
        assert_eq!(found("thanks @name, @org/team."), ["@name", "@org/team"]);
        assert_eq!(
            found("see #12, (#13) o/r#14 or r#15; GH-16 and gh-17."),
            ["#12", "#13", "o/r#14", "r#15", "GH-16", "gh-17"]
        );
        assert_eq!(found("fixes #9"), ["#9"]);
        assert_eq!(found("mail a.b+c@example.com!"), ["a.b+c@example.com"]);
        assert_eq!(found("high-12 # 4 a @ b C# x"), [""; 0]);
    }

    #[test]
    fn signs_of_a_check_are_found() {
        assert_eq!(found("[1] \u{2713} a.rs, \u{2705} b.rs \u{21AA}"), ["\u{2713}", "\u{2705}", "\u{21AA}"]);
    }

    #[test]
    fn what_is_no_emoji_hides_no_token() {
        assert_eq!(found("]::https://e.org"), ["https://e.org"]);
        assert_eq!(found("a::https://"), ["https://"]);
        assert_eq!(found("a::b::c: https://e.org"), ["https://e.org"]);
    }

    #[test]
    fn emoji_by_name_are_found_and_times_and_paths_are_not() {
        assert_eq!(
            found("[1] :white_check_mark: a.rs, (:+1: :heavy_check_mark:)"),
            [":white_check_mark:", ":heavy_check_mark:"]
        );
        assert_eq!(found("at 10:30:45, std::fs::read, a:b:c, C:x:"), [""; 0]);
    }

    #[test]
    fn urls_are_found_as_far_as_github_may_take_them() {
        assert_eq!(found("(see https://e.org/a?b=c#d)."), ["https://e.org/a?b=c#d"]);
        assert_eq!(
            found("https://e.org/a_(b), www.e.org: ftp://x"),
            ["https://e.org/a_(b)", "www.e.org", "ftp://x"]
        );
        assert_eq!(found("_www._ http://*"), ["www.", "http://"]);
    }

    #[test]
    fn text_that_is_nearly_markup_is_seen() {
        let seen: Vec<_> = ambiguous("a ` <b < 3 [^1] [2](x y) f(x): [3]: x $y$").collect();
        let formula = [(38, r"\$"), (40, r"\$")];
        assert_eq!(seen[..5], [(2, "&#96;"), (4, "&lt;"), (11, r"\["), (19, r"\("), (34, r"\:")]);
        assert_eq!(seen[5..], formula);
    }

    #[test]
    fn commands_are_found_where_a_line_begins() {
        assert_eq!(found("/acquire retry"), ["/acquire"]);
        assert_eq!(found("  /usr/bin/env @x"), ["/usr/bin/env", "@x"]);
        assert_eq!(found("bors r+"), ["bors"]);
        assert_eq!(found("/ 2 and /acquire"), [""; 0]);
        assert!(find("/acquire", false).is_empty());
    }
}
