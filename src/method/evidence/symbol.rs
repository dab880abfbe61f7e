//! Whether a place in a file is the symbol that a model names.
//!
//! Names alone are shared by many: where a model names more than that (a class, a module, what something is
//! called on), all of it must be seen in the file or in its path. What cannot be seen does not hold.

use crate::{domain::RepoPath, method::ports::SymbolPlace};

/// A symbol as a model writes it: `parse`, `Parser.parse`, `parser::Parser::parse()`.
pub(super) struct Symbol<'a> {
    /// Without arguments: what is looked up, and all that may be shown as found.
    pub text: &'a str,
    scope: Vec<&'a str>,
    name: &'a str,
}

/// How code calls the object or module that it is part of.
const ITSELF: [&str; 7] = ["self", "Self", "this", "cls", "crate", "super", "static"];

impl<'a> Symbol<'a> {
    pub fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim().trim_matches('`');
        let text = text.split(['(', '<']).next()?.trim_end().trim_end_matches('!');
        let mut scope: Vec<&str> = text.split([':', '.', '#', '/']).filter(|part| !part.is_empty()).collect();
        let name = scope.pop()?;
        scope.retain(|part| !ITSELF.contains(part));
        Some(Self { text, scope, name })
    }

    pub fn names(&self, place: &SymbolPlace, path: &RepoPath, lines: &[&str]) -> bool {
        if self.name != place.name {
            return false;
        }
        let Some((nearest, outer)) = self.scope.split_last() else {
            return true;
        };
        let modules: Vec<&str> = path.as_str().split('/').filter_map(|part| part.split('.').next()).collect();
        let around: Vec<&str> = place.scope.iter().map(String::as_str).collect();
        if !place.is_definition {
            let line = lines.get(place.first as usize - 1).copied().unwrap_or_default();
            return self.is_called_on(line, nearest, outer, &[modules, around].concat(), path);
        }
        match around.split_last() {
            Some((innermost, around)) => innermost == nearest && holds(&[&modules, around].concat(), outer),
            None => holds(&modules, &self.scope),
        }
    }

    /// Whether every mention of the name in a line that calls it is one on `nearest`: which of them is the
    /// call, and which stands in a string or a remark, cannot be told.
    fn is_called_on(
        &self,
        line: &str,
        nearest: &str,
        outer: &[&str],
        surroundings: &[&str],
        path: &RepoPath,
    ) -> bool {
        let class = surroundings.iter().rfind(|name| name.starts_with(char::is_uppercase));
        mentions(line, self.name).all(|before| {
            let receiver = receiver(before);
            match receiver.split_last() {
                None => has_implicit_receiver(path) && class == Some(&nearest),
                Some((object, [])) if ITSELF.contains(object) && *object != "super" => {
                    class == Some(&nearest) && holds(surroundings, outer)
                }
                Some((object, chain)) => {
                    *object == nearest
                        && outer.iter().all(|name| chain.contains(name) || surroundings.contains(name))
                }
            }
        })
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

/// What stands in the line before each mention of a name as a whole word.
fn mentions<'a>(line: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    line.match_indices(name).filter_map(move |(at, _)| {
        let (before, after) = (&line[..at], &line[at + name.len()..]);
        (!before.ends_with(is_word) && !after.starts_with(is_word)).then_some(before)
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
mod tests {
    use super::*;

    fn is_called(line: &str, symbol: &str, file: &str, scope: &[&str]) -> bool {
        let symbol = Symbol::parse(symbol).unwrap();
        let scope = scope.iter().map(|name| (*name).to_owned()).collect();
        let place = SymbolPlace { name: "open".into(), scope, first: 1, last: 1, is_definition: false };
        symbol.names(&place, &RepoPath::parse(file).unwrap(), &[line])
    }

    fn is_defined(symbol: &str, file: &str, scope: &[&str]) -> bool {
        let symbol = Symbol::parse(symbol).unwrap();
        let scope = scope.iter().map(|name| (*name).to_owned()).collect();
        let place = SymbolPlace { name: "open".into(), scope, first: 1, last: 1, is_definition: true };
        symbol.names(&place, &RepoPath::parse(file).unwrap(), &["def open(self):"])
    }

    #[test]
    fn a_call_is_one_on_what_was_named() {
        let on_line = |line: &str, symbol: &str| is_called(line, symbol, "a.py", &["use"]);
        for line in [
            "Store.open(x)",
            "x = Store(a, b(c)).open(x)",
            "Store::open(x)",
            "Store::<u8>::open(x)",
            "Store<u8>::open(x)",
            "y = a > Store.open(x)",
            "pkg.Store[0]?.open(x)",
            "store_x = Store . open(x)",
        ] {
            assert!(on_line(line, "Store.open"), "{line}");
        }
        for line in [
            "other.open(Store)",
            "f(Store).open(x)",
            "Store.inner.open(x)",
            "open(x)  # as Store.open does",
            "other.open('Store.open')",
            "MyStore.open(x)",
            "Store, other.open(x)",
            "(Store).x().open(x)",
            "open(x)",
        ] {
            assert!(!on_line(line, "Store.open"), "{line}");
        }
        assert!(on_line("os.path.open(x)", "os.path.open"));
        assert!(!on_line("my.path.open(x)", "os.path.open"));
        assert!(on_line("my.path.open(x)", "open()"), "a name alone claims no more");
    }

    #[test]
    fn a_call_on_itself_is_one_of_the_class_around_it() {
        let inside = |line: &str, file: &str, scope: &[&str]| is_called(line, "Store.open", file, scope);
        assert!(inside("self.open(x)", "a.py", &["Store", "save"]));
        assert!(inside("Self::open(x)", "a.rs", &["Store", "save"]));
        assert!(inside("open(x);", "A.java", &["Store", "save"]));
        assert!(!inside("open(x)", "a.py", &["Store", "save"]), "the built-in");
        assert!(!inside("super().open(x)", "a.py", &["Store", "save"]), "the parent's");
        assert!(!inside("super.open(x)", "a.js", &["Store", "save"]), "the parent's");
        assert!(!inside("self.file.open(x)", "a.py", &["Store", "save"]));
        assert!(!inside("self.open(x)", "a.py", &["Store", "Inner", "save"]), "the inner class's");
        assert!(!inside("reopen(); other.open(x)", "a.py", &["Store", "save"]));
    }

    #[test]
    fn a_definition_lies_in_all_that_was_named() {
        for (symbol, file, scope) in [
            ("open", "a.py", &["Store"][..]),
            ("Store.open", "a.py", &["Store"]),
            ("store.Store.open", "src/store/__init__.py", &["Store"]),
            ("django.db.Store.open", "django/db/models/base.py", &["Store"]),
            ("crate::store::Store::open()", "src/store/mod.rs", &["Store"]),
            ("store.open", "store.py", &[]),
            ("com.example.Store.open", "src/main/java/com/example/Store.java", &["Store"]),
        ] {
            assert!(is_defined(symbol, file, scope), "{symbol} in {file}");
        }
        for (symbol, file, scope) in [
            ("requests.Store.open", "src/store.py", &["Store"][..]),
            ("Archive.open", "store.py", &["Store"]),
            ("Store.open", "a.py", &["Store", "Inner"]),
            ("Store.open", "a.py", &[]),
            ("db.django.Store.open", "django/db/base.py", &["Store"]),
        ] {
            assert!(!is_defined(symbol, file, scope), "{symbol} in {file}");
        }
    }

    #[test]
    fn only_what_is_looked_up_is_kept() {
        assert_eq!(Symbol::parse("`Store.open() deletes all files`").unwrap().text, "Store.open");
        assert_eq!(Symbol::parse("open <b>always</b>").unwrap().text, "open");
        assert_eq!(Symbol::parse("println!").unwrap().text, "println");
        for nothing in ["", "``", "()", "::", " . "] {
            assert!(Symbol::parse(nothing).is_none_or(|s| s.name.trim().is_empty()), "{nothing:?}");
        }
    }
}
