//! One run, from what a user asks for to the files it leaves. The only place where the rooms meet: the
//! command line enters here, and so will every other way to start a run.
//!
//! Invariants
//! - A run that has a folder leaves a valid `run.json` there, however it ended, unless the disk takes none. What it
//!   says of money is never less than what an earlier process said.
//! - What a resumed run needs to know (issue, commit, fence, strategy) is stored before its first stage, and
//!   taken from there; the issue is not read a second time.
//! - Everything that is written or shown passes the secret scanner (S-33).

mod active;
mod asked;
mod doctor;
mod earlier;
mod inputs;
mod issue;
mod open_account;
mod parts;
mod results;
mod settings;
mod start_error;
mod text_words;
mod trial;

use std::{io, path::Path, sync::Arc, time::Duration};

use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use crate::{
    agent::{Services, harvest::Harvester},
    config::{Environment, Settings},
    domain::{Issue, Knowledge, RepoId, RunId},
    gate::{harvest::HarvestLimits, intake::FenceId, questions::AdmittedQuestion, secrets::Scanner},
    index::SourceSymbols,
    method::{
        answerer::Explore,
        context::{Models, RunContext, RunError},
        knowledge::{AskedQuestions, Nothing, Proposal, QuestionsAndAnswers},
        ports::{
            Answerer, Budget, Clock, Event, KnowledgeSource, Progress, Resolver, RunStore, SourceError,
            SourceTree, StoreError,
        },
        question::Template,
        resolver::AgentResolver,
        run::{RunReport, Strategy, run},
    },
    repo::Source,
    report::{self, preparing},
    store::{ErrorSummary, IssueSummary, Outcome, Redactor, RunFolder, RunSummary, Usage},
};

pub use asked::{questions_from_file, questions_from_stdin};
pub use doctor::{Checkup, examine};
pub use inputs::{
    AnswererKind, Inputs, IssueSource, KnowledgeKind, Replay, ReplaySource, Replies, Request, Start,
};
pub use open_account::has_open_account;
pub use results::Solved;
pub use settings::{model_settings, unpriced_model};
pub use start_error::StartError;
pub use trial::{Trial, try_out};

use earlier::Earlier;
use open_account::OpenAccount;
use parts::{Folders, Repository};
use settings::RoleModels;

/// What a run needs of the process that it runs in.
#[derive(Clone)]
pub struct Host {
    pub settings: Settings,
    pub environment: Environment,
    pub progress: Arc<dyn Progress>,
    pub clock: Arc<dyn Clock>,
    pub cancel: CancellationToken,
    pub random: Random,
}

impl Host {
    fn say(&self, text: &str) {
        self.progress.report(Event::Note { text: text.to_owned() });
    }
}

/// Random bytes that a new run takes; values, so that tests are exact.
#[derive(Debug, Clone, Copy)]
pub struct Random {
    pub run_id: [u8; 3],
    pub fence: [u8; 16],
}

/// The scanner that knows this process's own secrets.
pub fn scanner(settings: &Settings, environment: &Environment) -> Arc<Scanner> {
    let keys = crate::config::Role::ALL.map(|role| settings.model_of(role, environment).ok()?.api_key);
    let token = environment.variable("GITHUB_TOKEN").map(|t| SecretString::from(t.to_owned()));
    let live: Vec<SecretString> = keys.into_iter().chain([token]).flatten().collect();
    Arc::new(Scanner::new(&live))
}

/// Takes secrets out of text on its way out.
pub fn redactor(scanner: Arc<Scanner>) -> Redactor {
    Arc::new(move |text: &str| scanner.redact(text).into_owned())
}

