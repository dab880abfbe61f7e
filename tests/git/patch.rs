//! Patches against the real git: what `git apply` makes of them is the tree, byte for byte.

use std::{fs, path::Path};

use acquire::{
    domain::{Change, FileMode, Patch, TreeChanges},
    method::ports::{SourceError, SourceTree},
};

use super::project::{Cache, Project, git, git_command, output};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";

fn file(path: &str, content: impl AsRef<[u8]>) -> Change {
    Change { path: path.into(), mode: FileMode::Regular, content: content.as_ref().to_vec() }
}

fn lines(count: u32) -> String {
    (0..count).map(|number| format!("line {number}\n")).collect()
}

/// Applies the patch with the real git to a clone of the project, and compares the tree it makes.
fn assert_round_trip(project: &Project, patch: &Patch) {
    let elsewhere = tempfile::tempdir().unwrap();
    let source = project.path().to_str().unwrap();
    git(elsewhere.path(), &["clone", "--quiet", source, "clone"]);
    let clone = elsewhere.path().join("clone");
    let file = elsewhere.path().join("patch.diff");
    fs::write(&file, &patch.diff).unwrap();
    let mut apply = git_command(&clone);
    let result = output(apply.args(["apply", "--binary", "--index", "--whitespace=nowarn"]).arg(&file));
    let shown = String::from_utf8_lossy(&patch.diff);
    assert!(result.status.success(), "{}\n{shown}", String::from_utf8_lossy(&result.stderr));
    assert_eq!(git(&clone, &["write-tree"]), patch.tree, "{shown}");
}

fn paths(patch: &Patch) -> Vec<&str> {
    patch.summary.files.iter().map(|path| path.as_str()).collect()
}

/// A project with one of everything that patches get wrong.
fn project() -> Project {
    let project = Project::new();
    project
        .write("latin1.txt", b"caf\xe9\nna\xefve\n")
        .write("crlf.txt", "one\r\ntwo\r\n")
        .write("no-newline.txt", "one\ntwo")
        .write("image.png", PNG)
        .write("moves.txt", lines(50))
        .write("script.sh", "#!/bin/sh\n")
        .write("gone/only.txt", "x\n")
        .write("a b/caf\u{e9} \"quoted\" \t.txt", "x\n")
        .write("becomes-folder", "x\n")
        .write("becomes-file/inner/x", "x\n")
        .write("becomes-file/y", "y\n")
        .write("empty", "");
    std::os::unix::fs::symlink("latin1.txt", project.path().join("link")).unwrap();
    project.commit("one");
    project
}

#[tokio::test]
async fn s_25_git_apply_makes_the_same_tree_of_every_kind_of_change() {
    let project = project();
    let cache = Cache::new();
    let tree = cache.tree(&project, "trunk").await;
    let changes = TreeChanges {
        changed: vec![
            file("latin1.txt", b"caf\xe9s\nna\xefve\n"),
            file("crlf.txt", "one\r\n2\r\nthree\r\n"),
            file("no-newline.txt", "one\ntwo\nthree"),
            file("image.png", [PNG, b"\0IEND"].concat()),
            file("renamed/moved.txt", lines(51)),
            Change { path: "script.sh".into(), mode: FileMode::Executable, content: b"#!/bin/sh\n".to_vec() },
            file("a b/ünï\u{1f600} 'x' $(y).txt", "new\n"),
            file("becomes-folder/x", "y\n"),
            file("becomes-file", "now a file\n"),
            file("new.bin", b"\0\x01\x02"),
            file("new-empty", ""),
            Change { path: "link".into(), mode: FileMode::Symlink, content: b"crlf.txt".to_vec() },
        ],
        removed: [
            "moves.txt",
            "gone/only.txt",
            "becomes-folder",
            "becomes-file/inner/x",
            "becomes-file/y",
            "empty",
        ]
        .map(|path| path.as_bytes().to_vec())
        .to_vec(),
    };
    let patch = tree.build_patch(changes).await.unwrap();
    assert_round_trip(&project, &patch);
    assert!(String::from_utf8_lossy(&patch.diff).contains("rename to renamed/moved.txt"));
    assert!(paths(&patch).contains(&"moves.txt") && paths(&patch).contains(&"renamed/moved.txt"));
    let clone_keeps = git(&cache.only_mirror(), &["ls-tree", "--name-only", &patch.tree]);
    assert!(!clone_keeps.contains("gone"), "a folder without files is left in the tree");
}

