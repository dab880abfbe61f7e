//! Told with sandboxes that do nothing but note what they were asked.

use std::sync::{
    Mutex as StdMutex,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use serde_json::json;

use super::*;
use crate::{
    agent::shell::Shell,
    domain::{Change, FileMode},
    method::ports::{CallContext, Tool, ToolOutcome},
    store::RunFolder,
};

/// A command that breaks the sandbox; every other writes `file`, which then holds three bytes.
const BREAK: &str = "break";
/// One that the sandbox refuses.
const USE_UP: &str = "use up";
const LIMITS: CommandLimits = CommandLimits { timeout: Duration::from_secs(1), keep_bytes: 100 };

#[derive(Default)]
struct Notes(StdMutex<Vec<String>>);

impl Notes {
    fn add(&self, note: impl Into<String>) {
        self.0.lock().unwrap().push(note.into());
    }

    /// All since the last time.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[derive(Default)]
struct Noting {
    notes: Arc<Notes>,
    clock: Arc<Hand>,
    /// What opening takes on the clock.
    opening: Duration,
    never: Option<Never>,
}

/// What never ends.
#[derive(Clone, Copy, PartialEq)]
enum Never {
    Opening,
    Listing,
}

struct NotingSandbox {
    notes: Arc<Notes>,
    written: AtomicBool,
    never: Option<Never>,
}

#[async_trait]
impl Sandboxes for Noting {
    fn kind(&self) -> &'static str {
        "noting"
    }

    fn facts(&self) -> Vec<String> {
        Vec::new()
    }

    async fn open(
        &self,
        agent: &AgentName,
        access: Access,
        changes: &TreeChanges,
    ) -> Result<Arc<dyn Sandbox>, SandboxError> {
        let changed = changes.changed.iter().map(|change| String::from_utf8_lossy(&change.content));
        self.notes.add(format!("open {agent} {access:?} {:?}", changed.collect::<Vec<_>>()));
        if self.never == Some(Never::Opening) {
            std::future::pending::<()>().await;
        }
        *self.clock.0.lock().unwrap() += self.opening;
        let (notes, never) = (self.notes.clone(), self.never);
        Ok(Arc::new(NotingSandbox { notes, written: AtomicBool::new(false), never }))
    }

    async fn close(&self) {}
}

#[async_trait]
impl Sandbox for NotingSandbox {
    async fn run(&self, command: &str, _limits: CommandLimits) -> Result<CommandOutcome, SandboxError> {
        self.notes.add(command);
        if command == USE_UP {
            return Err(SandboxError::Limit("the sandbox has used up its 2000 commands".into()));
        }
        if command == BREAK {
            return Err(SandboxError::Lost("it broke".into()));
        }
        self.written.store(true, Ordering::Relaxed);
        Ok(CommandOutcome {
            exit: CommandExit::Code(0),
            head: Vec::new(),
            tail: Vec::new(),
            omitted: 0,
            background_ended: 0,
            duration: Duration::ZERO,
        })
    }

    async fn list_changes(&self, since: Since) -> Result<Vec<Listed>, SandboxError> {
        self.notes.add(format!("list {since:?}"));
        if self.never == Some(Never::Listing) {
            std::future::pending::<()>().await;
        }
        let is_new = match since {
            Since::Base => self.written.load(Ordering::Relaxed),
            Since::LastListing => self.written.swap(false, Ordering::Relaxed),
        };
        let kind = ListedKind::Changed { mode: FileMode::Regular, size: 3 };
        Ok(is_new.then(|| Listed { path: b"file".to_vec(), kind }).into_iter().collect())
    }

    async fn freeze(&self) -> Result<(), SandboxError> {
        self.notes.add("freeze");
        Ok(())
    }

    async fn fetch(&self, path: &[u8], max_bytes: u64) -> Result<Vec<u8>, SandboxError> {
        self.notes.add(format!("fetch {} of at most {max_bytes} bytes", String::from_utf8_lossy(path)));
        Ok(b"new".to_vec())
    }

    async fn close(&self) {
        self.notes.add("close");
    }
}

/// Stands still unless it is set, which is late enough for a first saved tree.
#[derive(Default)]
struct Hand(StdMutex<Duration>);

impl Clock for Hand {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        *self.0.lock().unwrap()
    }
}

