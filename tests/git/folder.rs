//! Repositories on this machine.

use std::path::Path;

use acquire::{
    domain::{CommitId, RepoPath},
    method::ports::{SourceError, SourceTree},
};

use super::project::{Cache, Project, git, snapshot, streamed};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

async fn error_for(project: &Path, base: Option<&str>) -> String {
    let cache = Cache::new();
    let refused = match cache.mirror(text(project)).await {
        Ok(mirror) => mirror.at(base).await.err().expect("the base was found"),
        Err(refused) => refused,
    };
    assert!(matches!(refused, SourceError::Input(_)), "{refused:?}");
    refused.to_string().replace(text(project), "DIR")
}

#[tokio::test]
async fn s_53_a_folder_that_is_no_repository_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(error_for(dir.path(), None).await, @"DIR is not a git repository (nor are the folders above it looked at); give the folder that holds '.git'");
    insta::assert_snapshot!(error_for(&dir.path().join("missing"), None).await, @"there is no folder DIR; give a folder that holds a git repository, or an https:// address");
    // A folder inside a repository is not taken for it.
    let project = Project::new();
    project.write("inner/file", "x").commit("one");
    let inner = project.path().join("inner");
    assert!(error_for(&inner, None).await.contains("is not a git repository"));
}

#[tokio::test]
async fn s_53_an_empty_repository_and_an_unborn_branch_are_told_so() {
    let project = Project::new();
    insta::assert_snapshot!(error_for(project.path(), None).await, @"DIR is an empty repository; commit something first");
    project.commit("one");
    project.git(&["symbolic-ref", "HEAD", "refs/heads/elsewhere"]);
    insta::assert_snapshot!(error_for(project.path(), None).await, @"HEAD of DIR names no commit; name one with --base (branches: trunk)");
}

