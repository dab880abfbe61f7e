//! What `acquire bench` was asked.

use std::{path::PathBuf, time::Duration};

use clap::{
    Args, CommandFactory, Subcommand, ValueEnum,
    error::{Error, ErrorKind},
};

use crate::{
    bench::{PLACES, Scorer, Template},
    config::SandboxKind,
    domain::Money,
    runs::KnowledgeKind,
};

use super::Raw;

#[derive(Debug, Clone, PartialEq)]
pub struct BenchSolve {
    pub data: PathBuf,
    pub only: Vec<String>,
    pub knowledge: Vec<KnowledgeKind>,
    /// Where there are none, the settings say.
    pub questions: Vec<u32>,
    pub out: Option<PathBuf>,
    pub jobs: usize,
    pub max_usd: Option<Money>,
    pub repo: Template,
    pub image: Option<Template>,
    pub scorer: Option<Scorer>,
    pub sandbox: Option<SandboxKind>,
    /// Failed runs are tried again.
    pub again: bool,
    pub judge: bool,
    /// Replies of every run.
    pub replay: Option<PathBuf>,
    pub json: bool,
    pub config: Option<PathBuf>,
}

/// Measures: many runs, compared
#[derive(Args)]
pub(super) struct RawBench {
    #[command(subcommand)]
    command: RawBenchCommand,
}

#[derive(Subcommand)]
enum RawBenchCommand {
    Solve(Box<RawBenchSolve>),
}

pub(super) const EXAMPLES: &str = "\
Examples:
  The base agent against two questions, on two instances:
    acquire bench solve --data dev.jsonl --knowledge none,qa \\
      --only octo__store-1,octo__store-2
  The same file with 0, 1, 2 and 3 questions, three runs at once, for $40:
    acquire bench solve --data dev.jsonl --questions 0,1,2,3 --jobs 3 \\
      --max-usd 40
  Repositories and images of this machine, patches scored:
    acquire bench solve --data dev.jsonl \\
      --repo 'file:///mirrors/{owner}+{name}' \\
      --image 'swe-env:{owner}-{name}-{version}' \\
      --scorer 'score {instance_id} {patch}'

The same command goes on where it was stopped; finished runs are not run
again. Several processes may share an output folder, but for one with
--max-usd, which has it alone. The scorer runs on this machine with your
environment, gets a copy of the patch, and ends its output with a line such
as {\"resolved\": true}; what it started is killed when it ends,
unless it left its process group.

In the output folder:
  table.md, table.json          what is printed at the end
  ARM/INSTANCE/                 the run, as `acquire solve` leaves it
  ARM/INSTANCE.log              what it told while it went on
  ARM/INSTANCE.score.json       what the scorer found
  ARM/INSTANCE.score.log        what it said on stderr, the last MiB
  ARM/INSTANCE.judge.json       what the judge thinks of its questions
  ARM/predictions.jsonl         patches in SWE-bench's form
  bench.json, issues/           what was asked, so that no other bench mixes in

Exit codes:
  0 every run came to a result   1 some did not
  2 wrong usage or settings      130 cancelled, and something is left to do";

/// Runs the instances of a file under several knowledge sources, and compares them in one table.
///
/// The file has SWE-bench's fields: instance_id, repo, base_commit, problem_statement and, optional, version.
/// Other fields, such as the right patch, are not read.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
struct RawBenchSolve {
    /// The instances: a JSON object a line, or an array of them; a file of at most 256 MiB, no pipe
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// What to acquire before the repair; the first is what the others are compared with
    #[arg(long, value_enum, value_delimiter = ',', default_value = "none,qa", value_name = "KIND,…")]
    knowledge: Vec<KnowledgeKind>,
    /// Numbers of questions to ask, from 0 to 8; 0 is `--knowledge none`; without it the setting
    /// `method.questions` (2)
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = clap::value_parser!(u32).range(0..=8))]
    questions: Vec<u32>,
    /// Run these instances only
    #[arg(long, value_delimiter = ',', value_name = "ID,…")]
    only: Vec<String>,
    /// Folder for all that comes of it; without it one below .acquire/bench, named after the file
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Runs at once
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=64))]
    jobs: u32,
    /// Start no run that might bring the cost of all to more than this; each counts in full (the setting
    /// `limits.run.usd`) until it has ended, also one that was killed. No other bench may work in the folder meanwhile
    #[arg(long, value_name = "X")]
    max_usd: Option<f64>,
    /// Where repositories are: a folder, or an https or file URL, with {repo}, {owner}, {name}, {version} and
    /// {instance_id} in it
    #[arg(long, value_name = "TEMPLATE", default_value = "https://github.com/{repo}")]
    repo: String,
    /// Docker image of the sandbox, with the same places in it
    #[arg(long, value_name = "TEMPLATE")]
    image: Option<String>,
    /// Program that says whether a patch resolves its instance, with {instance_id} and {patch}, a file, in it
    #[arg(long, value_name = "COMMAND")]
    scorer: Option<String>,
    /// Longest that the scorer may take for one patch
    #[arg(long, value_name = "SECONDS", default_value = "3600", requires = "scorer",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    scorer_seconds: u64,
    /// Have a model mark the questions (`[model.judge]`); what that costs is told apart, and no part of --max-usd
    #[arg(long)]
    judge: bool,
    /// Try again what failed, by the model's endpoint or the engine, say
    #[arg(long, value_enum, value_name = "WHAT")]
    again: Option<Again>,
    /// Where agents' commands run; `auto` takes Docker where an engine answers, else namespaces
    #[arg(long, value_enum, value_name = "KIND")]
    sandbox: Option<SandboxKind>,
    /// Take the models' replies from a record of `acquire solve --record`, which fits one instance and arm
    #[arg(long, value_name = "FILE", conflicts_with = "judge")]
    replay: Option<PathBuf>,
    /// Print table.json to stdout
    #[arg(long)]
    json: bool,
    /// Settings file; without it ./acquire.toml, else ~/.config/acquire/acquire.toml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Again {
    Failed,
}

