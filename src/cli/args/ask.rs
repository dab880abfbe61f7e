//! What `acquire ask` was asked.

use std::path::{Path, PathBuf};

use clap::{Args, error::Error};

use crate::{
    config::SandboxKind,
    repo::Source,
    runs::{AnswererKind, IssueSource, Replies},
};

use super::{RunOptions, issue_source, usage_of};

#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    pub folder: AskFolder,
    pub answerer: AnswererKind,
    pub image: Option<String>,
    pub sandbox: Option<SandboxKind>,
    /// US dollars for the whole run; where it is not set, the settings say.
    pub max_usd: Option<f64>,
    pub replies: Replies,
    pub json: bool,
    pub config: Option<PathBuf>,
}

/// Where the run lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskFolder {
    /// Without a folder, the settings say where.
    New {
        out: Option<PathBuf>,
        repo: Source,
        questions: Questions,
        /// What the questions are about, if it is an issue.
        issue: Option<IssueSource>,
        /// A revision. Without one: what a folder has checked out, a URL's default branch.
        base: Option<String>,
    },
    /// Everything else is stored there.
    Resume { folder: PathBuf },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Questions {
    Given(Vec<String>),
    /// One a line.
    File(PathBuf),
    /// One a line.
    Stdin,
}

const USAGE: &str = "\
acquire ask --repo <PATH|URL> <QUESTION>... [OPTIONS]
       acquire ask --repo <PATH|URL> --questions-file <FILE|-> [OPTIONS]
       acquire ask --resume <DIR> [OPTIONS]";

const EXAMPLES: &str = "\
Examples:
  One question about the code in this folder:
    acquire ask --repo . \"Where are temporary files removed?\"
  Two, answered side by side, about a released version:
    acquire ask --repo https://github.com/OWNER/NAME --base v1.2 \\
      \"Which errors can load() return?\" \"Who calls load()?\"
  From a list, for a script:
    acquire ask --repo . --json - < questions.txt | jq .knowledge.pairs

Marks beside a place: a program looked it up at the commit, and
  \u{2713} the quoted line, or the symbol, stands there
  \u{21aa} it stood elsewhere in the file, and the lines were corrected
  \u{26a0} it was not found

--json prints {\"run\": run.json, \"knowledge\": knowledge.json}; `knowledge` is
null where a run ended without any. A question's answer has a `status`:
answered, gap (looked for and not found), budget or failed.

Model and settings are those of `acquire solve`.

Exit codes:
  0 every question was looked into, also where nothing was found
  1 failed, or a question got no answer (a limit, or unreadable replies)
  2 wrong usage or settings   130 cancelled";

/// Answers questions about a repository, with citations that are looked up. Changes nothing.
///
/// Each question goes to an agent of its own, which sees no other question. Up to 20 questions; eight are
/// answered at a time.
#[derive(Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub(super) struct RawAsk {
    /// A question; `-` alone reads them from standard input, one a line
    #[arg(value_name = "QUESTION", conflicts_with_all = ["questions_file", "resume"])]
    questions: Vec<String>,
    /// Questions in a file, one a line, each as it stands; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    questions_file: Option<PathBuf>,
    /// The repository: a folder on this machine (uncommitted changes are not seen), or an https or file URL
    #[arg(long, value_name = "PATH|URL", conflicts_with = "resume")]
    repo: Option<String>,
    /// The issue that the questions are about: its URL, or its number in the repository
    #[arg(long, value_name = "URL|NUMBER", conflicts_with = "resume")]
    issue: Option<String>,
    /// The issue in a Markdown file; its first line is the title
    #[arg(long, value_name = "FILE", conflicts_with_all = ["issue", "resume"])]
    issue_file: Option<PathBuf>,
    /// Branch, tag or commit to read; without it what a folder has checked out, or a URL's default branch
    #[arg(long, value_name = "REV", conflicts_with = "resume")]
    base: Option<String>,
    /// How each question is answered
    #[arg(long, value_enum, default_value = "explore", value_name = "KIND", conflicts_with = "resume")]
    answerer: AnswererKind,
    #[command(flatten)]
    run: RunOptions,
    /// Print run.json and knowledge.json to stdout, as one object
    #[arg(long)]
    json: bool,
}

impl RawAsk {
    pub fn with_meaning(self: Box<Self>) -> Result<Ask, Error> {
        let mut raw = *self;
        let replies = raw.run.replies();
        let usage = |message: &str| usage_of("ask", message);
        let folder = match (raw.run.resume, raw.repo.as_deref()) {
            (Some(folder), _) => AskFolder::Resume { folder },
            (None, None) => {
                return Err(usage(
                    "--repo is missing: the folder or the https URL of the repository; or --resume with the \
                     folder of an earlier run",
                ));
            }
            (None, Some(repo)) => AskFolder::New {
                out: raw.run.out,
                repo: Source::parse(repo).map_err(|error| usage(&format!("--repo: {error}")))?,
                questions: questions(raw.questions, raw.questions_file)
                    .ok_or_else(|| usage("there is no question: give at least one, or --questions-file"))?,
                issue: match (raw.issue_file, raw.issue) {
                    (Some(file), _) => Some(IssueSource::File(file)),
                    (None, Some(text)) => Some(issue_source("ask", &text)?),
                    (None, None) => None,
                },
                base: raw.base,
            },
        };
        Ok(Ask {
            folder,
            answerer: raw.answerer,
            replies,
            image: raw.run.image,
            sandbox: raw.run.sandbox,
            max_usd: raw.run.max_usd,
            json: raw.json,
            config: raw.run.config,
        })
    }
}

