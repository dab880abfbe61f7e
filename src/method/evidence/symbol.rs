//! Whether a place in a file is the symbol that a model names.
//!
//! Names alone are shared by many: where a model names more than that (a class, a module, what something is
//! called on), all of it must be seen in the file or in its path. What cannot be seen does not hold.

use std::{borrow::Cow, collections::BTreeSet};

use crate::{domain::RepoPath, method::ports::SymbolPlace};

/// A symbol as a model writes it: `parse`, `Parser.parse`, `parser::Parser::parse()`.
pub(super) struct Symbol<'a> {
    /// Without arguments: what is looked up, and all that may be shown as found.
    pub text: &'a str,
    scope: Vec<&'a str>,
    pub name: &'a str,
}

/// How code calls the object or type that it is part of.
const ITSELF: [&str; 5] = ["self", "Self", "this", "cls", "static"];
/// How a Rust path may begin; what follows names the place.
const PATH_STARTS: [&str; 3] = ["crate", "self", "super"];
/// How far before a name its receiver is looked for, in bytes.
const MAX_RECEIVER_BYTES: usize = 1024;

impl<'a> Symbol<'a> {
    pub fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim().trim_matches('`');
        let text = text.split(['(', '<']).next()?.trim_end().trim_end_matches('!');
        let mut scope: Vec<&str> = text.split([':', '.', '#', '/']).filter(|part| !part.is_empty()).collect();
        let name = scope.pop()?;
        while scope.len() > 1 && text.contains("::") && PATH_STARTS.contains(&scope[0]) {
            scope.remove(0);
        }
        Some(Self { text, scope, name })
    }

    pub fn names(&self, place: &SymbolPlace, path: &RepoPath, bytes: &[u8]) -> bool {
        if self.name != place.name {
            return false;
        }
        let Some((nearest, outer)) = self.scope.split_last() else {
            return true;
        };
        let modules: Vec<&str> = path.as_str().split('/').filter_map(|part| part.split('.').next()).collect();
        if !place.is_definition {
            return is_called_on(place, nearest, outer, &modules, path, bytes);
        }
        let names: Vec<&str> = place.scope.iter().map(|scope| scope.name.as_str()).collect();
        match place.scope.split_last() {
            Some((innermost, _)) => {
                let itself = innermost.is_type && ITSELF.contains(nearest);
                let around = &names[..names.len() - 1];
                (innermost.name == *nearest || itself) && holds(&[&modules, around].concat(), outer)
            }
            None => holds(&modules, &self.scope),
        }
    }

    /// Whether a place of this name can be told to be the symbol or not: what a call is called on may stand in
    /// another line, or have no name.
    pub fn is_decided(&self, place: &SymbolPlace, bytes: &[u8]) -> bool {
        self.scope.is_empty()
            || place.is_definition
            || receiver(&line_before(bytes, place.offset)).last().is_none_or(|object| !object.is_empty())
    }

    /// Whether the name stands in lines besides `known` in a way that may make it a definition or a call:
    /// in code that no grammar reads, such as macros and other dialects. Comments count too; nobody is
    /// misled when too much is doubted.
    pub fn may_stand_elsewhere(&self, lines: &[&str], known: &BTreeSet<u32>) -> bool {
        let numbered = (1u32..).zip(lines).enumerate();
        numbered.filter(|(_, (number, _))| !known.contains(number)).any(|(index, (_, line))| {
            mentions(line, self.name).any(|(before, after)| {
                let next = lines.get(index + 1).copied().unwrap_or_default();
                is_defined_after(before) || is_used_before(after, next)
            })
        })
    }
}

/// Whether what is called there is called on `nearest`, of `outer`.
fn is_called_on(
    place: &SymbolPlace,
    nearest: &str,
    outer: &[&str],
    modules: &[&str],
    path: &RepoPath,
    bytes: &[u8],
) -> bool {
    let names = place.scope.iter().map(|scope| scope.name.as_str());
    let surroundings: Vec<&str> = modules.iter().copied().chain(names).collect();
    let class = place.scope.iter().rfind(|scope| scope.is_type).map(|scope| scope.name.as_str());
    let before = line_before(bytes, place.offset);
    let receiver = receiver(&before);
    match receiver.split_last() {
        None => {
            let is_new = before.trim_end().split(|c| !is_word(c)).next_back() == Some("new");
            has_implicit_receiver(path) && !is_new && class == Some(nearest) && holds(&surroundings, outer)
        }
        Some((object, chain)) if *object == nearest => {
            outer.iter().all(|name| chain.contains(name) || surroundings.contains(name))
        }
        Some((object, [])) => {
            ITSELF.contains(object) && class == Some(nearest) && holds(&surroundings, outer)
        }
        Some(_) => false,
    }
}

