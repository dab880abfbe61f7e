//! Repositories that mean harm, or are merely strange.

use std::{fs, os::unix::fs::PermissionsExt};

use acquire::{
    domain::{Change, FileMode, TreeChanges},
    method::ports::{SourceError, SourceTree},
};

use super::project::{Cache, Project, Workspace, git, git_command, output, streamed, write_change};

fn edit(path: &str) -> TreeChanges {
    let change = Change { path: path.into(), mode: FileMode::Regular, content: b"edited\n".to_vec() };
    TreeChanges { changed: vec![change], removed: vec![] }
}

/// Filter drivers, hooks and a file system monitor: the real git runs them, this program does not.
#[tokio::test]
async fn decision_2_nothing_that_a_repository_configures_is_run() {
    let project = Project::new();
    let trap = tempfile::tempdir().unwrap();
    let (script, ran) = (trap.path().join("trap"), trap.path().join("ran"));
    fs::write(&script, format!("#!/bin/sh\ntouch {}\ncat\n", ran.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    project
        .write("a.txt", "1\n")
        .write(".gitattributes", "* filter=evil diff=evil merge=evil\n")
        .commit("one");
    let trap = script.to_str().unwrap();
    for key in [
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "diff.evil.textconv",
        "diff.evil.command",
        "diff.external",
        "merge.evil.driver",
        "core.fsmonitor",
        "core.sshCommand",
        "core.gitProxy",
        "core.pager",
        "core.editor",
        "gpg.program",
        "uploadpack.packObjectsHook",
    ] {
        project.git(&["config", key, trap]);
    }
    project.git(&["config", "credential.helper", &format!("!{trap}")]);
    for hook in ["post-checkout", "reference-transaction", "post-index-change", "pre-commit", "pre-push"] {
        fs::create_dir_all(project.path().join(".git/hooks")).unwrap();
        fs::copy(&script, project.path().join(".git/hooks").join(hook)).unwrap();
    }
    let cache = Cache::new();
    let tree = cache.tree(&project, "trunk").await;
    streamed(&tree).await;
    let into = tempfile::tempdir().unwrap();
    tree.history(into.path().into(), 1 << 20).await.unwrap();
    tree.git_files("/history").await.unwrap();
    let patch = tree.build_patch(edit("a.txt")).await.unwrap();
    assert_eq!(patch.summary.insertions, 1);
    assert!(!ran.exists(), "something ran");
    // The traps do work.
    output(git_command(project.path()).args(["status"]));
    assert!(ran.exists());
}

/// Names that git itself refuses to make; a server can send them all the same.
#[tokio::test]
async fn s_59_dangerous_names_are_never_written_out_and_never_lost() {
    let project = Project::new();
    let blob = project.blob(b"gotcha");
    let inner = project.raw_tree(&[("100644", b"config", &blob)]);
    // In git's order, as far as such names have one.
    let commit = project.commit_raw_tree(&[
        ("40000", b"..", &inner),
        ("40000", b".GIT", &inner),
        ("40000", ".g\u{200c}it".as_bytes(), &inner),
        ("100644", b"/abs", &blob),
        ("100644", b"a/../../b", &blob),
        ("100644", b"a\\..\\b", &blob),
        ("100644", b"caf\xe9", &blob),
        ("40000", b"git~1", &inner),
        ("100644", b"new\nline", &blob),
        ("100600", b"old mode", &blob),
        ("100644", b"safe", &blob),
    ]);
    let cache = Cache::new();
    let tree = cache.tree(&project, &commit).await;
    let written: Vec<_> = streamed(&tree).await.into_keys().collect();
    assert_eq!(written, [&b"caf\xe9"[..], b"old mode", b"safe"]);
    assert_eq!(tree.entries().await.unwrap().len(), 11);
    Workspace::fill(&tree, 1 << 20).await.git(&["status"]);

    let patch = tree.build_patch(edit("safe")).await.unwrap();
    let raw = |id: &str| {
        let repository = git2::Repository::open_bare(cache.only_mirror()).unwrap();
        let tree = repository.find_tree(git2::Oid::from_str(id).unwrap());
        // The mirror borrows the source's objects only inside the program, so its own tree alone is seen here.
        let mut entries: Vec<_> =
            tree.unwrap().iter().map(|e| (e.name_bytes().to_vec(), e.filemode_raw(), e.id())).collect();
        entries.sort();
        entries
    };
    let mut expected: Vec<_> = {
        let repository = git2::Repository::open(project.path()).unwrap();
        let base = repository.revparse_single(&format!("{commit}^{{tree}}")).unwrap();
        base.peel_to_tree()
            .unwrap()
            .iter()
            .map(|e| (e.name_bytes().to_vec(), e.filemode_raw(), e.id()))
            .collect()
    };
    expected.sort();
    let edited = expected.iter_mut().find(|entry| entry.0 == b"safe").unwrap();
    edited.2 = git2::Oid::hash_object(git2::ObjectType::Blob, b"edited\n").unwrap();
    assert_eq!(raw(&patch.tree), expected);
    assert_eq!(patch.summary.files.iter().map(|p| p.as_str()).collect::<Vec<_>>(), ["safe"]);
}

/// A symlink and a folder of one name: whoever writes both out writes through the symlink.
#[tokio::test]
async fn s_59_nothing_is_written_through_a_symlink_or_twice() {
    let project = Project::new();
    let (target, blob) = (project.blob(b"/etc"), project.blob(b"root::0:0"));
    let folder = project.raw_tree(&[("100644", b"passwd", &blob)]);
    let commit = project.commit_raw_tree(&[
        ("120000", b"link", &target),
        ("40000", b"link", &folder),
        ("100644", b"link/shadow", &blob),
        ("100644", b"twice", &blob),
        ("100644", b"twice", &target),
    ]);
    let cache = Cache::new();
    let tree = cache.tree(&project, &commit).await;
    let files = streamed(&tree).await;
    assert_eq!(files.keys().collect::<Vec<_>>(), [b"link", &b"twice"[..]]);
    assert_eq!(files[&b"link"[..]], (FileMode::Symlink, b"/etc".to_vec()));
    assert_eq!(files[&b"twice"[..]].1, b"root::0:0");
    Workspace::fill(&tree, 1 << 20).await.git(&["status"]);
    let told = tree.build_patch(edit("other")).await.unwrap_err();
    assert!(told.to_string().contains("names one file twice"), "{told}");

    let unsorted = project.commit_raw_tree(&[("100644", b"b", &blob), ("100644", b"a", &blob)]);
    let told = cache.tree(&project, &unsorted).await.build_patch(edit("c")).await.unwrap_err();
    assert!(told.to_string().contains("not in git's order"), "{told}");
}

/// Ten folders that each hold the next one ten times make ten billion files of eleven objects.
#[tokio::test]
async fn s_55_a_tree_of_endless_repetition_is_a_limit() {
    let project = Project::new();
    let mut id = project.blob(b"x");
    let mut mode = "100644";
    let names: Vec<[u8; 1]> = (b'a'..=b'j').map(|name| [name]).collect();
    for _ in 0..10 {
        let entries: Vec<_> = names.iter().map(|name| (mode, &name[..], id.as_str())).collect();
        id = project.raw_tree(&entries);
        mode = "40000";
    }
    let commit = project.commit_raw_tree(&[("40000", b"bomb", &id)]);
    let cache = Cache::new();
    let told = cache.tree(&project, &commit).await.entries().await.unwrap_err();
    assert!(matches!(&told, SourceError::Limit(text) if text.contains("1000000 entries")), "{told}");

    // A few kilobytes that stand for five gigabytes.
    let zeros = project.blob(&vec![0; 50 << 20]);
    let names: Vec<Vec<u8>> = (0..100).map(|number| format!("{number:03}").into_bytes()).collect();
    let entries: Vec<_> = names.iter().map(|name| ("100644", &name[..], zeros.as_str())).collect();
    let commit = project.commit_raw_tree(&entries);
    let told = cache.tree(&project, &commit).await.entries().await.unwrap_err();
    assert!(matches!(&told, SourceError::Limit(text) if text.contains("4 GiB")), "{told}");

    let mut id = project.raw_tree(&[("100644", b"x", &project.blob(b"x"))]);
    for _ in 0..1_100 {
        id = project.raw_tree(&[("40000", b"x", &id)]);
    }
    let commit = project.commit_raw_tree(&[("40000", b"deep", &id)]);
    let told = cache.tree(&project, &commit).await.entries().await.unwrap_err();
    assert!(matches!(&told, SourceError::Limit(_)), "{told}");
}

#[tokio::test]
async fn s_57_submodules_and_lfs_pointers_are_left_as_they_are() {
    let project = Project::new();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n";
    project.write("big.bin", pointer).write(".gitattributes", "*.bin filter=lfs\n");
    project.write(".gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = -u./payload\n");
    project.git(&["add", "--all"]);
    let other = "1111111111111111111111111111111111111111";
    project.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{other},sub")]);
    project.commit_index("one");
    let cache = Cache::new();
    let tree = cache.tree(&project, "trunk").await;
    let files = streamed(&tree).await;
    assert_eq!(files[&b"big.bin"[..]].1, pointer.as_bytes());
    assert!(!files.contains_key(&b"sub"[..]));
    assert!(!tree.entries().await.unwrap().iter().any(|entry| entry.path == b"sub"));
    let removal = TreeChanges { changed: vec![], removed: vec![b"sub".to_vec()] };
    for changes in [edit("sub"), edit("sub/inside"), removal] {
        let patch = tree.build_patch(changes).await.unwrap();
        let [left_out] = &patch.summary.left_out[..] else { panic!("{:?}", patch.summary) };
        assert_eq!((left_out.path.as_str(), &*left_out.reason), ("sub", "a submodule, which cannot change"));
        assert!(patch.diff.is_empty());
    }
    // Changes elsewhere keep it.
    let patch = tree.build_patch(edit("a")).await.unwrap();
    let repository = git2::Repository::open_bare(cache.only_mirror()).unwrap();
    let kept = repository.find_tree(git2::Oid::from_str(&patch.tree).unwrap()).unwrap();
    assert_eq!(kept.get_name("sub").unwrap().id().to_string(), other);
}

#[tokio::test]
async fn a_file_of_100_mb_is_streamed_and_reading_it_has_a_limit() {
    let project = Project::new();
    let size = 100 << 20;
    fs::File::create(project.path().join("large")).unwrap().set_len(size).unwrap();
    project.write("small", "x").commit("one");
    let cache = Cache::new();
    let tree = cache.tree(&project, "trunk").await;
    let sizes: Vec<_> =
        streamed(&tree).await.into_iter().map(|(path, (_, content))| (path, content.len() as u64)).collect();
    assert_eq!(sizes, [(b"large".to_vec(), size), (b"small".to_vec(), 1)]);
    let path = acquire::domain::RepoPath::parse("large").unwrap();
    let told = tree.read(&path, 1 << 20).await.unwrap_err();
    assert!(matches!(told, SourceError::Limit(_)), "{told}");
    assert_eq!(tree.read(&path, size).await.unwrap().unwrap().len() as u64, size);
}

#[tokio::test]
async fn a_tree_of_20_000_files_is_streamed_and_patched() {
    let project = Project::new();
    // Straight into a pack: 20,000 small files on disk would take longer than all other tests.
    let mut import = b"commit refs/heads/trunk\ncommitter A <a@b> 1700000000 +0000\ndata 4\nmany\n".to_vec();
    for number in 0..20_000 {
        let content = format!("file {number}\n");
        let (folder, length) = (number / 100, content.len());
        import.extend(format!("M 644 inline d{folder}/f{number}\ndata {length}\n{content}\n").bytes());
    }
    fs::write(project.path().join("import"), import).unwrap();
    let status = git_command(project.path())
        .args(["fast-import", "--quiet"])
        .stdin(fs::File::open(project.path().join("import")).unwrap())
        .status();
    assert!(status.unwrap().success());

    let cache = Cache::new();
    let tree = cache.tree(&project, "trunk").await;
    assert_eq!(tree.entries().await.unwrap().len(), 20_000);
    let files = streamed(&tree).await;
    assert_eq!((files.len(), &files[&b"d199/f19999"[..]].1[..]), (20_000, &b"file 19999\n"[..]));
    let patch = tree.build_patch(edit("d7/f700")).await.unwrap();
    assert_eq!((patch.summary.insertions, patch.summary.deletions), (1, 1));

    let repository = tempfile::tempdir().unwrap();
    let history = tree.history(repository.path().join("history"), 64 << 20).await.unwrap();
    for file in tree.git_files(history.objects.to_str().unwrap()).await.unwrap() {
        write_change(&repository.path().join(".git"), &file);
    }
    assert_eq!(git(repository.path(), &["diff-index", "--cached", "HEAD"]), "", "the index is the tree");
    assert_eq!(git(repository.path(), &["ls-files"]).lines().count(), 20_000);
}

/// Whoever writes the files out may fail half-way; the stream then ends without an error of its own.
#[tokio::test]
async fn a_receiver_that_goes_away_ends_the_stream() {
    let project = Project::new();
    project.write("a", "1").write("b", "2").write("c", "3").commit("one");
    let cache = Cache::new();
    let tree = cache.tree(&project, "trunk").await;
    let (to, mut from) = tokio::sync::mpsc::channel::<Change>(1);
    let take_one = async {
        let first = from.recv().await.unwrap().path;
        drop(from);
        first
    };
    let (ended, first) = tokio::join!(tree.stream_files(to), take_one);
    ended.unwrap();
    assert_eq!(first, b"a");
}