/// Runs the whole of it. What a user can get wrong is looked at before a folder is made. An error means that this
/// process adds nothing to what the folder tells of the run: it did not begin, or what it came to cannot be written.
pub async fn solve(start: Start, replies: Replies, host: Host) -> Result<Solved, StartError> {
    let scanner = scanner(&host.settings, &host.environment);
    let redact = redactor(scanner.clone());
    let roles = if replies.replay.is_some() {
        RoleModels::of_recording(&host.settings, &host.environment)?
    } else {
        RoleModels::of(&host.settings, &host.environment)?
    };
    let models = parts::connect_models(&roles, &replies, &host)?;
    let in_folder = |error: StoreError| StartError::usage("run_folder", error.without_its_kind());
    match start {
        Start::Fresh { request, folder } => {
            Source::parse(&request.repo)?.look().await?;
            asked::admitted(&request)?;
            let issue = match &request.issue {
                None => IssueText::Read(Issue::default()),
                Some(IssueSource::File(path)) => IssueText::Read(issue::from_file(path)?),
                Some(IssueSource::Reference(reference)) => IssueText::OnGitHub(reference.clone()),
            };
            let folder = RunFolder::create(&folder, redact).map_err(in_folder)?;
            let run_id = RunId::new(host.clock.now(), host.random.run_id);
            let begun = Begun { folder, scanner, host, roles, models, replies, run_id };
            let task = Task::New { request: request.clone(), issue };
            match begun.go(task).await {
                Err(error) => begun.unstarted(&request, error),
                Ok(ended) => Ok(ended?),
            }
        }
        Start::Resume { folder } => {
            let folder = RunFolder::resume(&folder, redact).map_err(in_folder)?;
            let inputs = stored_inputs(&folder).await?;
            let run_id = inputs.run_id.clone();
            let begun = Begun { folder, scanner, host, roles, models, replies, run_id };
            Ok(begun.go(Task::Stored(inputs)).await??)
        }
    }
}

async fn stored_inputs(folder: &RunFolder) -> Result<Box<Inputs>, StartError> {
    let told = |what: String| {
        let folder = folder.path().display();
        StartError::usage("run_folder", format!("{folder}: {what}; start a new one"))
    };
    match folder.stage(INPUTS).await?.map(serde_json::from_value) {
        Some(Ok(inputs)) => Ok(Box::new(inputs)),
        Some(Err(error)) => Err(told(format!("its run is of another version ({error})"))),
        None => Err(told("this run ended before anything was stored".into())),
    }
}

/// What the run in this folder was asked for.
pub async fn stored_request(folder: &Path, redact: Redactor) -> Result<Request, StartError> {
    let folder = RunFolder::resume(folder, redact)
        .map_err(|error| StartError::usage("run_folder", error.without_its_kind()))?;
    Ok(stored_inputs(&folder).await?.request)
}

/// What a run is to do.
enum Task {
    New {
        request: Request,
        issue: IssueText,
    },
    /// An earlier process found it out.
    Stored(Box<Inputs>),
}

enum IssueText {
    Read(Issue),
    /// A number or a URL: read when the run knows its repository.
    OnGitHub(String),
}

/// A run that has its folder.
struct Begun {
    folder: RunFolder,
    scanner: Arc<Scanner>,
    host: Host,
    roles: RoleModels,
    models: Models,
    replies: Replies,
    run_id: RunId,
}

impl Begun {
    /// Does the task while the run counts as alive on this machine. The inner error is of a run that has ended, and
    /// whose results cannot be written.
    async fn go(&self, task: Task) -> Result<Result<Solved, StoreError>, StartError> {
        let cache = self.host.settings.cache(&self.host.environment)?;
        let folders = Folders::below(&cache, &self.run_id);
        let alive = active::register(&folders.alive, &self.run_id)
            .map_err(|e| cannot_register(&folders.alive, &e))?;
        folders.sweep();
        parts::remove_folder(&folders.work);
        let outcome = self.run(task, &folders).await;
        parts::remove_folder(&folders.work);
        drop(alive);
        outcome
    }

