//! `agent`: the scaffold with write access and tests; the same agent with and without knowledge.

use std::sync::Arc;

use async_trait::async_trait;
use minijinja::{Value as PromptValue, context, value::Serde};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    agent::{
        Exit,
        harvest::Harvest,
        prompt,
        workbench::{SeenTest, Workbench},
    },
    domain::{AgentName, AnswerStatus, Check, Citation, Knowledge, LeftOut, Pair},
    method::{
        context::{AgentReport, RunContext, RunError},
        ports::{
            Access, CallContext, CommandExit, Ended, Message, Resolver, SandboxError, Tool, ToolError,
            ToolOutcome, ToolSpec,
        },
    },
};

use super::{Resolution, TestReport};

/// Longest summary that is taken, in characters.
const MAX_SUMMARY_CHARS: usize = 20_000;
/// Most paths in `leave_out`.
const MAX_LEAVE_OUT: usize = 1_000;

pub struct AgentResolver;

#[async_trait]
impl Resolver for AgentResolver {
    fn name(&self) -> &'static str {
        "agent"
    }

    async fn resolve(&self, context: &RunContext, knowledge: &Knowledge) -> Ended<Resolution> {
        let name = AgentName::resolver();
        let bench = context.workbench(&name, Access::ReadWrite);
        let (model, settings) = (&context.models.resolver, &context.settings.resolver);
        let submit = SubmitPatch { bench: bench.clone(), knowledge: !knowledge.is_empty() };
        let agent = context.agent(&name, model, settings, &bench, opening(context, knowledge), submit);
        let finished = agent.run(&context.services).await;
        let report = AgentReport::of(&name, &finished);
        let result = match (finished.exit, finished.error) {
            (_, Some(error)) => Err(error.into()),
            (Exit::Cancelled, _) => Err(RunError::Cancelled),
            _ => take(&bench, finished.submission, knowledge).await,
        };
        bench.close().await;
        Ended { report, result }
    }
}

/// Harvests the workspace, also of an agent that a limit ended: its work is kept.
async fn take(
    bench: &Workbench,
    submission: Option<Value>,
    knowledge: &Knowledge,
) -> Result<Resolution, RunError> {
    let submitted = submission.is_some();
    // The tool stored it from this very type.
    let submission: Submission = submission.and_then(|s| serde_json::from_value(s).ok()).unwrap_or_default();
    let tests = bench.tests_since_last_edit().await.into_iter().map(test_report).collect();
    let harvest = match bench.harvest(&submission.leave_out).await {
        // What is no patch as a whole is an honest end of a run, not a failure of it.
        Err(SandboxError::Limit(reason)) => {
            Harvest { left_out: vec![LeftOut { path: ".".into(), reason }], ..Harvest::default() }
        }
        harvest => harvest?,
    };
    let known = |id: &String| {
        knowledge.pairs.iter().any(|pair| pair.question.id == *id)
            || knowledge.blocks.iter().any(|block| block.kind == *id)
    };
    Ok(Resolution {
        summary: submission.summary,
        used_answers: submission.used_answers.into_iter().filter(known).collect(),
        changes: harvest.changes,
        left_out: harvest.left_out,
        kept: harvest.kept,
        submitted,
        tests,
    })
}

fn opening(context: &RunContext, knowledge: &Knowledge) -> Vec<Message> {
    let knowledge = if knowledge.is_empty() {
        String::new()
    } else {
        context.fence.fence("knowledge", &knowledge_block(knowledge))
    };
    vec![
        Message::System { content: prompt::render("resolver/system.md", context! {}) },
        Message::User {
            content: prompt::render(
                "resolver/task.md",
                context! {
                    knowledge,
                    issue => context.issue_text(),
                    environment => context.environment.as_str(),
                },
            ),
        },
    ]
}

/// All knowledge as one static block.
fn knowledge_block(knowledge: &Knowledge) -> String {
    let pairs = knowledge.pairs.iter().map(|Pair { question, answer, .. }| {
        context! {
            id => question.id.as_str(),
            category => Serde(question.category),
            question => question.text.as_str(),
            ..found(answer.status, &answer.text, &answer.citations, &answer.gaps)
        }
    });
    let blocks = knowledge.blocks.iter().map(|block| {
        let (id, question) = (block.kind.as_str(), PromptValue::from(()));
        context! { id, question, ..found(block.status, &block.text, &block.citations, &block.gaps) }
    });
    let parts: Vec<PromptValue> = pairs.chain(blocks).collect();
    prompt::render("resolver/knowledge.md", context! { commit => knowledge.commit.short(), parts })
}

/// What came of a question, or of a proposal.
fn found(status: AnswerStatus, text: &str, citations: &[Citation], gaps: &[String]) -> PromptValue {
    let holds = |citation: &Citation| citation.check != Check::Unverified;
    let cited = citations.iter().map(|citation| {
        context! {
            path => citation.path.as_str(),
            start => citation.start,
            end => citation.end,
            symbol => citation.symbol.clone(),
            unverified => !holds(citation),
        }
    });
    context! {
        status => Serde(status),
        answer => text,
        evidence => status == AnswerStatus::Answered && citations.iter().any(holds),
        citations => cited.collect::<Vec<PromptValue>>(),
        gaps => gaps.to_vec(),
    }
}

/// What a Resolver hands in; the patch itself is what changed in the workspace.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Submission {
    summary: String,
    #[serde(default)]
    used_answers: Vec<String>,
    #[serde(default)]
    leave_out: Vec<String>,
}

/// The `submit` tool of a Resolver.
struct SubmitPatch {
    bench: Arc<Workbench>,
    /// Whether there are answers to name.
    knowledge: bool,
}

#[async_trait]
impl Tool for SubmitPatch {
    fn spec(&self) -> ToolSpec {
        prompt::tool_spec("tools/submit_patch.json", context! { knowledge => self.knowledge })
    }

    async fn call(&self, arguments: Value, call: CallContext) -> Result<ToolOutcome, ToolError> {
        let submission: Submission = match serde_json::from_value(arguments) {
            Ok(submission) => submission,
            Err(error) => return Ok(ToolOutcome::BadArguments(error.to_string())),
        };
        if submission.summary.trim().is_empty() {
            return Ok(ToolOutcome::BadArguments("`summary` is empty".into()));
        }
        if submission.summary.chars().count() > MAX_SUMMARY_CHARS
            || submission.leave_out.len() > MAX_LEAVE_OUT
        {
            return Ok(ToolOutcome::BadArguments(format!(
                "the summary is longer than {MAX_SUMMARY_CHARS} characters, or `leave_out` than {MAX_LEAVE_OUT} paths"
            )));
        }
        self.bench.submit(call.turn).await?;
        Ok(ToolOutcome::Finished(
            serde_json::to_value(submission).expect("a submission can be written as JSON"),
        ))
    }
}

fn test_report(seen: SeenTest) -> TestReport {
    TestReport {
        command: seen.command,
        exit_code: match seen.exit {
            CommandExit::Code(code) => Some(code),
            CommandExit::Signal(_) | CommandExit::TimedOut => None,
        },
    }
}