#[tokio::test]
async fn s_53_a_base_that_does_not_exist_is_told_so() {
    let project = Project::new();
    project.commit("one");
    insta::assert_snapshot!(error_for(project.path(), Some("v9")).await, @r#"base "v9": DIR has no such branch, tag or commit (branches: trunk)"#);
    insta::assert_snapshot!(error_for(project.path(), Some("0123456789")).await, @r#"base "0123456789": DIR has no such branch, tag or commit (branches: trunk)"#);
    for expression in ["HEAD~1", "HEAD@{1}", ":/one", "trunk^", "trunk@{yesterday}", "a..b", "", "@{-1}"] {
        let told = error_for(project.path(), Some(expression)).await;
        assert!(told.contains("expressions such as HEAD~1 are not taken"), "{expression:?}: {told}");
    }
    project.git(&["tag", "both"]);
    project.commit("two");
    project.git(&["branch", "both"]);
    insta::assert_snapshot!(error_for(project.path(), Some("both")).await, @r#"base "both": both refs/tags/both and refs/heads/both exist; write the one that is meant"#);
    project.git(&["tag", "blob", &project.blob(b"no commit")]);
    insta::assert_snapshot!(error_for(project.path(), Some("blob")).await, @r#"base "blob": refs/tags/blob does not lead to a commit"#);
}

#[tokio::test]
async fn a_base_is_a_branch_a_tag_or_a_commit_id() {
    let project = Project::new();
    let one = project.write("a", "1").commit("one");
    project.git(&["tag", "v1"]);
    project.git(&["tag", "--annotate", "-m", "signed off", "v1-annotated"]);
    let two = project.write("a", "2").commit("two");
    let cache = Cache::new();
    let mirror = cache.mirror(text(project.path())).await.unwrap();
    assert_eq!(mirror.default_branch(), Some("trunk"));
    let cases = [
        (None, &two),
        (Some("HEAD"), &two),
        (Some("trunk"), &two),
        (Some("refs/heads/trunk"), &two),
        (Some("v1"), &one),
        (Some("v1-annotated"), &one),
        (Some(&one[..]), &one),
        (Some(&one[..8]), &one),
    ];
    for (base, expected) in cases {
        assert_eq!(mirror.at(base).await.unwrap().commit().as_str(), expected, "{base:?}");
    }
    project.git(&["checkout", "--quiet", "--detach", "v1"]);
    let mirror = cache.mirror(text(project.path())).await.unwrap();
    assert_eq!(mirror.default_branch(), None);
    assert_eq!(mirror.at(None).await.unwrap().commit().as_str(), one);
}

#[tokio::test]
async fn a_file_is_read_as_of_the_commit() {
    let project = Project::new();
    std::os::unix::fs::symlink("/etc/passwd", project.path().join("link")).unwrap();
    let one = project.write("src/a", "old").write("caf\u{e9}", "\u{e9}").commit("one");
    project.write("src/a", "new").commit("two");
    let cache = Cache::new();
    let tree = cache.tree(&project, &one).await;
    let read = async |path: &str, max| tree.read(&RepoPath::parse(path).unwrap(), max).await;
    assert_eq!(read("src/a", 3).await.unwrap().as_deref(), Some(&b"old"[..]));
    assert!(matches!(read("src/a", 2).await, Err(SourceError::Limit(_))));
    for none in ["src", "src/b", "src/a/b", "link", "link/passwd"] {
        assert_eq!(read(none, 1000).await.unwrap(), None, "{none}");
    }
    let entries = tree.entries().await.unwrap();
    let listed: Vec<_> =
        entries.iter().map(|e| (String::from_utf8_lossy(&e.path), e.mode.git(), e.size)).collect();
    assert_eq!(
        listed,
        [("caf\u{e9}".into(), 0o100644, 2), ("link".into(), 0o120000, 11), ("src/a".into(), 0o100644, 3)]
    );
}

#[tokio::test]
async fn the_source_is_never_written_to() {
    let project = Project::new();
    let one = project.write("a", "1").commit("one");
    project.write("a", "2").write("untracked", "x");
    let before = snapshot(project.path());
    let cache = Cache::new();
    let tree = cache.tree(&project, &one).await;
    streamed(&tree).await;
    let into = tempfile::tempdir().unwrap();
    tree.history(into.path().into(), 1 << 20).await.unwrap();
    tree.git_files("/objects").await.unwrap();
    let changes = acquire::domain::TreeChanges { changed: vec![], removed: vec![b"a".to_vec()] };
    tree.build_patch(changes).await.unwrap();
    assert!(snapshot(project.path()) == before);
}

#[tokio::test]
async fn bare_shared_and_linked_repositories_are_sources_too() {
    let project = Project::new();
    let one = project.write("a", "1").commit("one");
    let elsewhere = tempfile::tempdir().unwrap();
    let at = |name: &str| elsewhere.path().join(name);
    let source = text(project.path());
    git(elsewhere.path(), &["clone", "--quiet", "--bare", source, "bare"]);
    git(elsewhere.path(), &["clone", "--quiet", "--shared", source, "shared"]);
    project.git(&["worktree", "add", "--quiet", "--detach", text(&at("linked"))]);
    let two = project.write("a", "2").commit("two");
    for (name, expected) in [("bare", &one), ("shared", &one), ("linked", &one), ("shared/.git", &one)] {
        let cache = Cache::new();
        let tree = cache.mirror(text(&at(name))).await.unwrap().at(None).await.unwrap();
        assert_eq!(tree.commit().as_str(), expected, "{name}");
        assert_eq!(streamed(&tree).await[&b"a"[..]].1, b"1", "{name}");
    }
    // The linked work tree and its repository share a mirror but not a HEAD.
    let cache = Cache::new();
    cache.mirror(text(&at("linked"))).await.unwrap();
    let tree = cache.mirror(source).await.unwrap().at(None).await.unwrap();
    assert_eq!(tree.commit().as_str(), two);
}

#[tokio::test]
async fn a_commit_made_after_the_first_run_is_seen_by_the_second() {
    let project = Project::new();
    project.write("a", "1").commit("one");
    let cache = Cache::new();
    cache.tree(&project, "trunk").await;
    let two = project.write("a", "2").commit("two");
    let tree = cache.tree(&project, "trunk").await;
    assert_eq!(tree.commit().as_str(), two);
    assert_eq!(streamed(&tree).await[&b"a"[..]].1, b"2");
    // git may pack its objects anew at any time, also between two reads.
    project.git(&["gc", "--quiet", "--prune=now"]);
    assert_eq!(streamed(&tree).await[&b"a"[..]].1, b"2");
}

#[tokio::test]
async fn a_folder_knows_its_web_host_and_what_is_published_there() {
    let project = Project::new();
    let one = project.write("a", "1").commit("one");
    let published = project.write("a", "2").commit("two");
    project.git(&["remote", "add", "origin", "git@github.com:owner/name.git"]);
    project.git(&["update-ref", "refs/remotes/origin/trunk", &published]);
    let local = project.write("a", "3").commit("three");
    let cache = Cache::new();
    let mirror = cache.mirror(text(project.path())).await.unwrap();
    assert_eq!(mirror.repo_id().unwrap().to_string(), "https://github.com/owner/name");
    for (commit, expected) in [(one, true), (published, true), (local, false)] {
        let id = CommitId::parse(&commit).unwrap();
        assert_eq!(mirror.is_published(&id).await.unwrap(), expected, "{commit}");
    }
    let other = Project::new();
    git(other.path(), &["commit", "--quiet", "--allow-empty", "-m", "x"]);
    assert_eq!(Cache::new().mirror(text(other.path())).await.unwrap().repo_id(), None);
}

#[tokio::test]
async fn what_libgit2_cannot_read_is_told_so() {
    let project = Project::new();
    git(project.path(), &["commit", "--quiet", "--allow-empty", "-m", "x"]);
    project.git(&["config", "core.repositoryformatversion", "1"]);
    project.git(&["config", "extensions.partialClone", "origin"]);
    let told = error_for(project.path(), None).await;
    assert!(told.contains("partial clones, reftable and SHA-256 repositories are not supported"), "{told}");
}

/// libgit2 refuses a repository of another user, and git's remedy, `safe.directory`, is a setting of the user,
/// which is not read. Nothing in a repository's config is ever run, so its owner does not matter.
#[tokio::test]
async fn s_51_a_repository_of_another_user_is_read() {
    let project = Project::new();
    let one = project.write("a", "1").commit("one");
    if !nix::unistd::Uid::effective().is_root() {
        eprintln!("left out: only root can give a folder away");
        return;
    }
    for path in [project.path().to_owned(), project.path().join(".git")] {
        std::os::unix::fs::chown(path, Some(12345), Some(12345)).unwrap();
    }
    assert_eq!(Cache::new().tree(&project, "trunk").await.commit().as_str(), one);
}
