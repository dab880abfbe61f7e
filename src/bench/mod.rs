//! Many runs, compared: every instance of a file under every arm, patches scored, one table.
//!
//! A run of a bench is a run like any other ([`crate::runs::solve`]) in a folder of its own.
//!
//! Invariants
//! - **What a bench knows of an answer never reaches a run**: of a file only the five fields of
//!   [`instances::Instance`] are read, and the scorer sees a patch when its run has ended.
//! - **Nothing is paid twice.** What is left to do is read from the folder; a second process, or a second start,
//!   goes on where the first one stopped. A finished run is never run again, a scored patch never scored again.
//! - **Money is reserved before a run starts** ([`purse`]), so that parallel runs cannot pass the limit together.
//! - Arms of one instance are run one after the other, so that a bench that stops early has pairs to compare.

mod arms;
mod figures;
mod folder;
mod instances;
mod predictions;
mod purse;
mod score;
mod template;

use std::{
    collections::{HashMap, VecDeque},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio_util::sync::CancellationToken;

use crate::{
    config::{ConfigError, Environment, Role, SandboxKind, Settings},
    domain::Money,
    method::ports::{Clock, Progress, StoreError},
    model::list_price,
    report::{self, BenchFigures, RunFigures},
    runs::{self, Host, IssueSource, Random, Replies, Request, Start},
    store::{Outcome, Redactor, RunSummary, write_atomically},
};

pub use arms::Arm;
pub use instances::DataError;
pub use score::{Scorer, ScorerError};
pub use template::{Template, TemplateError};

use figures::{Finished, Run};
use folder::{Asked, BenchFolder, FolderError, Standing, can_go_on};
use instances::Instance;
use purse::Purse;
use score::Score;

/// Places of an instance's values in the templates of repositories and images.
pub const PLACES: [&str; 5] = ["repo", "owner", "name", "version", "instance_id"];

/// A bench as asked for.
#[derive(Debug, Clone)]
pub struct Bench {
    /// Instances in SWE-bench's fields, a JSON object a line or an array of them.
    pub data: PathBuf,
    /// Ids of instances; empty for all.
    pub only: Vec<String>,
    /// The first one is what the others are compared with.
    pub arms: Vec<Arm>,
    /// An absolute path.
    pub out: PathBuf,
    /// Runs at once, at least 1.
    pub jobs: usize,
    /// For all runs of these arms and instances together.
    pub max_usd: Option<Money>,
    /// With [`PLACES`].
    pub repo: Template,
    /// With [`PLACES`]; the settings' image without one.
    pub image: Option<Template>,
    pub scorer: Option<Scorer>,
    pub sandbox: SandboxKind,
    /// Runs that failed are tried again.
    pub again: bool,
}

/// What a bench needs of the process that it runs in.
#[derive(Clone)]
pub struct Surroundings {
    pub settings: Settings,
    pub environment: Environment,
    pub clock: Arc<dyn Clock>,
    pub cancel: CancellationToken,
    pub process: Arc<dyn Process>,
}

/// The parts of a process that differ from run to run, or that a person looks at.
pub trait Process: Send + Sync {
    /// Random bytes for one more run; the error says why there are none.
    fn random(&self) -> Result<Random, String>;
    /// A run's progress, appended to a file.
    fn log(&self, file: &Path) -> io::Result<Arc<dyn Progress>>;
    /// A line for the person who waits.
    fn say(&self, line: &str);
}

/// Why a bench could not begin, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Settings(#[from] ConfigError),
    #[error(
        "--max-usd {limit} is less than the {cap} that one run may cost: give more, or lower `[limits.run] usd` \
         (ACQUIRE_LIMITS__RUN__USD)"
    )]
    LessThanOneRun { limit: Money, cap: Money },
    #[error("--max-usd cannot be kept, since the price of {model} is not known: set `[model.price]`")]
    Unpriced { model: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl BenchError {
    /// Whether the command or the settings are at fault.
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::Store(_) | Self::Folder(FolderError::Store(_)))
    }
}

/// A bench that has ended, whole or not.
#[derive(Debug)]
pub struct Ended {
    pub figures: BenchFigures,
    /// As in `table.md` and `table.json`.
    pub table: String,
    pub json: String,
    pub cancelled: bool,
}

