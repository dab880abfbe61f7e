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

struct Noting(Arc<Notes>);

struct NotingSandbox {
    notes: Arc<Notes>,
    written: AtomicBool,
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
        self.0.add(format!("open {agent} {access:?} {:?}", changed.collect::<Vec<_>>()));
        Ok(Arc::new(NotingSandbox { notes: self.0.clone(), written: AtomicBool::new(false) }))
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

/// Stands still, which is late enough for a first saved tree.
struct Still;

impl Clock for Still {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

/// A Resolver's workbench, what its sandboxes note, and the folder that it stores into.
fn workbench() -> (Workbench, Arc<Notes>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let notes = Arc::new(Notes::default());
    let bench = Workbench::new(
        Arc::new(Noting(notes.clone())),
        AgentName::resolver(),
        Access::ReadWrite,
        Arc::new(RunFolder::create(folder.path(), Arc::new(str::to_owned)).unwrap()),
        Arc::new(Still),
        Arc::new(Harvester::of_nothing()),
    );
    (bench, notes, folder)
}

fn new_file() -> TreeChanges {
    let change = Change { path: b"file".to_vec(), mode: FileMode::Regular, content: b"new".to_vec() };
    TreeChanges { changed: vec![change], removed: Vec::new() }
}

const OPENED: [&str; 2] = ["open resolver ReadWrite []", "list LastListing"];

#[tokio::test]
async fn s_20_s_21_a_harvest_freezes_first_and_fetches_no_more_than_was_listed() {
    let (bench, notes, _folder) = workbench();
    bench.run("write", LIMITS).await.unwrap();
    assert_eq!(notes.take(), [&OPENED[..], &["write"]].concat());
    let harvest = bench.harvest(&[]).await.unwrap();
    assert_eq!(notes.take(), ["freeze", "list Base", "fetch file of at most 3 bytes"]);
    assert_eq!(harvest.changes, new_file());
}

#[tokio::test]
async fn s_20_a_submission_is_frozen_before_its_tree_is_stored() {
    let (bench, notes, _folder) = workbench();
    bench.run("write", LIMITS).await.unwrap();
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
    let lost = bench.run(BREAK, LIMITS).await.unwrap();
    assert!(matches!(lost, Ran::Lost { reason, turn: 0 } if reason == "it broke"));
    assert_eq!(notes.take(), [&OPENED[..], &[BREAK, "close"], &OPENED].concat());

    bench.run("write", LIMITS).await.unwrap();
    bench.turn_stored(1).await.unwrap();
    notes.take();
    // Seen, but not stored: too little time has gone by.
    bench.run("write", LIMITS).await.unwrap();
    bench.turn_stored(2).await.unwrap();
    assert_eq!(notes.take(), ["write", "list LastListing"]);
    let lost = bench.run(BREAK, LIMITS).await.unwrap();
    assert!(matches!(lost, Ran::Lost { turn: 1, .. }));
    let opened = ["open resolver ReadWrite [\"new\"]", "list LastListing"];
    assert_eq!(notes.take(), [&[BREAK, "close"][..], &opened].concat());
    // What the broken one had written since is gone, and is not taken for the fresh one's.
    bench.keep(3).await;
    assert_eq!(notes.take(), [""; 0]);
    assert!(matches!(bench.run("write", LIMITS).await.unwrap(), Ran::Outcome { .. }));

    assert!(matches!(bench.run(BREAK, LIMITS).await.unwrap(), Ran::Lost { turn: 1, .. }));
    let error = bench.run(BREAK, LIMITS).await.err().unwrap().to_string();
    assert_eq!(error, "the sandbox of resolver broke 4 times, the last time: it broke");
}

#[tokio::test]
async fn r_ex_7_a_used_up_sandbox_is_told_to_the_agent_which_can_still_submit() {
    let (bench, notes, _folder) = workbench();
    let bench = Arc::new(bench);
    let shell = Shell { bench: bench.clone(), limits: LIMITS, output_chars: 100 };
    for command in ["edit", USE_UP, USE_UP] {
        let context = CallContext { turn: 1, earlier_calls: 0, time_left: Duration::MAX };
        let called = shell.call(json!({ "command": command }), context).await.unwrap();
        let ToolOutcome::Observation(seen) = called else { panic!("{command}: no observation") };
        assert_eq!(seen.contains("used up its 2000 commands"), command == USE_UP, "{seen}");
    }
    assert_eq!(notes.take(), [&OPENED[..], &["edit", USE_UP, USE_UP]].concat());
    bench.submit(1).await.unwrap();
    assert_eq!(bench.store.saved_tree(&AgentName::resolver(), 1).await.unwrap(), Some((1, new_file())));
}