/// A Resolver's workbench, what its sandboxes note, and the folder that it stores into.
fn workbench() -> (Workbench, Arc<Notes>, tempfile::TempDir) {
    workbench_with(Noting::default())
}

fn workbench_with(sandboxes: Noting) -> (Workbench, Arc<Notes>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let (notes, clock) = (sandboxes.notes.clone(), sandboxes.clock.clone());
    let bench = Workbench::new(
        Arc::new(sandboxes),
        AgentName::resolver(),
        Access::ReadWrite,
        Arc::new(RunFolder::create(folder.path(), Arc::new(str::to_owned)).unwrap()),
        clock,
        Arc::new(Harvester::of_nothing()),
    );
    (bench, notes, folder)
}

/// What an agent is shown that has this much time left.
async fn shown(bench: &Arc<Workbench>, command: &str, time_left: Duration) -> String {
    let shell = Shell { bench: bench.clone(), limits: LIMITS, output_chars: 100 };
    let context = CallContext { turn: 1, earlier_calls: 0, time_left };
    let called = shell.call(json!({ "command": command }), context).await.unwrap();
    let ToolOutcome::Observation(seen) = called else { panic!("{command}: no observation") };
    seen
}

fn new_file() -> TreeChanges {
    let change = Change { path: b"file".to_vec(), mode: FileMode::Regular, content: b"new".to_vec() };
    TreeChanges { changed: vec![change], removed: Vec::new() }
}

const OPENED: [&str; 2] = ["open resolver ReadWrite []", "list LastListing"];

#[tokio::test]
async fn s_20_s_21_a_harvest_freezes_first_and_fetches_no_more_than_was_listed() {
    let (bench, notes, _folder) = workbench();
    bench.run("write", LIMITS, Duration::MAX).await.unwrap();
    assert_eq!(notes.take(), [&OPENED[..], &["write"]].concat());
    let harvest = bench.harvest(&[]).await.unwrap();
    assert_eq!(notes.take(), ["freeze", "list Base", "fetch file of at most 3 bytes"]);
    assert_eq!(harvest.changes, new_file());
}

#[tokio::test]
async fn s_20_a_submission_is_frozen_before_its_tree_is_stored() {
    let (bench, notes, _folder) = workbench();
    bench.run("write", LIMITS, Duration::MAX).await.unwrap();
    notes.take();
    bench.submit(1).await.unwrap();
    assert_eq!(notes.take(), ["freeze", "list LastListing", "fetch file of at most 3 bytes"]);
    let saved = bench.store.saved_tree(&AgentName::resolver(), 1).await.unwrap();
    assert_eq!(saved, Some((1, new_file())));
}

#[tokio::test]
async fn r_ex_6_a_sandbox_that_breaks_is_replaced_by_one_with_the_last_saved_tree() {
    let (bench, notes, _folder) = workbench();
    // Nothing is saved yet.
    let lost = bench.run(BREAK, LIMITS, Duration::MAX).await.unwrap();
    assert!(matches!(lost, Ran::Lost { reason, turn: 0 } if reason == "it broke"));
    assert_eq!(notes.take(), [&OPENED[..], &[BREAK, "close"], &OPENED].concat());

    bench.run("write", LIMITS, Duration::MAX).await.unwrap();
    bench.turn_stored(1).await.unwrap();
    notes.take();
    // Seen, but not stored: too little time has gone by.
    bench.run("write", LIMITS, Duration::MAX).await.unwrap();
    bench.turn_stored(2).await.unwrap();
    assert_eq!(notes.take(), ["write", "list LastListing"]);
    let lost = bench.run(BREAK, LIMITS, Duration::MAX).await.unwrap();
    assert!(matches!(lost, Ran::Lost { turn: 1, .. }));
    let opened = ["open resolver ReadWrite [\"new\"]", "list LastListing"];
    assert_eq!(notes.take(), [&[BREAK, "close"][..], &opened].concat());
    // What the broken one had written since is gone, and is not taken for the fresh one's.
    bench.keep(3).await;
    assert_eq!(notes.take(), [""; 0]);
    assert!(matches!(bench.run("write", LIMITS, Duration::MAX).await.unwrap(), Ran::Outcome { .. }));

    assert!(matches!(bench.run(BREAK, LIMITS, Duration::MAX).await.unwrap(), Ran::Lost { turn: 1, .. }));
    let error = bench.run(BREAK, LIMITS, Duration::MAX).await.err().unwrap().to_string();
    assert_eq!(error, "the sandbox of resolver broke 4 times, the last time: it broke");
}

