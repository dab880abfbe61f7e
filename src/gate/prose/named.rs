//! Paths, lines and names that a text claims to exist in the repository.
//!
//! Prose is full of words that look like paths and names: versions, `and/or`, literals, shell commands, what
//! the language brings. Calling one of those made up would cost more trust than missing one that is, so what
//! is doubtful is passed over.

use std::{collections::HashSet, fmt, sync::LazyLock};

use pulldown_cmark::{Event, Tag, TagEnd};
use regex::Regex;

use crate::gate::markdown;

/// Something that the text says is there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Named {
    /// A file, or a folder where it ends in a slash; relative to the repository's root, or its last parts.
    Path(String),
    /// Lines of a file, counted from 1, both ends included.
    Lines { path: String, first: u32, last: u32 },
    /// A name in code, without call or index; parts are separated by `.`, `::`, `#` or `->` as written.
    Identifier(String),
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => f.write_str(path),
            Self::Lines { path, first, last } if first == last => write!(f, "{path}:{first}"),
            Self::Lines { path, first, last } => write!(f, "{path}:{first}-{last}"),
            Self::Identifier(name) => f.write_str(name),
        }
    }
}

/// What is named in code spans, and the paths in plain text; each once, in order. Code blocks are not read.
pub fn named_artifacts(text: &str) -> Vec<Named> {
    let mut all: Vec<Named> = Vec::new();
    let mut in_code_block = false;
    // Parts of plain text that stand together: the parser splits it at every bracket and underscore.
    let mut plain = String::new();
    for event in markdown::parser(text) {
        match &event {
            Event::Text(part) if !in_code_block => {
                plain.push_str(part);
                continue;
            }
            Event::Start(Tag::CodeBlock(_)) => in_code_block = true,
            Event::End(TagEnd::CodeBlock) => in_code_block = false,
            Event::Code(span) => {
                from_plain(&std::mem::take(&mut plain), &mut all);
                from_code(span.trim(), &mut all);
            }
            _ => {}
        }
        from_plain(&std::mem::take(&mut plain), &mut all);
    }
    from_plain(&plain, &mut all);
    let mut seen = HashSet::new();
    all.retain(|named| seen.insert(named.clone()));
    all
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern ships with the program, and tests use it")
}

/// A path with lines, as `a.py:3`, `a.py:3-5`, `a.py:3:1`, `a.py#L3-L5`.
static LINES: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(.+?)(?::|#L|:L|#)(\d{1,7})(?:[-–](?:L)?(\d{1,7})|:\d{1,5})?$"));
static PATH: LazyLock<Regex> = LazyLock::new(|| regex(r"^[\w.@+][\w.@+\-]*(?:/[\w.@+][\w.@+\-]*)*/?$"));
static IDENTIFIER: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^[A-Za-z_]\w*[!?]?(?:(?:\.|::|#|->)[A-Za-z_]\w*[!?]?)*$"));
static DECLARATION: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^(?:pub(?:\([a-z]+\))? |export |static |async |const |abstract )*(?:def|class|fn|func|function|struct|enum|trait|interface|impl|module|type) ([A-Za-z_]\w*[!?]?)",
    )
});

fn from_plain(text: &str, all: &mut Vec<Named>) {
    for word in text.split_whitespace() {
        if word.contains("://") {
            continue;
        }
        for part in word.split(['(', ')', '[', ']', ',', ';', '"', '\'', '“', '”']) {
            let part = part.trim_end_matches(['.', ':', '?', '!', '…']);
            // In plain text only a file is taken for a path: `and/or` and `his/her` are no folders.
            if let Some(named) = place(part, has_extension) {
                all.push(named);
            }
        }
    }
}

fn from_code(span: &str, all: &mut Vec<Named>) {
    if span.contains("://") {
        return;
    }
    if let Some(named) = place(span, |path| has_extension(path) || is_folder(path)) {
        all.push(named);
        return;
    }
    // A test as pytest names it.
    if let Some((path, rest)) = span.split_once("::")
        && let Some(named) = place(path, has_extension)
    {
        all.push(named);
        let rest = rest.split('[').next().unwrap_or(rest);
        all.extend(rest.split("::").filter_map(identifier));
        return;
    }
    if let Some(declared) = DECLARATION.captures(span).and_then(|captures| captures.get(1)) {
        all.extend(identifier(declared.as_str()));
        return;
    }
    all.extend(identifier(span));
}