    async fn run(&self, task: Task, folders: &Folders) -> Result<Result<Solved, StoreError>, StartError> {
        let host = &self.host;
        let redact = redactor(self.scanner.clone());
        let models = parts::record_models(self.models.clone(), &self.roles, &self.replies, host, &redact)?;
        let started = host.clock.monotonic();
        let budget = Arc::new(settings::ledger(&host.settings));
        let earlier = Earlier::of(&self.folder, &self.run_id).await?;
        let services = self.services(budget.clone(), started, earlier.time_used());
        let (inputs, tree) = tokio::select! {
            biased;
            stop = services.stop() => return Err(stop.into()),
            both = self.inputs(task, folders) => both?,
        };
        let admitted = issue::admitted(&inputs.issue)?;
        let asked = asked::admitted(&inputs.request)?;
        let mut notes = inputs.notes.clone();
        notes.extend(admitted.notices.clone());
        notes.extend((!admitted.removed.is_empty()).then(|| report::removed_from_issue(&admitted.removed)));
        notes.extend(asked::notices(&asked));
        let prepared = match tree {
            Ok(tree) => self.prepare(&inputs, tree.clone(), folders, &services).await.map(|it| (it, tree)),
            Err(error) => Err(error.into()),
        };
        let (report, sandbox, account) = match prepared {
            Ok((Prepared { sandboxes, harvester, account, history, notes: of_sandboxes }, tree)) => {
                notes.extend(of_sandboxes);
                for text in &notes {
                    host.say(text);
                }
                let kind = sandboxes.kind();
                let context = RunContext {
                    id: inputs.run_id.clone(),
                    issue: inputs.issue.clone(),
                    admitted,
                    fence: inputs.fence.clone(),
                    settings: settings::method_settings(
                        &host.settings,
                        &self.roles,
                        inputs.request.questions,
                    ),
                    models: models.clone(),
                    tree,
                    symbols: Arc::new(SourceSymbols),
                    sandboxes,
                    harvester: Arc::new(harvester),
                    scanner: self.scanner.clone(),
                    services,
                    history,
                    environment: String::new(),
                    volatile: Vec::new(),
                    started,
                };
                (run(context, &strategy(&inputs.request, asked)).await, kind, Some(account))
            }
            // What it came to stays what it is.
            Err(error) if earlier.told().is_some_and(|told| told.outcome.is_final()) => {
                return Err(error.into());
            }
            Err(error) => {
                let report = RunReport { error: Some(error), ..RunReport::default() };
                (report, sandbox_name(&inputs.request), None)
            }
        };
        let report = link(report, inputs.links.as_ref());
        let begun = account.is_some();
        let frame = results::Frame::of(&inputs, &models, sandbox, notes, budget.spent(), earlier, begun);
        let ended = results::finish(frame, report, &self.folder, &self.scanner);
        if let (Ok(_), Some(account)) = (&ended, account) {
            account.close();
        }
        Ok(ended)
    }

    /// What the run works on: stored by an earlier process, or found out and stored now. The inner error is of a
    /// stored run whose repository cannot be read any more.
    async fn inputs(
        &self,
        task: Task,
        folders: &Folders,
    ) -> Result<(Inputs, Result<Arc<dyn SourceTree>, SourceError>), StartError> {
        let (request, issue) = match task {
            Task::New { request, issue } => (request, issue),
            Task::Stored(inputs) => {
                let tree = parts::at_commit(&inputs.request, &inputs.commit, &self.host, folders).await;
                return Ok((*inputs, tree));
            }
        };
        self.host.say(preparing::READING_REPOSITORY);
        let mirror = parts::open_mirror(&request, &self.host, folders).await?;
        let issue = match issue {
            IssueText::Read(issue) => issue,
            IssueText::OnGitHub(reference) => {
                let token = parts::github_token(&self.host);
                let api = self.host.environment.variable("GITHUB_API_URL").and_then(|u| u.parse().ok());
                issue::from_github(&reference, mirror.repo_id(), token, api).await?
            }
        };
        let Repository { tree, links, notes } = parts::at_base(&mirror, request.base.as_deref()).await?;
        let inputs = Inputs {
            run_id: self.run_id.clone(),
            request,
            issue,
            commit: tree.commit().clone(),
            fence: FenceId::new(self.host.random.fence),
            links,
            notes,
        };
        let value = serde_json::to_value(&inputs).map_err(|e| StartError::failed("run_state", e))?;
        self.folder.put_stage(INPUTS, &value).await?;
        Ok((inputs, Ok(tree)))
    }

    /// Reads what agents and the harvest need of the repository, and opens the sandboxes.
    async fn prepare(
        &self,
        inputs: &Inputs,
        tree: Arc<dyn SourceTree>,
        folders: &Folders,
        services: &Services,
    ) -> Result<Prepared, RunError> {
        let host = &self.host;
        host.say(preparing::PACKING_HISTORY);
        let packed = tree.history(folders.work.join("history"), host.settings.git.history_mib << 20);
        // The tree is walked meanwhile; what comes next finds it done.
        let read = async { tokio::try_join!(packed, tree.entries()) };
        let (history, _) = tokio::select! {
            biased;
            stop = services.stop() => return Err(stop.into()),
            read = read => read?,
        };
        host.say(preparing::STARTING_SANDBOXES);
        let fact = report::history_fact(history.note.as_deref());
        // Not given up half-way: what an engine was asked to make must be known before it can be removed.
        let (opened, harvester) = tokio::join!(
            parts::open_sandboxes(&inputs.request, &inputs.run_id, tree.clone(), history, host, folders),
            Harvester::new(&*tree, HarvestLimits::default()),
        );
        let (sandboxes, notes) = opened?;
        let both = harvester.map_err(RunError::from).and_then(|harvester| {
            let account = OpenAccount::open(&self.folder)?;
            Ok((harvester, account))
        });
        match both {
            Ok((harvester, account)) => Ok(Prepared { sandboxes, harvester, account, history: fact, notes }),
            Err(error) => {
                sandboxes.close().await;
                Err(error)
            }
        }
    }

