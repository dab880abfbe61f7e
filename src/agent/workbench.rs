//! An agent's sandbox over its whole life: opened when first needed, saved as it changes, replaced by a
//! fresh one when it breaks (R-EX-6).
//!
//! Invariants
//! - A tree of turn `n` counts only when turn `n` itself is stored; a submission's tree is stored first,
//!   so that a stored submission always has its tree.
//! - What is stored is what a harvest would take: ignored files, caches and refused paths are not saved.
//! - Read-only sandboxes have nothing to save; every turn of theirs can be resumed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use minijinja::context;
use tokio::{sync::Mutex, time::timeout};

use crate::{
    domain::{AgentName, TreeChanges, TreePath},
    method::ports::{
        Access, Clock, CommandExit, CommandLimits, CommandOutcome, Listed, ListedKind, RunStore, Sandbox,
        SandboxError, Sandboxes, Since, StoreError, ToolError,
    },
};

use super::{
    harvest::{Harvest, Harvester},
    prompt,
    tests_run::runs_tests,
};

/// Saved trees lie at least this far apart.
const SAVE_INTERVAL: Duration = Duration::from_secs(20);
/// A sandbox that breaks more often than this ends the agent.
const MAX_LOSSES: u32 = 3;

/// What came of a command.
pub enum Ran {
    Outcome {
        outcome: CommandOutcome,
        /// As they held: a command ends with the agent's time.
        limits: CommandLimits,
        /// Said once after an interruption.
        note: Option<String>,
    },
    /// The sandbox broke; a fresh one stands at the tree of `turn`.
    Lost { reason: String, turn: u32 },
    /// A limit of the sandbox is reached. That is the agent's to deal with: others have sandboxes of their own.
    UsedUp { reason: String },
    /// The agent's time was over before the command could begin.
    TimeOver,
}

/// A command that ran tests, with the exit code that the host saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenTest {
    pub command: String,
    pub exit: CommandExit,
}

pub struct Workbench {
    sandboxes: Arc<dyn Sandboxes>,
    agent: AgentName,
    access: Access,
    store: Arc<dyn RunStore>,
    clock: Arc<dyn Clock>,
    harvester: Arc<Harvester>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sandbox: Option<Arc<dyn Sandbox>>,
    /// The turn whose tree is stored; 0 is the base tree.
    saved_turn: u32,
    saved: TreeChanges,
    /// Changes that are listed but not stored yet.
    pending: BTreeMap<TreePath, ListedKind>,
    last_save: Option<Duration>,
    note: Option<String>,
    losses: u32,
    /// Tests since files last changed.
    tests: Vec<SeenTest>,
    frozen: bool,
}

impl Workbench {
    pub fn new(
        sandboxes: Arc<dyn Sandboxes>,
        agent: AgentName,
        access: Access,
        store: Arc<dyn RunStore>,
        clock: Arc<dyn Clock>,
        harvester: Arc<Harvester>,
    ) -> Self {
        Self { sandboxes, agent, access, store, clock, harvester, state: Mutex::default() }
    }

    pub fn access(&self) -> Access {
        self.access
    }

    /// Prepares to go on after an interruption: finds the last turn up to `last` whose tree is stored.
    /// The conversation must be cut back to the turn that is returned.
    pub async fn resume(&self, last: u32) -> Result<u32, StoreError> {
        if last == 0 {
            return Ok(0);
        }
        let mut state = self.state.lock().await;
        state.note = Some(prompt::render("agent/sandbox_restarted.md", context! {}));
        if self.access == Access::ReadOnly {
            return Ok(last);
        }
        if let Some((turn, changes)) = self.store.saved_tree(&self.agent, last).await? {
            (state.saved_turn, state.saved) = (turn, changes);
        }
        if state.saved_turn == 0 {
            state.note = None;
        }
        Ok(state.saved_turn)
    }

