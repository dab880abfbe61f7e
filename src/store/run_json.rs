//! `run.json`: what became of a run, for programs. A contract; its schema lies beside this file.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};

use crate::domain::{Account, IssueNumber, Money, PatchSummary, RunId, Tokens};

use super::atomic;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    pub run_id: RunId,
    /// Of this program.
    pub version: String,
    /// Path or URL, as the run was asked for it.
    pub repo: String,
    /// Full commit id; the revision as it was asked for where the run ended before that was known.
    pub base: String,
    pub issue: IssueSummary,
    pub strategy: Strategy,
    /// Model names by role: `questioner`, `answerer`, `resolver`.
    pub models: BTreeMap<String, String>,
    /// `docker` or `namespaces`; what was asked for where the run ended before one was taken.
    pub sandbox: String,
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorSummary>,
    /// In the order run.
    pub stages: Vec<StageSummary>,
    pub total: Usage,
    /// A model was called whose price is not known: money counts the calls of the others only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unpriced: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<PatchSummary>,
    /// What the run did in another way than asked, such as leaving out a setting that a model refuses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl RunSummary {
    /// What the folder of a run says of it. `None` where it says nothing, or nothing that can be read.
    pub fn of_folder(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&atomic::read(&folder.join("run.json")).ok()??).ok()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssueSummary {
    /// Absent where the issue came from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<IssueNumber>,
    /// Empty where the issue could not be read, and where there is none.
    pub title: String,
}

/// Which strategy of each kind the run used, by its name on the command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Strategy {
    pub knowledge: String,
    pub answerer: String,
    pub resolver: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Patch,
    /// The Resolver ended without a change.
    NoPatch,
    /// No patch was asked for.
    KnowledgeOnly,
    Failed,
    Cancelled,
}

impl Outcome {
    /// Whether the run came to its end, good or bad: it has nothing left to pay for.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Patch | Self::NoPatch | Self::KnowledgeOnly)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorSummary {
    /// A stable name for programs, such as `model_unauthorized`.
    pub class: String,
    /// For people: what was wrong, where, what to do.
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageSummary {
    /// `prepare`, `question`, `answer`, `resolve`, …
    pub name: String,
    pub seconds: f64,
    pub usd: Money,
    pub tokens: Tokens,
    pub agents: Vec<AgentSummary>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentSummary {
    pub name: String,
    pub steps: u32,
    pub seconds: f64,
    pub usd: Money,
    pub tokens: Tokens,
    pub exit: AgentExit,
}

/// Why an agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentExit {
    Submitted,
    StepLimit,
    CostLimit,
    TimeLimit,
    FormatErrors,
    Cancelled,
    Failed,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Wall-clock seconds.
    pub seconds: f64,
    pub usd: Money,
    pub tokens: Tokens,
}

impl From<Account> for Usage {
    fn from(account: Account) -> Self {
        Self { seconds: account.seconds, usd: account.usd, tokens: account.tokens }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::{LeftOut, RepoPath};

    /// A run with everything that may be absent.
    pub fn full() -> RunSummary {
        let tokens = Tokens { input: 1200, cached: 800, output: 90 };
        let usd = Money::from_usd(0.0125);
        RunSummary {
            run_id: RunId::try_from("20261130-100000-a1b2c3".to_owned()).unwrap(),
            version: "0.1.0".into(),
            repo: "https://github.com/o/r".into(),
            base: "0123456789abcdef0123456789abcdef01234567".into(),
            issue: IssueSummary { number: Some(IssueNumber(7)), title: "It crashes".into() },
            strategy: Strategy {
                knowledge: "qa".into(),
                answerer: "explore".into(),
                resolver: "agent".into(),
            },
            models: [("resolver".into(), "m".into())].into(),
            sandbox: "docker".into(),
            outcome: Outcome::Failed,
            error: Some(ErrorSummary { class: "model_timeout".into(), message: "no answer".into() }),
            stages: vec![StageSummary {
                name: "resolve".into(),
                seconds: 12.5,
                usd,
                tokens,
                agents: vec![AgentSummary {
                    name: "resolver".into(),
                    steps: 3,
                    seconds: 12.0,
                    usd,
                    tokens,
                    exit: AgentExit::StepLimit,
                }],
            }],
            total: Usage { seconds: 13.0, usd, tokens },
            unpriced: true,
            patch: Some(PatchSummary {
                files: vec![RepoPath::parse("src/a.py").unwrap()],
                insertions: 1,
                deletions: 0,
                left_out: vec![LeftOut { path: "x.pyc".into(), reason: "a cache".into() }],
            }),
            notes: vec!["the provider refused `temperature`".into()],
        }
    }

    fn least() -> RunSummary {
        let run = full();
        RunSummary {
            issue: IssueSummary { number: None, title: String::new() },
            outcome: Outcome::NoPatch,
            error: None,
            stages: vec![],
            total: Account::default().into(),
            unpriced: false,
            patch: None,
            notes: vec![],
            ..run
        }
    }

    #[test]
    fn names_and_order_are_the_contract() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&full()).unwrap(), @r#"
        {
          "run_id": "20261130-100000-a1b2c3",
          "version": "0.1.0",
          "repo": "https://github.com/o/r",
          "base": "0123456789abcdef0123456789abcdef01234567",
          "issue": {
            "number": 7,
            "title": "It crashes"
          },
          "strategy": {
            "knowledge": "qa",
            "answerer": "explore",
            "resolver": "agent"
          },
          "models": {
            "resolver": "m"
          },
          "sandbox": "docker",
          "outcome": "failed",
          "error": {
            "class": "model_timeout",
            "message": "no answer"
          },
          "stages": [
            {
              "name": "resolve",
              "seconds": 12.5,
              "usd": 0.0125,
              "tokens": {
                "input": 1200,
                "cached": 800,
                "output": 90
              },
              "agents": [
                {
                  "name": "resolver",
                  "steps": 3,
                  "seconds": 12.0,
                  "usd": 0.0125,
                  "tokens": {
                    "input": 1200,
                    "cached": 800,
                    "output": 90
                  },
                  "exit": "step_limit"
                }
              ]
            }
          ],
          "total": {
            "seconds": 13.0,
            "usd": 0.0125,
            "tokens": {
              "input": 1200,
              "cached": 800,
              "output": 90
            }
          },
          "unpriced": true,
          "patch": {
            "files": [
              "src/a.py"
            ],
            "insertions": 1,
            "deletions": 0,
            "left_out": [
              {
                "path": "x.pyc",
                "reason": "a cache"
              }
            ]
          },
          "notes": [
            "the provider refused `temperature`"
          ]
        }
        "#);
    }

