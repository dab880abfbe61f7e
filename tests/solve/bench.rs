//! `acquire bench solve`: two arms of a small file, stopped, gone on with, scored and compared.

use std::{
    os::unix::fs::PermissionsExt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    project::{Ended, Project},
    script::{Model, Reply, Script, Who, all_text, bash, http, submit},
    story::script,
};

/// What no run may ever see.
const ANSWER: &str = "THE-HIDDEN-ANSWER";

/// Prices of a token, so that a call of the scripted model costs $0.0012.
pub const PRICE: &str = "{input=1.0,cached=1.0,output=4.0}";

pub struct Bench {
    pub project: Project,
}

impl Bench {
    /// Instances of the story's repository; each line also holds what SWE-bench's own files do.
    pub fn of(ids: &[&str]) -> Self {
        let project = Project::new();
        let commit = project.git(&["rev-parse", "HEAD"]);
        let lines = ids.iter().map(|id| {
            let row = json!({
                "instance_id": id, "repo": "octo/repo", "base_commit": commit.trim(), "version": "1.0",
                "problem_statement": "total fails on an item without a price\n\n`total([{}])` raises KeyError.\n",
                "patch": ANSWER, "test_patch": ANSWER, "hints_text": ANSWER, "FAIL_TO_PASS": [ANSWER],
            });
            format!("{row}\n")
        });
        std::fs::write(project.path("data.jsonl"), lines.collect::<String>()).unwrap();
        Self { project }
    }

    pub fn command(&self, model: &Model, arguments: &[&str]) -> Command {
        let mut command = self.project.program();
        let repo = format!("file://{}/{{name}}", self.project.folder.path().display());
        command
            .env("ACQUIRE_MODEL__BASE_URL", model.base_url())
            .env("ACQUIRE_MODEL__RETRIES", "0")
            .args(["bench", "solve", "--data", "data.jsonl", "--out", "bench", "--sandbox", "namespaces"])
            .args(["--repo", &repo])
            .args(arguments);
        command
    }

    pub async fn run(&self, model: &Model, arguments: &[&str]) -> Ended {
        self.project.end(&mut self.command(model, arguments)).await
    }

    /// A program that takes a patch for a solution if it holds a text, and counts how often it was asked.
    pub fn scorer(&self, text: &str) -> String {
        let path = self.project.path("score me.sh");
        let program = format!(
            "#!/bin/sh\nset -e\necho \"$1\" >> '{}'\necho scoring \"$1\" >&2\n\
             if grep -q '{text}' \"$2\"; then r=true; else r=false; fi\necho '{{\"note\": 1}}'\n\
             echo \"{{\\\"resolved\\\": $r}}\"\n",
            self.project.path("scored").display()
        );
        std::fs::write(&path, program).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        format!("'{}' {{instance_id}} {{patch}}", path.display())
    }

    pub fn read(&self, file: &str) -> String {
        let path = self.project.path("bench").join(file);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{file}: {e}"))
    }

    pub fn table(&self) -> Value {
        serde_json::from_str(&self.read("table.json")).unwrap()
    }
}

