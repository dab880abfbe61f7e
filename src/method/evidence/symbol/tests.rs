use super::*;
use crate::method::ports::Scope;

/// Names that begin with a capital are types'.
fn scopes(names: &[&str]) -> Vec<Scope> {
    let scope =
        |name: &&str| Scope { name: (*name).to_owned(), is_type: name.starts_with(char::is_uppercase) };
    names.iter().map(scope).collect()
}

/// Whether the last `open` of the text is a call of `symbol`.
fn is_called(text: &str, symbol: &str, file: &str, scope: &[&str]) -> bool {
    let symbol = Symbol::parse(symbol).unwrap();
    let offset = text.rfind("open(").unwrap();
    let scope = scopes(scope);
    let place = SymbolPlace { name: "open".into(), offset, scope, first: 1, last: 1, is_definition: false };
    symbol.names(&place, &RepoPath::parse(file).unwrap(), text.as_bytes())
}

fn is_defined(symbol: &str, file: &str, scope: &[&str]) -> bool {
    let symbol = Symbol::parse(symbol).unwrap();
    let scope = scopes(scope);
    let place = SymbolPlace { name: "open".into(), offset: 4, scope, first: 1, last: 1, is_definition: true };
    symbol.names(&place, &RepoPath::parse(file).unwrap(), b"def open(self):")
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

/// What a name is called on is what the code writes, or, for the class around it, what it writes for itself.
#[test]
fn words_for_itself_are_names_too() {
    let inside = |line: &str, symbol: &str| is_called(line, symbol, "a.py", &["Store", "save"]);
    assert!(inside("self.open(x)", "self.open"));
    assert!(inside("self.file.open(x)", "self.file.open"));
    assert!(inside("super.open(x)", "super.open"));
    assert!(!inside("open(x)", "self.open"), "the built-in");
    assert!(!inside("other.open(x)", "self.open"));
    assert!(!inside("file.open(x)", "self.file.open"));
    assert!(!inside("self.open(x)", "super.open"));
    assert!(is_called("crate::open(x)", "crate::open", "src/a.rs", &[]));
    assert!(!is_called("open(x)", "crate::open", "src/a.rs", &[]));
    assert!(is_defined("self.open", "a.py", &["Store"]));
    assert!(!is_defined("self.open", "a.py", &[]));
    assert!(!is_defined("self.open", "a.py", &["Store", "save"]), "a function inside a method");
    assert!(!is_defined("super.open", "a.py", &["Store"]));
    assert!(!is_defined("crate::open", "src/a.rs", &["Store"]));
}

#[test]
fn what_is_called_is_read_where_it_stands() {
    assert!(is_called("other.open(); Store.open(x)", "Store.open", "a.py", &[]));
    assert!(!is_called("Store.open; other.open(x)", "Store.open", "a.py", &[]));
    assert!(!is_called("# See the Store.\nopen(x)", "Store.open", "a.py", &[]), "another line");
    assert!(!is_called("new open(x);", "Store.open", "A.java", &["Store", "save"]));
    assert!(!is_called("open(x);", "Archive.Store.open", "A.java", &["Store", "save"]));
    let long = |start: &str| format!("{start}{}.open(x)", "e".repeat(2 * MAX_RECEIVER_BYTES));
    assert!(!is_called(&long("Stor"), "Store.open", "a.js", &[]));
    let far = format!("{}; Store.open(x)", "x = y; ".repeat(MAX_RECEIVER_BYTES));
    assert!(is_called(&far, "Store.open", "a.js", &[]));
}

#[test]
fn what_is_called_on_something_unread_is_not_decided() {
    let is_decided = |symbol: &str, text: &str| {
        let offset = text.rfind("open(").unwrap();
        let place = SymbolPlace {
            name: "open".into(),
            offset,
            scope: vec![],
            first: 1,
            last: 1,
            is_definition: false,
        };
        Symbol::parse(symbol).unwrap().is_decided(&place, text.as_bytes())
    };
    assert!(!is_decided("Store.open", "store\n    .open(x)"));
    assert!(!is_decided("Store.open", "'text'.open(x)"));
    assert!(is_decided("Store.open", "other.open(x)"));
    assert!(is_decided("Store.open", "open(x)"));
    assert!(is_decided("open", "store\n    .open(x)"));
}

#[test]
fn a_name_that_no_grammar_read_may_be_a_definition_or_a_call() {
    let symbol = Symbol::parse("open").unwrap();
    let doubtful = |lines: &[&str]| symbol.may_stand_elsewhere(lines, &BTreeSet::new());
    for lines in [
        &["class open"][..],
        &["struct open", "{"],
        &["#define OPEN ex.open(x)"],
        &["$x.open ( y )"],
        &["open!{ x }", "open::<u8>(x)"],
        &["open<T>(x)"],
        &["open: function"],
    ] {
        assert!(doubtful(lines), "{lines:?}");
        let all = (1..=lines.len() as u32).collect();
        assert!(!symbol.may_stand_elsewhere(lines, &all), "{lines:?}");
    }
    for line in
        ["reopen(x)", "open_all(x)", "handlers = [open, close]", "open::inner(x)", "x = open", "open < 3"]
    {
        assert!(!doubtful(&[line]), "{line}");
    }
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