/// A path or lines of one, where `fits` takes the path.
fn place(text: &str, fits: impl Fn(&str) -> bool) -> Option<Named> {
    let (path, lines) = match LINES.captures(text) {
        Some(captures) => {
            let number = |group: usize| captures.get(group).and_then(|digits| digits.as_str().parse().ok());
            let first: u32 = number(2)?;
            (captures.get(1)?.as_str(), Some((first, number(3).unwrap_or(first))))
        }
        None => (text, None),
    };
    let path = path.strip_prefix("/workspace/").or(path.strip_prefix("./")).unwrap_or(path);
    if !PATH.is_match(path) || !fits(path) || is_elsewhere(path) {
        return None;
    }
    Some(match lines {
        Some((first, last)) if first > 0 && first <= last => {
            Named::Lines { path: path.to_owned(), first, last }
        }
        _ => Named::Path(path.to_owned()),
    })
}

/// File name endings that are taken for files even where no folder stands before them.
const EXTENSIONS: &str = "adoc bat bzl c cc cfg cjs cmake conf cpp cs css csv cxx erb ex exs go gradle graphql h hpp \
    hs html ini ipynb java jinja js json jsx kt lock lua md mdx mjs ml mts php pl po proto ps1 \
    py pyi pyx rake rb rs rst scala scm scss sh sql svelte swift tex toml ts tsx txt vue xml \
    yaml yml zig zsh bash in hbs";

