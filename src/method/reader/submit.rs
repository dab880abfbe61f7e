//! The `submit` tool of a reader.

use std::sync::Arc;

use async_trait::async_trait;
use minijinja::{context, value::Serde};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    agent::prompt,
    domain::{Answer, AnswerStatus, Check, Citation},
    method::{
        evidence::{self, Checked, Claim, Fault},
        ports::{CallContext, SourceTree, Symbols, Tool, ToolError, ToolOutcome, ToolSpec},
        prose,
    },
};

/// Most citations that an answer may have.
const MAX_CITATIONS: usize = 50;
/// Longest answer that is taken, in characters.
const MAX_ANSWER_CHARS: usize = 20_000;
/// Longest path or symbol of a citation, and longest quote, in characters.
const MAX_CITED: (usize, usize) = (1_000, 10_000);
/// Most gaps, and the longest of them in characters.
const MAX_GAPS: (usize, usize) = (30, 2_000);

/// What a reader hands in.
#[derive(Debug, Deserialize)]
struct Submission {
    answer: String,
    citations: Vec<Claim>,
    #[serde(default)]
    gaps: Vec<String>,
}

/// Looks everything up, and returns the answer once if it does not hold.
pub struct SubmitAnswer {
    pub tree: Arc<dyn SourceTree>,
    pub symbols: Arc<dyn Symbols>,
    /// What the reader was asked, and of which issue: what they name may be named.
    pub given: String,
    /// What the reader knows that as: `issue` or `question`.
    pub given_as: &'static str,
}

/// Something that does not hold, as `answerer/returned.md` words it.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Problem {
    Citation {
        number: usize,
        path: String,
        start: u32,
        end: u32,
        fault: Fault,
    },
    /// The symbol stands there, the quote does not.
    Quote {
        number: usize,
        path: String,
        symbol: Option<String>,
    },
    /// Named in the text, absent from the commit.
    Missing {
        name: String,
    },
    /// The text refers to `[number]`, but there is no such citation.
    NoSuchCitation {
        number: u32,
    },
    /// The answer states something and cites nothing.
    NothingCited,
}

impl SubmitAnswer {
    async fn look_up(
        &self,
        submission: &Submission,
    ) -> Result<(Vec<Checked>, Vec<String>, Vec<Problem>), ToolError> {
        let mut checked = Vec::with_capacity(submission.citations.len());
        for claim in &submission.citations {
            checked.push(evidence::check(claim.clone(), &*self.tree, &*self.symbols).await?);
        }
        let missing = prose::missing(&submission.answer, &self.given, self.tree.clone()).await?;
        let mut problems: Vec<Problem> = (1..)
            .zip(&checked)
            .filter_map(|(number, checked)| {
                let Citation { path, start, end, symbol, .. } = checked.citation.clone();
                let unverified = checked.fault.map(|fault| Problem::Citation {
                    number,
                    path: path.clone(),
                    start,
                    end,
                    fault,
                });
                unverified
                    .or_else(|| checked.quote_dropped.then_some(Problem::Quote { number, path, symbol }))
            })
            .collect();
        problems.extend(missing.iter().map(|name| Problem::Missing { name: name.clone() }));
        let paragraphs = crate::gate::prose::paragraphs(&submission.answer);
        let mut dangling: Vec<u32> = paragraphs
            .iter()
            .flat_map(|p| p.cited.iter().copied())
            .filter(|number| *number == 0 || *number as usize > checked.len())
            .collect();
        dangling.sort_unstable();
        dangling.dedup();
        problems.extend(dangling.into_iter().map(|number| Problem::NoSuchCitation { number }));
        if !submission.answer.trim().is_empty() && checked.is_empty() {
            problems.push(Problem::NothingCited);
        }
        Ok((checked, missing, problems))
    }
}

#[async_trait]
impl Tool for SubmitAnswer {
    fn spec(&self) -> ToolSpec {
        prompt::tool_spec("tools/submit_answer.json", context! {})
    }

    async fn call(&self, arguments: Value, call: CallContext) -> Result<ToolOutcome, ToolError> {
        let submission: Submission = match serde_json::from_value(arguments) {
            Ok(submission) => submission,
            Err(error) => return Ok(ToolOutcome::BadArguments(error.to_string())),
        };
        if let Some(problem) = too_much(&submission) {
            return Ok(ToolOutcome::BadArguments(problem));
        }
        let (checked, missing, problems) = self.look_up(&submission).await?;
        if !problems.is_empty() && call.earlier_calls == 0 {
            let problems = minijinja::Value::from(Serde(problems));
            let held = checked.iter().filter(|c| c.fault.is_none()).count();
            let variables = context! { problems, held, cited => checked.len(), given => self.given_as };
            return Ok(ToolOutcome::Observation(prompt::render("answerer/returned.md", variables)));
        }
        let holds = checked.iter().any(|c| c.citation.check != Check::Unverified);
        let mut gaps = submission.gaps;
        let status =
            if submission.answer.trim().is_empty() || !holds && checked.is_empty() && !gaps.is_empty() {
                AnswerStatus::Gap
            } else {
                AnswerStatus::Answered
            };
        gaps.extend(missing.iter().map(|name| crate::report::named_but_missing(name)));
        let citations = checked.into_iter().map(|c| c.citation).collect();
        let answer = Answer { status, text: submission.answer, gaps, citations };
        Ok(ToolOutcome::Finished(serde_json::to_value(answer).expect("an answer can be written as JSON")))
    }
}

fn too_much(submission: &Submission) -> Option<String> {
    if submission.answer.trim().is_empty() && submission.gaps.is_empty() {
        return Some("an empty answer needs `gaps` that say where you looked".into());
    }
    if submission.answer.chars().count() > MAX_ANSWER_CHARS {
        return Some(format!("the answer is longer than {MAX_ANSWER_CHARS} characters"));
    }
    if submission.citations.len() > MAX_CITATIONS {
        return Some(format!("more than {MAX_CITATIONS} citations"));
    }
    let (name, quote) = MAX_CITED;
    let longer = |text: Option<&str>, most: usize| text.is_some_and(|text| text.chars().count() > most);
    let too_long = |claim: &Claim| {
        longer(Some(&claim.path), name)
            || longer(claim.symbol.as_deref(), name)
            || longer(claim.quote.as_deref(), quote)
    };
    if submission.citations.iter().any(too_long) {
        return Some(format!(
            "a path or symbol is longer than {name} characters, or a quote than {quote}: cite one line of code"
        ));
    }
    if submission.gaps.len() > MAX_GAPS.0 || submission.gaps.iter().any(|g| g.chars().count() > MAX_GAPS.1) {
        return Some(format!("more than {} gaps, or one longer than {} characters", MAX_GAPS.0, MAX_GAPS.1));
    }
    None
}
