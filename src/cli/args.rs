//! What the command line was asked.
//!
//! Arguments are parsed into plain data first, then into values with meaning; what cannot be meant is a
//! usage error (exit code 2) that says what would be right. A message never repeats a token in a URL.

mod ask;
mod bench;
mod doctor;
mod export;
mod run_options;

use std::{ffi::OsString, path::PathBuf};

use clap::{
    Args, CommandFactory, Parser, Subcommand,
    error::{Error, ErrorKind},
};

use crate::{
    config::{RUN_USD, SandboxKind},
    github::IssueRef,
    repo::Source,
    runs::{IssueSource, KnowledgeKind, Replies},
};

pub use ask::{Ask, AskFolder, Questions};

use ask::RawAsk;
pub use bench::BenchSolve;
pub use doctor::Doctor;
pub use export::Export;
use run_options::RunOptions;

/// A command with everything it was asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    Ask(Box<Ask>),
    Bench(Box<BenchSolve>),
    Demo(Demo),
    Solve(Box<Solve>),
    Export(Export),
    Doctor(Doctor),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demo {
    pub out: Option<PathBuf>,
    pub json: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Solve {
    pub folder: Folder,
    pub knowledge: KnowledgeKind,
    /// Where it is not set, the settings say.
    pub questions: Option<u32>,
    pub patch: bool,
    pub image: Option<String>,
    pub sandbox: Option<SandboxKind>,
    /// US dollars that the run may cost; where it is not set, the settings say.
    pub max_usd: Option<f64>,
    pub replies: Replies,
    pub json: bool,
    pub config: Option<PathBuf>,
}

/// What a run works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    pub repo: Source,
    pub issue: IssueSource,
    /// A revision. Without one: what a folder has checked out, a URL's default branch.
    pub base: Option<String>,
}

/// Where a run lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Folder {
    /// A new run; without a folder, the settings say where.
    New { out: Option<PathBuf>, task: Task },
    /// Goes on with an earlier run. Its task is stored there, and may be given again.
    Resume { folder: PathBuf, task: Option<Task> },
}

/// Reads the command line, the program's name first. The error prints itself and knows its exit code; help
/// is one too.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, Error> {
    match Raw::try_parse_from(args)?.command {
        RawCommand::Ask(raw) => raw.with_meaning().map(|ask| Command::Ask(Box::new(ask))),
        RawCommand::Bench(raw) => raw.with_meaning().map(|bench| Command::Bench(Box::new(bench))),
        RawCommand::Demo(RawDemo { out, json }) => Ok(Command::Demo(Demo { out, json })),
        RawCommand::Solve(raw) => raw.with_meaning().map(|solve| Command::Solve(Box::new(solve))),
        RawCommand::Export(raw) => Ok(Command::Export(raw.with_meaning())),
        RawCommand::Doctor(raw) => Ok(Command::Doctor(raw.with_meaning())),
    }
}

/// Know before fix: asks what a repair must know, checks the answers against the repository, then writes a
/// patch. Writes files only.
#[derive(Parser)]
#[command(name = "acquire", version, arg_required_else_help = true, disable_help_subcommand = true)]
struct Raw {
    #[command(subcommand)]
    command: RawCommand,
}

#[derive(Subcommand)]
enum RawCommand {
    Demo(RawDemo),
    Ask(Box<RawAsk>),
    Solve(Box<RawSolve>),
    Export(export::RawExport),
    Doctor(doctor::RawDoctor),
    Bench(bench::RawBench),
}

/// Shows a whole run offline: a small project with a bug and an issue, with replies of a model that were
/// recorded in a real run.
///
/// Prints the knowledge comment, the patch, the test before and after it, and where the files lie.
#[derive(Args)]
struct RawDemo {
    /// Folder for the run's files; a new one below .acquire/runs without it
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print run.json to stdout instead
    #[arg(long)]
    json: bool,
}