impl RawBench {
    pub(super) fn with_meaning(self) -> Result<BenchSolve, Error> {
        let RawBenchCommand::Solve(raw) = self.command;
        let raw = *raw;
        let template = |option: &str, text: &str| {
            Template::parse(text, &PLACES).map_err(|error| usage(format!("{option}: {error}")))
        };
        let limit = Duration::from_secs(raw.scorer_seconds);
        let scorer = raw.scorer.map(|text| Scorer::parse(&text, limit)).transpose();
        let max_usd = match raw.max_usd {
            Some(usd) if !(usd > 0.0 && usd <= 1e6) => {
                return Err(usage("--max-usd must be more than 0, and at most 1000000"));
            }
            other => other.map(Money::from_usd),
        };
        Ok(BenchSolve {
            data: raw.data,
            only: raw.only,
            knowledge: raw.knowledge,
            questions: raw.questions,
            out: raw.out,
            jobs: raw.jobs as usize,
            max_usd,
            repo: template("--repo", &raw.repo)?,
            image: raw.image.as_deref().map(|text| template("--image", text)).transpose()?,
            scorer: scorer.map_err(|error| usage(format!("--scorer: {error}")))?,
            sandbox: raw.sandbox,
            again: raw.again.is_some(),
            judge: raw.judge,
            replay: raw.replay,
            json: raw.json,
            config: raw.config,
        })
    }
}

fn usage(message: impl std::fmt::Display) -> Error {
    let mut raw = Raw::command();
    raw.build();
    let bench = raw.find_subcommand_mut("bench").and_then(|bench| bench.find_subcommand_mut("solve"));
    bench.expect("it is one of the commands above").error(ErrorKind::ValueValidation, message)
}

#[cfg(test)]
mod tests {
    use super::{super::*, *};

    fn parsed(line: &str) -> Result<BenchSolve, Error> {
        let words = ["acquire", "bench", "solve"].into_iter().chain(line.split_whitespace());
        match parse(words.map(OsString::from))? {
            Command::Bench(bench) => Ok(*bench),
            other => panic!("{other:?}"),
        }
    }

    /// The first line of a usage error.
    fn told(line: &str) -> String {
        let error = parsed(line).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{error}");
        error.to_string().lines().next().unwrap().to_owned()
    }

    #[test]
    fn a_bench_has_two_arms_on_github_unless_it_is_told_otherwise() {
        let bench = parsed("--data d.jsonl").unwrap();
        assert_eq!(bench.knowledge, [KnowledgeKind::None, KnowledgeKind::Qa]);
        assert_eq!((bench.repo.text(), bench.jobs), ("https://github.com/{repo}", 1));
        assert!(bench.questions.is_empty() && bench.scorer.is_none() && !bench.again);
        let bench =
            parsed("--data d --knowledge qa --questions 0,1,3 --only a,b --max-usd 2.5 --again failed")
                .unwrap();
        assert_eq!((bench.questions, bench.only.len()), (vec![0, 1, 3], 2));
        assert_eq!((bench.max_usd, bench.again), (Some(Money::from_usd(2.5)), true));
    }

    #[test]
    fn what_cannot_be_meant_is_a_usage_error() {
        insta::assert_snapshot!(told("--data d --repo /m/{nmae}"), @r#"error: --repo: "/m/{nmae}": there is no {nmae}; there are {repo}, {owner}, {name}, {version}, {instance_id}"#);
        insta::assert_snapshot!(told("--data d --image i:{patch}"), @r#"error: --image: "i:{patch}": there is no {patch}; there are {repo}, {owner}, {name}, {version}, {instance_id}"#);
        insta::assert_snapshot!(told("--data d --scorer score"), @"error: --scorer: the command needs {patch}, the file that it is to score");
        insta::assert_snapshot!(told("--data d --max-usd 0"), @"error: --max-usd must be more than 0, and at most 1000000");
        insta::assert_snapshot!(told("--data d --max-usd NaN"), @"error: --max-usd must be more than 0, and at most 1000000");
        insta::assert_snapshot!(told("--data d --jobs 0"), @"error: invalid value '0' for '--jobs <N>': 0 is not in 1..=64");
        insta::assert_snapshot!(told("--data d --questions 9"), @"error: invalid value '9' for '--questions <N,…>': 9 is not in 0..=8");
    }

    #[test]
    fn examples_can_be_copied() {
        assert_eq!(EXAMPLES.lines().find(|line| line.chars().count() > 80), None);
    }
}