#[tokio::test]
async fn s_06_two_arms_are_run_scored_and_compared_and_no_answer_reaches_them() {
    let bench = Bench::of(&["octo__repo-1", "octo__repo-2"]);
    let model = Model::start(script()).await;
    let scorer = bench.scorer("item.get");
    let all = ["--jobs", "2", "--json", "--scorer", &scorer];
    let ended = bench.run(&model, &all).await;
    ended.assert_code(0);

    let table: Value = serde_json::from_str(&ended.printed).unwrap();
    assert_eq!(table, bench.table());
    let arms = table["arms"].as_array().unwrap();
    assert_eq!(arms.iter().map(|arm| arm["arm"].as_str().unwrap()).collect::<Vec<_>>(), ["none", "qa-2"]);
    for arm in arms {
        assert_eq!((&arm["finished"], &arm["resolved"], &arm["scored"]), (&json!(2), &json!(2), &json!(2)));
        assert_eq!((&arm["patches"], &arm["steps"]["mean"]), (&json!(2), &json!(2.0)));
        assert_eq!(arm["usd"], Value::Null, "the scripted model has no price");
    }
    assert_eq!(
        arms[1]["citations"],
        json!({"verified": 2, "moved": 2, "unverified": 0, "not_cited": 0}),
        "two runs with one each"
    );
    let against = &arms[1]["against_first"];
    assert_eq!((&against["both"], &against["recovered"]), (&json!(2), &json!(0)));
    assert_eq!(against["steps_change"], json!(0.0));

    // A run of a bench is a run.
    let run: Value = serde_json::from_str(&bench.read("qa-2/octo__repo-1/run.json")).unwrap();
    crate::project::assert_valid(&run);
    assert_eq!((&run["outcome"], &run["strategy"]["knowledge"]), (&json!("patch"), &json!("qa")));
    assert!(bench.read("qa-2/octo__repo-1.log").contains("stage answer: started"));
    assert!(
        ended.told.contains("qa-2/octo__repo-1: started (log: DIR/bench/qa-2/octo__repo-1.log)"),
        "{}",
        ended.told
    );
    assert!(ended.told.contains("none/octo__repo-2: resolved"), "{}", ended.told);
    assert_eq!(bench.read("none/octo__repo-1.score.log"), "scoring octo__repo-1\n");

    let predictions = bench.read("qa-2/predictions.jsonl");
    let predictions: Vec<Value> =
        predictions.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(predictions.len(), 2);
    assert_eq!(predictions[0]["instance_id"], "octo__repo-1");
    assert_eq!(predictions[0]["model_name_or_path"], "acquire-0.1.0-qa-2-scripted");
    assert_eq!(predictions[0]["model_patch"], bench.read("qa-2/octo__repo-1/patch.diff"));

    // The right patch and the tests are in the file that was read, and nowhere else.
    for (_, request) in model.requests() {
        assert!(!request.to_string().contains(ANSWER), "{request}");
    }
    let found = std::process::Command::new("grep")
        .args(["-rl", ANSWER])
        .arg(bench.project.path("bench"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    assert!(!ended.told.contains(ANSWER));

    // The same command has nothing left to do.
    let asked = model.requests().len();
    bench.run(&model, &all).await.assert_code(0);
    assert_eq!(model.requests().len(), asked, "nothing is paid twice");
    assert_eq!(std::fs::read_to_string(bench.project.path("scored")).unwrap().lines().count(), 4);
    assert_eq!(bench.table(), table);
}

#[tokio::test]
async fn a_patch_that_the_scorer_refuses_and_a_run_without_one_are_not_resolved() {
    let bench = Bench::of(&["a-1", "a-2"]);
    let mut idle = script();
    idle.resolver = vec![submit(json!({"summary": "Nothing to do.", "used_answers": [], "leave_out": []}))];
    let scorer = bench.scorer("no patch has this");
    bench
        .run(&Model::start(idle).await, &["--only", "a-1", "--knowledge", "none", "--scorer", &scorer])
        .await
        .assert_code(0);
    assert!(!bench.project.path("scored").exists(), "there was nothing to score");
    let model = Model::start(script()).await;
    let ended = bench.run(&model, &["--knowledge", "none", "--scorer", &scorer]).await;
    ended.assert_code(0);
    let arm = &bench.table()["arms"][0];
    assert_eq!((&arm["resolved"], &arm["scored"], &arm["patches"]), (&json!(0), &json!(2), &json!(1)));
    assert!(ended.printed.contains("| a-1      | no patch: "), "{}", ended.printed);
    assert!(ended.printed.contains("| a-2      | not resolved: "), "{}", ended.printed);
    let first = bench.read("none/predictions.jsonl");
    assert!(first.lines().next().unwrap().ends_with(r#""model_patch":""}"#), "{first}");

    // A scorer that fails, or that says nothing, leaves its patch unscored.
    for (scorer, why) in [
        ("false {patch}", "the scorer failed: exit status: 1"),
        ("echo {patch}", "must be an object with `resolved`"),
        ("/etc/passwd {patch}", "the scorer `/etc/passwd` cannot be started"),
    ] {
        let ended = bench.run(&model, &["--knowledge", "none", "--scorer", scorer]).await;
        assert!(ended.assert_code(0).told.contains(why), "{}", ended.told);
        let row = ended.printed.lines().find(|line| line.starts_with("| resolved ")).unwrap();
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["|", "resolved", "|", "–", "|"]);
    }
    for scorer in ["/no/such/scorer", "no-such-scorer"] {
        let given = format!("{scorer} {{patch}}");
        let ended = bench.run(&model, &["--knowledge", "none", "--scorer", &given]).await;
        let told = &ended.assert_code(2).told;
        assert!(told.contains(&format!("--scorer: there is no program `{scorer}`")), "{told}");
    }
    let ended = bench
        .run(
            &model,
            &["--knowledge", "none", "--scorer", "sh -c 'sleep 60; cat {patch}'", "--scorer-seconds", "1"],
        )
        .await;
    assert!(ended.assert_code(0).told.contains("the scorer did not end within 1 s"), "{}", ended.told);
}

#[tokio::test]
async fn a_killed_bench_goes_on_and_pays_for_nothing_twice() {
    let bench = Bench::of(&["a-1"]);
    let mut slow = script();
    slow.resolver.insert(1, Reply::After(std::time::Duration::from_secs(30), Box::new(bash("true"))));
    let model = Model::start(slow).await;
    let mut child = bench.command(&model, &["--knowledge", "qa"]).spawn().unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while model.requests_of(&Who::Resolver).len() < 2 {
        assert!(std::time::Instant::now() < deadline);
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    // Another process leaves the run alone, and says so.
    let quick = Model::start(script()).await;
    let ended = bench.run(&quick, &["--knowledge", "qa"]).await;
    assert!(
        ended.assert_code(1).told.contains("qa-2/a-1: left out: another process works on it"),
        "{}",
        ended.told
    );
    assert_eq!(bench.table()["instances"][0]["runs"][0]["state"], "elsewhere");
    child.kill().await.unwrap();

    let ended = bench.run(&quick, &["--knowledge", "qa"]).await;
    assert!(ended.assert_code(0).told.contains("qa-2/a-1: goes on (log: "), "{}", ended.told);
    assert!(quick.requests().iter().all(|(who, _)| *who == Who::Resolver), "answers are not asked again");
    assert_eq!(bench.table()["arms"][0]["finished"], 1);
}

#[tokio::test]
async fn ctrl_c_stops_a_bench_and_the_same_command_goes_on() {
    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };
    let bench = Bench::of(&["a-1", "a-2"]);
    let mut slow = script();
    slow.resolver.insert(1, Reply::After(std::time::Duration::from_secs(300), Box::new(bash("true"))));
    let model = Model::start(slow).await;
    let child = bench.command(&model, &["--knowledge", "none"]).spawn().unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while model.requests_of(&Who::Resolver).len() < 2 {
        assert!(std::time::Instant::now() < deadline);
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    kill(Pid::from_raw(child.id().unwrap().try_into().unwrap()), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().await.unwrap();
    crate::project::assert_exit(&output, 130);
    let states = |table: &Value| {
        let all = table["instances"].as_array().unwrap().clone();
        all.iter().map(|row| row["runs"][0]["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(states(&bench.table()), ["unfinished", "missing"]);
    assert_eq!(bench.read("none/predictions.jsonl"), "");

    let quick = Model::start(script()).await;
    bench.run(&quick, &["--knowledge", "none"]).await.assert_code(0);
    assert_eq!(states(&bench.table()), ["finished", "finished"]);
}

#[tokio::test]
async fn what_the_world_broke_is_tried_again_only_when_asked() {
    let bench = Bench::of(&["a-1"]);
    let broken = Model::start(Script { resolver: vec![http(401, "{}")], ..script() }).await;
    let ended = bench.run(&broken, &["--knowledge", "none"]).await;
    assert!(ended.assert_code(1).told.contains("none/a-1: failed (model_unauthorized)"), "{}", ended.told);
    assert!(ended.printed.contains("failed (model_unauthorized)"), "{}", ended.printed);
    let model = Model::start(script()).await;
    bench.run(&model, &["--knowledge", "none"]).await.assert_code(1);
    assert_eq!(model.requests().len(), 0);
    bench.run(&model, &["--knowledge", "none", "--again", "failed"]).await.assert_code(0);
    assert_eq!(bench.table()["arms"][0]["patches"], 1);
}

#[tokio::test]
async fn s_09_a_bench_starts_no_run_that_it_might_not_afford() {
    let bench = Bench::of(&["a-1", "a-2", "a-3"]);
    let model = Model::start(script()).await;
    let priced = |command: &mut Command| {
        command.env("ACQUIRE_MODEL__PRICE", PRICE).env("ACQUIRE_LIMITS__RUN__USD", "1.0");
    };
    let mut command = bench.command(&model, &["--knowledge", "none", "--max-usd", "1.003"]);
    priced(&mut command);
    let ended = bench.project.end(&mut command).await;
    ended.assert_code(1);
    assert!(ended.told.contains("--max-usd is reached: 1 run not begun"), "{}", ended.told);
    let table = bench.table();
    assert_eq!(table["arms"][0]["finished"], 2, "each costs $0.0024 and holds $1 while it goes on");
    assert_eq!(table["instances"][2]["runs"][0], json!({"state": "missing", "why": "--max-usd is reached"}));
    assert!(ended.printed.contains("1 of 3 runs have no result yet"), "{}", ended.printed);
    assert_eq!(table["arms"][0]["usd"], json!(0.0048));

    let mut command = bench.command(&model, &["--knowledge", "none", "--max-usd", "0.5"]);
    priced(&mut command);
    let ended = bench.project.end(&mut command).await;
    assert!(
        ended.assert_code(2).told.contains("--max-usd $0.500 is less than the $1.000 that one run may cost"),
        "{}",
        ended.told
    );
    let ended = bench.run(&model, &["--max-usd", "50"]).await;
    assert!(ended.assert_code(2).told.contains("the price of scripted is not known"), "{}", ended.told);
}

/// A judge that marks all questions alike. Its first reply for a question cannot be used, and none for their set
/// unless `is_usable`.
async fn judge(is_usable: Arc<AtomicBool>) -> wiremock::MockServer {
    use wiremock::{Mock, MockServer, Request, ResponseTemplate, matchers::method};
    let server = MockServer::start().await;
    let reply = move |request: &Request| {
        let request: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!((&request["model"], &request["temperature"]), (&json!("judge-1"), &json!(0.0)));
        let again = request["messages"].as_array().unwrap().len() > 1;
        let of_set = all_text(&request).contains("- coverage: ");
        let text = match (of_set, again) {
            (true, _) if !is_usable.load(Ordering::Relaxed) => "no marks".to_owned(),
            (true, _) => json!({"reason": "r", "coverage": 6}).to_string(),
            (false, false) => "{\"reason\": \"r\", \"relevance\": 11}".to_owned(),
            (false, true) => {
                json!({"reason": "r", "relevance": 9, "answerability": 8, "diagnostic_utility": 7,
                                    "reasoning_depth": 5, "clarity": 10})
                .to_string()
            }
        };
        ResponseTemplate::new(200).set_body_json(json!({
            "id": "x", "object": "chat.completion", "created": 1, "model": "judge-1",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050},
        }))
    };
    Mock::given(method("POST")).respond_with(reply).mount(&server).await;
    server
}

#[tokio::test]
async fn questions_are_judged_once_on_the_papers_six_dimensions() {
    let bench = Bench::of(&["a-1"]);
    let model = Model::start(script()).await;
    bench.run(&model, &[]).await.assert_code(0);
    assert_eq!(bench.table()["arms"][1]["questions"], Value::Null);

    let judge = judge(Arc::new(true.into())).await;
    let asked = model.requests().len();
    for _ in 0..2 {
        let mut command = bench.command(&model, &["--judge"]);
        command
            .env("ACQUIRE_MODEL__JUDGE__NAME", "judge-1")
            .env("ACQUIRE_MODEL__JUDGE__BASE_URL", format!("{}/v1", judge.uri()))
            .env("ACQUIRE_MODEL__JUDGE__PRICE", PRICE);
        let ended = bench.project.end(&mut command).await;
        ended.assert_code(0);
        let table = bench.table();
        assert_eq!(table["arms"][0]["questions"], Value::Null, "without knowledge nothing is asked");
        let marks = &table["arms"][1]["questions"];
        assert_eq!(
            *marks,
            json!({"judged_runs": 1, "judged_questions": 2, "relevance": 9.0, "answerability": 8.0,
                   "diagnostic_utility": 7.0, "reasoning_depth": 5.0, "clarity": 10.0, "coverage": 6.0,
                   "judge_usd": 0.006})
        );
        assert_eq!(table["arms"][1]["usd"], Value::Null, "apart from what runs cost");
        assert!(ended.printed.contains("| questions: coverage "), "{}", ended.printed);
    }
    // Two tries for each question and one for the set; the second command found them judged.
    let requests = judge.received_requests().await.unwrap();
    assert_eq!(requests.len(), 5);
    assert_eq!(model.requests().len(), asked);
    let told: Value = serde_json::from_slice(&requests[1].body).unwrap();
    assert!(
        all_text(&told).contains("`/relevance`: value is greater than the maximum of 10"),
        "{}",
        all_text(&told)
    );
    assert!(all_text(&told).contains("----- begin issue "), "s_06: what others wrote is fenced");
}

#[tokio::test]
async fn what_a_judge_has_marked_is_kept_and_counted_where_the_rest_cannot_be_used() {
    let bench = Bench::of(&["a-1"]);
    let model = Model::start(script()).await;
    let is_usable = Arc::new(AtomicBool::new(false));
    let judge = judge(is_usable.clone()).await;
    let judged = async || {
        let mut command = bench.command(&model, &["--knowledge", "qa", "--judge"]);
        command
            .env("ACQUIRE_MODEL__JUDGE__NAME", "judge-1")
            .env("ACQUIRE_MODEL__JUDGE__BASE_URL", format!("{}/v1", judge.uri()))
            .env("ACQUIRE_MODEL__JUDGE__PRICE", PRICE);
        bench.project.end(&mut command).await.assert_code(0);
        (bench.table()["arms"][0]["questions"].clone(), judge.received_requests().await.unwrap().len())
    };
    assert_eq!(judged().await, (Value::Null, 6), "two tries for each question, and two for the set");
    is_usable.store(true, Ordering::Relaxed);
    let (marks, asked) = judged().await;
    assert_eq!(asked, 7, "the questions are not judged again");
    assert_eq!((&marks["coverage"], &marks["judge_usd"]), (&json!(6.0), &json!(0.0084)));
}

#[tokio::test]
async fn what_cannot_be_benched_is_told_and_begins_nothing() {
    let bench = Bench::of(&["a-1", "a-2"]);
    let model = Model::start(script()).await;
    let ended = bench.run(&model, &["--only", "a-3"]).await;
    assert!(
        ended.assert_code(2).told.contains("--only names a-3, which DIR/data.jsonl does not have"),
        "{}",
        ended.told
    );
    assert!(!bench.project.path("bench").exists());

    // A repository that is not there costs its own runs only.
    let lines = std::fs::read_to_string(bench.project.path("data.jsonl")).unwrap();
    let elsewhere = lines.replacen("octo/repo", "octo/gone", 1);
    std::fs::write(bench.project.path("data.jsonl"), &elsewhere).unwrap();
    let ended = bench.run(&model, &["--knowledge", "none"]).await;
    assert!(
        ended.assert_code(1).told.contains("none/a-1: not started: there is no folder DIR/gone"),
        "{}",
        ended.told
    );
    assert_eq!(bench.table()["instances"][1]["runs"][0]["state"], "finished");

    // The folder holds this bench; others need their own.
    std::fs::write(bench.project.path("data.jsonl"), lines).unwrap();
    let ended = bench.run(&model, &["--knowledge", "none"]).await;
    assert!(
        ended
            .assert_code(2)
            .told
            .contains("DIR/bench: holds a bench of other instances; name another folder by --out"),
        "{}",
        ended.told
    );
    std::fs::write(bench.project.path("data.jsonl"), format!("{elsewhere}{{\"patch\": \"{ANSWER}\n"))
        .unwrap();
    let ended = bench.run(&model, &[]).await;
    assert!(ended.assert_code(2).told.contains("DIR/data.jsonl: line 3: no JSON"), "{}", ended.told);
    assert!(!ended.told.contains(ANSWER));
    let requests = model.requests_of(&Who::Resolver);
    assert!(requests.iter().all(|request| all_text(request).contains("raises KeyError")));
}

#[tokio::test]
async fn a_recorded_run_is_replayed_without_a_model() {
    let bench = Bench::of(&["octo__repo-1"]);
    let model = Model::start(script()).await;
    let record = bench.project.path("record.jsonl");
    let mut recorded = bench.project.acquire(&model);
    recorded.args(["--sandbox", "namespaces", "--record"]).arg(&record);
    bench.project.end(&mut recorded).await.assert_code(0);
    let paid = model.requests().len();

    let replay = ["--knowledge", "qa", "--replay", record.to_str().unwrap()];
    let mut replayed = bench.command(&model, &replay);
    replayed.env_remove("ACQUIRE_MODEL__NAME").env_remove("ACQUIRE_MODEL__BASE_URL");
    bench.project.end(&mut replayed).await.assert_code(0);
    assert_eq!(model.requests().len(), paid, "nothing is asked");
    let patch = bench.read("qa-2/octo__repo-1/patch.diff");
    assert_eq!(patch, bench.project.read("patch.diff"));
}