    /// `used` is the time that earlier processes took.
    fn services(&self, budget: Arc<dyn Budget>, started: Duration, used: Duration) -> Services {
        let host = &self.host;
        let time = Duration::from_secs(host.settings.limits.run.seconds);
        Services {
            store: Arc::new(self.folder.clone()),
            budget,
            progress: host.progress.clone(),
            clock: host.clock.clone(),
            cancel: host.cancel.clone(),
            deadline: started + time.saturating_sub(used),
        }
    }

    /// A run that ended before its first stage: its `run.json` says so.
    fn unstarted(&self, request: &Request, error: StartError) -> Result<Solved, StartError> {
        let (class, usage, outcome) = match &error {
            StartError::Usage { class, .. } => (*class, true, Outcome::Failed),
            StartError::Failed { class, .. } => (*class, false, Outcome::Failed),
            StartError::Cancelled => ("cancelled", false, Outcome::Cancelled),
        };
        let summary = RunSummary {
            run_id: self.run_id.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            repo: request.repo.clone(),
            base: request.base.clone().unwrap_or_default(),
            issue: IssueSummary { number: None, title: String::new() },
            strategy: results::strategy(request),
            models: Default::default(),
            sandbox: sandbox_name(request).into(),
            outcome,
            error: None,
            stages: Vec::new(),
            total: Usage::default(),
            unpriced: false,
            patch: None,
            notes: Vec::new(),
        };
        let error = ErrorSummary { class: class.into(), message: error.to_string() };
        Ok(results::finish_unstarted(summary, error, usage, &self.folder)?)
    }
}

fn cannot_register(folder: &Path, error: &io::Error) -> StartError {
    let folder = folder.display();
    if error.kind() == io::ErrorKind::WouldBlock {
        return StartError::failed("run_folder", format!("{folder}: {error}"));
    }
    let text =
        format!("the cache cannot be written: {folder}: {error}. Set `[paths] cache` to a folder that can");
    StartError::usage("cache_folder", text)
}

/// Name of the stage output that holds [`Inputs`].
const INPUTS: &str = "inputs";

struct Prepared {
    sandboxes: Arc<dyn crate::method::ports::Sandboxes>,
    harvester: Harvester,
    account: OpenAccount,
    history: String,
    notes: Vec<String>,
}

fn strategy(request: &Request, asked: Vec<AdmittedQuestion>) -> Strategy {
    let answerer: Arc<dyn Answerer> = match request.answerer {
        AnswererKind::Explore => Arc::new(Explore),
    };
    let knowledge: Arc<dyn KnowledgeSource> = match request.source() {
        KnowledgeKind::Qa => Arc::new(QuestionsAndAnswers { template: Template::Categories, answerer }),
        KnowledgeKind::Freeq => Arc::new(QuestionsAndAnswers { template: Template::Free, answerer }),
        KnowledgeKind::Asked => {
            let texts = asked.into_iter().map(|question| question.text).collect();
            Arc::new(AskedQuestions::new(texts, answerer))
        }
        KnowledgeKind::Proposal => Arc::new(Proposal),
        KnowledgeKind::None => Arc::new(Nothing),
    };
    let resolver = request.patch.then(|| Arc::new(AgentResolver) as Arc<dyn Resolver>);
    Strategy { knowledge, resolver }
}

fn sandbox_name(request: &Request) -> &'static str {
    match request.sandbox {
        crate::config::SandboxKind::Auto => "auto",
        crate::config::SandboxKind::Docker => "docker",
        crate::config::SandboxKind::Namespaces => "namespaces",
    }
}

/// Gives every citation that holds its permalink.
fn link(mut report: RunReport, links: Option<&RepoId>) -> RunReport {
    if let (Some(repo), Some(knowledge)) = (links, &mut report.knowledge) {
        let Knowledge { commit, pairs, blocks } = knowledge;
        let of_pairs = pairs.iter_mut().flat_map(|pair| &mut pair.answer.citations);
        for citation in of_pairs.chain(blocks.iter_mut().flat_map(|block| &mut block.citations)) {
            citation.permalink = report::permalink(repo, commit, citation);
        }
    }
    report
}