impl Ended {
    /// Whether every run came to a result.
    pub fn is_whole(&self) -> bool {
        self.figures.arms.iter().all(|arm| arm.finished == arm.instances)
    }
}

/// Runs what is left to run, and makes the table of all.
pub async fn solve(bench: Bench, around: Surroundings) -> Result<Ended, BenchError> {
    let all = instances::read(&bench.data)?;
    let asked = Asked {
        data_sha256: instances::digest(&all),
        repo: bench.repo.text().to_owned(),
        image: bench.image.as_ref().map(|image| image.text().to_owned()),
    };
    let instances = instances::select(&bench.data, all, &bench.only)?;
    check_money(&bench, &around)?;
    let folder = BenchFolder::open(&bench.out, &asked)?;
    for arm in &bench.arms {
        folder.prepare(*arm)?;
        predictions::write(&folder, *arm, &instances)?;
    }
    let redact = runs::redactor(runs::scanner(&around.settings, &around.environment));
    let mut work = Work { bench, around, folder, instances, redact, why: HashMap::new() };
    work.run_all().await?;
    work.ending()
}

/// Looks at what can be known before anything is paid: a model for every role, and prices where they matter.
fn check_money(bench: &Bench, around: &Surroundings) -> Result<(), BenchError> {
    let cap = cap(&around.settings);
    for role in Role::ALL {
        let model = around.settings.model_of(role, &around.environment)?;
        if bench.max_usd.is_some() && model.price.or_else(|| list_price(&model.name)).is_none() {
            return Err(BenchError::Unpriced { model: model.name });
        }
    }
    match bench.max_usd {
        Some(limit) if limit < cap => Err(BenchError::LessThanOneRun { limit, cap }),
        _ => Ok(()),
    }
}

/// The most that one run may cost.
fn cap(settings: &Settings) -> Money {
    Money::from_usd(settings.limits.run.usd)
}

/// A bench on its folder.
struct Work {
    bench: Bench,
    around: Surroundings,
    folder: BenchFolder,
    instances: Vec<Instance>,
    redact: Redactor,
    /// Why a run was not begun, by its number.
    why: HashMap<usize, String>,
}

/// What became of a run in this process.
struct Done {
    number: usize,
    /// Of the whole run, earlier processes included; `None` where it did not begin.
    cost: Option<Money>,
    why: Option<String>,
}

impl Work {
    /// The runs, numbered through: all arms of the first instance, then those of the next.
    fn count(&self) -> usize {
        self.instances.len() * self.bench.arms.len()
    }

    fn run(&self, number: usize) -> (Arm, &Instance) {
        let arms = self.bench.arms.len();
        (self.bench.arms[number % arms], &self.instances[number / arms])
    }

    fn standing(&self, number: usize) -> Standing {
        let (arm, instance) = self.run(number);
        self.folder.standing(arm, &instance.id)
    }

    /// As people and logs know the run.
    fn name(&self, number: usize) -> String {
        let (arm, instance) = self.run(number);
        format!("{arm}/{}", instance.id)
    }

    fn is_to_run(&self, standing: &Standing) -> bool {
        match standing {
            Standing::New | Standing::Open { .. } => true,
            Standing::Failed(_) => self.bench.again,
            Standing::Locked | Standing::Finished(_) => false,
        }
    }

    fn say(&self, line: &str) {
        self.around.process.say(line);
    }