    /// Runs one command, in a sandbox that is opened for it where there is none. Within `time_left` both have
    /// ended, and what is half opened then is given up. An engine that cannot give a sandbox, or one that breaks
    /// again and again, is an error.
    pub async fn run(
        &self,
        command: &str,
        limits: CommandLimits,
        time_left: Duration,
    ) -> Result<Ran, SandboxError> {
        if time_left.is_zero() {
            return Ok(Ran::TimeOver);
        }
        let end = self.clock.monotonic().saturating_add(time_left);
        let mut state = self.state.lock().await;
        let Some(sandbox) = self.sandbox(&mut state, end).await? else {
            return Ok(Ran::TimeOver);
        };
        let limits = CommandLimits { timeout: limits.timeout.min(self.left_until(end)), ..limits };
        if limits.timeout.is_zero() {
            return Ok(Ran::TimeOver);
        }
        let is_test = self.access == Access::ReadWrite && runs_tests(command);
        let ran = async {
            if is_test {
                // What was edited before the test must not be taken for an edit after it.
                self.see_changes(&mut state, &*sandbox).await?;
            }
            let outcome = sandbox.run(command, limits).await?;
            if is_test {
                state.tests.push(SeenTest { command: command.to_owned(), exit: outcome.exit });
                self.see_changes(&mut state, &*sandbox).await?;
            }
            Ok(outcome)
        };
        match ran.await {
            Ok(outcome) => Ok(Ran::Outcome { outcome, limits, note: state.note.take() }),
            Err(SandboxError::Lost(reason)) => {
                self.replace(&mut state, &reason, end).await?;
                Ok(Ran::Lost { reason, turn: state.saved_turn })
            }
            Err(SandboxError::Limit(reason)) => Ok(Ran::UsedUp { reason }),
            Err(other) => Err(other),
        }
    }

    /// Called after a turn is stored and before the next acts: sees what changed, and stores it when the last
    /// time is long enough ago.
    pub async fn turn_stored(&self, turn: u32) -> Result<(), ToolError> {
        let mut state = self.state.lock().await;
        if self.access == Access::ReadOnly || state.frozen {
            return Ok(());
        }
        let Some(sandbox) = state.sandbox.clone() else {
            return Ok(());
        };
        match self.see_changes(&mut state, &*sandbox).await {
            Ok(()) => {}
            // Lost: the next command finds it so and replaces it. Too much: the harvest will say it. Either way
            // this turn's tree is simply not known.
            Err(SandboxError::Lost(_) | SandboxError::Limit(_)) => return Ok(()),
            Err(other) => return Err(other.into()),
        }
        let now = self.clock.monotonic();
        let due = state.last_save.is_none_or(|at| now.saturating_sub(at) >= SAVE_INTERVAL);
        if state.pending.is_empty() || due {
            self.save(&mut state, &*sandbox, turn, now).await?;
        }
        Ok(())
    }

    /// Takes in what changed since the last look. An edit makes the tests before it tell nothing.
    async fn see_changes(&self, state: &mut State, sandbox: &dyn Sandbox) -> Result<(), SandboxError> {
        let listed = sandbox.list_changes(Since::LastListing).await?;
        if !self.harvester.select(&listed, &[]).is_ok_and(|s| s.take.is_empty() && s.removed.is_empty()) {
            state.tests.clear();
        }
        state.pending.extend(listed.into_iter().map(|l| (l.path, l.kind)));
        Ok(())
    }

    /// Called when the agent stops after the stored `turn`, with no command under way: what it did since the
    /// last saved tree is saved. Where that fails, an earlier turn is the one to resume from.
    pub async fn keep(&self, turn: u32) {
        let mut state = self.state.lock().await;
        if state.frozen || state.pending.is_empty() {
            return;
        }
        if let Some(sandbox) = state.sandbox.clone()
            && let Err(error) = self.save(&mut state, &*sandbox, turn, self.clock.monotonic()).await
        {
            tracing::warn!(agent = %self.agent, %error, "the last edits were not saved");
        }
    }

    async fn save(
        &self,
        state: &mut State,
        sandbox: &dyn Sandbox,
        turn: u32,
        now: Duration,
    ) -> Result<(), ToolError> {
        let pending: Vec<Listed> =
            state.pending.iter().map(|(path, kind)| Listed { path: path.clone(), kind: *kind }).collect();
        let changes = match self.harvester.fetch(sandbox, &pending, &[]).await {
            Ok(harvest) => harvest.changes,
            // Too much to save, or a file that is changing under us: an earlier turn stays the one to resume from.
            Err(SandboxError::Limit(_) | SandboxError::Lost(_)) => return Ok(()),
            Err(other) => return Err(other.into()),
        };
        self.store.save_tree(&self.agent, turn, &changes).await.map_err(ToolError::Store)?;
        if !changes.is_empty() {
            state.last_save = Some(now);
        }
        state.saved.extend(changes);
        state.saved_turn = turn;
        state.pending.clear();
        Ok(())
    }