const SOLVE_USAGE: &str = "\
acquire solve --repo <PATH|URL> (--issue <URL|NUMBER> | --issue-file <FILE>) [OPTIONS]
       acquire solve --resume <DIR> [OPTIONS]";

const SOLVE_EXAMPLES: &str = "\
Examples:
  An issue of a public repository:
    acquire solve --repo https://github.com/OWNER/NAME --issue 7
  An issue in a file, a repository on this machine, knowledge only:
    acquire solve --repo . --issue-file issue.md --no-patch
  Go on with a run that was interrupted:
    acquire solve --resume .acquire/runs/20261130-153344-a1b2c3

The model is set by ACQUIRE_MODEL__BASE_URL, ACQUIRE_MODEL__NAME and
ACQUIRE_MODEL__API_KEY, or in ~/.config/acquire/acquire.toml. GITHUB_TOKEN
reads private repositories and issues, of the GitHub that GITHUB_SERVER_URL
and GITHUB_API_URL name where it is not github.com.

Exit codes:
  0 finished, also without a patch   1 failed
  2 wrong usage or settings          130 cancelled";

/// Acquires knowledge about an issue, checks it, and repairs the issue with it. Writes to no repository.
#[derive(Args)]
#[command(after_help = SOLVE_EXAMPLES, override_usage = SOLVE_USAGE)]
struct RawSolve {
    /// The repository: a folder on this machine (uncommitted changes are not seen), or an https or file URL
    #[arg(long, value_name = "PATH|URL")]
    repo: Option<String>,
    /// The issue on GitHub: its URL, or its number in the repository (of a folder: in its `origin`)
    #[arg(long, value_name = "URL|NUMBER")]
    issue: Option<String>,
    /// The issue in a Markdown file; its first line is the title
    #[arg(long, value_name = "FILE", conflicts_with = "issue")]
    issue_file: Option<PathBuf>,
    /// Branch, tag or commit to work on; without it what a folder has checked out, or a URL's default branch
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// What to acquire before the repair
    #[arg(long, value_enum, default_value = "qa", value_name = "KIND", conflicts_with = "resume")]
    knowledge: KnowledgeKind,
    /// Questions of qa and freeq, from 0 to 8; 0 is `--knowledge none`; without it the setting `method.questions` (2)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=8), conflicts_with = "resume")]
    questions: Option<u32>,
    /// Stop when the knowledge is there
    #[arg(long, conflicts_with = "resume")]
    no_patch: bool,
    #[command(flatten)]
    run: RunOptions,
    /// Print run.json to stdout
    #[arg(long)]
    json: bool,
}

impl RawSolve {
    fn with_meaning(self: Box<Self>) -> Result<Solve, Error> {
        let mut raw = *self;
        let replies = raw.run.replies();
        let repo = raw.repo.as_deref().map(Source::parse).transpose();
        let repo = repo.map_err(|error| usage(format!("--repo: {error}")))?;
        let issue = match (raw.issue_file, raw.issue) {
            (Some(file), _) => Some(IssueSource::File(file)),
            (None, Some(text)) => Some(issue_source("solve", &text)?),
            (None, None) => None,
        };
        let folder = folder(raw.run.resume, raw.run.out, repo, issue, raw.base)?;
        let (knowledge, questions) = (raw.knowledge, raw.questions);
        let none = knowledge == KnowledgeKind::None && questions == Some(0);
        if questions.is_some() && !knowledge.has_questioner() && !none {
            let name = knowledge.name();
            return Err(usage(format!("--knowledge {name} asks no questions; leave out --questions")));
        }
        if raw.no_patch && (knowledge == KnowledgeKind::None || questions == Some(0)) {
            return Err(usage(
                "without knowledge and without a patch there is nothing to do: leave out --no-patch",
            ));
        }
        Ok(Solve {
            folder,
            knowledge: if questions == Some(0) { KnowledgeKind::None } else { knowledge },
            questions,
            patch: !raw.no_patch,
            replies,
            image: raw.run.image,
            sandbox: raw.run.sandbox,
            max_usd: raw.run.max_usd,
            json: raw.json,
            config: raw.run.config,
        })
    }
}

