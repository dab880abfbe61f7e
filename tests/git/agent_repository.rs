//! The repository that agents get: usable with the real git, and without a trace of what came later.

use std::fs;

use acquire::{domain::Change, method::ports::SourceTree};

use super::project::{Cache, Project, Workspace};

const MANY: u64 = 64 << 20;

#[tokio::test]
async fn status_diff_log_and_blame_work_and_the_tree_is_clean() {
    let project = Project::new();
    project.write("src/a.py", "one\ntwo\n").commit("one");
    let base = project.write("src/a.py", "one\nTWO\n").write("caf\u{e9} \"x\"", "\u{e9}").commit("two");
    let cache = Cache::new();
    let workspace = Workspace::fill(&cache.tree(&project, "trunk").await, MANY).await;
    assert_eq!(
        workspace.git(&["status", "--porcelain=v2", "--branch"]),
        format!("# branch.oid {base}\n# branch.head main")
    );
    assert_eq!(workspace.git(&["log", "--format=%s"]), "two\none");
    assert!(workspace.git(&["blame", "src/a.py"]).contains("TWO"));
    workspace.git(&["fsck", "--strict"]);
    fs::write(workspace.path().join("src/a.py"), "one\nthree\n").unwrap();
    assert!(workspace.git(&["diff"]).contains("+three"));
    workspace.git(&["stash"]);
    workspace.git(&["stash", "pop"]);
    workspace.git(&["commit", "--quiet", "--all", "-m", "mine"]);
    assert_eq!(workspace.git(&["log", "--format=%s"]), "mine\ntwo\none");
}

/// Attributes of the repository would convert line ends or encodings, and call filters.
#[tokio::test]
async fn s_57_bytes_in_the_work_tree_are_those_of_the_blobs() {
    let project = Project::new();
    project.git(&["config", "core.autocrlf", "false"]);
    let attributes = "*.txt text eol=crlf ident\n*.bin filter=lfs diff=lfs merge=lfs -text\n*.u16 working-tree-encoding=UTF-16\n";
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n";
    // Written past the index, so that blobs hold what the attributes forbid.
    for (path, content) in [
        (".gitattributes", attributes.as_bytes()),
        ("crlf.txt", b"a\r\nb\r\n"),
        ("lf.txt", b"$Id$\nb\n"),
        ("pointer.bin", pointer.as_bytes()),
        ("latin1.u16", b"caf\xe9"),
    ] {
        let id = project.blob(content);
        project.git(&["update-index", "--add", "--cacheinfo", &format!("100644,{id},{path}")]);
    }
    project.commit_index("attributes");
    let cache = Cache::new();
    let workspace = Workspace::fill(&cache.tree(&project, "trunk").await, MANY).await;
    assert_eq!(workspace.git(&["status", "--porcelain"]), "");
    assert_eq!(fs::read(workspace.path().join("pointer.bin")).unwrap(), pointer.as_bytes());
    assert_eq!(fs::read(workspace.path().join("crlf.txt")).unwrap(), b"a\r\nb\r\n");
    // Also when git writes the files itself.
    workspace.git(&["rm", "--quiet", "--cached", "-r", "."]);
    workspace.git(&["reset", "--quiet", "--hard"]);
    assert_eq!(fs::read(workspace.path().join("crlf.txt")).unwrap(), b"a\r\nb\r\n");
    assert_eq!(fs::read(workspace.path().join("lf.txt")).unwrap(), b"$Id$\nb\n");
    assert_eq!(fs::read(workspace.path().join("latin1.u16")).unwrap(), b"caf\xe9");
}

#[tokio::test]
async fn nothing_later_than_the_base_can_be_found() {
    let project = Project::new();
    project.write("a", "1").commit("one");
    let base = project.write("a", "2").commit("two");
    project.git(&["tag", "--annotate", "-m", "later tag", "v2"]);
    project.git(&["checkout", "--quiet", "-b", "side", "HEAD~1"]);
    let side = project.write("side", "secret").commit("beside");
    project.git(&["checkout", "--quiet", "trunk"]);
    let fix = project.write("a", "the fix").commit("three");
    let cache = Cache::new();
    // The mirror has served the newest commit before, which must not matter.
    Workspace::fill(&cache.tree(&project, "trunk").await, MANY).await;
    let workspace = Workspace::fill(&cache.tree(&project, &base).await, MANY).await;
    assert_eq!(workspace.git(&["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
    assert_eq!(workspace.git(&["reflog", "--all"]), "");
    assert_eq!(workspace.git(&["rev-list", "--count", "--all"]), "2");
    let all = workspace.git(&["cat-file", "--batch-all-objects", "--batch-check"]);
    let of = |kind: &str| all.lines().filter(|line| line.split(' ').nth(1) == Some(kind)).count();
    assert_eq!((of("commit"), of("tag"), of("blob")), (2, 0, 2));
    for later in [fix, side] {
        assert!(!all.contains(&later));
    }
}

#[tokio::test]
async fn a_submodule_stays_out_and_the_tree_is_clean_all_the_same() {
    let project = Project::new();
    let other = "1111111111111111111111111111111111111111";
    project.write("a", "1").write(".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = ssh://evil/x\n");
    project.git(&["add", "--all"]);
    project.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{other},sub")]);
    project.commit_index("with a submodule");
    let cache = Cache::new();
    let workspace = Workspace::fill(&cache.tree(&project, "trunk").await, MANY).await;
    assert!(!workspace.path().join("sub").exists());
    assert_eq!(workspace.git(&["status", "--porcelain"]), "");
}

#[tokio::test]
async fn git_files_without_history_are_refused() {
    let project = Project::new();
    project.write("a", "1").commit("one");
    let cache = Cache::new();
    let tree = cache.tree(&project, "trunk").await;
    let told = tree.git_files("/history").await.unwrap_err();
    assert!(told.to_string().contains("before its history was packed"), "{told}");
    let into = tempfile::tempdir().unwrap();
    tree.history(into.path().into(), MANY).await.unwrap();
    for bad in ["relative", "/a\n/b", ""] {
        assert!(tree.git_files(bad).await.is_err(), "{bad:?}");
    }
    let files = tree.git_files("/history").await.unwrap();
    let find = |path: &str| files.iter().find(|file| file.path == path.as_bytes());
    let content = |path: &str| find(path).map(|Change { content, .. }| String::from_utf8_lossy(content));
    assert_eq!(content("objects/info/alternates").as_deref(), Some("/history\n"));
    assert_eq!(content("HEAD").as_deref(), Some("ref: refs/heads/main\n"));
    assert!(find("shallow").is_none());
    assert!(!files.iter().any(|file| file.path.starts_with(b"hooks") || file.path.starts_with(b"logs")));
}
