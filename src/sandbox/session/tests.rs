use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};

use super::*;
use crate::{domain::FileMode, sandbox::wire::Cause};

const PATIENCE: Duration = Duration::from_secs(10);
const LIMITS: CommandLimits = CommandLimits { timeout: Duration::from_secs(30), keep_bytes: 100 };

/// The other side of a session, played by the test.
struct Player {
    from_host: ReadHalf<DuplexStream>,
    to_host: WriteHalf<DuplexStream>,
}

impl Player {
    async fn hear(&mut self) -> Request {
        let length = self.from_host.read_u32_le().await.unwrap();
        let mut frame = vec![0; length as usize];
        self.from_host.read_exact(&mut frame).await.unwrap();
        Request::decode(&frame).unwrap()
    }

    async fn say(&mut self, reply: Reply) {
        self.say_bytes(&reply.encode()).await;
    }

    async fn say_bytes(&mut self, bytes: &[u8]) {
        self.to_host.write_all(bytes).await.unwrap();
    }
}

async fn session() -> (Session, Player) {
    let (host, other) = tokio::io::duplex(1 << 20);
    let (from, to) = tokio::io::split(host);
    let (from_host, to_host) = tokio::io::split(other);
    let mut player = Player { from_host, to_host };
    player.say(Reply::Ready { version: wire::VERSION }).await;
    (Session::start(from, to, PATIENCE).await.unwrap(), player)
}

fn outcome(head: &[u8], omitted: u64) -> Reply {
    Reply::Outcome(wire::Outcome {
        exit: wire::Exit::Code(0),
        head: head.to_vec(),
        tail: vec![],
        omitted,
        background_ended: 0,
        micros: 1_500,
    })
}

