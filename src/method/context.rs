//! What every stage of a run works with, and what it reports.

use std::{sync::Arc, time::Duration};

use minijinja::context;
use serde::{Deserialize, Serialize};

use crate::{
    agent::{
        Agent, AgentError, Exit, Finished, Limits, Services, Stop, Unpaid, harvest::Harvester, ledger::Cap,
        paid, prompt, shell::Shell, workbench::Workbench,
    },
    domain::{Account, AgentName, Issue, Money, RunId},
    gate::{
        intake::{AdmittedIssue, FenceId},
        secrets::Scanner,
    },
    method::{
        baseline::Baseline,
        facts::Facts,
        ports::{
            Access, ChatModel, ChatReply, ChatRequest, CommandLimits, Message, ModelError, OverBudget,
            SandboxError, Sandboxes, SourceError, SourceTree, StoreError, Symbols, Tool, ToolError,
            counted_tries,
        },
    },
};

/// The settings of a run. Defaults are the paper's (ACQUIRE, IV-E).
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `N`: questions asked. 0 is the base agent without stage 1.
    pub questions: usize,
    pub questioner: QuestionerSettings,
    pub answerer: AgentSettings,
    pub resolver: AgentSettings,
    /// Consecutive replies without one well-formed call that end an agent.
    pub format_errors: u32,
    /// Most characters of a command's output that a model is shown.
    pub observation_chars: usize,
    /// Most time that the tests may take before any change; zero does not run them.
    pub baseline: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuestionerSettings {
    pub temperature: f64,
    /// Tokens that one reply may have.
    pub reply_tokens: u32,
}

/// Limits of one kind of agent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AgentSettings {
    pub temperature: f64,
    /// Tokens that one reply may have.
    pub reply_tokens: u32,
    pub steps: u32,
    pub cap: Cap,
    pub time: Duration,
    /// For each command.
    pub command_time: Duration,
}

impl Settings {
    pub fn limits(&self, agent: &AgentSettings) -> Limits {
        Limits {
            steps: agent.steps,
            time: agent.time,
            format_errors: self.format_errors,
            reply_tokens: agent.reply_tokens,
        }
    }
}

/// The model of each role.
#[derive(Clone)]
pub struct Models {
    pub questioner: Arc<dyn ChatModel>,
    pub answerer: Arc<dyn ChatModel>,
    pub resolver: Arc<dyn ChatModel>,
}

/// Everything that the stages of one run share.
#[derive(Clone)]
pub struct RunContext {
    pub id: RunId,
    pub issue: Issue,
    /// The issue as models may read it.
    pub admitted: AdmittedIssue,
    /// Fences off text from outside, so that it cannot close the block that it stands in (S-06).
    pub fence: FenceId,
    pub settings: Settings,
    pub models: Models,
    pub tree: Arc<dyn SourceTree>,
    pub symbols: Arc<dyn Symbols>,
    pub sandboxes: Arc<dyn Sandboxes>,
    pub harvester: Arc<Harvester>,
    /// Knows the run's live secrets: a patch that holds one, or any other, is not kept (S-33).
    pub scanner: Arc<Scanner>,
    pub services: Services,
    /// On the clock's monotonic scale: when the run, or this part of it, began. The stage `prepare` counts from here.
    pub started: Duration,
    /// What the history that agents see holds, in a clause.
    pub history: String,
    /// Facts about the environment and the project's notes, as agents read them; empty where no sandbox was opened.
    pub environment: String,
    /// See [`ChatRequest::volatile`]: the fence and the environment.
    pub volatile: Vec<String>,
}

impl RunContext {
    /// The issue, fenced; empty where there is none.
    pub fn issue_text(&self) -> String {
        if self.issue.is_none() {
            return String::new();
        }
        let AdmittedIssue { title, body, number, .. } = &self.admitted;
        let number = number.map(|n| format!("Issue number: {n}\n")).unwrap_or_default();
        let issue = self.fence.fence("issue", &format!("{number}Title: {title}\n\n{body}"));
        prompt::render("shared/issue.md", context! { issue })
    }

    /// A sandbox to be, for one agent.
    pub fn workbench(&self, agent: &AgentName, access: Access) -> Arc<Workbench> {
        Arc::new(Workbench::new(
            self.sandboxes.clone(),
            agent.clone(),
            access,
            self.services.store.clone(),
            self.services.clock.clone(),
            self.harvester.clone(),
        ))
    }

    /// An agent with a shell on `bench`, and `submit` to hand in what it was asked for.
    pub fn agent(
        &self,
        name: &AgentName,
        model: &Arc<dyn ChatModel>,
        settings: &AgentSettings,
        bench: &Arc<Workbench>,
        opening: Vec<Message>,
        submit: impl Tool + 'static,
    ) -> Agent {
        let output_chars = self.settings.observation_chars;
        // Four bytes are the longest character.
        let limits = CommandLimits { timeout: settings.command_time, keep_bytes: output_chars * 4 };
        let shell = Shell { bench: bench.clone(), limits, output_chars };
        Agent {
            name: name.clone(),
            model: model.clone(),
            opening,
            volatile: self.volatile.clone(),
            tools: vec![Arc::new(shell), Arc::new(submit)],
            bench: bench.clone(),
            limits: self.settings.limits(settings),
            temperature: Some(settings.temperature),
        }
    }

