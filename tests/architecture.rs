//! The rules of the house, checked: which room may name which, what stays pure, where prompts live, how
//! long files get, and that every requirement has a test that bears its name.

use std::{collections::BTreeSet, fmt::Display, fs};

#[path = "architecture/source.rs"]
mod source;

use source::{Source, files, project, relative, sources};

/// Which rooms, or parts of them, the code of each room may name besides its own. Dependencies point
/// inwards: the method and what it is made of know nothing of the outside.
const MAY_NAME: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("gate", &["domain", "method::ports"]),
    ("report", &["domain", "gate", "method", "store::Outcome", "store::RunSummary"]),
    ("index", &["domain", "method::ports"]),
    ("agent", &["domain", "gate", "method::ports"]),
    ("method", &["agent", "domain", "gate", "report"]),
    ("model", &["domain", "method::ports"]),
    ("sandbox", &["domain", "gate", "method::ports"]),
    ("repo", &["domain", "gate", "method::ports"]),
    ("github", &["domain"]),
    ("store", &["domain", "method::ports"]),
    ("config", &["domain"]),
    (
        "runs",
        &[
            "agent", "config", "domain", "gate", "github", "index", "method", "model", "repo", "report",
            "sandbox", "store",
        ],
    ),
    (
        "bench",
        &["agent::prompt", "config", "domain", "gate", "method::ports", "model", "report", "runs", "store"],
    ),
    (
        "cli",
        &[
            "bench", "config", "domain", "gate", "github", "method", "model", "repo", "report", "runs",
            "sandbox", "store",
        ],
    ),
];

/// Libraries that only these rooms may name.
const LIBRARIES: &[(&str, &[&str])] = &[
    ("anyhow", &["cli"]),
    ("axum", &[]),
    ("bollard", &["sandbox"]),
    ("clap", &["bench", "cli", "config", "runs"]),
    ("figment", &["config"]),
    ("git2", &["repo"]),
    ("hakoniwa", &["sandbox"]),
    ("indicatif", &["cli"]),
    ("octocrab", &[]),
    ("reqwest", &["github", "model", "repo"]),
    ("sqlx", &[]),
    ("tree_sitter", &["index"]),
    ("tree_sitter_tags", &["index"]),
];

/// Rooms of values in, values out.
const PURE: &[&str] = &["domain", "gate", "report"];
const IMPURE: &[&str] = &[
    "std::env",
    "std::fs",
    "std::io",
    "std::net",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "nix",
    "reqwest",
    "tempfile",
    "tokio",
];

/// Rooms that get time, randomness and identifiers as values.
const EXACT: &[&str] = &["domain", "gate", "report", "index", "method", "agent"];
const INEXACT: &[&str] = &["Instant::now", "SystemTime::now", "Timestamp::now", "Zoned::now", "getrandom"];

/// Most lines of a file.
const MOST_LINES: usize = 600;

/// Most characters of a text in the code of rooms that speak to models; whatever is longer is a prompt.
const MOST_TEXT: usize = 160;

/// Requirements that must stand in a test's name.
const REQUIREMENTS: &[&str] = &[
    "r_ex_1", "r_ex_2", "r_ex_3", "r_ex_4", "r_ex_5", "r_ex_6", "r_ex_7", "r_ex_8", "r_ex_9", "s_05", "s_06",
    "s_07", "s_08", "s_09", "s_10", "s_11", "s_12", "s_13", "s_14", "s_15", "s_20", "s_21", "s_22", "s_23",
    "s_24", "s_25", "s_26", "s_33", "s_34", "s_40", "s_50", "s_51", "s_52", "s_53", "s_54", "s_55", "s_56",
    "s_57", "s_58", "s_59",
];

/// Fails with one violation a line.
fn assert_none(rule: &str, violations: impl IntoIterator<Item = impl Display>) {
    let lines: Vec<String> = violations.into_iter().map(|it| format!("  {it}\n")).collect();
    assert!(lines.is_empty(), "{rule}\n{}", lines.concat());
}

