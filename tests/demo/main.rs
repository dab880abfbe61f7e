//! The demo as a newcomer runs it, and what becomes of its citations when the code is another.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

/// The program with an empty home and nothing set.
fn acquire(folder: &Path) -> Command {
    let home = folder.join("home");
    std::fs::create_dir_all(&home).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_acquire"));
    command.current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", home);
    // rustup's own settings, where the toolchain is not in the home that it would look in.
    for name in ["RUSTUP_HOME", "CARGO_HOME"] {
        let usual = std::env::var_os("HOME")
            .map(|h| PathBuf::from(h).join(if name == "RUSTUP_HOME" { ".rustup" } else { ".cargo" }));
        if let Some(value) = std::env::var_os(name).or(usual.filter(|p| p.exists()).map(Into::into)) {
            command.env(name, value);
        }
    }
    command
}

#[track_caller]
fn finished(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\nstdout: {stdout}\nstderr: {stderr}", output.status);
    (stdout, stderr)
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
        .unwrap()
}

/// Each citation's check, with what it quotes or names.
fn citations(knowledge: &Value) -> Vec<(String, String)> {
    let pairs = knowledge["pairs"].as_array().unwrap();
    let all = pairs.iter().flat_map(|pair| pair["answer"]["citations"].as_array().unwrap());
    all.map(|c| (c["check"].as_str().unwrap().to_owned(), format!("{} {}", c["quote"], c["symbol"])))
        .collect()
}

#[test]
fn the_demo_shows_knowledge_a_patch_and_its_tests_on_a_bare_machine() {
    let folder = TempDir::new().unwrap();
    let (stdout, stderr) = finished(&acquire(folder.path()).args(["demo", "--out", "out"]).output().unwrap());
    let out = folder.path().join("out");
    let mode = std::os::unix::fs::PermissionsExt::mode(&out.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700, "others can read it");
    let run = json(&out.join("run.json"));
    assert_eq!((&run["outcome"], &run["sandbox"]), (&Value::from("patch"), &Value::from("namespaces")));
    assert!(run.get("notes").is_none_or(|n| !n.to_string().contains("differs")), "a strict replay: {run}");

    let checks = citations(&json(&out.join("knowledge.json")));
    assert!(checks.len() >= 4, "{checks:?}");
    assert!(checks.iter().all(|(check, _)| check == "verified" || check == "moved"), "{checks:?}");

    let comment = std::fs::read_to_string(out.join("comment.md")).unwrap();
    let diff = std::fs::read_to_string(out.join("patch.diff")).unwrap();
    assert!(stdout.contains(comment.trim()), "{stdout}");
    assert!(stdout.contains(diff.trim()), "{stdout}");
    // The tests that no agent saw: before and after.
    assert!(stdout.contains("FAILED. 1 passed; 2 failed"), "{stdout}");
    assert!(stdout.contains("ok. 3 passed; 0 failed"), "{stdout}");
    assert!(stdout.contains("recorded"), "the replies are labelled as recorded: {stdout}");
    assert!(stdout.contains(&out.display().to_string()), "{stdout}");
    assert!(stderr.contains("stage resolve: finished"), "progress: {stderr}");
    assert!(out.join("repo/src/units.rs").exists());
    assert_excerpt_of(&comment);
}

/// What README.md quotes of the comment is what the program writes, in that order, but for its `[…]`.
#[track_caller]
fn assert_excerpt_of(comment: &str) {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let quoted: Vec<&str> = readme.lines().filter_map(|line| line.strip_prefix('>')).collect();
    let excerpt =
        quoted.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n");
    assert!(excerpt.starts_with("### What the repository says"), "{excerpt}");
    let mut rest = comment;
    for part in excerpt.split("[…]").map(str::trim).filter(|part| !part.is_empty()) {
        let Some(at) = rest.find(part) else { panic!("README.md shows {part:?}, which is not in {rest}") };
        rest = &rest[at + part.len()..];
    }
}

#[test]
fn a_renamed_function_turns_its_citations_and_the_run_says_so() {
    let folder = TempDir::new().unwrap();
    finished(&acquire(folder.path()).args(["demo", "--out", "demo"]).output().unwrap());
    let repo = folder.path().join("demo/repo");
    for file in ["src/lib.rs", "src/parse.rs", "src/units.rs", "tests/durations.rs"] {
        let path = repo.join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        let renamed = text.replace("parse(", "read(").replace("parse::parse;", "parse::read;");
        let renamed = renamed.replace("format, parse", "format, read").replace("take_unit", "split_unit");
        std::fs::write(&path, renamed).unwrap();
    }
    for arguments in [&["add", "-A"][..], &["commit", "-q", "-m", "Rename"]] {
        let git = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.invalid"])
            .args(arguments)
            .current_dir(&repo)
            .output()
            .unwrap();
        assert!(git.status.success(), "{}", String::from_utf8_lossy(&git.stderr));
    }
    let replies = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo/replies.jsonl");
    let (stdout, stderr) = finished(
        &acquire(folder.path())
            .args(["solve", "--sandbox", "namespaces", "--out", "out", "--repo"])
            .arg(&repo)
            .arg("--issue-file")
            .arg(folder.path().join("demo/issue.md"))
            .arg("--replay")
            .arg(&replies)
            .arg("--replay-lenient")
            .output()
            .unwrap(),
    );
    let out = folder.path().join("out");
    let before = citations(&json(&folder.path().join("demo/knowledge.json")));
    let after = citations(&json(&out.join("knowledge.json")));
    // What rests on the functions alone: their calls in quotes.
    let rests_on_it = |what: &str| what.contains("parse(") || what.contains("take_unit(");
    assert!(before.iter().filter(|(_, what)| rests_on_it(what)).count() >= 3, "{before:?}");
    for (check, what) in &after {
        assert!(!rests_on_it(what) || check == "unverified", "{check}: {what}");
    }
    assert!(after.iter().any(|(check, _)| check == "unverified"), "{after:?}");

    let comment = std::fs::read_to_string(out.join("comment.md")).unwrap();
    assert!(comment.contains("unverified"), "{comment}");
    let run = json(&out.join("run.json"));
    assert!(run["notes"].to_string().contains("differs in its"), "{run}");
    assert!(stdout.contains("unverified"), "the end of the run says it: {stdout}");
    assert!(!stderr.contains("unverified") && stderr.contains("stage resolve"), "{stderr}");
}
