//! The languages that can be parsed, and which file is written in which.

use std::sync::LazyLock;

use tree_sitter::Query;

use crate::domain::RepoPath;

/// A grammar with our query for it (`queries/README.md` tells what is captured).
pub(super) struct Language {
    pub grammar: tree_sitter::Language,
    pub query: Query,
}

impl Language {
    fn new(grammar: impl Into<tree_sitter::Language>, query: &str) -> Self {
        let grammar = grammar.into();
        let query = Query::new(&grammar, query)
            .expect("the query ships with the program, and a test compiles it against the grammar");
        Self { grammar, query }
    }
}

static C: LazyLock<Language> =
    LazyLock::new(|| Language::new(tree_sitter_c::LANGUAGE, include_str!("queries/c.scm")));
/// Also for headers: C++ has nearly all of C.
static CPP: LazyLock<Language> = LazyLock::new(|| {
    Language::new(
        tree_sitter_cpp::LANGUAGE,
        concat!(include_str!("queries/c.scm"), include_str!("queries/cpp.scm")),
    )
});
static GO: LazyLock<Language> =
    LazyLock::new(|| Language::new(tree_sitter_go::LANGUAGE, include_str!("queries/go.scm")));
static JAVA: LazyLock<Language> =
    LazyLock::new(|| Language::new(tree_sitter_java::LANGUAGE, include_str!("queries/java.scm")));
static JAVASCRIPT: LazyLock<Language> = LazyLock::new(|| {
    Language::new(
        tree_sitter_javascript::LANGUAGE,
        concat!(include_str!("queries/ecmascript.scm"), include_str!("queries/javascript.scm")),
    )
});
static PYTHON: LazyLock<Language> =
    LazyLock::new(|| Language::new(tree_sitter_python::LANGUAGE, include_str!("queries/python.scm")));
static RUBY: LazyLock<Language> =
    LazyLock::new(|| Language::new(tree_sitter_ruby::LANGUAGE, include_str!("queries/ruby.scm")));
static RUST: LazyLock<Language> =
    LazyLock::new(|| Language::new(tree_sitter_rust::LANGUAGE, include_str!("queries/rust.scm")));
static TYPESCRIPT: LazyLock<Language> =
    LazyLock::new(|| Language::new(tree_sitter_typescript::LANGUAGE_TYPESCRIPT, TYPESCRIPT_QUERY));
static TSX: LazyLock<Language> =
    LazyLock::new(|| Language::new(tree_sitter_typescript::LANGUAGE_TSX, TYPESCRIPT_QUERY));

const TYPESCRIPT_QUERY: &str =
    concat!(include_str!("queries/ecmascript.scm"), include_str!("queries/typescript.scm"));

/// The language of a file, by its name; `None` where there is no grammar for it.
pub(super) fn of(path: &RepoPath) -> Option<&'static Language> {
    let name = path.as_str().rsplit('/').next().unwrap_or_default();
    if matches!(name, "Rakefile" | "Gemfile") {
        return Some(&RUBY);
    }
    let (_, extension) = name.rsplit_once('.')?;
    Some(match extension {
        "c" => &C,
        "cc" | "cpp" | "cxx" | "h" | "hh" | "hpp" | "hxx" => &CPP,
        "go" => &GO,
        "java" => &JAVA,
        "js" | "jsx" | "mjs" | "cjs" => &JAVASCRIPT,
        "py" | "pyi" => &PYTHON,
        "rb" | "rake" | "gemspec" => &RUBY,
        "rs" => &RUST,
        "ts" | "mts" | "cts" => &TYPESCRIPT,
        "tsx" => &TSX,
        _ => return None,
    })
}
