//! The Questioner: one chat call that turns the issue into questions (ACQUIRE, III-B1).

use minijinja::context;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    agent::{Exit, declined, prompt},
    domain::{AgentName, Category, Question},
    method::{
        context::{AgentReport, RunContext, RunError},
        ports::{ChatReply, ChatRequest, Ended, Event, Finish, Message, Opening, Turn},
    },
};

/// Replies that are asked for again, at most.
const MAX_RETRIES: u32 = 2;
/// Longest question or reason that is taken, in characters.
const MAX_QUESTION_CHARS: usize = 1_000;
/// Two questions that share this part of their words ask the same thing.
const SAME_QUESTION: f64 = 0.8;

/// What the Questioner is told of what to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// The four kinds of knowledge, of which each question names its own.
    Categories,
    /// Nothing: the paper's ablation FreeQ (ACQUIRE, V-C2).
    Free,
}

impl Template {
    fn prompt(self) -> &'static str {
        match self {
            Self::Categories => "questioner/system.md",
            Self::Free => "questioner/free.md",
        }
    }

    /// JSON schema of a reply with exactly `count` questions.
    fn reply_schema(self, count: usize) -> Value {
        let mut schema = match self {
            Self::Categories => schemars::schema_for!(Reply<Asked>).to_value(),
            Self::Free => schemars::schema_for!(Reply<AskedFreely>).to_value(),
        };
        drop_words(&mut schema);
        let questions = &mut schema["properties"]["questions"];
        questions["minItems"] = count.into();
        questions["maxItems"] = count.into();
        schema
    }

    /// One entry of a reply: its category, the question, and why it is asked.
    fn read(self, entry: &Value) -> Option<(Option<Category>, String, String)> {
        match self {
            Self::Categories => {
                let Asked { category, question, why } = Asked::deserialize(entry).ok()?;
                Some((Some(category), question, why))
            }
            Self::Free => {
                let AskedFreely { question, why } = AskedFreely::deserialize(entry).ok()?;
                Some((None, question, why))
            }
        }
    }
}

/// The shape that the model must reply in.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Reply<T> {
    questions: Vec<T>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Asked {
    category: Category,
    /// Stands alone and is answerable by exploring the repository.
    question: String,
    /// Why the answer matters for the repair.
    why: String,
}

/// [`Asked`] without a category.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct AskedFreely {
    question: String,
    why: String,
}

/// Takes out what the types say for readers of the code: what a model is told stands in `prompts/`.
fn drop_words(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for name in ["title", "description", "$schema"] {
                // `properties` holds names of fields, which are no words about the schema.
                if fields.get(name).is_some_and(Value::is_string) {
                    fields.remove(name);
                }
            }
            fields.values_mut().for_each(drop_words);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_words),
        _ => {}
    }
}

/// Asks for `context.settings.questions` questions. Fewer come back when the model cannot do better;
/// none is an error.
pub async fn ask(context: &RunContext, template: Template) -> Ended<Vec<Question>> {
    let agent = AgentName::questioner();
    context.services.progress.report(Event::AgentStarted { agent: agent.clone() });
    let mut report = AgentReport::new(&agent, Exit::Failed);
    let result = converse(context, template, &agent, &mut report).await;
    let exit = match &result {
        Ok(_) => Exit::Submitted,
        Err(RunError::Cancelled) => Exit::Cancelled,
        Err(RunError::NoQuestions { .. }) => Exit::FormatErrors,
        Err(RunError::OverBudget(_)) => Exit::CostLimit,
        Err(RunError::TimeUp) => Exit::TimeLimit,
        Err(_) => Exit::Failed,
    };
    report.exit = exit.as_str().into();
    context.services.progress.report(Event::AgentFinished {
        agent,
        exit: exit.as_str(),
        account: report.account,
    });
    Ended { report, result }
}

