//! Many runs, compared: every instance of a file under every arm, patches scored, one table.
//!
//! A run of a bench is a run like any other ([`crate::runs::solve`]) in a folder of its own.
//!
//! Invariants
//! - **What a bench knows of an answer never reaches a run**: of a file only the five fields of
//!   [`instances::Instance`] are read, and the scorer sees a patch when its run has ended.
//! - **Nothing is paid twice.** What is left to do is read from the folder; a second process, or a second start,
//!   goes on where the first one stopped. A finished run is never run
//!   again, a scored patch never scored again, a judged question never judged again.
//! - **Money is reserved before a run starts** ([`purse`]), so that parallel runs cannot pass the limit together. A
//!   bench with a limit has its folder to itself. Of a run whose cost nobody knows, all that it may cost stays reserved.
//! - Nothing that the scorer started lives on when it has ended, but for what leaves its process group.
//! - Arms of one instance are run one after the other, so that a bench that stops early has pairs to compare.

mod arms;
mod figures;
mod folder;
mod instances;
mod judge;
mod marks;
mod predictions;
mod program;
mod purse;
mod score;
mod template;
mod work;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio_util::sync::CancellationToken;

use crate::{
    config::{ConfigError, Environment, SandboxKind, Settings},
    domain::Money,
    method::ports::{Clock, Progress, StoreError},
    report::{self, BenchFigures},
    runs::{self, Random},
};

pub use arms::Arm;
pub use instances::DataError;
pub use score::{Scorer, ScorerError};
pub use template::{Template, TemplateError};

use folder::{Asked, BenchFolder, FolderError};
use judge::{Judge, JudgeError};
use work::Work;

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
    /// For all runs of these arms and instances together. No other bench may work in the folder meanwhile.
    pub max_usd: Option<Money>,
    /// With [`PLACES`].
    pub repo: Template,
    /// With [`PLACES`]; the settings' image without one.
    pub image: Option<Template>,
    pub scorer: Option<Scorer>,
    pub sandbox: SandboxKind,
    /// Runs that failed are tried again.
    pub again: bool,
    /// Questions are judged by the model of [`Role::Judge`](crate::config::Role::Judge).
    pub judge: bool,
    /// A recording that takes the models' place in every run.
    pub replay: Option<PathBuf>,
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
    #[error("{}", report::unpriced(model))]
    Unpriced { model: String },
    #[error("--scorer: {0}")]
    Scorer(#[from] ScorerError),
    #[error("the judge: {0}")]
    Judge(#[from] JudgeError),
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

    /// Whether Ctrl-C left something undone.
    pub fn is_cut_short(&self) -> bool {
        let BenchFigures { unscored, unjudged, .. } = &self.figures;
        self.cancelled && !(self.is_whole() && unscored.is_empty() && unjudged.is_empty())
    }
}

/// Runs what is left to run, and makes the table of all.
pub async fn solve(bench: Bench, around: Surroundings) -> Result<Ended, BenchError> {
    let all = instances::read(&bench.data)?;
    let redact = runs::redactor(runs::scanner(&around.settings, &around.environment));
    let asked = Asked {
        data_sha256: instances::digest(&all),
        repo: redact(bench.repo.text()),
        image: bench.image.as_ref().map(|image| redact(image.text())),
    };
    let instances = instances::select(&bench.data, all, &bench.only)?;
    check_money(&bench, &around)?;
    if let Some(scorer) = &bench.scorer {
        scorer.check(around.environment.variable("PATH"))?;
    }
    let judge = bench.judge.then(|| Judge::of(&around.settings, &around.environment)).transpose()?;
    let folder = BenchFolder::open(&bench.out, &asked, bench.max_usd.is_some())?;
    for arm in &bench.arms {
        folder.prepare(*arm)?;
        predictions::write(&folder, *arm, &instances)?;
    }
    let mut work = Work::new(bench, around, folder, instances, judge, redact);
    work.run_all().await?;
    work.ending()
}

/// Looks at what can be known before anything is paid: a model for every role, and prices where they matter.
fn check_money(bench: &Bench, around: &Surroundings) -> Result<(), BenchError> {
    if bench.replay.is_some() {
        // No model is asked, and nothing is paid.
        return Ok(());
    }
    let cap = cap(&around.settings);
    let unpriced = runs::unpriced_model(&around.settings, &around.environment)?;
    if let Some(model) = unpriced.filter(|_| bench.max_usd.is_some()) {
        return Err(BenchError::Unpriced { model });
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
