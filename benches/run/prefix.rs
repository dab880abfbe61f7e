//! `prefix`: how much of a prompt the next one of the same agent repeats from its first character on, which is
//! what providers' caches serve.
//!
//! The replies of a live run, recorded for the demo, are served over HTTP to the program; its requests are
//! compared as they were sent. Requests of other live runs may be given as folders: every `*.json` file in
//! them is a request's body, or an object whose `request` is one, and they count in the order of their names.
//! There, requests belong to one conversation when they begin with the same two messages and have the same
//! tools.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use acquire::{
    domain::{FileMode, RepoPath},
    method::ports::{ChatReply, Finish},
    repo,
};
use anyhow::{Context, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use wiremock::ResponseTemplate;

use super::{
    program::{Home, Task},
    rows::Row,
    script::{Model, Reply, Script},
};

const PEER: &str = "a history that is only appended to";
const UNIT: &str = "% of the last prompt's tokens (4 characters each)";
/// Enough of a question to tell it from others.
const KEY_CHARS: usize = 60;

pub async fn rows(folders: &[PathBuf]) -> anyhow::Result<Vec<Row>> {
    let mut rows = vec![row("prefix_repeated", &of_recorded_run().await?)?];
    if !folders.is_empty() {
        let mut repeated = Repeated::default();
        for folder in folders {
            repeated.add_conversations(of_folder(folder)?);
        }
        rows.push(row("prefix_repeated_in_given", &repeated)?);
    }
    Ok(rows)
}

fn row(name: &str, repeated: &Repeated) -> anyhow::Result<Row> {
    ensure!(repeated.pairs > 0, "no agent asked twice");
    eprintln!("run: {name}: {repeated:?}");
    Ok(Row {
        ratio: None,
        ..Row::at_least(name, 100.0 * repeated.repeated as f64 / repeated.earlier as f64, UNIT, 95.0)
            .beside(PEER, 100.0)
    })
}

/// Characters of all prompts that another of the same agent followed.
#[derive(Debug, Default)]
struct Repeated {
    pairs: usize,
    earlier: usize,
    repeated: usize,
}

impl Repeated {
    fn add_conversations(&mut self, conversations: impl IntoIterator<Item = Vec<Value>>) {
        for requests in conversations {
            let prompts: Vec<String> = requests.iter().map(prompt).collect();
            for pair in prompts.windows(2) {
                let same = pair[0].chars().zip(pair[1].chars()).take_while(|(a, b)| a == b);
                self.pairs += 1;
                self.earlier += pair[0].chars().count();
                self.repeated += same.count();
            }
        }
    }
}

/// What a model reads, in the order in which providers lay it out: tools, then messages.
fn prompt(request: &Value) -> String {
    let mut text = request["tools"].to_string();
    for message in request["messages"].as_array().into_iter().flatten() {
        text.push_str(&message.to_string());
    }
    text
}

async fn of_recorded_run() -> anyhow::Result<Repeated> {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo");
    let home = Home::new()?;
    let repo = home.path("repo");
    repo::create_repository(repo.clone(), files(&demo.join("project"))?, "kettle\n".to_owned()).await?;
    let (script, questions) = script(&std::fs::read_to_string(demo.join("replies.jsonl"))?)?;
    let model = Model::start(script).await;
    let task = Task {
        repo: &repo,
        issue: &std::fs::read_to_string(demo.join("issue.md"))?,
        base_url: &model.base_url(),
        questions,
        patch: true,
    };
    home.solve(&task)?.finish().await?;
    let mut conversations: HashMap<_, Vec<Value>> = HashMap::new();
    for (who, request) in model.requests() {
        conversations.entry(who).or_default().push(request);
    }
    let mut repeated = Repeated::default();
    repeated.add_conversations(conversations.into_values());
    Ok(repeated)
}

/// The files below a folder, with their paths in it.
fn files(folder: &Path) -> anyhow::Result<Vec<(RepoPath, FileMode, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in ignore::WalkBuilder::new(folder).hidden(false).sort_by_file_name(Ord::cmp).build() {
        let entry = entry?;
        if entry.file_type().is_some_and(|kind| kind.is_file()) {
            let path = entry.path().strip_prefix(folder)?.to_str().context("its name is not UTF-8")?;
            found.push((RepoPath::parse(path)?, FileMode::Regular, std::fs::read(entry.path())?));
        }
    }
    Ok(found)
}

/// A recorded reply; what else stands in its line does not matter here.
#[derive(Deserialize)]
struct Recorded {
    agent: String,
    response: ChatReply,
}

/// Serves recorded replies. Also gives how many questions they answer.
fn script(recording: &str) -> anyhow::Result<(Script, usize)> {
    let mut by_agent: HashMap<String, Vec<ChatReply>> = HashMap::new();
    // The first line is a header.
    for line in recording.lines().skip(1) {
        let Recorded { agent, response } = serde_json::from_str(line)?;
        by_agent.entry(agent).or_default().push(response);
    }
    let mut of =
        |agent: &str| by_agent.remove(agent).with_context(|| format!("no reply of {agent} was recorded"));
    let questioner = of("questioner")?;
    let asked: Value = serde_json::from_str(questioner[0].text.as_deref().context("it asked nothing")?)?;
    let asked = asked["questions"].as_array().context("it asked no questions")?;
    let mut answerers = HashMap::new();
    for (number, question) in (1..).zip(asked) {
        let question = question["question"].as_str().context("a question has no text")?;
        let replies = of(&format!("answerer-{number}"))?;
        answerers.insert(question.chars().take(KEY_CHARS).collect(), replies.iter().map(served).collect());
    }
    let resolver = of("resolver")?;
    let script = Script {
        questioner: questioner.iter().map(served).collect(),
        answerers,
        resolver: resolver.iter().map(served).collect(),
    };
    Ok((script, asked.len()))
}

/// As a provider would send it.
fn served(reply: &ChatReply) -> Reply {
    let calls: Vec<Value> = reply
        .calls
        .iter()
        .map(|call| {
            let function = json!({"name": call.name, "arguments": call.arguments});
            json!({"id": call.id, "type": "function", "function": function})
        })
        .collect();
    let mut message = json!({"role": "assistant", "content": reply.text});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let finish = match reply.finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::Length => "length",
        Finish::Declined => "content_filter",
        Finish::Other => "content_filter",
    };
    let (input, output) = (reply.tokens.input, reply.tokens.output);
    Reply::Http(ResponseTemplate::new(200).set_body_json(json!({
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": input, "completion_tokens": output},
    })))
}

/// The conversations in a folder of requests.
fn of_folder(folder: &Path) -> anyhow::Result<Vec<Vec<Value>>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        paths.push(entry?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let mut conversations: HashMap<String, Vec<Value>> = HashMap::new();
    for path in paths {
        let told = || path.display().to_string();
        let mut file: Value = serde_json::from_slice(&std::fs::read(&path)?).with_context(told)?;
        let request = if file.get("request").is_some() { file["request"].take() } else { file };
        let messages = request["messages"].as_array().with_context(told)?;
        let opening = json!([request["tools"], messages.iter().take(2).collect::<Vec<_>>()]);
        conversations.entry(opening.to_string()).or_default().push(request);
    }
    Ok(conversations.into_values().collect())
}
