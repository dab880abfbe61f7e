//! Reads Rust sources well enough to ask them questions: tokens without comments, and paths.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tree_sitter::{Node, Parser};

/// A Rust file of the project.
pub struct Source {
    /// Relative to the project, such as `src/method/run.rs`.
    pub path: String,
    pub lines: usize,
    pub tokens: Vec<Token>,
}

#[derive(Clone)]
pub struct Token {
    pub text: String,
    /// From 1.
    pub line: usize,
    pub is_string: bool,
    /// Compiled for tests only.
    pub in_test: bool,
    pub in_attribute: bool,
}

/// A path as code names it, such as `crate::method::ports`; groups are taken apart.
pub struct Named {
    pub path: String,
    pub line: usize,
}

pub fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below a folder of the project, sorted; none where the folder is missing.
pub fn files(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![project().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

pub fn relative(path: &Path) -> String {
    path.strip_prefix(project()).unwrap().to_str().unwrap().to_owned()
}

/// The Rust files below these folders.
pub fn sources(folders: &[&str]) -> Vec<Source> {
    let paths = folders.iter().flat_map(|folder| files(folder));
    paths
        .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        .map(|path| Source::read(&path))
        .collect()
}

impl Source {
    fn read(path: &Path) -> Self {
        Self::parse(relative(path), &fs::read_to_string(path).unwrap())
    }

    pub fn parse(path: String, text: &str) -> Self {
        let mut parser = Parser::new();
        parser.set_language(&tree_sitter_rust::LANGUAGE.into()).unwrap();
        let tree = parser.parse(text, None).unwrap();
        let in_test = path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("tests.rs");
        let mut tokens = Vec::new();
        collect(tree.root_node(), text, Place { in_test, in_attribute: false }, &mut tokens);
        Self { path, lines: text.lines().count(), tokens }
    }

    /// The room below `src/`; `None` for `main.rs`, `lib.rs` and everything elsewhere.
    pub fn room(&self) -> Option<&str> {
        self.path.strip_prefix("src/")?.split_once('/').map(|(room, _)| room)
    }

    /// Every path that code outside of tests names.
    pub fn paths(&self) -> Vec<Named> {
        let tokens: Vec<&Token> = self.tokens.iter().filter(|token| !token.in_test).collect();
        let mut paths = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            if is_name(tokens[at]) {
                at = take_path(&tokens, at, "", &mut paths);
            } else {
                at += 1;
            }
        }
        paths
    }

    /// Names of test functions, those inside macros such as `proptest!` included.
    pub fn test_names(&self) -> Vec<String> {
        let text: Vec<&str> = self.tokens.iter().map(|token| token.text.as_str()).collect();
        let pattern = r"# \[ (?:\w+ :: )*\w*test (?:\( [^\]]*)?\] (?:# \[ [^\]]*\] )*(?:async )?fn (\w+)";
        let tests = regex::Regex::new(pattern).unwrap();
        let text = text.join(" ");
        // A suite that a macro expands lists its tests in a group: `@tests $make , group { name , name , }`.
        let groups = regex::Regex::new(r"@ tests \$ ?\w+ , \w+ \{ ((?:\w+ , )+)\}").unwrap();
        let listed = groups
            .captures_iter(&text)
            .flat_map(|found| found[1].split(" , ").map(|name| name.trim().to_owned()).collect::<Vec<_>>());
        tests
            .captures_iter(&text)
            .map(|found| found[1].to_owned())
            .chain(listed)
            .filter(|name| !name.is_empty())
            .collect()
    }
}

#[derive(Clone, Copy)]
struct Place {
    in_test: bool,
    in_attribute: bool,
}

fn collect(node: Node, text: &str, place: Place, into: &mut Vec<Token>) {
    let of = |node: Node| &text[node.byte_range()];
    let is_string = matches!(node.kind(), "string_literal" | "raw_string_literal");
    if matches!(node.kind(), "line_comment" | "block_comment") {
        return;
    }
    if is_string || node.child_count() == 0 {
        let Place { in_test, in_attribute } = place;
        let line = node.start_position().row + 1;
        into.push(Token { text: of(node).to_owned(), line, is_string, in_test, in_attribute });
        return;
    }
    let mut next_is_test = false;
    for child in node.children(&mut node.walk()) {
        let is_attribute = matches!(child.kind(), "attribute_item" | "inner_attribute_item");
        if is_attribute && of(child).replace(' ', "") == "#[cfg(test)]" {
            next_is_test = true;
        }
        let inside = Place {
            in_test: place.in_test || next_is_test,
            in_attribute: place.in_attribute || is_attribute,
        };
        collect(child, text, inside, into);
        if !is_attribute && !child.is_extra() {
            next_is_test = false;
        }
    }
}

fn is_name(token: &Token) -> bool {
    !token.is_string && token.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Takes `a::b::{c, d::e}` from `at`; returns where it ends.
fn take_path(tokens: &[&Token], mut at: usize, prefix: &str, into: &mut Vec<Named>) -> usize {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let line = tokens[at].line;
    let mut path = prefix.to_owned() + text(at);
    at += 1;
    while text(at) == "::" {
        if tokens.get(at + 1).is_some_and(|token| is_name(token)) {
            path = format!("{path}::{}", text(at + 1));
            at += 2;
        } else if text(at + 1) == "{" {
            at += 2;
            while at < tokens.len() && text(at) != "}" {
                if is_name(tokens[at]) {
                    at = take_path(tokens, at, &format!("{path}::"), into);
                } else {
                    at += 1;
                }
            }
            return at + 1;
        } else {
            break;
        }
    }
    into.push(Named { path, line });
    at
}
