//! The runs of a bench: which are left to do, one after the other or several at once, and what all came to.

use std::{
    collections::{HashMap, VecDeque},
    path::PathBuf,
};

use futures_util::{StreamExt, stream::FuturesUnordered};

use super::{
    Bench, BenchError, Ended, Surroundings,
    arms::Arm,
    cap,
    figures::{self, Finished, Run},
    folder::{self, BenchFolder, Standing, can_go_on},
    instances::Instance,
    judge::Judge,
    predictions,
    purse::Purse,
    template::Template,
};
use crate::{
    report::{self, BenchFigures, RunFigures},
    runs::{self, AnswererKind, Host, IssueSource, Replay, ReplaySource, Replies, Request, Start},
    store::{Outcome, Redactor, RunSummary, write_atomically},
};

/// A bench on its folder.
pub struct Work {
    pub(super) bench: Bench,
    pub(super) around: Surroundings,
    pub(super) folder: BenchFolder,
    pub(super) judge: Option<Judge>,
    pub(super) redact: Redactor,
    instances: Vec<Instance>,
    /// Why a run was not begun, or got no further, by its number.
    why: HashMap<usize, String>,
}

/// What became of a run in this process.
struct Done {
    number: usize,
    /// Whether it was begun, or gone on with.
    worked: bool,
    why: Option<String>,
}

impl Work {
    pub fn new(
        bench: Bench,
        around: Surroundings,
        folder: BenchFolder,
        instances: Vec<Instance>,
        judge: Option<Judge>,
        redact: Redactor,
    ) -> Self {
        Self { bench, around, folder, judge, instances, redact, why: HashMap::new() }
    }

    /// The runs, numbered through: all arms of the first instance, then those of the next.
    fn count(&self) -> usize {
        self.instances.len() * self.bench.arms.len()
    }

    pub(super) fn run(&self, number: usize) -> (Arm, &Instance) {
        let arms = self.bench.arms.len();
        (self.bench.arms[number % arms], &self.instances[number / arms])
    }

    fn standing(&self, number: usize) -> Standing {
        let (arm, instance) = self.run(number);
        self.folder.standing(arm, &instance.id)
    }

    /// As people and logs know the run.
    pub(super) fn name(&self, number: usize) -> String {
        let (arm, instance) = self.run(number);
        format!("{arm}/{}", instance.id)
    }

    fn is_to_run(&self, standing: &Standing) -> bool {
        match standing {
            Standing::New | Standing::Open => true,
            Standing::Failed(_) => self.bench.again,
            Standing::Locked | Standing::Finished(_) => false,
        }
    }

    pub(super) fn say(&self, line: &str) {
        self.around.process.say(line);
    }

    /// Brings every run as far as money and signals let it.
    pub async fn run_all(&mut self) -> Result<(), BenchError> {
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
            if done.worked {
                self.settle(&mut purse, done.number);
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
            self.settle(&mut purse, number);
            finished += usize::from(matches!(self.standing(number), Standing::Finished(_)));
        }
        let folder = self.folder.path().display().to_string();
        self.say(&report::bench_begins(self.count(), finished, self.bench.jobs, &folder));
        purse
    }

    /// Counts what a run has cost so far, all processes together; its whole cap where nobody can say.
    fn settle(&self, purse: &mut Purse, number: usize) {
        let (arm, instance) = self.run(number);
        match self.folder.cost(arm, &instance.id) {
            Some(cost) => purse.settle(number, cost),
            None => purse.unknown(number),
        }
    }

    /// Brings one run as far as it goes: to its result, and to its score.
    async fn one(&self, number: usize, standing: Standing) -> Done {
        let mut done = Done { number, worked: false, why: None };
        let summary = match standing {
            Standing::Finished(summary) => Some(summary),
            Standing::Locked => {
                self.say(&report::run_elsewhere(&self.name(number)));
                None
            }
            standing if self.is_to_run(&standing) => {
                done.worked = true;
                let ended = self.solve(number).await;
                let standing = self.standing(number);
                if let Err(why) = ended {
                    let name = self.name(number);
                    self.say(&match standing {
                        Standing::New => report::run_not_started(&name, &why),
                        _ => report::run_broken_off(&name, &why),
                    });
                    done.why = Some(why);
                }
                standing.finished()
            }
            _ => None,
        };
        if let Some(summary) = summary {
            self.mark(number, &summary).await;
        }
        done
    }

    /// Runs it, or goes on with it. The error says why nothing more is known of it than before.
    async fn solve(&self, number: usize) -> Result<(), String> {
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
        let solved = runs::solve(start, self.replies(), host).await.map_err(|error| error.to_string())?;
        self.say(&report::run_ended(&self.name(number), &solved.summary));
        Ok(())
    }

    fn replies(&self) -> Replies {
        let replay = |file: &PathBuf| Replay { source: ReplaySource::File(file.clone()), lenient: false };
        Replies { record: None, replay: self.bench.replay.as_ref().map(replay) }
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
            issue: Some(IssueSource::File(issue)),
            base: Some(instance.base_commit.to_string()),
            knowledge: arm.knowledge,
            questions: arm.questions,
            asked: Vec::new(),
            answerer: AnswererKind::default(),
            patch: true,
            image: self.bench.image.as_ref().map(fill).transpose()?,
            sandbox: self.bench.sandbox,
        })
    }

    /// The table of all.
    pub fn ending(&self) -> Result<Ended, BenchError> {
        let arms: Vec<String> = self.bench.arms.iter().map(Arm::to_string).collect();
        let ids: Vec<String> = self.instances.iter().map(|instance| instance.id.to_string()).collect();
        let all: Vec<Run> = (0..self.count()).map(|number| self.outcome(number)).collect();
        let rows: Vec<Vec<Run>> =
            (0..arms.len()).map(|arm| all.iter().skip(arm).step_by(arms.len()).cloned().collect()).collect();
        let names = |lacks: &dyn Fn(usize, &RunSummary) -> bool| -> Vec<String> {
            let lacks = |number: &usize| {
                self.standing(*number).finished().is_some_and(|summary| lacks(*number, &summary))
            };
            (0..self.count()).filter(lacks).map(|number| self.name(number)).collect()
        };
        let figures = BenchFigures {
            unscored: names(&|number, summary| self.lacks_score(number, summary)),
            unjudged: names(&|number, _| self.lacks_judgement(number)),
            ..figures::figures(env!("CARGO_PKG_VERSION"), &arms, &ids, &rows)
        };
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
                let judgement = self.stored_judgement(number);
                let knowledge = self.folder.knowledge(arm, &instance.id);
                return Run::Finished(Box::new(Finished {
                    summary: *summary,
                    knowledge,
                    resolved,
                    judgement,
                }));
            }
            Standing::Failed(summary) => {
                RunFigures::Failed { class: summary.error.map_or_else(String::new, |error| error.class) }
            }
            Standing::Open => RunFigures::Unfinished { why: self.why.get(&number).cloned() },
            Standing::Locked => RunFigures::Elsewhere,
            Standing::New => RunFigures::Missing { why: self.why.get(&number).cloned() },
        };
        Run::Other(other)
    }
}