fn folder(
    resume: Option<PathBuf>,
    out: Option<PathBuf>,
    repo: Option<Source>,
    issue: Option<IssueSource>,
    base: Option<String>,
) -> Result<Folder, Error> {
    match (resume, repo, issue) {
        (None, Some(repo), Some(issue)) => Ok(Folder::New { out, task: Task { repo, issue, base } }),
        (None, None, None) => Err(usage(
            "there is nothing to work on: give --repo, and --issue or --issue-file; or --resume with the folder \
             of an earlier run",
        )),
        (None, None, Some(_)) => {
            Err(usage("--repo is missing: the folder or the https URL of the repository"))
        }
        (None, Some(_), None) => Err(usage(
            "the issue is missing: --issue with its URL or its number, or --issue-file with a file that holds it",
        )),
        (Some(folder), Some(repo), Some(issue)) => {
            Ok(Folder::Resume { folder, task: Some(Task { repo, issue, base }) })
        }
        (Some(folder), None, None) if base.is_none() => Ok(Folder::Resume { folder, task: None }),
        (Some(_), ..) => Err(usage(
            "--repo, --issue or --issue-file, and --base belong together: give all or none of them",
        )),
    }
}

fn dollars(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(usd) if RUN_USD.contains(&usd) => Ok(usd),
        _ => Err(format!("it must be a number from {} to {}", RUN_USD.start(), RUN_USD.end())),
    }
}

/// What it refers to is found out when the run knows its repository.
fn issue_source(command: &str, text: &str) -> Result<IssueSource, Error> {
    IssueRef::parse(text).map_err(|error| usage_of(command, error))?;
    Ok(IssueSource::Reference(text.to_owned()))
}

fn usage(message: impl std::fmt::Display) -> Error {
    usage_of("solve", message)
}

