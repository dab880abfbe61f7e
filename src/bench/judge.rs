//! How good questions are, by a model that judges them.
//!
//! The dimensions and the scale are those of ACQUIRE, Table III (section V-C2): five marks for each question and
//! one, coverage, for all of a run's together, from 1 to 10. The paper averages ten repetitions of each judgement;
//! here each is made once, at temperature 0. The judge is not told which arm a question comes from, nor its
//! category: only the arms with categories would have one.

use std::sync::Arc;

use minijinja::context;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::instances::Instance;
use crate::{
    agent::prompt,
    config::{ConfigError, Environment, Role, Settings},
    domain::{AgentName, Money, Question, Tokens},
    gate::intake::{AdmittedIssue, FenceId, IntakeError, IntakeLimits, admit_issue, issue_from_file},
    method::ports::{ChatModel, ChatReply, ChatRequest, Clock, Message, ModelError},
    model::{self, SettingsError},
    runs::model_settings,
};

/// Replies that are asked for, at most, for one judgement.
const TRIES: u32 = 2;
/// What is wrong with a reply is told up to here.
const MOST_PROBLEMS: usize = 10;

/// Marks of one question (ACQUIRE, Table III), from 1 to 10.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    /// Concerns what the issue describes.
    pub relevance: u8,
    /// Can be answered by exploring the repository.
    pub answerability: u8,
    /// Its answer helps to find the cause, or to decide what a repair must do.
    pub diagnostic_utility: u8,
    /// Takes more than a look-up.
    pub reasoning_depth: u8,
    /// Has one meaning, and stands alone.
    pub clarity: u8,
}

/// The marks of a run, all or those that there are so far. Stored beside it, for as long as issue, questions and model
/// are the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    pub asked_sha256: String,
    /// The judge, as the settings name it.
    pub model: String,
    /// In the order asked; fewer than there are questions where a reply could not be used.
    pub questions: Vec<Marks>,
    /// How much of what a repair must know the questions ask for together (Table III), from 1 to 10. Judged last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<u8>,
    /// What judging cost, replies that were of no use included; absent where the price is not known.
    pub usd: Option<Money>,
    pub tokens: Tokens,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// What a question is judged by.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct QuestionReply {
    #[serde(rename = "reason")]
    _reason: String,
    #[schemars(range(min = 1, max = 10))]
    relevance: u8,
    #[schemars(range(min = 1, max = 10))]
    answerability: u8,
    #[schemars(range(min = 1, max = 10))]
    diagnostic_utility: u8,
    #[schemars(range(min = 1, max = 10))]
    reasoning_depth: u8,
    #[schemars(range(min = 1, max = 10))]
    clarity: u8,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SetReply {
    #[serde(rename = "reason")]
    _reason: String,
    #[schemars(range(min = 1, max = 10))]
    coverage: u8,
}

/// Why there is no judge.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

/// Why questions are not judged.
#[derive(Debug, thiserror::Error)]
pub enum Unjudged {
    #[error(transparent)]
    Issue(#[from] IntakeError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("the judge gave no usable reply in {TRIES} tries; of the last one: {0}")]
    Malformed(String),
    #[error("cancelled")]
    Cancelled,
}

/// Names what is judged.
pub fn digest(instance: &Instance, questions: &[Question]) -> String {
    let texts: Vec<&str> = questions.iter().map(|question| question.text.as_str()).collect();
    let text = serde_json::to_vec(&(&instance.problem_statement, texts));
    hex::encode(Sha256::digest(text.expect("texts can be written as JSON")))
}

/// A model that judges.
pub struct Judge {
    model: Arc<dyn ChatModel>,
    temperature: f64,
    reply_tokens: u32,
}

impl Judge {
    pub fn of(settings: &Settings, environment: &Environment) -> Result<Self, JudgeError> {
        let role = settings.model_of(Role::Judge, environment)?;
        let variable = |name: &str| environment.variable(name).map(str::to_owned);
        let model = model::connect(&model_settings(&role), variable)?;
        Ok(Self { model, temperature: role.temperature, reply_tokens: role.max_tokens })
    }

    pub fn name(&self) -> &str {
        self.model.name()
    }

    /// Nothing judged yet.
    pub fn begin(&self, instance: &Instance, questions: &[Question]) -> Judgement {
        Judgement {
            asked_sha256: digest(instance, questions),
            model: self.name().to_owned(),
            questions: Vec::new(),
            coverage: None,
            usd: self.model.price().map(|_| Money::ZERO),
            tokens: Tokens::default(),
            seconds: 0.0,
        }
    }

    /// Judges what `done` has not judged of a run's questions: one call for each, and one for all of them. Where it
    /// fails, `done` holds what was judged, and what that cost. `random` names the fences around text from outside
    /// (S-06).
    pub async fn judge(
        &self,
        instance: &Instance,
        questions: &[Question],
        random: [u8; 16],
        clock: &dyn Clock,
        cancel: &CancellationToken,
        done: &mut Judgement,
    ) -> Result<(), Unjudged> {
        let started = clock.monotonic();
        let judged = self.judge_rest(instance, questions, random, cancel, done).await;
        done.seconds += (clock.monotonic() - started).as_secs_f64();
        judged
    }

