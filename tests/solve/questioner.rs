//! What a Questioner may reply, and what becomes of it.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::{
    project::{Ended, Project},
    script::{Model, Reply, Script, Who, asks, call, http, text},
    story::{Q1, Q2, script},
};

/// A run up to its knowledge, with a Questioner that replies this.
async fn asked(questioner: Vec<Reply>) -> (Project, Model, Ended) {
    let project = Project::new();
    let model = Model::start(Script { questioner, ..script() }).await;
    let ended = project.end(project.acquire(&model).args(["--no-patch", "--sandbox", "namespaces"])).await;
    (project, model, ended)
}

fn json_of(questions: &[&str]) -> Reply {
    text(&asks(questions).to_string())
}

fn texts(project: &Project) -> Vec<String> {
    let knowledge = project.knowledge();
    let pairs = knowledge["pairs"].as_array().unwrap().iter();
    pairs.map(|pair| pair["question"]["text"].as_str().unwrap().to_owned()).collect()
}

/// What the Questioner was told of its last reply.
fn complaint(model: &Model) -> String {
    let request = model.requests_of(&Who::Questioner).pop().unwrap();
    request["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn without_one_usable_question_the_run_ends_and_says_so() {
    for (reply, problem) in [
        (text("I would first look at `total`."), "it holds no JSON object"),
        (json_of(&[]), "`/questions`: value has less than 2 items"),
        (text("{\"questions\": [{\"category\": \"mechanism_behavior\""), "it holds no JSON object"),
        (text(""), "it holds no JSON object"),
    ] {
        let (project, model, ended) = asked(vec![reply]).await;
        let failed = ended.assert_code(1).line("Failed");
        let (told, advice) = failed.split_once(" (trajectories/questioner.jsonl). ").expect(failed);
        let expected =
            "Failed (no_questions): the Questioner gave no usable question in 3 tries; of its last";
        assert!(told.starts_with(&format!("{expected} reply: {problem}")), "{failed}");
        assert_eq!(advice, "Try another model, or `--questions 0` for a repair without knowledge");
        assert!(!ended.told.contains("--resume"), "it would only read the same replies again");
        let run = project.run_json();
        assert_eq!(run["stages"][1]["agents"][0]["exit"], "format_errors");
        assert_eq!(run["stages"][1]["agents"][0]["steps"], 3);
        assert_eq!(model.requests().len(), 3);
        assert!(!project.path("out/comment.md").exists());
    }
}

#[tokio::test]
async fn a_model_that_declines_is_not_asked_again() {
    let declined = json!({
        "choices": [{"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": null, "refusal": "I can't help with that."}}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 50},
    });
    let (_project, model, ended) = asked(vec![http(200, &declined.to_string())]).await;
    assert_snapshot!(ended.assert_code(1).line("Failed"), @r#"Failed (no_questions): the Questioner gave no usable question in 1 try; of its last reply: the model declined to answer: "I can't help with that." (trajectories/questioner.jsonl). Try another model, or `--questions 0` for a repair without knowledge"#);
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn an_invalid_reply_is_returned_with_what_is_wrong() {
    let mut wrong = asks(&[Q1, Q2]);
    wrong["questions"][1]["category"] = json!("bug");
    wrong["questions"][0]["fix"] = json!("use get");
    let fenced = format!("Here they are:\n\n```json\n{:#}\n```\nGood luck.", asks(&[Q1, Q2]));
    let (project, model, ended) = asked(vec![text(&wrong.to_string()), text(&fenced)]).await;
    ended.assert_code(0);
    assert_snapshot!(complaint(&model), @"
    That reply cannot be used:
    - `/questions/0`: Additional properties are not allowed ('fix' was unexpected)
    - `/questions/1/category`: value is not valid under any of the schemas listed in the 'oneOf' keyword
    Reply again with one JSON object and nothing else, with exactly 2 questions, following the schema.
    ");
    assert_eq!(texts(&project), [Q1, Q2]);
    assert_eq!(project.run_json()["stages"][1]["agents"][0]["steps"], 2);
    // What it was told stands in its trajectory too.
    let turns = project.read("trajectories/questioner.jsonl");
    let second: Value = serde_json::from_str(turns.lines().nth(2).unwrap()).unwrap();
    assert_eq!(second["messages"][0]["content"].as_str().unwrap(), complaint(&model));
    assert_eq!(second["messages"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn of_twenty_questions_the_first_are_taken() {
    let about = |n: u32| ["What", "reads", "which"].map(|word| format!("{word}{n}")).join(" ");
    let many: Vec<String> = (0..20).map(about).collect();
    let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
    (many[0], many[1]) = (Q1, Q2);
    let (project, model, ended) = asked(vec![json_of(&many)]).await;
    ended.assert_code(0);
    assert_snapshot!(complaint(&model), @"
    That reply cannot be used:
    - `/questions`: value has more than 2 items
    Reply again with one JSON object and nothing else, with exactly 2 questions, following the schema.
    ");
    assert_eq!(texts(&project), [Q1, Q2]);
    assert_eq!(model.requests_of(&Who::Questioner).len(), 3);
}

#[tokio::test]
async fn a_question_asked_twice_is_answered_once() {
    let same = "how does TOTAL read the price of an item";
    let (project, model, ended) = asked(vec![json_of(&[Q1, same])]).await;
    ended.assert_code(0);
    assert_snapshot!(complaint(&model), @"
    That reply cannot be used:
    - question 2 asks the same as `How does `total` read the price of an item?`
    Reply again with one JSON object and nothing else, with exactly 2 questions, following the schema.
    ");
    assert_eq!(texts(&project), [Q1]);
    assert!(model.requests_of(&Who::Answerer(Q2.into())).is_empty());
    assert_eq!(project.run_json()["stages"][2]["agents"].as_array().unwrap().len(), 1);
}

/// A model may call a tool that nobody offered, and no later request may hold a call without its answer.
#[tokio::test]
async fn a_call_in_place_of_a_reply_is_read_as_one() {
    let questions = asks(&[Q1, Q2]).to_string();
    let (project, model, ended) =
        asked(vec![call("ask", "{\"questions\": []}"), call("ask", &questions)]).await;
    ended.assert_code(0);
    assert_eq!(texts(&project), [Q1, Q2]);
    let again = &model.requests_of(&Who::Questioner)[1];
    assert_eq!(again["messages"][2], json!({"role": "assistant", "content": "{\"questions\": []}"}));
}

/// Everything in `run.json` but what differs from run to run.
fn lasting(mut run: Value) -> Value {
    for field in ["run_id", "repo", "base", "total"] {
        run.as_object_mut().unwrap().remove(field);
    }
    for stage in run["stages"].as_array_mut().unwrap() {
        stage["seconds"] = json!(0);
        for agent in stage["agents"].as_array_mut().unwrap() {
            agent["seconds"] = json!(0);
        }
    }
    run
}

#[tokio::test]
async fn no_questions_is_no_knowledge_and_no_answerer() {
    let mut runs = Vec::new();
    let mut prompts = Vec::new();
    for arguments in [["--questions", "0"], ["--knowledge", "none"]] {
        let project = Project::new();
        let model = Model::start(script()).await;
        let mut command = project.acquire(&model);
        project.end(command.args(arguments).args(["--sandbox", "namespaces"])).await.assert_code(0);
        assert!(model.requests().iter().all(|(who, _)| *who == Who::Resolver));
        assert!(!project.path("out/comment.md").exists() && !project.path("out/knowledge.json").exists());
        prompts.push(model.requests()[0].1["messages"][0].clone());
        runs.push(lasting(project.run_json()));
    }
    assert_eq!(runs[0], runs[1]);
    assert_eq!(prompts[0], prompts[1]);
    assert_eq!(runs[0]["strategy"]["knowledge"], "none");
    let stages: Vec<&str> =
        runs[0]["stages"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(stages, ["prepare", "resolve"]);
    assert_eq!(runs[0]["outcome"], "patch");
}
