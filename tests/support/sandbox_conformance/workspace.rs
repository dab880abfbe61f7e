//! What is in the workspace, and what changed in it.

use acquire::{
    domain::FileMode,
    method::ports::{Access, Listed, ListedKind, Since},
};

use super::*;

fn changed(path: &str, mode: FileMode, size: u64) -> Listed {
    Listed { path: path.into(), kind: ListedKind::Changed { mode, size } }
}

fn removed(path: &str) -> Listed {
    Listed { path: path.into(), kind: ListedKind::Removed }
}

pub async fn r_ex_9_changes_are_listed_since_the_base_and_since_the_last_listing(sandboxes: &dyn Sandboxes) {
    let sandbox = resolver(sandboxes).await;
    let list = async |since| sandbox.list_changes(since).await.unwrap();
    assert_eq!(list(Since::Base).await, []);
    assert_eq!(list(Since::LastListing).await, []);

    output(&*sandbox, "echo more >> README.md; chmod +x src/main.py; rm link; mkdir new; touch new/file")
        .await;
    let first = [
        changed("README.md", FileMode::Regular, 15),
        removed("link"),
        changed("new/file", FileMode::Regular, 0),
        changed("src/main.py", FileMode::Executable, 15),
    ];
    assert_eq!(list(Since::Base).await, first);
    assert_eq!(list(Since::LastListing).await, first);
    assert_eq!(list(Since::LastListing).await, []);

    // Same size, and the old time put back: still a change.
    output(&*sandbox, "touch -r run.sh /tmp/time; tr e E < run.sh > /tmp/new; cat /tmp/new > run.sh; touch -r /tmp/time run.sh").await;
    output(&*sandbox, "ln -s ../../outside new/link; rm new/file").await;
    let second = [
        removed("new/file"),
        changed("new/link", FileMode::Symlink, 13),
        changed("run.sh", FileMode::Executable, 19),
    ];
    assert_eq!(list(Since::LastListing).await, second);
    let paths: Vec<_> = list(Since::Base).await.into_iter().map(|listed| listed.path).collect();
    assert_eq!(
        paths,
        ["README.md", "link", "new/link", "run.sh", "src/main.py"].map(|p| p.as_bytes().to_vec())
    );

    // A write through a memory map leaves no time behind on some kernels; against the base it is seen.
    let map = "
import mmap
with open('src/deep/er/data.txt', 'r+b') as f: pass
with open('run.sh', 'r+b') as f:
    m = mmap.mmap(f.fileno(), 0); m[0:1] = b'%'; m.close()";
    python(&*sandbox, map).await;
    assert!(list(Since::Base).await.iter().any(|listed| listed.path == b"run.sh"));
}

pub async fn s_20_a_frozen_sandbox_runs_nothing_and_is_still_read(sandboxes: &dyn Sandboxes) {
    let sandbox = resolver(sandboxes).await;
    output(
        &*sandbox,
        "echo changed > src/main.py; ln -sf /etc/passwd link; head -c 600000 /dev/zero > large",
    )
    .await;
    sandbox.freeze().await.unwrap();
    assert!(is_limit(&sandbox.run("true", LIMITS).await));
    let listed = sandbox.list_changes(Since::Base).await.unwrap();
    assert_eq!(
        listed,
        [
            changed("large", FileMode::Regular, 600_000),
            changed("link", FileMode::Symlink, 11),
            changed("src/main.py", FileMode::Regular, 8),
        ]
    );
    assert_eq!(sandbox.fetch(b"src/main.py", 100).await.unwrap(), b"changed\n");
    assert_eq!(sandbox.fetch(b"link", 100).await.unwrap(), b"/etc/passwd");
    assert_eq!(sandbox.fetch(b"large", 600_000).await.unwrap(), vec![0; 600_000]);
    for (path, max) in [
        ("large", 599_999),
        ("none", 100),
        ("src", 100),
        ("link/x", 100),
        ("way-out/x", 100),
        ("/etc/passwd", 10_000),
        ("../etc/passwd", 10_000),
    ] {
        assert!(is_limit(&sandbox.fetch(path.as_bytes(), max).await), "{path}");
    }
    sandbox.freeze().await.unwrap();
}