async fn converse(
    context: &RunContext,
    template: Template,
    agent: &AgentName,
    report: &mut AgentReport,
) -> Result<Vec<Question>, RunError> {
    let (model, services) = (&context.models.questioner, &context.services);
    let count = context.settings.questions;
    let schema = template.reply_schema(count);
    let mut messages = match services.store.opening(agent).await? {
        Some(opening) => opening.messages,
        None => {
            let messages = opening(context, template, count, &schema);
            let opening = Opening {
                agent: agent.to_string(),
                model: model.name().to_owned(),
                messages: messages.clone(),
                tools: Vec::new(),
                volatile: context.volatile.clone(),
            };
            services.store.open_agent(agent, &opening).await?;
            messages
        }
    };
    let mut stored = services.store.turns(agent).await?.into_iter();
    // What it is told of its last reply; the turn that answers begins with it.
    let mut told: Option<Message> = None;
    loop {
        messages.extend(told.clone());
        let turn = match stored.next() {
            Some(turn) => {
                services.budget.restore(agent, turn.account.usd, turn.account.tokens);
                turn
            }
            None => {
                let mut turn = call(context, agent, &messages, &schema, report).await?;
                turn.messages.splice(0..0, told.take());
                services.store.append_turn(agent, &turn).await?;
                turn
            }
        };
        report.account += turn.account;
        let tries = report.account.steps;
        let said = turn.messages.into_iter().find(|message| matches!(message, Message::Assistant { .. }));
        let text = match &said {
            Some(Message::Assistant { content, .. }) => content.clone().unwrap_or_default(),
            _ => String::new(),
        };
        if turn.finish == Finish::Declined {
            // It would say so again.
            return Err(RunError::NoQuestions { tries, problem: declined(Some(&text)) });
        }
        messages.extend(said);
        let (questions, problems) = read_reply(&text, template, &schema, count);
        if !problems.is_empty() && tries <= MAX_RETRIES {
            let content = prompt::render("questioner/again.md", context! { problems, count });
            told = Some(Message::User { content });
        } else if questions.is_empty() {
            return Err(RunError::NoQuestions { tries, problem: problems.join("; ") });
        } else {
            return Ok(questions);
        }
    }
}

fn opening(context: &RunContext, template: Template, count: usize, schema: &Value) -> Vec<Message> {
    let schema = serde_json::to_string_pretty(schema).expect("a JSON value can be written");
    vec![
        Message::System { content: prompt::render(template.prompt(), context! { count }) },
        Message::User {
            content: prompt::render(
                "questioner/task.md",
                context! { issue => context.issue_text(), count, schema },
            ),
        },
    ]
}

async fn call(
    context: &RunContext,
    agent: &AgentName,
    messages: &[Message],
    schema: &Value,
    report: &mut AgentReport,
) -> Result<Turn, RunError> {
    let (model, services) = (&context.models.questioner, &context.services);
    let step = report.account.steps + 1;
    let request = ChatRequest {
        agent: agent.clone(),
        turn: step,
        messages: messages.to_vec(),
        tools: Vec::new(),
        temperature: Some(context.settings.questioner.temperature),
        max_tokens: Some(context.settings.questioner.reply_tokens),
        response_schema: Some(("questions".into(), schema.clone())),
        volatile: context.volatile.clone(),
    };
    services.progress.report(Event::AgentThinks { agent: agent.clone(), step });
    let started = services.clock.monotonic();
    let reply = context.paid(&**model, &request).await?;
    // No tool was offered, so nobody can answer a call: what it says is taken for the reply. A provider's state
    // belongs to the reply with its calls, which do not go back.
    let text = reply.text.clone().or_else(|| reply.calls.first().map(|call| call.arguments.clone()));
    let provider = reply.provider.clone().filter(|_| reply.calls.is_empty());
    let reply = ChatReply { text, calls: Vec::new(), provider, ..reply };
    let mut turn = Turn::of_reply(step, &reply, model.price(), services.clock.now());
    turn.account.seconds = (services.clock.monotonic() - started).as_secs_f64();
    report.add_notes(reply.notes);
    Ok(turn)
}

/// The valid questions of a reply, at most `count`, and everything that is wrong with it.
fn read_reply(text: &str, template: Template, schema: &Value, count: usize) -> (Vec<Question>, Vec<String>) {
    let Some(reply) = json_object(text) else {
        return (Vec::new(), vec!["it holds no JSON object".into()]);
    };
    let mut problems: Vec<String> = match jsonschema::validator_for(schema) {
        Ok(validator) => validator
            .iter_errors(&reply)
            .take(10)
            .map(|e| {
                let at = e.instance_path().to_string();
                let at = if at.is_empty() { "the object".to_owned() } else { format!("`{at}`") };
                format!("{at}: {}", e.masked())
            })
            .collect(),
        Err(error) => vec![error.to_string()],
    };
    let asked = reply.get("questions").and_then(Value::as_array).into_iter().flatten();
    let mut questions: Vec<Question> = Vec::new();
    for (number, asked) in (1..).zip(asked) {
        let Some((category, text, why)) = template.read(asked) else { continue };
        let (text, why) = (text.trim(), why.trim());
        if text.is_empty()
            || text.chars().count() > MAX_QUESTION_CHARS
            || why.chars().count() > MAX_QUESTION_CHARS
        {
            problems
                .push(format!("question {number} is empty or longer than {MAX_QUESTION_CHARS} characters"));
        } else if let Some(same) = questions.iter().find(|q| similarity(&q.text, text) >= SAME_QUESTION) {
            problems.push(format!("question {number} asks the same as `{}`", same.text));
        } else {
            let id = format!("q{}", questions.len() + 1);
            questions.push(Question { id, category, text: text.into(), why: why.into() });
        }
    }
    questions.truncate(count);
    (questions, problems)
}