    /// Ends everything inside and stores the tree as that of `turn`, which submits.
    pub async fn submit(&self, turn: u32) -> Result<(), ToolError> {
        let mut state = self.state.lock().await;
        let Some(sandbox) = state.sandbox.clone() else {
            // Nothing has run since the last saved tree.
            self.store.save_tree(&self.agent, turn, &TreeChanges::default()).await?;
            (state.saved_turn, state.frozen) = (turn, true);
            return Ok(());
        };
        sandbox.freeze().await?;
        state.frozen = true;
        match self.see_changes(&mut state, &*sandbox).await {
            Err(SandboxError::Limit(_)) => Ok(()),
            Err(other) => Err(other.into()),
            Ok(()) => self.save(&mut state, &*sandbox, turn, self.clock.monotonic()).await,
        }
    }

    /// Ends everything inside and takes what changed since the base commit (S-20 to S-26). Where no sandbox is
    /// open, nothing has run since the last saved tree, and that is what is taken: at the end of the time none is
    /// opened for it.
    pub async fn harvest(&self, leave_out: &[String]) -> Result<Harvest, SandboxError> {
        let mut state = self.state.lock().await;
        let Some(sandbox) = state.sandbox.clone() else {
            state.frozen = true;
            return self.harvester.take(&state.saved, leave_out);
        };
        sandbox.freeze().await?;
        state.frozen = true;
        let listed = sandbox.list_changes(Since::Base).await?;
        self.harvester.fetch(&*sandbox, &listed, leave_out).await
    }

    /// Tests that ran since files last changed, in order.
    pub async fn tests_since_last_edit(&self) -> Vec<SeenTest> {
        self.state.lock().await.tests.clone()
    }

    pub async fn close(&self) {
        if let Some(sandbox) = self.state.lock().await.sandbox.take() {
            sandbox.close().await;
        }
    }

    /// The agent's sandbox, opened where there is none. `None` where it did not stand at `end`, on the clock's
    /// monotonic scale; then nothing is left of it.
    async fn sandbox(
        &self,
        state: &mut State,
        end: Duration,
    ) -> Result<Option<Arc<dyn Sandbox>>, SandboxError> {
        if let Some(sandbox) = &state.sandbox {
            return Ok(Some(sandbox.clone()));
        }
        let opening = self.sandboxes.open(&self.agent, self.access, &state.saved);
        let Ok(opened) = timeout(self.left_until(end), opening).await else {
            return Ok(None);
        };
        let sandbox = opened?;
        if self.access == Access::ReadWrite {
            // From here on, listings show what the agent changes, not what was filled in for it.
            let listing = sandbox.list_changes(Since::LastListing);
            let listed = timeout(self.left_until(end), listing).await;
            if !matches!(listed, Ok(Ok(_))) {
                sandbox.close().await;
            }
            match listed {
                Ok(listed) => listed?,
                Err(_) => return Ok(None),
            };
        }
        state.sandbox = Some(sandbox.clone());
        Ok(Some(sandbox))
    }

    fn left_until(&self, end: Duration) -> Duration {
        end.saturating_sub(self.clock.monotonic())
    }

    /// Puts a fresh sandbox in place of a broken one; where the time is over before it stands, the next command
    /// finds none.
    async fn replace(&self, state: &mut State, reason: &str, end: Duration) -> Result<(), SandboxError> {
        if let Some(broken) = state.sandbox.take() {
            broken.close().await;
        }
        state.losses += 1;
        if state.losses > MAX_LOSSES {
            return Err(SandboxError::Unavailable(format!(
                "the sandbox of {} broke {} times, the last time: {reason}",
                self.agent, state.losses
            )));
        }
        state.pending.clear();
        state.tests.clear();
        self.sandbox(state, end).await.map(drop)
    }
}

#[cfg(test)]
mod tests;