    async fn judge_rest(
        &self,
        instance: &Instance,
        questions: &[Question],
        random: [u8; 16],
        cancel: &CancellationToken,
        done: &mut Judgement,
    ) -> Result<(), Unjudged> {
        let limits = IntakeLimits::default();
        let issue = issue_from_file(instance.problem_statement.as_bytes(), &limits)?;
        let AdmittedIssue { title, body, .. } = admit_issue(&issue, &limits)?;
        let fence = FenceId::new(random);
        let issue = fence.fence("issue", &format!("Title: {title}\n\n{body}"));
        let issue = &prompt::render("shared/issue.md", context! { issue });
        for question in &questions[done.questions.len().min(questions.len())..] {
            let schema = shown_schema::<QuestionReply>();
            let question = fence.fence("question", &question.text);
            let text = prompt::render("bench/judge_question.md", context! { issue, question, schema });
            let reply: QuestionReply = self.ask(text, &fence, done, cancel).await?;
            let QuestionReply {
                relevance, answerability, diagnostic_utility, reasoning_depth, clarity, ..
            } = reply;
            done.questions.push(Marks {
                relevance,
                answerability,
                diagnostic_utility,
                reasoning_depth,
                clarity,
            });
        }
        let listed = (1..).zip(questions).map(|(number, question)| format!("{number}. {}", question.text));
        let questions_text = fence.fence("questions", &listed.collect::<Vec<_>>().join("\n"));
        let schema = shown_schema::<SetReply>();
        let text =
            prompt::render("bench/judge_set.md", context! { issue, questions => questions_text, schema });
        let SetReply { coverage, .. } = self.ask(text, &fence, done, cancel).await?;
        done.coverage = Some(coverage);
        Ok(())
    }

    /// One judgement. A reply that does not fit is asked for once more.
    async fn ask<T: DeserializeOwned + JsonSchema>(
        &self,
        text: String,
        fence: &FenceId,
        paid: &mut Judgement,
        cancel: &CancellationToken,
    ) -> Result<T, Unjudged> {
        let mut request = ChatRequest {
            agent: AgentName::judge(),
            turn: 1,
            messages: vec![Message::User { content: text }],
            tools: Vec::new(),
            temperature: Some(self.temperature),
            max_tokens: Some(self.reply_tokens),
            response_schema: Some(("marks".into(), schema::<T>())),
            volatile: vec![fence.as_str().to_owned()],
        };
        loop {
            let reply = tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(Unjudged::Cancelled),
                reply = self.model.chat(&request) => reply?,
            };
            paid.tokens += reply.tokens;
            paid.usd = paid.usd.zip(self.model.price()).map(|(usd, price)| usd + reply.cost(price));
            let ChatReply { text, .. } = reply;
            let text = text.unwrap_or_default();
            let problem = match read_reply(&text) {
                Ok(read) => return Ok(read),
                Err(problem) => problem,
            };
            if request.turn == TRIES {
                return Err(Unjudged::Malformed(problem));
            }
            let again = prompt::render("bench/judge_again.md", context! { problem });
            request.messages.push(Message::Assistant {
                content: Some(text),
                tool_calls: Vec::new(),
                provider: None,
            });
            request.messages.push(Message::User { content: again });
            request.turn += 1;
        }
    }
}

fn schema<T: JsonSchema>() -> Value {
    let mut schema = schemars::schema_for!(T).to_value();
    if let Some(fields) = schema.as_object_mut() {
        // What the types say for readers of the code is not for the model.
        for name in ["title", "description", "$schema"] {
            fields.remove(name);
        }
    }
    schema
}

/// As a prompt holds it.
fn shown_schema<T: JsonSchema>() -> String {
    serde_json::to_string_pretty(&schema::<T>()).expect("a JSON value can be written")
}

/// The object in a reply, with or without words around it; the error says what is wrong with it, and repeats
/// nothing of it.
fn read_reply<T: DeserializeOwned + JsonSchema>(text: &str) -> Result<T, String> {
    let object = text.find('{').zip(text.rfind('}')).and_then(|(from, to)| text.get(from..=to));
    let value = object.and_then(|object| serde_json::from_str::<Value>(object).ok());
    let value = value.ok_or("it holds no JSON object")?;
    let validator = jsonschema::validator_for(&schema::<T>()).map_err(|error| error.to_string())?;
    let problems = validator.iter_errors(&value).take(MOST_PROBLEMS).map(|error| {
        let at = error.instance_path().to_string();
        let at = if at.is_empty() { "the object".to_owned() } else { format!("`{at}`") };
        format!("{at}: {}", error.masked())
    });
    let problems = problems.collect::<Vec<_>>().join("; ");
    if !problems.is_empty() {
        return Err(problems);
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> Result<u8, String> {
        read_reply::<SetReply>(text).map(|reply| reply.coverage)
    }

    #[test]
    fn marks_are_whole_numbers_from_1_to_10() {
        assert_eq!(set("Here:\n```json\n{\"reason\": \"r\", \"coverage\": 7}\n```"), Ok(7));
        for bad in ["0", "11", "7.5", "\"7\"", "null", "-3"] {
            assert!(set(&format!("{{\"reason\": \"r\", \"coverage\": {bad}}}")).is_err(), "{bad} was taken");
        }
        assert_eq!(set("7"), Err("it holds no JSON object".into()));
        assert!(set("{\"coverage\": 7}").unwrap_err().contains("reason"));
        assert!(set("{\"reason\": \"r\", \"coverage\": 7, \"more\": 1}").is_err());
    }

    #[test]
    fn a_reply_has_the_five_dimensions_of_a_question() {
        let schema = schema::<QuestionReply>().to_string();
        for name in ["relevance", "answerability", "diagnostic_utility", "reasoning_depth", "clarity"] {
            assert!(schema.contains(name), "{schema}");
        }
        assert!(!schema.contains("What a question is judged by"), "{schema}");
    }
}