    #[test]
    fn what_is_optional_is_absent_when_there_is_none() {
        insta::assert_snapshot!(serde_json::to_string(&least()).unwrap(), @r#"{"run_id":"20261130-100000-a1b2c3","version":"0.1.0","repo":"https://github.com/o/r","base":"0123456789abcdef0123456789abcdef01234567","issue":{"title":""},"strategy":{"knowledge":"qa","answerer":"explore","resolver":"agent"},"models":{"resolver":"m"},"sandbox":"docker","outcome":"no_patch","stages":[],"total":{"seconds":0.0,"usd":0.0,"tokens":{"input":0,"cached":0,"output":0}}}"#);
    }

    #[test]
    fn the_schema_takes_what_is_written_and_nothing_else() {
        let schema: Value = serde_json::from_str(include_str!("run.schema.json")).unwrap();
        let schema = jsonschema::validator_for(&schema).unwrap();
        for run in [full(), least()] {
            let value = serde_json::to_value(&run).unwrap();
            let errors: Vec<_> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{errors:?}");
            assert_eq!(serde_json::from_value::<RunSummary>(value).unwrap(), run);
        }
        let good = serde_json::to_value(full()).unwrap();
        for (field, wrong) in [
            ("/outcome", json!("done")),
            ("/stages/0/agents/0/exit", json!("tired")),
            ("/total", json!({"seconds": 1.0, "usd": 0.0})),
            ("/patch/left_out/0", json!({"path": "a", "reason": "b", "more": 1})),
            ("/issue/number", json!("7")),
        ] {
            let mut bad = good.clone();
            *bad.pointer_mut(field).unwrap() = wrong;
            assert!(!schema.is_valid(&bad), "{field} was taken");
        }
        for outcome in ["patch", "no_patch", "knowledge_only", "failed", "cancelled"] {
            assert!(serde_json::from_value::<Outcome>(json!(outcome)).is_ok(), "{outcome}");
        }
        for exit in
            ["submitted", "step_limit", "cost_limit", "time_limit", "format_errors", "cancelled", "failed"]
        {
            assert!(serde_json::from_value::<AgentExit>(json!(exit)).is_ok(), "{exit}");
        }
    }
}