/// What stands before `offset` in its line; of a very long line, the last whole words.
fn line_before(bytes: &[u8], offset: usize) -> Cow<'_, str> {
    let before = bytes.get(offset.saturating_sub(MAX_RECEIVER_BYTES)..offset).unwrap_or_default();
    match before.iter().rposition(|byte| *byte == b'\n') {
        Some(at) => String::from_utf8_lossy(&before[at + 1..]),
        None if before.len() < offset => {
            let start = before.iter().position(|byte| byte.is_ascii() && !is_word(char::from(*byte)));
            String::from_utf8_lossy(&before[start.unwrap_or(before.len())..])
        }
        None => String::from_utf8_lossy(before),
    }
}

/// Whether a word that begins a definition stands before a name.
fn is_defined_after(before: &str) -> bool {
    const WORDS: [&str; 10] =
        ["class", "def", "fn", "func", "function", "interface", "mod", "module", "new", "trait"];
    let words = before.trim_end();
    words.len() < before.len()
        && words.split(|c| !is_word(c)).next_back().is_some_and(|word| WORDS.contains(&word))
}

/// Whether arguments, a body, a type or type arguments follow a name.
fn is_used_before(after: &str, next: &str) -> bool {
    if after.starts_with('<') || after.starts_with("::<") {
        return true;
    }
    let after = after.trim_start();
    let after = if after.is_empty() { next.trim_start() } else { after };
    match after.strip_prefix('!').unwrap_or(after).chars().next() {
        Some('(' | '{') => true,
        Some('[') => after.starts_with('!'),
        Some(':') => !after.starts_with("::"),
        _ => false,
    }
}

/// Whether `wanted` stand in `all` in this order, others between them or not.
fn holds(all: &[&str], wanted: &[&str]) -> bool {
    let mut all = all.iter();
    wanted.iter().all(|name| all.any(|one| one == name))
}

/// Languages in which a bare call inside a class may be one of its methods.
fn has_implicit_receiver(path: &RepoPath) -> bool {
    [".java", ".rb", ".rake"].iter().any(|ending| path.as_str().ends_with(ending))
}

/// What stands in the line before and after each mention of a name as a whole word.
fn mentions<'a>(line: &'a str, name: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    line.match_indices(name).filter_map(move |(at, _)| {
        let (before, after) = (&line[..at], &line[at + name.len()..]);
        (!before.ends_with(is_word) && !after.starts_with(is_word)).then_some((before, after))
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The names in the expression that something is called on, from the left: `a` and `b` where `before` ends in
/// `a(x).b[0].`; none where it is called on nothing.
fn receiver(before: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = before.trim_end();
    while let Some(object) = ["?.", "&.", "->", "::", "."].iter().find_map(|dot| rest.strip_suffix(dot)) {
        let object = without_brackets(object.trim_end());
        let start = object.trim_end_matches(is_word).len();
        let name = &object[start..];
        // What is called on something without a name is called on something, all the same.
        if !name.is_empty() || !object.ends_with("::") {
            names.push(name);
        }
        rest = object[..start].trim_end();
    }
    names.reverse();
    names
}

/// Without arguments, indices and type arguments at its end; empty where those do not close.
fn without_brackets(mut text: &str) -> &str {
    while text.ends_with([')', ']', '>']) && !text.ends_with("->") {
        let mut depth = 0usize;
        let opening = text.char_indices().rev().find(|(_, c)| {
            match c {
                ')' | ']' | '>' => depth += 1,
                '(' | '[' | '<' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        });
        text = opening.map_or("", |(at, _)| text[..at].trim_end());
    }
    text
}

#[cfg(test)]
mod tests;