fn starts_with(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The folders below `src/`.
fn rooms() -> BTreeSet<String> {
    sources(&["src"]).iter().filter_map(|file| file.room().map(str::to_owned)).collect()
}

fn forbidden_rooms(file: &Source) -> Vec<String> {
    let Some(room) = file.room() else { return Vec::new() };
    let allowed = MAY_NAME.iter().find(|(name, _)| *name == room).map_or(&[][..], |(_, allowed)| allowed);
    let fine =
        |named: &str| starts_with(named, room) || allowed.iter().any(|allowed| starts_with(named, allowed));
    let named = file
        .paths()
        .into_iter()
        .filter_map(|it| Some((it.path.strip_prefix("crate::")?.to_owned(), it.line)));
    named
        .filter(|(path, _)| !fine(path))
        .map(|(path, line)| format!("{}:{line}: {path}", file.path))
        .collect()
}

#[test]
fn dependencies_point_inwards() {
    let known: BTreeSet<String> = MAY_NAME.iter().map(|(room, _)| (*room).to_owned()).collect();
    let unknown: Vec<_> = rooms().difference(&known).cloned().collect();
    assert_none("rooms that are missing in MAY_NAME", unknown);
    assert_none("a room names one that it must not know", sources(&["src"]).iter().flat_map(forbidden_rooms));
}

/// The check above would be worth nothing if it overlooked a way of naming.
#[test]
fn every_way_of_naming_a_room_is_seen() {
    let text = r#"
        //! crate::cli is fine in a comment
        use crate::{domain::Money, github::{self, Issue}};
        #[cfg(test)]
        use crate::jobs;
        fn f() { let text = "crate::server"; crate::sandbox::open(text); tracing::info!(at = ?crate::store::X); }
        #[cfg(test)]
        mod tests { use crate::cli; #[test] fn s_99_inner() {} }
        proptest! { #[test] fn s_98_in_a_macro(x in 0..1) {} }
        #[tokio::test(flavor = "multi_thread")] #[ignore] async fn s_97_later() {}
    "#;
    let file = Source::parse("src/gate/x.rs".into(), text);
    assert_eq!(
        forbidden_rooms(&file),
        [
            "src/gate/x.rs:3: github::self",
            "src/gate/x.rs:3: github::Issue",
            "src/gate/x.rs:6: sandbox::open",
            "src/gate/x.rs:6: store::X"
        ]
    );
    assert_eq!(file.test_names(), ["s_99_inner", "s_98_in_a_macro", "s_97_later"]);
}

#[test]
fn libraries_stay_in_their_rooms() {
    let mut found = Vec::new();
    for file in sources(&["src"]) {
        let Some(room) = file.room() else { continue };
        for named in file.paths() {
            let of = LIBRARIES.iter().find(|(library, _)| starts_with(&named.path, library));
            if of.is_some_and(|(_, rooms)| !rooms.contains(&room)) {
                found.push(format!("{}:{}: {}", file.path, named.line, named.path));
            }
        }
    }
    assert_none("a library is named outside of its rooms", found);
}

fn named_in(rooms: &[&str], forbidden: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for file in sources(&["src"]).iter().filter(|file| file.room().is_some_and(|room| rooms.contains(&room)))
    {
        let paths = file.paths().into_iter().filter(|named| forbidden(&named.path));
        found.extend(paths.map(|named| format!("{}:{}: {}", file.path, named.line, named.path)));
    }
    found
}

#[test]
fn pure_rooms_do_no_input_or_output() {
    let impure = |path: &str| IMPURE.iter().any(|prefix| starts_with(path, prefix));
    assert_none("a pure room reaches outside", named_in(PURE, impure));
}

#[test]
fn time_and_randomness_come_in_as_values() {
    let inexact = |path: &str| INEXACT.iter().any(|end| path == *end || path.ends_with(&format!("::{end}")));
    assert_none("a room asks for time or randomness", named_in(EXACT, inexact));
}

#[test]
fn nothing_is_unwrapped_without_a_reason() {
    let mut found = Vec::new();
    for file in sources(&["src", "supervisor"]) {
        for (before, token) in file.tokens.iter().zip(file.tokens.iter().skip(1)) {
            if !token.in_test && before.text == "." && token.text == "unwrap" {
                found.push(format!("{}:{}", file.path, token.line));
            }
        }
    }
    assert_none("use `expect` with the reason why it cannot fail, or return an error", found);
}

#[test]
fn files_are_readable_at_one_sitting() {
    let all = sources(&["src", "supervisor", "tests", "benches"]);
    let long = all.iter().filter(|file| file.lines > MOST_LINES);
    assert_none("too long", long.map(|file| format!("{}: {} lines", file.path, file.lines)));
}

#[test]
fn prompts_say_who_reads_them_and_what_they_get() {
    let header = regex::Regex::new(r"^\{# reads: (\S[^·]*) · variables: ([a-z0-9_, ]+) #\}\n").unwrap();
    let prompts = files("prompts");
    assert!(!prompts.is_empty(), "there are no prompts");
    let mut found = Vec::new();
    for path in prompts {
        let name = relative(&path);
        let text = fs::read_to_string(&path).unwrap();
        let Some(said) = header.captures(&text) else {
            found.push(format!("{name}: the first line must be {{# reads: WHO · variables: a, b #}}"));
            continue;
        };
        let said: BTreeSet<String> =
            said[2].split(", ").filter(|variable| *variable != "none").map(str::to_owned).collect();
        let environment = minijinja::Environment::new();
        match environment.template_from_str(&text) {
            Err(error) => found.push(format!("{name}: {error:#}")),
            Ok(template) => {
                let used: BTreeSet<String> = template.undeclared_variables(false).into_iter().collect();
                if used != said {
                    found.push(format!("{name}: says it gets {said:?} but uses {used:?}"));
                }
            }
        }
    }
    assert_none("prompts", found);
}

#[test]
fn no_prompt_is_written_in_rust() {
    let speaking = |file: &&Source| matches!(file.room(), Some("agent" | "method"));
    let mut found = Vec::new();
    for file in sources(&["src"]).iter().filter(speaking) {
        let texts = file.tokens.iter().filter(|it| it.is_string && !it.in_test && !it.in_attribute);
        let long = texts.filter(|token| token.text.chars().count() > MOST_TEXT);
        found.extend(long.map(|token| format!("{}:{}: {:.60}…", file.path, token.line, token.text)));
    }
    assert_none("text this long belongs into prompts/", found);
}

#[test]
fn the_maps_show_every_room() {
    let lib = fs::read_to_string(project().join("src/lib.rs")).unwrap();
    let unlisted = rooms().into_iter().filter(|room| !lib.contains(&format!("pub mod {room}; // ")));
    assert_none("src/lib.rs has no line with a comment for", unlisted);

    let map = fs::read_to_string(project().join("docs/architecture.md")).unwrap_or_default();
    let missing = rooms()
        .into_iter()
        .filter(|room| !map.contains(&format!("`{room}`")) && !map.contains(&format!("`src/{room}")));
    assert_none("docs/architecture.md does not name", missing);
}

#[test]
fn every_requirement_has_a_test_that_bears_its_name() {
    let names: Vec<String> =
        sources(&["src", "supervisor", "tests"]).iter().flat_map(Source::test_names).collect();
    let bears = |name: &str, id: &str| {
        name.match_indices(id).any(|(at, _)| {
            let before = name[..at].chars().next_back();
            let after = name[at + id.len()..].chars().next();
            before.is_none_or(|c| c == '_') && after.is_some_and(|c| c == '_')
        })
    };
    let missing = REQUIREMENTS.iter().filter(|id| !names.iter().any(|name| bears(name, id)));
    assert_none("requirements without a test", missing);
}