#[tokio::test(start_paused = true)]
async fn r_ex_6_no_outcome_within_the_timeout_and_five_seconds_is_a_lost_sandbox() {
    let (session, mut player) = session().await;
    let begun = Instant::now();
    let error = session.run("sleep 1", LIMITS).await.unwrap_err();
    assert!(matches!(error, SandboxError::Lost(_)), "{error}");
    assert_eq!(begun.elapsed(), LIMITS.timeout + Duration::from_secs(5));
    // A late outcome is not taken for the next command's.
    player.hear().await;
    player.say(outcome(b"late", 0)).await;
    let error = session.run("true", LIMITS).await.unwrap_err();
    assert!(matches!(error, SandboxError::Lost(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn r_ex_7_commands_output_and_wall_clock_are_budgets() {
    let budget = CommandBudget { commands: 3, output_bytes: 1_000, seconds: 3_600 };
    let used_up = |error: SandboxError, what: &str| {
        assert!(matches!(&error, SandboxError::Limit(m) if m.contains(what)), "{error}");
    };

    let (session, mut player) = session().await;
    let session = session.with_budget(budget.clone());
    for _ in 0..3 {
        let (run, ()) = tokio::join!(session.run("true", LIMITS), async {
            player.hear().await;
            player.say(outcome(b"", 0)).await;
        });
        run.unwrap();
    }
    used_up(session.run("true", LIMITS).await.unwrap_err(), "3 commands");

    let (session, mut player) = self::session().await;
    let session = session.with_budget(budget.clone());
    let (run, ()) = tokio::join!(session.run("yes", LIMITS), async {
        player.hear().await;
        player.say(outcome(b"y", 999)).await;
    });
    run.unwrap();
    used_up(session.run("true", LIMITS).await.unwrap_err(), "1000 bytes of output");

    // What a command printed before it was killed counts as well, kept or not.
    let (session, mut player) = self::session().await;
    let session = session.with_budget(budget.clone());
    let (run, ()) = tokio::join!(session.run("yes", LIMITS), async {
        player.hear().await;
        let Reply::Outcome(late) = outcome(b"y", 998) else { unreachable!("it is one") };
        player
            .say(Reply::Outcome(wire::Outcome { exit: wire::Exit::TimedOut, tail: b"y".to_vec(), ..late }))
            .await;
    });
    assert_eq!(run.unwrap().exit, CommandExit::TimedOut);
    used_up(session.run("true", LIMITS).await.unwrap_err(), "1000 bytes of output");

    let (session, _player) = self::session().await;
    let session = session.with_budget(budget.clone());
    tokio::time::advance(Duration::from_secs(budget.seconds)).await;
    used_up(session.run("true", LIMITS).await.unwrap_err(), "3600 s");
}

#[tokio::test]
async fn r_ex_7_a_sandbox_has_the_default_budget_unless_it_is_given_another() {
    let default = CommandBudget { commands: 2_000, output_bytes: 68_719_476_736, seconds: 7_200 };
    assert_eq!(CommandBudget::default(), default);
    assert_eq!(session().await.0.budget, default);
    assert_eq!(crate::sandbox::namespaces::Settings::default().budget, default);
}

#[tokio::test]
async fn a_cancelled_run_loses_the_session_instead_of_mixing_outcomes() {
    let (session, mut player) = session().await;
    let cancelled = tokio::time::timeout(Duration::from_millis(20), session.run("sleep 9", LIMITS)).await;
    assert!(cancelled.is_err());
    player.hear().await;
    player.say(outcome(b"of the first command", 0)).await;
    let error = session.run("echo second", LIMITS).await.unwrap_err();
    assert_eq!(error.to_string(), "sandbox lost: an earlier request was broken off");
}

#[tokio::test]
async fn hanging_up_ends_a_running_command_and_the_stream() {
    let (session, mut player) = session().await;
    let session = Arc::new(session);
    let run = tokio::spawn({
        let session = session.clone();
        async move { session.run("sleep 9", LIMITS).await }
    });
    assert!(matches!(player.hear().await, Request::Run { .. }));
    let other_side = async {
        let mut rest = Vec::new();
        player.from_host.read_to_end(&mut rest).await.unwrap();
        drop(player);
    };
    let ((), ()) = tokio::join!(session.hang_up(), other_side);
    assert!(matches!(run.await.unwrap(), Err(SandboxError::Lost(_))));
    assert_eq!(session.freeze().await.unwrap_err().to_string(), "sandbox lost: it was closed");
    session.hang_up().await;
}

#[tokio::test]
async fn what_a_hostile_supervisor_sends_is_limited() {
    let too_long = ((wire::MAX_FRAME + 1) as u32).to_le_bytes().to_vec();
    let more_than_kept = outcome(&[b'x'; 101], 0).encode();
    let out_of_turn = Reply::Frozen.encode();
    let malformed = vec![2, 0, 0, 0, 3, 9];
    for bytes in [too_long, vec![0; 4], more_than_kept, out_of_turn, malformed] {
        let (session, mut player) = session().await;
        player.say_bytes(&bytes).await;
        let error = session.run("true", LIMITS).await.unwrap_err();
        assert!(matches!(error, SandboxError::Lost(_)), "{error}");
    }

    let (session, mut player) = session().await;
    player.say(Reply::Content { bytes: vec![0; 11], last: false }).await;
    let error = session.fetch(b"a", 10).await.unwrap_err();
    assert!(matches!(error, SandboxError::Lost(_)), "{error}");

    let (session, mut player) = self::session().await;
    let flood = async {
        let entry = wire::Listed { path: b"a".to_vec(), kind: wire::ListedKind::Removed };
        let frame = Reply::Listed { entries: vec![entry; 50_000], last: false }.encode();
        while player.to_host.write_all(&frame).await.is_ok() {}
    };
    tokio::select! {
        listed = session.list_changes(Since::Base) => assert!(matches!(listed, Err(SandboxError::Lost(_)))),
        () = flood => panic!("the whole flood was taken"),
    }

    let (session, mut player) = self::session().await;
    let message = format!("bad\u{1b}[31m \u{200b}{}", "x".repeat(5_000));
    player.say(Reply::Failed { cause: Cause::Full, message }).await;
    let error = session.freeze().await.unwrap_err().to_string();
    assert!(error.len() < 1_100 && !error.contains('\u{1b}') && error.contains("\\u{200B}"), "{error}");
}

fn removed(paths: &[&str], last: bool) -> Reply {
    let entry = |path: &&str| wire::Listed { path: (*path).into(), kind: wire::ListedKind::Removed };
    Reply::Listed { entries: paths.iter().map(entry).collect(), last }
}

/// Once a listing was asked for, each command brings the next one, and nothing of it is lost.
#[tokio::test]
async fn r_ex_9_listings_come_with_the_commands() {
    let (session, mut player) = session().await;
    let play = async {
        let last_listing = Request::List { since: Reference::LastListing };
        assert!(matches!(player.hear().await, Request::Run { .. }));
        player.say(outcome(b"0", 0)).await;
        assert_eq!(player.hear().await, last_listing);
        player.say(removed(&[], true)).await;
        // From here on, a listing is asked for in the same breath.
        for round in ["1", "2"] {
            assert!(matches!(player.hear().await, Request::Run { .. }));
            assert_eq!(player.hear().await, last_listing);
            player.say(outcome(round.as_bytes(), 0)).await;
            player.say(removed(&["same"], false)).await;
            player.say(removed(&[round], true)).await;
        }
        // A listing since the base, and a second one without a command in between, are asked for.
        assert_eq!(player.hear().await, Request::List { since: Reference::Base });
        player.say(removed(&["base"], true)).await;
        assert_eq!(player.hear().await, last_listing);
        player.say(removed(&[], true)).await;
        // What cannot be listed is asked for again.
        assert!(matches!(player.hear().await, Request::Run { .. }));
        assert_eq!(player.hear().await, last_listing);
        player.say(outcome(b"3", 0)).await;
        player.say(Reply::Failed { cause: Cause::Full, message: "too many".into() }).await;
        assert_eq!(player.hear().await, last_listing);
        player.say(Reply::Failed { cause: Cause::Full, message: "too many".into() }).await;
    };
    let ask = async {
        let names = |listed: Vec<Listed>| {
            let name = |one: Listed| String::from_utf8(one.path).unwrap();
            listed.into_iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(session.run("0", LIMITS).await.unwrap().head, b"0");
        assert_eq!(names(session.list_changes(Since::LastListing).await.unwrap()), [""; 0]);
        assert_eq!(session.run("1", LIMITS).await.unwrap().head, b"1");
        assert_eq!(session.run("2", LIMITS).await.unwrap().head, b"2");
        assert_eq!(names(session.list_changes(Since::Base).await.unwrap()), ["base"]);
        assert_eq!(names(session.list_changes(Since::LastListing).await.unwrap()), ["1", "2", "same"]);
        assert_eq!(names(session.list_changes(Since::LastListing).await.unwrap()), [""; 0]);
        assert_eq!(session.run("3", LIMITS).await.unwrap().head, b"3");
        let refused = session.list_changes(Since::LastListing).await;
        assert!(matches!(refused, Err(SandboxError::Limit(_))), "{refused:?}");
    };
    tokio::join!(play, ask);
}

#[tokio::test]
async fn a_refusal_leaves_the_session_alive() {
    let (session, mut player) = session().await;
    let refuse = Reply::Failed { cause: Cause::Refused, message: "no such file: a".into() };
    player.say(refuse).await;
    assert!(matches!(session.fetch(b"a", 1).await, Err(SandboxError::Limit(_))));
    player.say(outcome(b"fine", 0)).await;
    assert_eq!(session.run("echo fine", LIMITS).await.unwrap().head, b"fine");
}

#[tokio::test]
async fn a_fill_arrives_in_order_with_large_contents_in_pieces() {
    let (session, mut player) = session().await;
    let (send, receive) = mpsc::channel(4);
    let change =
        |path: &str, size| Change { path: path.into(), mode: FileMode::Executable, content: vec![7; size] };
    let feed = async move {
        send.send(Fill::Base(change("a", wire::CHUNK + 1))).await.unwrap();
        send.send(Fill::Git(change("HEAD", 0))).await.unwrap();
        send.send(Fill::Saved(change("b", 1))).await.unwrap();
        send.send(Fill::Removed(b"c".to_vec())).await.unwrap();
    };
    let play = async {
        let mut heard = Vec::new();
        loop {
            match player.hear().await {
                Request::Entry { stage, path, size, content, .. } => {
                    heard.push(format!(
                        "{stage:?} {} {} of {size}",
                        String::from_utf8_lossy(&path),
                        content.len()
                    ));
                }
                Request::More { content } => heard.push(format!("+{}", content.len())),
                Request::Remove { path } => heard.push(format!("-{}", String::from_utf8_lossy(&path))),
                Request::FillEnd => break,
                other => panic!("{other:?}"),
            }
        }
        player.say(Reply::Filled { entries: 3, bytes: 9 }).await;
        heard
    };
    let (filled, (), heard) = tokio::join!(session.fill(receive), feed, play);
    assert_eq!(filled.unwrap(), Filled { entries: 3, bytes: 9 });
    assert_eq!(heard, ["Base a 262144 of 262145", "+1", "Git .git/HEAD 0 of 0", "Saved b 1 of 1", "-c"]);
}