#[tokio::test]
async fn r_ex_7_a_used_up_sandbox_is_told_to_the_agent_which_can_still_submit() {
    let (bench, notes, _folder) = workbench();
    let bench = Arc::new(bench);
    for command in ["edit", USE_UP, USE_UP] {
        let seen = shown(&bench, command, Duration::MAX).await;
        assert_eq!(seen.contains("used up its 2000 commands"), command == USE_UP, "{seen}");
    }
    assert_eq!(notes.take(), [&OPENED[..], &["edit", USE_UP, USE_UP]].concat());
    bench.submit(1).await.unwrap();
    assert_eq!(bench.store.saved_tree(&AgentName::resolver(), 1).await.unwrap(), Some((1, new_file())));
}

#[tokio::test]
async fn s_09_a_sandbox_that_does_not_stand_in_time_is_given_up_and_none_is_opened_for_the_harvest() {
    for never in [Never::Opening, Never::Listing] {
        let (bench, notes, _folder) = workbench_with(Noting { never: Some(never), ..Noting::default() });
        let bench = Arc::new(bench);
        let seen = shown(&bench, "write", Duration::from_millis(20)).await;
        assert!(seen.contains("your time is used up"), "{seen}");
        let given_up: &[&str] = match never {
            Never::Opening => &OPENED[..1],
            Never::Listing => &["open resolver ReadWrite []", "list LastListing", "close"],
        };
        assert_eq!(notes.take(), given_up);
        bench.turn_stored(1).await.unwrap();
        bench.keep(1).await;
        assert!(bench.harvest(&[]).await.unwrap().changes.is_empty());
        bench.close().await;
        assert_eq!(notes.take(), [""; 0]);
    }
}

#[tokio::test]
async fn s_09_a_command_has_the_time_that_the_opening_left_and_none_is_opened_without_time() {
    let opening_takes = |millis| Noting { opening: Duration::from_millis(millis), ..Noting::default() };
    let left = Duration::from_millis(500);
    let (bench, _, _folder) = workbench_with(opening_takes(300));
    let ran = bench.run("write", LIMITS, left).await.unwrap();
    let Ran::Outcome { limits, .. } = ran else { panic!("it did not run") };
    assert_eq!(limits, CommandLimits { timeout: Duration::from_millis(200), ..LIMITS });

    let (bench, notes, _folder) = workbench_with(opening_takes(500));
    assert!(matches!(bench.run("write", LIMITS, left).await.unwrap(), Ran::TimeOver));
    assert_eq!(notes.take(), OPENED, "not run");
    assert!(matches!(bench.run("write", LIMITS, left).await.unwrap(), Ran::Outcome { .. }), "it stands");

    let (bench, notes, _folder) = workbench();
    assert!(matches!(bench.run("write", LIMITS, Duration::ZERO).await.unwrap(), Ran::TimeOver));
    assert_eq!(notes.take(), [""; 0]);
}

#[tokio::test]
async fn a_saved_tree_is_submitted_and_harvested_without_a_sandbox() {
    let (bench, _, folder) = workbench();
    bench.run("write", LIMITS, Duration::MAX).await.unwrap();
    bench.turn_stored(1).await.unwrap();
    drop(bench);

    let notes = Arc::new(Notes::default());
    let store = RunFolder::resume(folder.path(), Arc::new(str::to_owned)).unwrap();
    let bench = Workbench::new(
        Arc::new(Noting { notes: notes.clone(), ..Noting::default() }),
        AgentName::resolver(),
        Access::ReadWrite,
        Arc::new(store),
        Arc::new(Hand::default()),
        Arc::new(Harvester::of_nothing()),
    );
    assert_eq!(bench.resume(1).await.unwrap(), 1);
    bench.submit(2).await.unwrap();
    assert_eq!(bench.store.saved_tree(&AgentName::resolver(), 2).await.unwrap(), Some((2, new_file())));
    let harvest = bench.harvest(&[]).await.unwrap();
    assert_eq!(harvest.changes, new_file());
    let left_out = bench.harvest(&["file".into()]).await.unwrap();
    assert!(left_out.changes.is_empty(), "{:?}", left_out.changes);
    assert_eq!(left_out.left_out[0].path, "file");
    assert_eq!(notes.take(), [""; 0]);
}