    /// Takes the facts in that every agent is told, and what came of the tests before any change for the one
    /// that is told it.
    pub fn set_environment(&mut self, facts: &Facts, baseline: Option<&Baseline>) {
        let baseline = baseline.map(|baseline| baseline.render(&self.fence));
        let chars = self.settings.observation_chars;
        let environment = facts.render(self.tree.commit(), chars, baseline.as_deref());
        let instructions = facts.render_instructions(&self.fence);
        let parts = [environment.as_str(), &instructions];
        self.environment = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n");
        // The project's notes are part of the commit, as the issue is of the run: equal wherever it is run.
        self.volatile = vec![environment, self.fence.as_str().to_owned()];
    }

    /// Counts in the ledger what an agent of an earlier process used.
    pub fn restore(&self, agent: &AgentName, report: &AgentReport) {
        self.services.budget.restore(agent, report.account.usd, report.account.tokens);
    }

    /// One model call under the ledger, given up when the run is cancelled or its time is over.
    pub async fn paid(&self, model: &dyn ChatModel, request: &ChatRequest) -> Result<ChatReply, RunError> {
        tokio::select! {
            biased;
            // A reply that is there is paid, and taken.
            reply = paid(&self.services, model, request) => reply.map_err(|unpaid| match unpaid {
                Unpaid::Model(error) => error.into(),
                Unpaid::OverBudget(over) => RunError::OverBudget(over),
            }),
            stop = self.services.stop() => Err(stop.into()),
        }
    }
}

/// Why a run ended without an outcome. What its finished stages stored stays.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "the Questioner gave no usable question in {}; of its last reply: {problem} \
         (trajectories/questioner.jsonl). Try another model, or `--questions 0` for a repair without knowledge", counted_tries(*.tries)
    )]
    NoQuestions { tries: u32, problem: String },
    #[error("the budget ended before the first question: {0}. Raise {limit}", limit = limit_of(*.0))]
    OverBudget(OverBudget),
    #[error(
        "the run's time was used up before it came to an end, that of earlier processes included. Raise \
         `[limits.run] seconds`, then go on with --resume"
    )]
    TimeUp,
    #[error("cancelled")]
    Cancelled,
}

/// The setting that ends the Questioner, which has an Answerer's limits.
fn limit_of(over: OverBudget) -> &'static str {
    match over {
        OverBudget::Agent => "`usd` in `[limits.answerer]`, or `tokens` where the model's price is unknown",
        OverBudget::Run => "`[limits.run] usd`, or `--max-usd`",
    }
}

impl RunError {
    /// The stable name that `run.json` shows.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Model(error) => error.class(),
            Self::Sandbox(SandboxError::Unavailable(_)) => "sandbox_unavailable",
            Self::Sandbox(SandboxError::Lost(_)) => "sandbox_lost",
            Self::Sandbox(SandboxError::Limit(_)) => "sandbox_limit",
            Self::Source(SourceError::Input(_)) => "repository_input",
            Self::Source(SourceError::Limit(_)) => "repository_limit",
            Self::Source(SourceError::Authentication(_)) => "repository_authentication",
            Self::Source(SourceError::Git(_)) => "repository_git",
            Self::Store(_) => "run_state",
            Self::NoQuestions { .. } => "no_questions",
            Self::OverBudget(_) => "over_budget",
            Self::TimeUp => "time_limit",
            Self::Cancelled => "cancelled",
        }
    }
}

impl From<Stop> for RunError {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Cancelled => Self::Cancelled,
            Stop::TimeUp => Self::TimeUp,
        }
    }
}

impl From<AgentError> for RunError {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::Model(error) => error.into(),
            AgentError::Store(error) => error.into(),
            AgentError::Tool(error) => error.into(),
        }
    }
}

impl From<ToolError> for RunError {
    fn from(error: ToolError) -> Self {
        match error {
            ToolError::Sandbox(error) => error.into(),
            ToolError::Source(error) => error.into(),
            ToolError::Store(error) => error.into(),
        }
    }
}

/// What an agent used and how it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentReport {
    pub name: String,
    pub exit: String,
    pub account: Account,
    /// What providers made us change, and which limit was reached.
    pub notes: Vec<String>,
}

impl AgentReport {
    pub fn new(name: &AgentName, exit: Exit) -> Self {
        Self {
            name: name.to_string(),
            exit: exit.as_str().into(),
            account: Account::default(),
            notes: Vec::new(),
        }
    }

    pub fn of(name: &AgentName, finished: &Finished) -> Self {
        Self {
            name: name.to_string(),
            exit: finished.exit.as_str().into(),
            account: finished.account,
            notes: finished.notes.clone(),
        }
    }

    pub fn add_notes(&mut self, notes: Vec<String>) {
        for note in notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }
}

/// What a stage used: its agents' money and tokens, its own wall-clock seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageReport {
    pub name: String,
    pub seconds: f64,
    pub agents: Vec<AgentReport>,
}

impl StageReport {
    /// Sum over the agents, with the stage's own seconds.
    pub fn account(&self) -> Account {
        let mut sum = Account::default();
        for agent in &self.agents {
            sum += agent.account;
        }
        Account { seconds: self.seconds, ..sum }
    }

    pub fn usd(&self) -> Money {
        self.account().usd
    }
}
