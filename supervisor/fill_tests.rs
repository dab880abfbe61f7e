use std::{
    fs,
    os::unix::fs::{MetadataExt as _, symlink},
    path::Path,
};

use super::*;
use crate::sandbox::wire::{CHUNK, Cause};

fn fill(dir: &Path) -> Fill {
    Fill::new(system::open_root(dir.as_os_str()).unwrap())
}

fn file(fill: &mut Fill, stage: Stage, path: &str, content: &str) {
    fill.entry(stage, Mode::Regular, content.len() as u64, path.into(), content.as_bytes());
}

#[test]
fn a_tree_is_written_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut fill = fill(dir.path());
    let large = vec![1; CHUNK + 1];
    fill.entry(Stage::Base, Mode::Regular, large.len() as u64, b"a/b/large".to_vec(), &large[..CHUNK]);
    fill.more(&large[CHUNK..]);
    fill.entry(Stage::Base, Mode::Executable, 2, b"a/run".to_vec(), b"hi");
    fill.entry(Stage::Base, Mode::Symlink, 11, b"a/link".to_vec(), b"/etc/passwd");
    fill.entry(Stage::Base, Mode::Regular, 0, b"caf\xe9\n".to_vec(), b"");
    file(&mut fill, Stage::Git, ".git/HEAD", "ref");
    let filled = fill.finish().map_err(|f| f.message).unwrap();
    assert_eq!((filled.entries, filled.bytes), (5, CHUNK as u64 + 1 + 2 + 11 + 3));
    assert!(filled.git && !filled.changed);
    assert_eq!(fs::read(dir.path().join("a/b/large")).unwrap(), large);
    assert_eq!(fs::metadata(dir.path().join("a/run")).unwrap().mode() & 0o777, 0o755);
    assert_eq!(fs::read_link(dir.path().join("a/link")).unwrap(), Path::new("/etc/passwd"));
    assert_eq!(fs::read(dir.path().join(".git/HEAD")).unwrap(), b"ref");
}

#[test]
fn s_23_only_the_hosts_git_files_go_below_dot_git() {
    for (stage, path) in [
        (Stage::Base, ".git/config"),
        (Stage::Base, "sub/.git/hooks/pre-commit"),
        (Stage::Base, ".git"),
        (Stage::Saved, ".git/config"),
        (Stage::Saved, "sub/.git"),
        (Stage::Git, "config"),
        (Stage::Git, ".git"),
        (Stage::Git, ".git/modules/.git/x"),
        (Stage::Git, ".git/../x"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut fill = fill(dir.path());
        file(&mut fill, stage, path, "x");
        let failure = fill.finish().map(drop).unwrap_err();
        assert_eq!(failure.cause, Cause::Refused, "{path}");
        assert!(failure.message.contains(path), "{}", failure.message);
    }
}

#[test]
fn s_20_a_fill_never_leaves_the_workspace() {
    let outside = tempfile::tempdir().unwrap();
    let out = outside.path().to_str().unwrap();
    for stage in [Stage::Base, Stage::Saved] {
        for path in ["/tmp/x", "../x", "a/../../x", "a//x", "a/./x", "", "a/"] {
            let dir = tempfile::tempdir().unwrap();
            let mut fill = fill(dir.path());
            file(&mut fill, stage, path, "x");
            assert!(fill.finish().is_err(), "{path}");
        }
        let dir = tempfile::tempdir().unwrap();
        let mut fill = fill(dir.path());
        fill.entry(Stage::Base, Mode::Symlink, out.len() as u64, b"a".to_vec(), out.as_bytes());
        file(&mut fill, stage, "a/x", "x");
        // A tree cannot be like that; in a saved change, the directory has replaced the symlink.
        assert_eq!(fill.finish().is_ok(), stage == Stage::Saved);
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}

#[test]
fn saved_changes_and_removals_come_out_the_same_in_any_order() {
    let expected = ["d", "e/x", "kept"];
    let steps: [fn(&mut Fill); 5] = [
        |fill| file(fill, Stage::Saved, "d", "was a directory"),
        |fill| fill.remove(b"d/a"),
        |fill| fill.remove(b"d/b/c"),
        |fill| file(fill, Stage::Saved, "e/x", "was a symlink"),
        |fill| fill.remove(b"e"),
    ];
    for turn in 0..steps.len() {
        let dir = tempfile::tempdir().unwrap();
        let mut fill = fill(dir.path());
        file(&mut fill, Stage::Base, "d/a", "1");
        file(&mut fill, Stage::Base, "d/b/c", "2");
        fill.entry(Stage::Base, Mode::Symlink, 4, b"e".to_vec(), b"kept");
        file(&mut fill, Stage::Base, "kept", "3");
        file(&mut fill, Stage::Base, "gone/completely", "4");
        for step in steps.iter().cycle().skip(turn).take(steps.len()) {
            step(&mut fill);
        }
        fill.remove(b"gone/completely");
        let filled = fill.finish().map_err(|f| f.message).unwrap();
        assert!(filled.changed);
        let mut found: Vec<_> = walk(dir.path(), dir.path());
        found.sort();
        assert_eq!(found, expected, "{turn}");
        assert!(!dir.path().join("gone").exists());
        file_is(dir.path(), "d", "was a directory");
    }
}

fn file_is(dir: &Path, path: &str, content: &str) {
    assert_eq!(fs::read_to_string(dir.join(path)).unwrap(), content);
}

fn walk(root: &Path, dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(walk(root, &entry.path()));
        } else {
            found.push(entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned());
        }
    }
    found
}

#[test]
fn wrong_order_and_wrong_sizes_are_refused() {
    type Steps = fn(&mut Fill);
    let cases: [(&str, Steps); 5] = [
        ("content came without", |fill| fill.more(b"x")),
        ("longer than it said", |fill| fill.entry(Stage::Base, Mode::Regular, 1, b"a".to_vec(), b"xy")),
        ("3 bytes too early", |fill| fill.entry(Stage::Base, Mode::Regular, 4, b"a".to_vec(), b"x")),
        ("before the saved changes", |fill| {
            file(fill, Stage::Saved, "a", "x");
            file(fill, Stage::Base, "b", "x");
        }),
        ("cannot write a: File exists", |fill| {
            file(fill, Stage::Base, "a", "x");
            file(fill, Stage::Base, "a", "y");
            file(fill, Stage::Base, "not/written", "y");
        }),
    ];
    for (message, steps) in cases {
        let dir = tempfile::tempdir().unwrap();
        symlink("nowhere", dir.path().join("dangling")).unwrap();
        let mut fill = fill(dir.path());
        steps(&mut fill);
        let failure = fill.finish().map(drop).unwrap_err();
        assert!(failure.message.contains(message), "{}", failure.message);
        assert!(!dir.path().join("not").exists());
    }
}