fn has_extension(path: &str) -> bool {
    if path.ends_with('/') {
        return false;
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    let Some((stem, extension)) = name.rsplit_once('.') else { return false };
    if !EXTENSIONS.split(' ').any(|known| known == extension) || stem.is_empty() {
        return false;
    }
    // `self.lock` and `response.json` are attributes.
    let is_attribute = matches!(
        stem.split('.').next(),
        Some("self" | "this" | "cls" | "obj" | "ctx" | "req" | "request" | "res" | "resp" | "response")
    );
    path.contains('/') || !(is_attribute || is_product(path))
}

/// `Node.js` and the like.
fn is_product(name: &str) -> bool {
    name.ends_with(".js") && name.starts_with(|c: char| c.is_uppercase())
}

/// Without a file name ending only what cannot be `read/write`, `owner/name` or `text/html`.
fn is_folder(path: &str) -> bool {
    let slashes = path.matches('/').count();
    path.len() > 2 && (path.ends_with('/') && slashes >= 1 || slashes >= 2)
}

/// Web addresses without a scheme, revisions, what lies above, and files put side by side.
fn is_elsewhere(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or(path);
    let host_endings = [".com", ".org", ".io", ".net", ".dev", ".de", ".ai", ".co", ".edu", ".gov"];
    let is_host = path.contains('/') && host_endings.iter().any(|ending| first.ends_with(ending));
    is_host
        || matches!(
            first,
            "origin" | "refs" | "HEAD" | "www" | "http:" | "https:" | "usr" | "etc" | "tmp" | "site-packages"
        )
        || path.split('/').any(|part| part == ".." || part == ".")
        || path.rsplit_once('/').is_some_and(|(folders, _)| folders.split('/').any(has_extension))
}

/// The name that a code span is, or that it calls or indexes.
fn identifier(span: &str) -> Option<Named> {
    let span = span.trim_start_matches(['@', '&', '*', '$', '.', ':']);
    let end = span.find(['(', '[', '<', '{']).unwrap_or(span.len());
    let (name, rest) = span.split_at(end);
    let is_call = rest.starts_with('(') && rest.ends_with([')', ']', '}']);
    if !rest.is_empty() && !is_call && rest.contains(char::is_whitespace) {
        return None;
    }
    if !IDENTIFIER.is_match(name) || name.len() < 3 || is_product(name) {
        return None;
    }
    let parts: Vec<&str> = name.split(['.', ':', '#', '>']).filter(|part| !part.is_empty()).collect();
    if parts.len() == 1 && (is_common(name) || is_no_name(name)) {
        return None;
    }
    // `e.g` and `i.e` and the like; `None.x` is an explanation, no name.
    if parts.iter().all(|part| part.len() == 1) || (is_literal(parts[0]) && parts.len() > 1) {
        return None;
    }
    Some(Named::Identifier(name.to_owned()))
}

fn is_literal(word: &str) -> bool {
    matches!(
        word,
        "True" | "False" | "None" | "true" | "false" | "null" | "nil" | "undefined" | "NULL" | "NaN"
    )
}

/// Line references, versions, commit ids.
fn is_no_name(word: &str) -> bool {
    let digits_after = |prefix: &str| {
        word.strip_prefix(prefix)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    let is_hash = word.len() >= 7
        && word.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        && word.bytes().any(|b| b.is_ascii_digit());
    digits_after("L") || digits_after("v") || digits_after("V") || is_hash
}

/// Words of languages and shells that need not stand in the repository to be spoken of.
fn is_common(word: &str) -> bool {
    static COMMON: LazyLock<HashSet<&str>> = LazyLock::new(|| {
        let lines = include_str!("common_words.txt").lines().filter(|line| !line.starts_with('#'));
        lines.flat_map(str::split_whitespace).collect()
    });
    COMMON.contains(word) || is_literal(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Vec<String> {
        named_artifacts(text)
            .into_iter()
            .map(|named| match named {
                Named::Path(path) => format!("path {path}"),
                Named::Lines { .. } => format!("lines {named}"),
                Named::Identifier(name) => format!("name {name}"),
            })
            .collect()
    }

    #[test]
    fn paths_and_lines_are_read_in_code_and_in_plain_text() {
        assert_eq!(
            named(
                "In src/app/core.py:12-20 (see `src/app/util.rs#L3-L9`, lib/x.js:7:3), and \"docs/index.rst\". \
                 `./setup.py`, /workspace/a/b.go:5. `tests/` holds `tests/unit/data` and my_file_name.py."
            ),
            [
                "lines src/app/core.py:12-20",
                "lines src/app/util.rs:3-9",
                "lines lib/x.js:7",
                "path docs/index.rst",
                "path setup.py",
                "lines a/b.go:5",
                "path tests/",
                "path tests/unit/data",
                "path my_file_name.py",
            ]
        );
        assert_eq!(
            named("`tests/test_a.py::TestB::test_c[1-x]`"),
            ["path tests/test_a.py", "name TestB", "name test_c"]
        );
    }

    #[test]
    fn names_are_read_in_code_spans_only() {
        assert_eq!(
            named(
                "`foo.bar()` calls `Class.method(a, b)`, `snake_case`, `Cache::get_or_insert`, `@cached_property`, \
                 `items[0]`, `Vec<Row>`, `def handle(self):`, `pub fn parse_all(x)`, `self._rows`, `self.lock`, `MAX_SIZE`, \
                 `Store#load!`, `valid?`, `ptr->next`, `os.path.join`; unquoted snake_case and foo.bar() are not."
            ),
            [
                "name foo.bar",
                "name Class.method",
                "name snake_case",
                "name Cache::get_or_insert",
                "name cached_property",
                "name items",
                "name handle",
                "name parse_all",
                "name self._rows",
                "name self.lock",
                "name MAX_SIZE",
                "name Store#load!",
                "name valid?",
                "name ptr->next",
                "name os.path.join",
            ]
        );
    }

    #[test]
    fn what_only_looks_like_a_path_or_a_name_is_passed_over() {
        assert_eq!(
            named(
                "See https://example.com/a/b.py, www.x.org/a.html, github.com/a/b/c.py and `http://x/y.py`. \
                 Version 1.2.3, v1.2, `1.2.3`, `v2`, `L12`, e.g. this, i.e. that, and/or, true/false, I/O, `e.g.` \
                 `True`, `None`, `null`, `self`, `return`, `str`, `len(x)`, `git status`, `pip install -e .`, `--flag`, \
                 `-x`, `a = b`, `x`, `i`, `**kwargs`, `\"text\"`, `'key'`, `[1]`, `{}`, `!=`, `3f78685`, `text/html`, \
                 `read/write`, `owner/name`, `origin/main`, `*.py`, `src/**/x.py`, `<path>/x.py`, `../x.py`, `/etc/passwd`, \
                 `/usr/lib/x.py`, `KeyError`, Node.js, `Vue.js`, 3/4, 12:30, `a or b`, `UTF-8`, `x => y`, \
                 setup.cfg/pyproject.toml, `if foo(bar) else baz`, `raise ValueError(\"x\")`.\n\n```\nsrc/in_fence.py:3\n```\n"
            ),
            Vec::<String>::new()
        );
    }

    #[test]
    fn each_is_told_once() {
        assert_eq!(named("`a_b` `a_b()` a/x.py `a/x.py`"), ["name a_b", "path a/x.py"]);
    }

    #[test]
    fn any_text_is_taken() {
        for text in [
            "",
            "`",
            "``` `",
            "`(`",
            "`::`",
            "`.`",
            "`#L`",
            "`:1`",
            "`a.py:0`",
            "`a.py:9-3`",
            "é.py:1",
            "`é`",
        ] {
            named_artifacts(text);
        }
        assert_eq!(named("`a.py:9-3`"), ["path a.py"]);
        assert_eq!(named("`a.py:99999999`"), Vec::<String>::new());
    }
}
