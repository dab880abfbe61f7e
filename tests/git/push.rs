//! Pushing one branch to the real `git http-backend` (S-56).

use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use acquire::{
    domain::CommitId,
    method::ports::SourceError,
    repo::{Credential, Mirror, PushError, Settings, Source},
};
use secrecy::SecretString;

use super::{
    project::{Cache, Project, git},
    server::{Answer, Server},
};

/// A bare repository with one commit, its server, and a commit on top of it that only the mirror has.
struct Stage {
    bare: tempfile::TempDir,
    server: Server,
    cache: Cache,
    mirror: Mirror,
    commit: CommitId,
}

impl Stage {
    async fn set() -> Self {
        let project = Project::new();
        project.write("a", "1").commit("one");
        let bare = tempfile::tempdir().unwrap();
        let source = project.path().to_str().unwrap();
        git(bare.path(), &["clone", "--quiet", "--bare", source, "name.git"]);
        let server = Server::start(&bare.path().join("name.git"));
        server.answer(Answer::GitFor("writes"));
        let cache = Cache::new();
        let settings = Settings { credential: Some(credential(&server, "writes")), ..cache.settings() };
        let mirror = Mirror::open(Source::parse(&server.url()).unwrap(), settings).await.unwrap();
        let commit = commit_on(&cache.only_mirror(), "trunk", "fix");
        Self { bare, server, cache, mirror, commit }
    }

    fn remote(&self, arguments: &[&str]) -> String {
        git(&self.bare.path().join("name.git"), arguments)
    }
}

fn credential(server: &Server, token: &str) -> Credential {
    Credential::new(&server.host(), SecretString::from(token)).unwrap()
}

/// Commits on top of `parent` in the mirror, whose objects are what is pushed.
fn commit_on(mirror: &Path, parent: &str, message: &str) -> CommitId {
    let tree = format!("{parent}^{{tree}}");
    CommitId::parse(&git(mirror, &["commit-tree", &tree, "-p", parent, "-m", message])).unwrap()
}

#[tokio::test]
async fn s_56_a_commit_is_pushed_to_its_branch_alone() {
    let stage = Stage::set().await;
    stage.mirror.push(&stage.commit, "acquire/issue-1").await.unwrap();
    assert_eq!(stage.remote(&["rev-parse", "refs/heads/acquire/issue-1"]), stage.commit.as_str());
    assert_eq!(
        stage.remote(&["for-each-ref", "--format=%(refname)"]),
        "refs/heads/acquire/issue-1\nrefs/heads/trunk"
    );
    stage.remote(&["fsck", "--strict"]);
    // On top of itself, a branch may grow.
    let next = commit_on(&stage.cache.only_mirror(), stage.commit.as_str(), "better");
    stage.mirror.push(&next, "acquire/issue-1").await.unwrap();
    assert_eq!(stage.remote(&["rev-parse", "refs/heads/acquire/issue-1"]), next.as_str());
}

#[tokio::test]
async fn s_56_a_hook_s_refusal_is_told() {
    let stage = Stage::set().await;
    let hook = stage.bare.path().join("name.git/hooks/update");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\necho 'no such branches here' >&2\nexit 1\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let told = stage.mirror.push(&stage.commit, "acquire/issue-1").await.unwrap_err();
    let PushError::Refused { reference, reason } = told else { panic!("{told:?}") };
    assert_eq!((reference.as_str(), reason.as_str()), ("refs/heads/acquire/issue-1", "hook declined"));
    assert_eq!(stage.remote(&["for-each-ref", "--format=%(refname)"]), "refs/heads/trunk");
}

#[tokio::test]
async fn s_56_a_branch_that_moved_is_never_overwritten() {
    let stage = Stage::set().await;
    let person = stage.remote(&["commit-tree", "trunk^{tree}", "-p", "trunk", "-m", "by a person"]);
    stage.remote(&["update-ref", "refs/heads/acquire/issue-1", &person]);
    let told = stage.mirror.push(&stage.commit, "acquire/issue-1").await.unwrap_err();
    assert!(matches!(told, PushError::Moved { .. }), "{told:?}");
    assert_eq!(stage.remote(&["rev-parse", "refs/heads/acquire/issue-1"]), person);
    // A plus sign belongs to the name; it forces nothing.
    stage.mirror.push(&stage.commit, "+acquire/issue-1").await.unwrap();
    assert_eq!(stage.remote(&["rev-parse", "refs/heads/acquire/issue-1"]), person);
    for bad in ["a b", "a..b", "x:refs/heads/trunk", "", "a.lock", "refs\nheads"] {
        let told = stage.mirror.push(&stage.commit, bad).await.unwrap_err();
        assert!(matches!(told, PushError::Source(SourceError::Input(_))), "{bad:?}: {told:?}");
    }
}

#[tokio::test]
async fn s_56_a_push_without_the_right_to_is_told() {
    let stage = Stage::set().await;
    stage.server.answer(Answer::GitFor("another"));
    let told = stage.mirror.push(&stage.commit, "acquire/issue-1").await.unwrap_err();
    assert!(matches!(told, PushError::Source(SourceError::Authentication(_))), "{told:?}");
}

#[tokio::test]
async fn s_55_a_push_has_limits_on_silence_and_time() {
    let stage = Stage::set().await;
    // Long enough for the server to answer when the mirrors are opened.
    let short = Duration::from_secs(2);
    let settings =
        || Settings { credential: Some(credential(&stage.server, "writes")), ..stage.cache.settings() };
    let open =
        async |settings| Mirror::open(Source::parse(&stage.server.url()).unwrap(), settings).await.unwrap();
    let silence = open(Settings { max_silence: short, ..settings() }).await;
    let time = open(Settings { max_time: short, ..settings() }).await;
    stage.server.answer(Answer::Silence);
    let told = async |mirror: &Mirror| {
        let pushed = mirror.push(&stage.commit, "acquire/issue-1");
        let told = tokio::time::timeout(Duration::from_secs(60), pushed).await.expect("no limit held");
        let Err(PushError::Source(SourceError::Limit(text))) = told else { panic!("{told:?}") };
        text
    };
    let (silence, time) = tokio::join!(told(&silence), told(&time));
    assert!(silence.contains("silent for 2 s"), "{silence}");
    assert!(time.contains("longer than the limit of 2 s"), "{time}");
}

#[tokio::test]
async fn a_folder_is_never_pushed_to() {
    let project = Project::new();
    let commit = CommitId::parse(&project.write("a", "1").commit("one")).unwrap();
    let cache = Cache::new();
    let mirror = cache.mirror(project.path().to_str().unwrap()).await.unwrap();
    let told = mirror.push(&commit, "x").await.unwrap_err();
    assert!(matches!(told, PushError::Source(SourceError::Input(_))), "{told:?}");
}