fn questions(given: Vec<String>, file: Option<PathBuf>) -> Option<Questions> {
    match (given.as_slice(), file) {
        (_, Some(file)) if file == Path::new("-") => Some(Questions::Stdin),
        (_, Some(file)) => Some(Questions::File(file)),
        ([], None) => None,
        ([dash], None) if dash == "-" => Some(Questions::Stdin),
        (_, None) => Some(Questions::Given(given)),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{
        super::{Command, parse},
        *,
    };

    fn parsed(arguments: &[&str]) -> Result<Command, Error> {
        parse(["acquire", "ask"].iter().chain(arguments).map(OsString::from))
    }

    fn ask(arguments: &[&str]) -> Ask {
        match parsed(arguments) {
            Ok(Command::Ask(ask)) => *ask,
            other => panic!("{other:?}"),
        }
    }

    /// The first line of a usage error.
    fn told(arguments: &[&str]) -> String {
        let error = parsed(arguments).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{error}");
        error.to_string().lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
    }

    fn questions_of(arguments: &[&str]) -> Questions {
        match ask(&[&["--repo", "."], arguments].concat()).folder {
            AskFolder::New { questions, .. } => questions,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn questions_are_words_a_file_or_standard_input() {
        let given = |all: &[&str]| Questions::Given(all.iter().map(|one| (*one).to_owned()).collect());
        assert_eq!(questions_of(&["Who?", "Why -- now?"]), given(&["Who?", "Why -- now?"]));
        assert_eq!(questions_of(&["-"]), Questions::Stdin);
        assert_eq!(questions_of(&["--questions-file", "-"]), Questions::Stdin);
        assert_eq!(questions_of(&["--questions-file", "q.txt"]), Questions::File("q.txt".into()));
        assert_eq!(questions_of(&["-", "Who?"]), given(&["-", "Who?"]));
        insta::assert_snapshot!(told(&["--repo", "."]), @"error: there is no question: give at least one, or --questions-file");
        insta::assert_snapshot!(told(&["Who?"]), @"error: --repo is missing: the folder or the https URL of the repository; or --resume with the folder of an earlier run");
        insta::assert_snapshot!(told(&["--repo", ".", "Who?", "--questions-file", "q"]), @"error: the argument '[QUESTION]...' cannot be used with '--questions-file <FILE>'");
    }

    #[test]
    fn a_resumed_run_keeps_what_it_was_asked() {
        assert_eq!(ask(&["--resume", "d", "--json"]).folder, AskFolder::Resume { folder: "d".into() });
        insta::assert_snapshot!(told(&["--resume", "d", "Who?"]), @"error: the argument '--resume <DIR>' cannot be used with '[QUESTION]...'");
        insta::assert_snapshot!(told(&["--resume", "d", "--repo", "."]), @"error: the argument '--resume <DIR>' cannot be used with '--repo <PATH|URL>'");
    }

    #[test]
    fn an_issue_is_optional_and_money_has_a_range() {
        let with = |arguments: &[&str]| ask(&[&["--repo", ".", "Who?"], arguments].concat());
        let issue = |ask: Ask| match ask.folder {
            AskFolder::New { issue, .. } => issue,
            AskFolder::Resume { .. } => None,
        };
        assert_eq!(issue(with(&[])), None);
        assert_eq!(issue(with(&["--issue", "7"])), Some(IssueSource::Reference("7".into())));
        assert_eq!(issue(with(&["--issue-file", "i"])), Some(IssueSource::File("i".into())));
        assert_eq!(with(&["--max-usd", "0.5"]).max_usd, Some(0.5));
        for bad in ["0", "-1", "nan", "inf", "1e9", "much"] {
            let error = parsed(&["--repo", ".", "Who?", &format!("--max-usd={bad}")]).unwrap_err();
            assert!(error.to_string().contains("from 0.01 to 10000"), "{error}");
        }
        let error = parsed(&["--repo", ".", "Who?", "--issue", "x y"]).unwrap_err().to_string();
        assert!(error.contains("Usage: acquire ask --repo <PATH|URL> <QUESTION>..."), "{error}");
    }

    #[test]
    fn help_has_examples_that_can_be_copied() {
        let help = parsed(&["--help"]).unwrap_err();
        assert_eq!(help.exit_code(), 0);
        assert!(help.to_string().contains("acquire ask --repo . \"Where are temporary files removed?\""));
        assert_eq!(EXAMPLES.lines().find(|line| line.chars().count() > 80), None);
    }
}