pub async fn s_23_no_git_folder_is_ever_listed(sandboxes: &dyn Sandboxes) {
    let sandbox = resolver(sandboxes).await;
    output(
        &*sandbox,
        "echo '[filter \"x\"] clean = touch /tmp/owned' >> .git/config; rm .git/HEAD
         mkdir -p src/.git/hooks module; echo evil > src/.git/hooks/pre-commit; echo 'gitdir: x' > module/.git
         touch src/.gitkeep",
    )
    .await;
    for since in [Since::Base, Since::LastListing] {
        assert_eq!(
            sandbox.list_changes(since).await.unwrap(),
            [changed("src/.gitkeep", FileMode::Regular, 0)]
        );
    }
}

pub async fn saved_changes_lie_on_top_of_the_base_and_count_as_changes(sandboxes: &dyn Sandboxes) {
    let saved = TreeChanges {
        changed: vec![
            change("README.md", "saved\n"),
            change("link/is/now/a/folder", "x"),
            Change { path: b"new.sh".to_vec(), mode: FileMode::Executable, content: b"#!/bin/sh\n".to_vec() },
            Change { path: b"src".to_vec(), mode: FileMode::Symlink, content: b"/etc".to_vec() },
        ],
        removed: [&b"src/main.py"[..], b"src/deep/er/data.txt", b"link"].map(<[u8]>::to_vec).into(),
    };
    let sandbox = sandboxes.open(&AgentName::resolver(), Access::ReadWrite, &saved).await.unwrap();
    let found =
        output(&*sandbox, "cat README.md link/is/now/a/folder; readlink src; stat -c %a new.sh").await;
    assert_eq!(found, "saved\nx/etc\n755");
    let listed = sandbox.list_changes(Since::Base).await.unwrap();
    assert_eq!(
        listed,
        [
            changed("README.md", FileMode::Regular, 6),
            removed("link"),
            changed("link/is/now/a/folder", FileMode::Regular, 1),
            changed("new.sh", FileMode::Executable, 10),
            changed("src", FileMode::Symlink, 4),
            removed("src/deep/er/data.txt"),
            removed("src/main.py"),
        ]
    );
    assert_eq!(sandbox.list_changes(Since::LastListing).await.unwrap(), []);
}

pub async fn the_workspace_is_the_tree_and_a_usable_repository(sandboxes: &dyn Sandboxes) {
    for sandbox in [answerer(sandboxes).await, resolver(sandboxes).await] {
        let files =
            output(&*sandbox, "find . -path ./.git -prune -o ! -type d -printf '%P %y %m %l\\n' | sort")
                .await;
        assert_eq!(
            files,
            "README.md f 644 \nlink l 777 src/main.py\nrun.sh f 755 \nsrc/deep/er/data.txt f 644 \n\
             src/main.py f 644 \nway-out l 777 /etc/hostname"
        );
        assert_eq!(output(&*sandbox, "./run.sh; python3 src/main.py").await, "run\nhello");
        assert_eq!(output(&*sandbox, "git status --porcelain; git log --format='%an %s'").await, "A Start");
        assert_eq!(
            output(&*sandbox, "git blame -s src/main.py | cut -c 2-8 | wc -l; git branch").await,
            "1\n* main"
        );
    }
    let sandbox = resolver(sandboxes).await;
    let diff = output(&*sandbox, "echo \"print('bye')\" > src/main.py; git diff --stat").await;
    assert!(diff.contains("src/main.py | 2 +-"), "{diff}");
    // Git has noted the files once, so that nobody's first status reads the whole tree.
    let noted = output(&*sandbox, "git ls-files --debug README.md | grep -c 'size: 10'").await;
    assert_eq!(noted, "1");
}

pub async fn read_only_sandboxes_are_separate_but_see_one_tree(sandboxes: &dyn Sandboxes) {
    let (one, two) = tokio::join!(answerer(sandboxes), answerer(sandboxes));
    let inode = "stat -c %d:%i README.md";
    assert_eq!(output(&*one, inode).await, output(&*two, inode).await);
    output(&*one, "echo secret > /tmp/note; sleep 1000 & disown").await;
    assert_eq!(output(&*two, "ls -A /tmp | grep note; true").await, "");
    assert_eq!(processes(&*two).await, ALONE);
    one.close().await;
    assert_eq!(output(&*two, "cat README.md").await, "# Example");
    assert_eq!(two.list_changes(Since::LastListing).await.unwrap(), []);
    let changes = TreeChanges { changed: vec![change("a", "x")], removed: vec![] };
    assert!(sandboxes.open(&AgentName::answerer(3), Access::ReadOnly, &changes).await.is_err());
}