/// The JSON object in a reply, with or without a code fence or words around it.
fn json_object(text: &str) -> Option<Value> {
    let from = text.find('{')?;
    let to = text.rfind('}')?;
    serde_json::from_str(text.get(from..=to)?).ok()
}

/// Shared words over all words (Jaccard), case ignored.
fn similarity(a: &str, b: &str) -> f64 {
    let words = |text: &str| -> std::collections::HashSet<String> {
        text.split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|w| !w.is_empty())
            .map(str::to_lowercase)
            .collect()
    };
    let (a, b) = (words(a), words(b));
    let all = a.union(&b).count();
    if all == 0 { 1.0 } else { a.intersection(&b).count() as f64 / all as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(questions: &[(&str, &str)]) -> String {
        let questions: Vec<Value> = questions
            .iter()
            .map(|(category, text)| serde_json::json!({"category": category, "question": text, "why": "because"}))
            .collect();
        serde_json::json!({ "questions": questions }).to_string()
    }

    fn read(text: &str, count: usize) -> (Vec<Question>, Vec<String>) {
        let template = Template::Categories;
        read_reply(text, template, &template.reply_schema(count), count)
    }

    const A: (&str, &str) = ("mechanism_behavior", "How does `parse` find the end of a quoted string?");
    const B: (&str, &str) = ("design_usage", "Which errors may `Reader.next` raise, and who catches them?");

    #[test]
    fn the_schema_holds_no_words_of_the_code() {
        let schema = Template::Categories.reply_schema(2).to_string();
        assert!(!schema.contains("description") && !schema.contains("repository"), "{schema}");
        assert!(schema.contains("ecosystem_standards"), "{schema}");
    }

    #[test]
    fn a_valid_reply_is_taken_also_inside_a_fence() {
        let (questions, problems) = read(&format!("Here you are:\n```json\n{}\n```", reply(&[A, B])), 2);
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(questions.iter().map(|q| q.id.as_str()).collect::<Vec<_>>(), ["q1", "q2"]);
        assert_eq!(questions[1].category, Some(Category::DesignUsage));
    }

    #[test]
    fn a_free_questioner_has_no_category_and_may_give_none() {
        let schema = Template::Free.reply_schema(1);
        assert!(!schema.to_string().contains("category"), "{schema}");
        let read = |reply: &str| read_reply(reply, Template::Free, &schema, 1);
        let free = serde_json::json!({"questions": [{"question": A.1, "why": "because"}]}).to_string();
        let (questions, problems) = read(&free);
        assert_eq!((questions[0].category, problems), (None, vec![]));
        let (questions, problems) = read(&reply(&[A]));
        assert_eq!(questions[0].category, None, "what was not asked for is told and dropped");
        assert!(problems[0].contains("category"), "{problems:?}");
    }

    #[test]
    fn prose_is_no_question() {
        let (questions, problems) = read("I would ask how the parser works.", 2);
        assert!(questions.is_empty());
        assert_eq!(problems, ["it holds no JSON object"]);
    }

    #[test]
    fn none_and_twenty_are_told_and_at_most_the_wanted_number_is_taken() {
        let (questions, problems) = read(&reply(&[]), 2);
        assert!(questions.is_empty() && !problems.is_empty());
        let many: Vec<String> =
            (0..20).map(|n| format!("What does module number_{n} do with value_{n}?")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|q| ("locating_structure", q.as_str())).collect();
        let (questions, problems) = read(&reply(&many), 2);
        assert_eq!(questions.len(), 2);
        assert!(problems[0].contains("2 items") || problems[0].contains("more than 2"), "{problems:?}");
    }

    #[test]
    fn duplicates_are_told_and_dropped() {
        let again = ("design_usage", "How does parse find the end of a quoted string");
        let (questions, problems) = read(&reply(&[A, again]), 2);
        assert_eq!(questions.len(), 1);
        assert!(problems[0].contains("asks the same as"), "{problems:?}");
    }

    #[test]
    fn one_bad_question_does_not_lose_the_good_one() {
        let (questions, problems) = read(&reply(&[("root_cause", "What is the cause?"), B]), 2);
        assert_eq!((questions.len(), questions[0].id.as_str()), (1, "q1"));
        assert!(!problems.is_empty());
    }
}