/// `command` is one of those above.
fn usage_of(command: &str, message: impl std::fmt::Display) -> Error {
    let mut raw = Raw::command();
    raw.build();
    let command = raw.find_subcommand_mut(command).expect("callers name a command that there is");
    command.error(ErrorKind::ValueValidation, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::{Replay, ReplaySource};

    fn parsed(line: &str) -> Result<Command, Error> {
        parse(["acquire"].into_iter().chain(line.split_whitespace()).map(OsString::from))
    }

    fn solve(line: &str) -> Solve {
        match parsed(&format!("solve {line}")) {
            Ok(Command::Solve(solve)) => *solve,
            other => panic!("{other:?}"),
        }
    }

    /// The first line of a usage error.
    fn told(line: &str) -> String {
        let error = parsed(line).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{error}");
        error.to_string().lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
    }

    fn task_of(solve: Solve) -> Task {
        match solve.folder {
            Folder::New { task, .. } | Folder::Resume { task: Some(task), .. } => task,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_issue_is_a_file_a_number_or_a_url() {
        let reference = |text: &str| IssueSource::Reference(text.into());
        assert_eq!(task_of(solve("--repo https://github.com/o/r.git --issue 7")).issue, reference("7"));
        assert_eq!(task_of(solve("--repo . --issue #8")).issue, reference("#8"));
        let url = "https://github.com/o/r/issues/9";
        let by_url = task_of(solve(&format!("--repo . --issue {url} --base v1")));
        assert_eq!(by_url.issue, reference(url));
        assert_eq!((by_url.repo, by_url.base), (Source::Folder(".".into()), Some("v1".into())));
        let from_file = task_of(solve("--repo ./a/b --issue-file i.md"));
        assert_eq!(from_file.issue, IssueSource::File("i.md".into()));
    }

    #[test]
    fn a_run_is_new_or_resumed() {
        assert_eq!(solve("--resume d").folder, Folder::Resume { folder: "d".into(), task: None });
        task_of(solve("--resume d --repo . --issue-file i.md"));
        assert!(matches!(solve("--repo . --issue-file i --out o").folder, Folder::New { out: Some(_), .. }));
        insta::assert_snapshot!(told("solve --resume d --out o"), @"error: the argument '--resume <DIR>' cannot be used with '--out <DIR>'");
        insta::assert_snapshot!(told("solve --resume d --repo ."), @"error: --repo, --issue or --issue-file, and --base belong together: give all or none of them");
        insta::assert_snapshot!(told("solve --resume d --image other"), @"error: the argument '--resume <DIR>' cannot be used with '--image <IMAGE>'");
        insta::assert_snapshot!(told("solve --resume d --questions 3"), @"error: the argument '--resume <DIR>' cannot be used with '--questions <N>'");
        insta::assert_snapshot!(told("solve --resume d --base main"), @"error: --repo, --issue or --issue-file, and --base belong together: give all or none of them");
    }

    #[test]
    fn no_questions_is_no_knowledge() {
        let kind = |options: &str| solve(&format!("--repo . --issue-file i {options}")).knowledge;
        assert_eq!(kind(""), KnowledgeKind::Qa);
        assert_eq!(kind("--questions 1"), KnowledgeKind::Qa);
        assert_eq!(kind("--questions 0"), KnowledgeKind::None);
        assert_eq!(kind("--knowledge none"), KnowledgeKind::None);
        assert_eq!(kind("--knowledge none --questions 0"), KnowledgeKind::None);
        assert_eq!(kind("--knowledge freeq --questions 3"), KnowledgeKind::Freeq);
        assert_eq!(kind("--knowledge freeq --questions 0"), KnowledgeKind::None);
        assert_eq!(kind("--knowledge proposal"), KnowledgeKind::Proposal);
        for number in ["0", "2"] {
            let line = format!("solve --repo . --issue-file i --knowledge proposal --questions {number}");
            assert_eq!(told(&line), "error: --knowledge proposal asks no questions; leave out --questions");
        }
        insta::assert_snapshot!(told("solve --repo . --issue-file i --knowledge asked"), @"error: invalid value 'asked' for '--knowledge <KIND>'   [possible values: qa, freeq, proposal, none]");
        insta::assert_snapshot!(told("solve --repo . --issue-file i --knowledge none --questions 2"), @"error: --knowledge none asks no questions; leave out --questions");
        insta::assert_snapshot!(told("solve --repo . --issue-file i --questions 9"), @"error: invalid value '9' for '--questions <N>': 9 is not in 0..=8");
    }

    #[test]
    fn s_09_a_run_new_or_resumed_can_be_given_its_own_limit_on_money() {
        assert_eq!(solve("--repo . --issue-file i").max_usd, None);
        assert_eq!(solve("--repo . --issue-file i --max-usd 0.5").max_usd, Some(0.5));
        assert_eq!(solve("--resume d --max-usd 2").max_usd, Some(2.0));
        for wrong in ["0", "-1", "nan", "much", "100000"] {
            let told = told(&format!("solve --resume d --max-usd={wrong}"));
            let expected = format!(
                "error: invalid value '{wrong}' for '--max-usd <USD>': it must be a number from 0.01 to 10000"
            );
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn replies_are_live_recorded_or_replayed() {
        let replies = |options: &str| solve(&format!("--repo . --issue-file i {options}")).replies;
        assert_eq!(replies(""), Replies::default());
        assert_eq!(replies("--record f"), Replies { record: Some("f".into()), replay: None });
        let replay = |lenient| Replies {
            record: None,
            replay: Some(Replay { source: ReplaySource::File("f".into()), lenient }),
        };
        assert_eq!(replies("--replay f"), replay(false));
        assert_eq!(replies("--replay f --replay-lenient"), replay(true));
        insta::assert_snapshot!(told("solve --repo . --issue-file i --replay-lenient"), @"error: the following required arguments were not provided:   --replay <FILE>");
        insta::assert_snapshot!(told("solve --repo . --issue-file i --replay f --record f"), @"error: the argument '--replay <FILE>' cannot be used with '--record <FILE>'");
    }

    #[test]
    fn what_cannot_be_meant_is_a_usage_error() {
        insta::assert_snapshot!(told("solve"), @"error: there is nothing to work on: give --repo, and --issue or --issue-file; or --resume with the folder of an earlier run");
        insta::assert_snapshot!(told("solve --issue 7"), @"error: --repo is missing: the folder or the https URL of the repository");
        insta::assert_snapshot!(told("solve --repo ."), @"error: the issue is missing: --issue with its URL or its number, or --issue-file with a file that holds it");
        insta::assert_snapshot!(told("solve --repo . --issue abc"), @r#"error: not a valid issue: "abc": it is neither a number nor a URL; what stands in a file goes to --issue-file"#);
        insta::assert_snapshot!(told("solve --repo . --issue 0"), @r#"error: not a valid issue: "0": its number must be a whole number from 1"#);
        insta::assert_snapshot!(told("solve --repo . --issue https://github.com/o/r/pull/7"), @r#"error: not a valid issue: "https://github.com/o/r/pull/7": it is a pull request; name an issue"#);
        insta::assert_snapshot!(told("solve --repo . --issue-file a --issue 7"), @"error: the argument '--issue-file <FILE>' cannot be used with '--issue <URL|NUMBER>'");
        insta::assert_snapshot!(told("solve --repo ssh://github.com/o/r --issue-file a"), @"error: --repo: cannot read a repository by ssh://; give a folder or an https:// address");
        insta::assert_snapshot!(told("solve --repo http://example.com/o/r --issue-file a"), @"error: --repo: cannot read a repository by http://; give a folder or an https:// address");
        insta::assert_snapshot!(told("solve --repo git@github.com:o/n.git --issue 7"), @"error: --repo: git@github.com:o/n.git is an ssh address; give a folder or an https:// address, such as https://github.com/o/n");
        insta::assert_snapshot!(told("solve --repo o/n --issue 7"), @"error: --repo: there is no folder o/n; did you mean https://github.com/o/n?");
        insta::assert_snapshot!(told("solve --repo . --issue-file a --sandbox podman"), @"error: invalid value 'podman' for '--sandbox <KIND>'   [possible values: auto, docker, namespaces]");
        insta::assert_snapshot!(told("solv"), @"error: unrecognized subcommand 'solv'");
    }

    #[test]
    fn s_40_a_token_in_a_url_is_refused_and_not_repeated() {
        let error = parsed("solve --repo https://x:ghp_secret@github.com/o/r --issue-file a").unwrap_err();
        assert!(!error.to_string().contains("ghp_secret"), "{error}");
        assert!(error.to_string().contains("GITHUB_TOKEN"), "{error}");
    }

    #[test]
    fn a_usage_error_shows_the_usage_of_its_command() {
        let error = parsed("solve --repo .").unwrap_err().to_string();
        assert!(error.contains("Usage: acquire solve --repo <PATH|URL> (--issue <URL|NUMBER> | "), "{error}");
        assert!(error.contains("try '--help'"), "{error}");
    }

    #[test]
    fn help_has_examples_and_is_no_error() {
        let first = parsed("--help").unwrap_err().to_string();
        let first = first.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        insta::assert_snapshot!(first, @"Know before fix: asks what a repair must know, checks the answers against the repository, then writes a patch. Writes files only");
        let help = parsed("solve --help").unwrap_err();
        assert_eq!(help.exit_code(), 0);
        assert!(help.to_string().contains("acquire solve --repo . --issue-file issue.md --no-patch"));
        // Wrapped lines cannot be copied.
        let long = SOLVE_EXAMPLES.lines().find(|line| line.chars().count() > 80);
        assert_eq!(long, None);
        assert_eq!(
            parsed("demo --out d --json").unwrap(),
            Command::Demo(Demo { out: Some("d".into()), json: true })
        );
        Raw::command().debug_assert();
    }
}