#[tokio::test]
async fn s_25_each_change_applies_by_itself_and_is_counted() {
    let project = project();
    let cache = Cache::new();
    let tree = cache.tree(&project, "trunk").await;
    let removed = |path: &str| TreeChanges { changed: vec![], removed: vec![path.into()] };
    let changed = |change| TreeChanges { changed: vec![change], removed: vec![] };
    let odd = "a b/caf\u{e9} \"quoted\" .txt";
    let cases = [
        (changed(file("crlf.txt", "one\r\n")), vec!["crlf.txt"], 0, 1),
        (changed(file("no-newline.txt", "one\ntwo\n")), vec!["no-newline.txt"], 1, 1),
        (changed(file("image.png", "text now\n")), vec!["image.png"], 0, 0),
        (changed(file("x/y/z", "1\n2\n")), vec!["x/y/z"], 2, 0),
        (changed(file(odd, "1\n")), vec![odd], 1, 0),
        (removed("gone/only.txt"), vec!["gone/only.txt"], 0, 1),
        (removed("no/such/file"), vec![], 0, 0),
        (removed("gone"), vec![], 0, 0),
        (TreeChanges::default(), vec![], 0, 0),
    ];
    for (changes, files, insertions, deletions) in cases {
        let patch = tree.build_patch(changes).await.unwrap();
        assert_eq!(
            (paths(&patch), patch.summary.insertions, patch.summary.deletions),
            (files.clone(), insertions, deletions)
        );
        if files.is_empty() {
            assert!(patch.diff.is_empty());
        } else {
            assert_round_trip(&project, &patch);
        }
    }
}

#[tokio::test]
async fn s_25_everything_can_be_removed() {
    let project = project();
    let cache = Cache::new();
    let tree = cache.tree(&project, "trunk").await;
    let all = tree.entries().await.unwrap().iter().map(|entry| entry.path.clone()).collect::<Vec<_>>();
    let count = all.len();
    let patch = tree.build_patch(TreeChanges { changed: vec![], removed: all }).await.unwrap();
    // A name with a tab is no valid path: its removal is left out and said.
    assert_eq!(patch.summary.left_out.len(), 1);
    assert_eq!(patch.summary.left_out[0].path, "a b/caf\u{e9} \"quoted\" \\t.txt");
    assert_eq!(paths(&patch).len(), count - 1);
    assert_round_trip(&project, &patch);
}

#[tokio::test]
async fn s_25_names_that_are_not_utf_8_stay_and_the_patch_applies_beside_them() {
    use std::os::unix::ffi::OsStrExt;
    let project = Project::new();
    project.write(std::ffi::OsStr::from_bytes(b"dir/caf\xe9"), "x\n").write("dir/other", "x\n").commit("one");
    let cache = Cache::new();
    let tree = cache.tree(&project, "trunk").await;
    let changes =
        TreeChanges { changed: vec![file("dir/other", "y\n")], removed: vec![b"dir/caf\xe9".to_vec()] };
    let patch = tree.build_patch(changes).await.unwrap();
    assert_eq!(patch.summary.left_out[0].reason, "its removal cannot be part of a patch: it is not UTF-8");
    assert_eq!(paths(&patch), ["dir/other"]);
    assert_round_trip(&project, &patch);
}

/// What the scanner of secrets relies on: whatever holds no NUL can be read in the diff (S-33).
#[tokio::test]
async fn s_33_a_diff_shows_every_file_without_a_nul_as_lines() {
    let project = Project::new();
    let odd: Vec<u8> = (1..=255).collect();
    project
        .write(".gitattributes", "* binary\n*.txt -diff\n")
        .write("old.txt", &odd)
        .write("image.png", "not really")
        .commit("one");
    let cache = Cache::new();
    let tree = cache.tree(&project, "trunk").await;
    let long = vec![b'x'; 9_000_000];
    for (path, content) in [
        ("old.txt", [&odd[..], b"\nadded line\n"].concat()),
        ("image.png", b"added line\n".to_vec()),
        ("new.bin", [&odd[..], b"\nadded line\n"].concat()),
        ("bom.txt", b"\xff\xfeadded line\n".to_vec()),
        ("long", [&long[..], b"\nadded line\n"].concat()),
        (".gitattributes", b"* -diff -text\nadded line\n".to_vec()),
    ] {
        let changes = TreeChanges { changed: vec![file(path, content)], removed: vec![] };
        let diff = tree.build_patch(changes).await.unwrap().diff;
        assert!(diff.windows(11).any(|window| window == b"added line\n"), "{path}");
    }
}

/// The gate has refused these before; the tree is defended once more.
#[tokio::test]
async fn s_22_names_that_leave_the_tree_are_refused_when_it_is_built() {
    let project = project();
    let cache = Cache::new();
    let tree = cache.tree(&project, "trunk").await;
    for bad in ["/abs", "a/../b", ".git/config", "sub/.GIT/x", "a\\..\\b", ".g\u{200c}it/x", "a//b", ""] {
        let changes = TreeChanges { changed: vec![file(bad, "x")], removed: vec![] };
        let told = tree.build_patch(changes).await.unwrap_err();
        assert!(matches!(told, SourceError::Input(_)), "{bad:?}: {told:?}");
    }
    let both = TreeChanges { changed: vec![file("x", "1"), file("x/y", "2")], removed: vec![] };
    let told = tree.build_patch(both).await.unwrap_err();
    assert!(told.to_string().contains("cannot be a file and a folder at once"), "{told}");
}

#[tokio::test]
async fn a_patch_is_the_same_whenever_it_is_built() {
    let project = project();
    let changes = TreeChanges { changed: vec![file("b", "1\n"), file("a", "2\n")], removed: vec![] };
    let mut seen = Vec::new();
    for _ in 0..2 {
        let cache = Cache::new();
        seen.push(cache.tree(&project, "trunk").await.build_patch(changes.clone()).await.unwrap());
        assert!(Path::new(&cache.only_mirror()).exists());
    }
    assert_eq!(seen[0], seen[1]);
}
