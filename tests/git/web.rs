//! Repositories over http, from the real `git http-backend`.

use std::{
    fs,
    io::Write as _,
    num::NonZeroU16,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use acquire::{
    domain::CommitId,
    method::ports::{SourceError, SourceTree},
    repo::{Credential, Mirror, Settings, Source},
};
use secrecy::SecretString;

use super::{
    project::{Cache, Project, Workspace, git, snapshot, streamed},
    server::{Answer, Server, basic},
};

const TOKEN: &str = "ghs_0123456789abcdefTOKEN";

fn serve(project: &Project) -> Server {
    Server::start(&project.path().join(".git"))
}

fn with_token(cache: &Cache, host: &str) -> Settings {
    let credential = Credential::new(host, SecretString::from(TOKEN)).unwrap();
    Settings { credential: Some(credential), ..cache.settings() }
}

async fn open(server: &Server, settings: Settings) -> Result<Mirror, SourceError> {
    Mirror::open(Source::parse(&server.url()).unwrap(), settings).await
}

/// A repository with more than the protocol's trivial cases: several branches, tags, and a merge.
fn project() -> Project {
    let project = Project::new();
    project.write("a", "1").write("docs/b", vec![b'x'; 100_000]).commit("one");
    project.git(&["tag", "--annotate", "-m", "first", "v1"]);
    project.git(&["checkout", "--quiet", "-b", "side"]);
    project.write("side", "s").commit("beside");
    project.git(&["checkout", "--quiet", "trunk"]);
    project.write("a", "2").commit("two");
    project.git(&["merge", "--quiet", "--no-edit", "side"]);
    project
}

#[tokio::test]
async fn s_52_a_repository_is_fetched_and_a_second_run_costs_one_request() {
    let project = project();
    let server = serve(&project);
    let cache = Cache::new();
    let mirror = open(&server, cache.settings()).await.unwrap();
    assert_eq!(mirror.default_branch(), Some("trunk"));
    assert_eq!(mirror.repo_id().unwrap().slug(), "owner/name");
    let tree = mirror.at(None).await.unwrap();
    assert_eq!(tree.commit().as_str(), project.git(&["rev-parse", "trunk"]));
    assert_eq!(streamed(&tree).await[&b"docs/b"[..]].1, vec![b'x'; 100_000]);
    for (base, path) in [("side", "side"), ("v1", "a")] {
        assert!(
            streamed(&mirror.at(Some(base)).await.unwrap()).await.contains_key(path.as_bytes()),
            "{base}"
        );
    }
    assert!(server.seen().len() > 1);

    open(&server, cache.settings()).await.unwrap();
    assert_eq!(server.seen().len(), 1, "nothing is new, so the listing is all that is asked");

    let new = project.write("a", "3").commit("three");
    let tree = open(&server, cache.settings()).await.unwrap().at(None).await.unwrap();
    assert_eq!(tree.commit().as_str(), new);
    let requests = server.seen().len();
    assert!((2..=4).contains(&requests), "{requests} requests for one commit");
}

#[tokio::test]
async fn branches_that_go_or_are_rewritten_are_followed() {
    let project = project();
    let server = serve(&project);
    let cache = Cache::new();
    open(&server, cache.settings()).await.unwrap();
    // `side` must go before `side/by/side` can come.
    project.git(&["branch", "--delete", "--force", "side"]);
    project.git(&["branch", "side/by/side", "v1"]);
    project.git(&["reset", "--quiet", "--hard", "v1"]);
    let rewritten = project.write("a", "other").commit("rewritten");
    let mirror = open(&server, cache.settings()).await.unwrap();
    assert_eq!(mirror.at(None).await.unwrap().commit().as_str(), rewritten);
    assert!(mirror.at(Some("side/by/side")).await.is_ok());
    assert!(matches!(mirror.at(Some("side")).await, Err(SourceError::Input(_))));
}

#[tokio::test]
async fn two_runs_at_once_share_a_mirror() {
    let project = project();
    let server = serve(&project);
    let cache = Cache::new();
    let runs = (0..4).map(|_| open(&server, cache.settings()));
    for mirror in futures_util::future::join_all(runs).await {
        streamed(&mirror.unwrap().at(None).await.unwrap()).await;
    }
    cache.only_mirror();
}

#[tokio::test]
async fn a_run_that_goes_on_needs_no_network() {
    let project = project();
    let server = serve(&project);
    let cache = Cache::new();
    let source = Source::parse(&server.url()).unwrap();
    let commit = open(&server, cache.settings()).await.unwrap().at(None).await.unwrap().commit().clone();
    server.seen();
    server.answer(Answer::Status("500 Broken", String::new()));
    let tree = Mirror::resume(source.clone(), cache.settings(), &commit).await.unwrap();
    assert_eq!(tree.commit(), &commit);
    assert!(server.seen().is_empty());
    // A commit that is not there yet is worth a fetch.
    server.answer(Answer::Git);
    let new = CommitId::parse(&project.write("a", "9").commit("new")).unwrap();
    assert_eq!(Mirror::resume(source, cache.settings(), &new).await.unwrap().commit(), &new);
}

#[tokio::test]
async fn an_empty_repository_on_the_web_is_told_so() {
    let project = Project::new();
    let server = serve(&project);
    let cache = Cache::new();
    let told = open(&server, cache.settings()).await.unwrap().at(None).await.err().unwrap();
    assert!(
        matches!(&told, SourceError::Input(text) if text.ends_with("is an empty repository; commit something first")),
        "{told}"
    );
}

#[tokio::test]
async fn s_52_a_private_repository_takes_the_token_from_a_header_and_keeps_it_nowhere() {
    let project = project();
    let server = serve(&project);
    server.answer(Answer::GitFor(TOKEN));
    let cache = Cache::new();
    let told = open(&server, cache.settings()).await.unwrap_err();
    assert!(matches!(&told, SourceError::Authentication(text) if text.contains("GITHUB_TOKEN")), "{told}");
    server.seen();

    let settings = with_token(&cache, &server.host());
    assert!(!format!("{settings:?}").contains(TOKEN));
    let mirror = open(&server, settings).await.unwrap();
    assert!(!format!("{mirror:?}").contains(TOKEN));
    for request in server.seen() {
        assert_eq!(request.authorization.as_deref(), Some(basic(TOKEN).as_str()));
        assert!(!request.target.contains(TOKEN));
    }
    for (path, content) in snapshot(&cache.path()) {
        let content = String::from_utf8_lossy(&content);
        assert!(!content.contains(TOKEN) && !content.contains(&basic(TOKEN)[6..]), "{}", path.display());
    }

    server.answer(Answer::GitFor("another token"));
    let told = open(&server, with_token(&cache, &server.host())).await.unwrap_err();
    assert!(matches!(&told, SourceError::Authentication(text) if text.contains("not valid")), "{told}");
    assert!(!told.to_string().contains(TOKEN));
}

#[tokio::test]
async fn s_52_the_token_goes_to_no_other_host() {
    let project = project();
    let (server, other) = (serve(&project), serve(&project));
    let cache = Cache::new();
    open(&server, with_token(&cache, &other.host())).await.unwrap();
    assert!(server.seen().iter().all(|request| request.authorization.is_none()));
    assert!(other.seen().is_empty());
}

#[tokio::test]
async fn s_52_redirects_are_not_followed() {
    let project = project();
    let (server, other) = (serve(&project), serve(&project));
    server.answer(Answer::Status(
        "301 Moved Permanently",
        format!("location: {}/info/refs?service=git-upload-pack\r\n", other.url()),
    ));
    let cache = Cache::new();
    let told = open(&server, with_token(&cache, &server.host())).await.unwrap_err();
    let SourceError::Input(text) = &told else { panic!("{told:?}") };
    assert!(text.contains("redirects are not followed") && text.contains(&other.url()), "{text}");
    assert!(other.seen().is_empty());
}

#[tokio::test]
async fn s_52_what_a_server_says_is_sorted_by_who_must_act() {
    let project = project();
    let server = serve(&project);
    let cache = Cache::new();
    let said = async |status| {
        server.answer(Answer::Status(status, String::new()));
        open(&server, cache.settings()).await.unwrap_err().to_string().replace(&server.url(), "URL")
    };
    insta::assert_snapshot!(said("403 Forbidden").await, @"URL: the server answered 403: there is no such repository, or it is private: set GITHUB_TOKEN to a token that may read it");
    insta::assert_snapshot!(said("404 Not Found").await, @"URL: the server answered 404: there is no such repository, or it is private: set GITHUB_TOKEN to a token that may read it");
    insta::assert_snapshot!(said("503 Unavailable").await, @"git: URL: the server answered 503; try again later");
    server.answer(Answer::Page);
    let told = open(&server, cache.settings()).await.unwrap_err();
    assert!(matches!(&told, SourceError::Input(text) if text.contains("no git server")), "{told}");

    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let source = Source::parse(&format!("http://{closed}/owner/name")).unwrap();
    let told = Mirror::open(source, cache.settings()).await.unwrap_err();
    assert!(matches!(&told, SourceError::Git(text) if text.contains("cannot connect")), "{told}");
}

#[tokio::test]
async fn s_55_a_transfer_has_limits_on_size_time_and_silence() {
    let project = project();
    let server = serve(&project);
    let cache = Cache::new();
    let limit = async |answer, settings: Settings| {
        server.answer(answer);
        let opened = tokio::time::timeout(Duration::from_secs(60), open(&server, settings));
        let told = opened.await.expect("no limit held").unwrap_err();
        let SourceError::Limit(text) = told else { panic!("{told:?}") };
        text
    };
    let short = Duration::from_millis(300);

    let settings = Settings { max_bytes: 1_000_000, ..cache.settings() };
    assert!(limit(Answer::Endless, settings).await.contains("more than the limit of 1000000 bytes"));
    let settings = Settings { max_bytes: 10, ..cache.settings() };
    assert!(limit(Answer::Git, settings).await.contains("more than the limit of 10 bytes"));
    let settings = Settings { max_silence: short, ..cache.settings() };
    assert!(limit(Answer::Silence, settings).await.contains("silent for 0.3 s"));
    let settings = Settings { max_time: short, ..cache.settings() };
    assert!(limit(Answer::Drip, settings).await.contains("longer than the limit of 0.3 s"));

    // None of it spoils the mirror.
    server.answer(Answer::Git);
    streamed(&open(&server, cache.settings()).await.unwrap().at(None).await.unwrap()).await;
}

/// A pack of a few kilobytes with 1.7 GB in it: 100 deltas against one blob of zeros.
fn slow_pack() -> Vec<u8> {
    const SIZE: usize = 0xFF_FFFF;
    // Seven bits a byte, the lowest first; all but the last byte have the highest bit set.
    fn number(mut value: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while value > 0x7f {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        [bytes, vec![value as u8]].concat()
    }
    // The type stands in three bits between the lowest four of the size and the others.
    let entry = |kind: u8, base: &[u8], content: &[u8]| {
        let first = 0x80 | kind << 4 | (content.len() & 0xf) as u8;
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        zlib.write_all(content).unwrap();
        [&[first], &number(content.len() >> 4)[..], base, &zlib.finish().unwrap()].concat()
    };
    let zeros = vec![0; SIZE];
    let base = git2::Oid::hash_object(git2::ObjectType::Blob, &zeros).unwrap();
    let mut pack =
        [&b"PACK"[..], &2u32.to_be_bytes(), &101u32.to_be_bytes(), &entry(3, b"", &zeros)].concat();
    for end in 1..=100u8 {
        // Everything is copied, and one byte added.
        let delta = [&number(SIZE)[..], &number(SIZE + 1), &[0xf0, 0xff, 0xff, 0xff, 1, end]].concat();
        pack.extend(entry(7, base.as_bytes(), &delta));
    }
    let mut sum = Command::new("sha1sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    sum.stdin.take().unwrap().write_all(&pack).unwrap();
    let said = sum.wait_with_output().unwrap().stdout;
    pack.extend(hex::decode(&said[..40]).unwrap());
    pack
}

#[tokio::test]
async fn s_55_a_small_pack_that_takes_long_to_index_ends_at_the_limit_on_time() {
    let project = project();
    let server = serve(&project);
    server.answer(Answer::Pack(Arc::new(slow_pack())));
    let cache = Cache::new();
    // The pack is there long before; should it not be, the limit is met all the same.
    let settings = Settings { max_time: Duration::from_millis(500), ..cache.settings() };
    let told = open(&server, settings).await.unwrap_err();
    assert!(matches!(&told, SourceError::Limit(text) if text.contains("limit of 0.5 s")), "{told:?}");
}

#[tokio::test]
async fn s_55_a_transfer_that_nobody_waits_for_ends() {
    let project = project();
    let server = serve(&project);
    server.answer(Answer::Drip);
    let cache = Cache::new();
    let waited = tokio::time::timeout(Duration::from_millis(500), open(&server, cache.settings())).await;
    assert!(waited.is_err(), "it ended by itself");
    // The lock of the mirror is free again once the transfer has ended, also one in which nothing came.
    server.answer(Answer::Silence);
    let waited = tokio::time::timeout(Duration::from_millis(500), open(&server, cache.settings())).await;
    assert!(waited.is_err(), "it ended by itself");
    server.answer(Answer::Git);
    let settings = Settings { max_time: Duration::from_secs(10), ..cache.settings() };
    open(&server, settings).await.unwrap();
}

#[tokio::test]
async fn s_58_depth_cuts_the_history_that_is_fetched() {
    let project = project();
    project.git(&["checkout", "--quiet", "-b", "long"]);
    for number in 0..5 {
        project.write("long", number.to_string()).commit("on the long branch");
    }
    project.git(&["checkout", "--quiet", "trunk"]);
    let server = serve(&project);
    let cache = Cache::new();
    let shallow = Settings { depth: NonZeroU16::new(1), ..cache.settings() };
    let open_tree = async || open(&server, shallow.clone()).await.unwrap().at(None).await.unwrap();
    let workspace = Workspace::fill(&open_tree().await, 1 << 20).await;
    assert_eq!(workspace.git(&["rev-list", "--count", "HEAD"]), "1");
    assert_eq!(
        workspace.history.note.as_deref(),
        Some("git history is cut off: the source is a shallow clone")
    );
    workspace.git(&["fsck", "--strict"]);
    // Other branches come with a request of their own, which is cut as well.
    assert_eq!(git(&cache.only_mirror(), &["rev-list", "--count", "long"]), "1");
    // A later fetch into it works as well.
    project.write("a", "4").commit("four");
    let workspace = Workspace::fill(&open_tree().await, 1 << 20).await;
    assert_eq!(workspace.git(&["log", "-1", "--format=%s"]), "four");
    workspace.git(&["fsck", "--strict"]);
}

/// `insteadOf` would send a fetch, token and all, to another address.
#[tokio::test]
async fn s_54_insteadof_in_a_repository_s_config_changes_nothing() {
    let project = project();
    let (server, evil) = (serve(&project), serve(&project));
    let cache = Cache::new();
    open(&server, cache.settings()).await.unwrap();
    server.seen();
    let rewrite = format!("url.{}/.insteadOf", evil.host());
    let host = format!("{}/", server.host());
    git(&cache.only_mirror(), &["config", &rewrite, &host]);
    project.git(&["config", &rewrite, &host]);
    open(&server, with_token(&cache, &server.host())).await.unwrap();
    assert_eq!((server.seen().len(), evil.seen().len()), (1, 0));
}

/// The same from the user's own settings. libgit2 reads them from the environment of the process, so this
/// test runs itself once more in a process with a hostile home.
#[test]
fn s_51_settings_of_the_user_change_nothing() {
    const URL: &str = "ACQUIRE_TEST_URL";
    let run = |url: &str| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let cache = Cache::new();
        let source = Source::parse(url).unwrap();
        let mirror = runtime.block_on(Mirror::open(source, with_token(&cache, "https://github.com")));
        mirror.unwrap();
    };
    if let Ok(url) = std::env::var(URL) {
        return run(&url);
    }
    let project = project();
    let (server, evil) = (serve(&project), serve(&project));
    let home = tempfile::tempdir().unwrap();
    let hostile = format!(
        "[url \"{}/\"]\n\tinsteadOf = {}/\n[core]\n\tsshCommand = false\n[credential]\n\thelper = !touch {}\n",
        evil.host(),
        server.host(),
        home.path().join("ran").display()
    );
    fs::write(home.path().join(".gitconfig"), &hostile).unwrap();
    fs::create_dir_all(home.path().join("git")).unwrap();
    fs::write(home.path().join("git/config"), &hostile).unwrap();
    let asked_by_git = Command::new("git")
        .args(["ls-remote", &server.url()])
        .env("HOME", home.path())
        .env_remove("GIT_CONFIG_GLOBAL")
        .output()
        .unwrap();
    assert!(asked_by_git.status.success());
    assert_eq!((server.seen().len(), evil.seen().len()), (0, 1), "the settings do redirect git itself");

    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "web::s_51_settings_of_the_user_change_nothing"])
        .env("HOME", home.path())
        .env("XDG_CONFIG_HOME", home.path())
        .env_remove("GIT_CONFIG_GLOBAL")
        .env(URL, server.url())
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stdout));
    assert!(!server.seen().is_empty());
    assert!(evil.seen().is_empty());
    assert!(!Path::new(&home.path().join("ran")).exists());
}