    async fn run_all(&mut self) -> Result<(), BenchError> {
        let mut purse = self.purse();
        let mut waiting: VecDeque<usize> = (0..self.count()).collect();
        let mut why = HashMap::new();
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < self.bench.jobs
                && !self.around.cancel.is_cancelled()
                && let Some(number) = waiting.front().copied()
            {
                let standing = self.standing(number);
                let fits = !self.is_to_run(&standing) || purse.reserve(number);
                if !fits && !running.is_empty() {
                    // What those under way leave of their caps may be enough.
                    break;
                }
                waiting.pop_front();
                if fits {
                    running.push(self.one(number, standing));
                } else {
                    why.insert(number, report::OVER_BUDGET.to_owned());
                }
            }
            let Some(done) = running.next().await else { break };
            if let Some(cost) = done.cost {
                purse.settle(done.number, cost);
                predictions::write(&self.folder, self.run(done.number).0, &self.instances)?;
            }
            why.extend(done.why.map(|text| (done.number, text)));
        }
        drop(running);
        let left = why.values().filter(|text| *text == report::OVER_BUDGET).count();
        if left > 0 {
            self.say(&report::bench_over_budget(left));
        }
        self.why = why;
        Ok(())
    }

    /// What earlier processes have spent.
    fn purse(&self) -> Purse {
        let mut purse = Purse::new(self.bench.max_usd, cap(&self.around.settings));
        let mut finished = 0;
        for number in 0..self.count() {
            match self.standing(number) {
                Standing::New => {}
                Standing::Open { cost: Some(cost) } => purse.settle(number, cost),
                Standing::Open { cost: None } | Standing::Locked => purse.unknown(number),
                Standing::Failed(summary) => purse.settle(number, summary.total.usd),
                Standing::Finished(summary) => {
                    finished += 1;
                    purse.settle(number, summary.total.usd);
                }
            }
        }
        let folder = self.folder.path().display().to_string();
        self.say(&report::bench_begins(self.count(), finished, self.bench.jobs, &folder));
        purse
    }

    /// Brings one run as far as it goes: to its result, and to its score.
    async fn one(&self, number: usize, standing: Standing) -> Done {
        let mut done = Done { number, cost: None, why: None };
        let summary = match standing {
            Standing::Finished(summary) => Some(summary),
            Standing::Locked => {
                self.say(&report::run_elsewhere(&self.name(number)));
                None
            }
            standing if self.is_to_run(&standing) => {
                match self.solve(number).await {
                    Ok(summary) => done.cost = Some(summary.total.usd),
                    Err(why) => {
                        self.say(&report::run_not_started(&self.name(number), &why));
                        done.cost = Some(standing.cost());
                        done.why = Some(why);
                    }
                }
                self.standing(number).finished()
            }
            _ => None,
        };
        if let Some(summary) = summary {
            self.score(number, &summary).await;
        }
        done
    }

    /// Runs it, or goes on with it. The error says why nothing was begun.
    async fn solve(&self, number: usize) -> Result<RunSummary, String> {
        let (arm, instance) = self.run(number);
        let folder = self.folder.run(arm, &instance.id);
        let goes_on = can_go_on(&folder);
        let start = if goes_on {
            Start::Resume { folder }
        } else {
            let issue = self.folder.issue(&instance.id);
            let text = instance.problem_statement.as_bytes();
            write_atomically(&issue, text).map_err(|error| error.to_string())?;
            Start::Fresh { request: self.request(arm, instance, issue)?, folder }
        };
        let log = self.folder.beside(arm, &instance.id, "log");
        let unwritable = |error| format!("{}: cannot be written: {error}", log.display());
        let around = &self.around;
        let host = Host {
            settings: around.settings.clone(),
            environment: around.environment.clone(),
            progress: around.process.log(&log).map_err(unwritable)?,
            clock: around.clock.clone(),
            cancel: around.cancel.clone(),
            random: around.process.random()?,
        };
        self.say(&report::run_started(&self.name(number), goes_on, &log.display().to_string()));
        let solved = runs::solve(start, Replies::default(), host).await.map_err(|error| error.to_string())?;
        self.say(&report::run_ended(&self.name(number), &solved.summary, solved.priced));
        Ok(solved.summary)
    }

    fn request(&self, arm: Arm, instance: &Instance, issue: PathBuf) -> Result<Request, String> {
        let slug = format!("{}/{}", instance.repo.owner, instance.repo.name);
        let value = |place: &str| match place {
            "repo" => Some(slug.as_str()),
            "owner" => Some(instance.repo.owner.as_str()),
            "name" => Some(instance.repo.name.as_str()),
            "version" => instance.version.as_deref(),
            _ => Some(instance.id.as_str()),
        };
        let fill = |template: &Template| {
            template
                .fill(value)
                .ok_or_else(|| format!("{:?} needs a version, which it has none of", template.text()))
        };
        Ok(Request {
            repo: fill(&self.bench.repo)?,
            issue: IssueSource::File(issue),
            base: Some(instance.base_commit.to_string()),
            knowledge: arm.knowledge,
            questions: arm.questions,
            patch: true,
            image: self.bench.image.as_ref().map(fill).transpose()?,
            sandbox: self.bench.sandbox,
        })
    }

    /// Scores the patch of a finished run, once.
    async fn score(&self, number: usize, summary: &RunSummary) {
        let (arm, instance) = self.run(number);
        let Some(scorer) = &self.bench.scorer else { return };
        if summary.outcome != Outcome::Patch || self.stored_score(number).is_some() {
            return;
        }
        let name = self.name(number);
        let log = self.folder.beside(arm, &instance.id, "score.log");
        let unscored = |why: String| self.say(&report::run_unscored(&name, &why, &log.display().to_string()));
        let patch = match self.folder.patch(arm, &instance.id) {
            Ok(patch) => patch.unwrap_or_default(),
            Err(error) => return unscored(error.to_string()),
        };
        let path = self.folder.run(arm, &instance.id).join("patch.diff");
        let (clock, cancel) = (&*self.around.clock, &self.around.cancel);
        let score = match scorer.score(&instance.id, (&path, &patch), &log, clock, cancel).await {
            Ok(score) => score,
            Err(error) => return unscored(error.to_string()),
        };
        let file = self.folder.beside(arm, &instance.id, "score.json");
        if let Err(error) = write_atomically(&file, &folder::json(&score)) {
            return unscored(error.to_string());
        }
        self.say(&report::run_scored(&name, score.resolved));
    }

    /// The score of the patch as it is, by the scorer that is asked for; by any where none is.
    fn stored_score(&self, number: usize) -> Option<Score> {
        let (arm, instance) = self.run(number);
        let file = self.folder.beside(arm, &instance.id, "score.json");
        let score: Score = serde_json::from_slice(&folder::read(&file).ok()??).ok()?;
        let patch = self.folder.patch(arm, &instance.id).ok()??;
        let same_scorer = self.bench.scorer.as_ref().is_none_or(|scorer| scorer.text() == score.scorer);
        (same_scorer && score.patch_sha256 == score::digest(&patch)).then_some(score)
    }

    fn ending(&self) -> Result<Ended, BenchError> {
        let arms: Vec<String> = self.bench.arms.iter().map(Arm::to_string).collect();
        let ids: Vec<String> = self.instances.iter().map(|instance| instance.id.to_string()).collect();
        let all: Vec<Run> = (0..self.count()).map(|number| self.outcome(number)).collect();
        let rows: Vec<Vec<Run>> =
            (0..arms.len()).map(|arm| all.iter().skip(arm).step_by(arms.len()).cloned().collect()).collect();
        let figures = figures::figures(env!("CARGO_PKG_VERSION"), &arms, &ids, &rows);
        let table = (self.redact)(&report::bench_table(&figures));
        let json = (self.redact)(&String::from_utf8_lossy(&folder::json(&figures)));
        write_atomically(&self.folder.path().join("table.json"), json.as_bytes())?;
        write_atomically(&self.folder.path().join("table.md"), table.as_bytes())?;
        Ok(Ended { figures, table, json, cancelled: self.around.cancel.is_cancelled() })
    }

    /// What the table says of a run.
    fn outcome(&self, number: usize) -> Run {
        let (arm, instance) = self.run(number);
        let other = match self.standing(number) {
            Standing::Finished(summary) => {
                let resolved = match summary.outcome {
                    Outcome::Patch => self.stored_score(number).map(|score| score.resolved),
                    _ => Some(false),
                };
                let knowledge = self.folder.knowledge(arm, &instance.id);
                return Run::Finished(Box::new(Finished { summary: *summary, knowledge, resolved }));
            }
            Standing::Failed(summary) => {
                RunFigures::Failed { class: summary.error.map_or_else(String::new, |error| error.class) }
            }
            Standing::Open { .. } if !self.why.contains_key(&number) => RunFigures::Unfinished,
            Standing::Locked => RunFigures::Elsewhere,
            Standing::New | Standing::Open { .. } => {
                RunFigures::Missing { why: self.why.get(&number).cloned() }
            }
        };
        Run::Other(other)
    }
}
