//! How history is packed, cut, and kept.

use std::{fs, path::Path};

use acquire::{
    method::ports::SourceTree,
    repo::{Mirror, Source},
};

use super::{
    project::{Cache, Project, Workspace, git},
    server::Server,
};

const MANY: u64 = 64 << 20;

fn packs(objects: &Path) -> Vec<String> {
    let names = fs::read_dir(objects.join("pack")).unwrap().map(|e| e.unwrap().file_name());
    let mut packs: Vec<_> =
        names.map(|n| n.into_string().unwrap()).filter(|n| n.ends_with(".pack")).collect();
    packs.sort();
    packs
}

/// Content that does not compress, different for every seed.
fn noise(seed: u32, length: usize) -> Vec<u8> {
    let mut state = u64::from(seed) + 1;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[tokio::test]
async fn history_above_the_limit_is_cut_by_date_and_said() {
    let project = Project::new();
    for number in 0..20 {
        project.write("noise", noise(number, 100_000)).write(format!("kept/{number}"), "x");
        project.commit(&format!("commit {number}"));
    }
    let cache = Cache::new();
    let tree = cache.tree(&project, "trunk").await;
    let workspace = Workspace::fill(&tree, 1_000_000).await;
    let count: usize = workspace.git(&["rev-list", "--count", "HEAD"]).parse().unwrap();
    assert!((4..=9).contains(&count), "{count} commits of 100 kB fit into 1 MB");
    let note = workspace.history.note.as_deref().unwrap();
    assert!(
        note.starts_with(&format!(
            "git history is cut off to save space: it holds {count} of 20 commits, back to 2023-11-1"
        )),
        "{note}"
    );
    let newest = (0..20).rev().take(count).map(|n| format!("commit {n}")).collect::<Vec<_>>().join("\n");
    assert_eq!(workspace.git(&["log", "--format=%s"]), newest);
    // It is a whole repository as far as it goes: every file of every commit is there.
    workspace.git(&["fsck", "--strict", "--full"]);
    assert_eq!(workspace.git(&["status", "--porcelain"]), "");
    let size: u64 = packs(&workspace.history.objects)
        .iter()
        .map(|name| fs::metadata(workspace.history.objects.join("pack").join(name)).unwrap().len())
        .sum();
    assert!(size <= 1_000_000, "{size}");
    // The same once more, now from what was kept.
    assert_eq!(Workspace::fill(&tree, 1_000_000).await.git(&["log", "--format=%s"]), newest);
    // A later commit is added to it, as long as there is room.
    project.write("small", "x").commit("commit 20");
    let later = Workspace::fill(&cache.tree(&project, "trunk").await, 1_000_000).await;
    assert_eq!(later.git(&["log", "--format=%s"]), format!("commit 20\n{newest}"));
    assert_eq!(packs(&later.history.objects).len(), 2);
    assert!(
        later.history.note.as_deref().unwrap().contains(&format!("it holds {} of 21 commits", count + 1))
    );
    later.git(&["fsck", "--strict", "--full"]);
}

#[tokio::test]
async fn the_base_commit_is_there_however_large_it_is() {
    let project = Project::new();
    project.write("noise", noise(1, 300_000)).commit("one");
    project.write("more", noise(2, 300_000)).commit("two");
    let cache = Cache::new();
    let workspace = Workspace::fill(&cache.tree(&project, "trunk").await, 1000).await;
    assert_eq!(workspace.git(&["log", "--format=%s"]), "two");
    assert_eq!(workspace.git(&["status", "--porcelain"]), "");
    workspace.git(&["fsck", "--strict"]);
}

#[tokio::test]
async fn a_merge_at_the_cut_stays_whole() {
    let project = Project::new();
    project.write("noise", noise(1, 100_000)).commit("root");
    project.git(&["checkout", "--quiet", "-b", "side"]);
    project.write("side", noise(2, 100_000)).commit("beside");
    project.git(&["checkout", "--quiet", "trunk"]);
    project.write("noise", noise(3, 100_000)).commit("middle");
    project.git(&["merge", "--quiet", "--no-edit", "side"]);
    // The file of the cut-off root comes back: its blob must be there although its commit is not.
    project.write("again", noise(1, 100_000)).commit("tip");
    let cache = Cache::new();
    for limit in [150_000, 250_000, 350_000, 450_000] {
        let workspace = Workspace::fill(&cache.tree(&project, "trunk").await, limit).await;
        workspace.git(&["fsck", "--strict", "--full"]);
        assert_eq!(workspace.git(&["status", "--porcelain"]), "", "{limit}");
        assert!(workspace.git(&["log", "--format=%s"]).starts_with("tip"), "{limit}");
    }
}

#[tokio::test]
async fn a_later_base_adds_only_what_is_new() {
    let project = Project::new();
    for number in 0..5 {
        project.write("a", noise(number, 5000)).commit(&format!("commit {number}"));
    }
    let cache = Cache::new();
    let first = Workspace::fill(&cache.tree(&project, "trunk").await, MANY).await;
    project.write("a", "new").commit("commit 5");
    let second = Workspace::fill(&cache.tree(&project, "trunk").await, MANY).await;
    assert_eq!(second.git(&["rev-list", "--count", "HEAD"]), "6");
    second.git(&["fsck", "--strict", "--full"]);
    let (old, new) = (packs(&first.history.objects), packs(&second.history.objects));
    assert!(new.len() == 2 && old.iter().all(|pack| new.contains(pack)), "{old:?} {new:?}");
    // An earlier one does not take what is later.
    let third = Workspace::fill(&cache.tree(&project, "HEAD").await, MANY).await;
    assert_eq!(packs(&third.history.objects), new);
    let earlier = project.git(&["rev-parse", "HEAD~3"]);
    let fourth = Workspace::fill(&cache.tree(&project, &earlier).await, MANY).await;
    assert_eq!(
        fourth.git(&["cat-file", "--batch-all-objects", "--batch-check"]).matches(" commit ").count(),
        3
    );
}

#[tokio::test]
async fn the_first_fetch_is_the_history_of_the_default_branch() {
    let project = Project::new();
    project.write("a", "1").commit("one");
    project.git(&["checkout", "--quiet", "-b", "side"]);
    project.write("side", "s").commit("beside");
    project.git(&["checkout", "--quiet", "trunk"]);
    project.write("a", "2").commit("two");
    let server = Server::start(&project.path().join(".git"));
    let cache = Cache::new();
    let source = Source::parse(&server.url()).unwrap();
    let mirror = Mirror::open(source.clone(), cache.settings()).await.unwrap();
    let fetched = packs(&cache.only_mirror().join("objects"));
    let workspace = Workspace::fill(&mirror.at(None).await.unwrap(), MANY).await;
    let shown = packs(&workspace.history.objects);
    assert!(shown.len() == 1 && fetched.contains(&shown[0]), "{shown:?} is not of {fetched:?}");
    assert_eq!(
        workspace.git(&["cat-file", "--batch-all-objects", "--batch-check"]).matches(" commit ").count(),
        2
    );
    workspace.git(&["fsck", "--strict", "--full"]);
    // After a merge the other branch's objects came with an earlier fetch; they must not be missing.
    project.git(&["merge", "--quiet", "--no-edit", "side"]);
    let mirror = Mirror::open(source, cache.settings()).await.unwrap();
    let workspace = Workspace::fill(&mirror.at(None).await.unwrap(), MANY).await;
    assert_eq!(workspace.git(&["rev-list", "--count", "HEAD"]), "4");
    workspace.git(&["fsck", "--strict", "--full"]);
}

#[tokio::test]
async fn a_shallow_clone_is_a_source_and_said() {
    let project = Project::new();
    for number in 0..5 {
        project.write("a", number.to_string()).commit(&format!("commit {number}"));
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let url = format!("file://{}", project.path().display());
    git(elsewhere.path(), &["clone", "--quiet", "--depth=2", &url, "clone"]);
    let clone = elsewhere.path().join("clone");
    let cache = Cache::new();
    let open = async || cache.mirror(clone.to_str().unwrap()).await.unwrap().at(None).await.unwrap();
    let workspace = Workspace::fill(&open().await, MANY).await;
    assert_eq!(workspace.git(&["log", "--format=%s"]), "commit 4\ncommit 3");
    assert_eq!(
        workspace.history.note.as_deref(),
        Some("git history is cut off: the source is a shallow clone")
    );
    workspace.git(&["fsck", "--strict", "--full"]);
    // Once its owner has fetched the rest, agents see it.
    git(&clone, &["fetch", "--quiet", "--unshallow"]);
    let workspace = Workspace::fill(&open().await, MANY).await;
    assert_eq!(workspace.git(&["rev-list", "--count", "HEAD"]), "5");
    assert_eq!(workspace.history.note, None);
    workspace.git(&["fsck", "--strict", "--full"]);
}

#[tokio::test]
async fn packing_stops_when_nobody_waits() {
    let project = Project::new();
    for number in 0..20 {
        project.write("a", noise(number, 300_000)).commit("one");
    }
    let cache = Cache::new();
    let tree = cache.tree(&project, "trunk").await;
    let into = tempfile::tempdir().unwrap();
    let mut history = tree.history(into.path().into(), MANY);
    assert!(futures_util::poll!(&mut history).is_pending());
    drop(history);
    // Waits for the lock that the dropped one may hold.
    tree.history(into.path().into(), 1).await.unwrap();
    assert!(
        !cache.only_mirror().join("history").join(tree.commit().as_str()).exists(),
        "it went on to its end"
    );
    tree.history(into.path().into(), MANY).await.unwrap();
    assert!(cache.only_mirror().join("history").join(tree.commit().as_str()).exists());
}
