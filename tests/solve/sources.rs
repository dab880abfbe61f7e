//! What stands in place of the four categories: free questions, and a proposal.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    project::{Ended, Project},
    resume::until_there,
    script::{Model, Reply, Script, Who, all_text, bash, submit, text, turn_of},
    story::{Q1, Q2, script},
};

/// Names the agent that writes a proposal, in a script: its task has these words and no other has.
const PROPOSAL: &str = "Find the root cause in the repository";

const LOOP: &str = "return sum(item['price'] for item in items)";

fn proposal(start: u32, quote: &str) -> Value {
    json!({
        "answer": "`total` takes `item['price']` of every item, and there is none here [1].\n\nGive the price a default there.",
        "citations": [{"path": "store.py", "start": start, "end": start, "quote": quote}],
        "gaps": ["Who else sums prices: looked with grep, found nothing."],
    })
}

fn with_proposal(replies: Vec<Reply>) -> Script {
    let story = script();
    let resolver = vec![
        story.resolver[0].clone(),
        submit(json!({"summary": "As proposed.", "used_answers": ["proposal", "q1"], "leave_out": []})),
    ];
    Script { answerers: [(PROPOSAL.to_owned(), replies)].into(), resolver, ..Script::default() }
}

async fn solved(project: &Project, model: &Model, arguments: &[&str]) -> Ended {
    let mut command = project.acquire(model);
    project.end(command.args(["--sandbox", "namespaces"]).args(arguments)).await
}

fn stages(run: &Value) -> Vec<&str> {
    run["stages"].as_array().unwrap().iter().map(|stage| stage["name"].as_str().unwrap()).collect()
}

/// What stands between the commit and the figures, both of which differ from run to run.
fn body(project: &Project) -> String {
    let comment = project.read("comment.md");
    let commit = project.run_json()["base"].as_str().unwrap()[..12].to_owned();
    let (body, _) = comment.split_once("<sub>Written by").unwrap();
    body.replace(&commit, "COMMIT").trim_end().to_owned()
}

#[tokio::test]
async fn a_proposal_is_checked_as_an_answer_is_and_reaches_the_resolver() {
    let wrong = proposal(18, "return sum(item.get('price') for item in items)");
    let replies = vec![bash("cat store.py"), submit(wrong), submit(proposal(1, LOOP))];
    let project = Project::new();
    let model = Model::start(with_proposal(replies)).await;
    solved(&project, &model, &["--knowledge", "proposal"]).await.assert_code(0);

    let run = project.run_json();
    assert_eq!((&run["strategy"]["knowledge"], &run["outcome"]), (&json!("proposal"), &json!("patch")));
    assert_eq!(stages(&run), ["prepare", "proposal", "resolve"]);
    assert_eq!(run["stages"][1]["agents"][0]["name"], "proposal");
    assert_eq!(run["stages"][1]["agents"][0]["steps"], 3, "it is returned once and no more");
    assert!(run["stages"][1]["usd"].is_number() && run["stages"][1]["tokens"]["input"] == 3_000);

    let knowledge = project.knowledge();
    assert_eq!(knowledge["pairs"], json!([]));
    let block = &knowledge["blocks"][0];
    assert_eq!((&block["kind"], block.get("status")), (&json!("proposal"), None));
    assert_eq!(
        (&block["citations"][0]["check"], &block["citations"][0]["start"]),
        (&json!("moved"), &json!(18))
    );

    let asked = model.requests_of(&Who::Answerer(PROPOSAL.into()));
    let returned = asked[2]["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
    assert!(
        returned.starts_with("Your answer was looked up at this commit. 0 of 1 citations hold"),
        "{returned}"
    );
    assert!(all_text(&asked[0]).contains("`total([{}])` raises KeyError."));
    insta::assert_snapshot!(body(&project), @r"
    ### What the repository says about this issue

    A proposal for the repair, by an agent that read the code at commit `COMMIT`. 1 citation: 1 ↪ moved.

    #### Cause and repair, as proposed

    <sub>By an agent that tried no repair. Its citations were looked up, its conclusions were not.</sub>

    `total` takes `item['price']` of every item, and there is none here [1].

    Give the price a default there. *(not cited)*

    [1] ↪ `store.py:L18` · *at other lines than were given*

    <details>
    <summary>Quoted lines</summary>

    [1]
    ```py
        return sum(item['price'] for item in items)
    ```

    </details>

    **Not found:** Who else sums prices: looked with grep, found nothing.
    ");

    let resolver = all_text(&model.requests_of(&Who::Resolver)[0]);
    let (_, block) = resolver.split_once("## proposal").unwrap();
    let (block, _) = block.split_once("\n----- end knowledge").unwrap();
    insta::assert_snapshot!(block, @r"
    : what a reader takes for the cause, and how they would repair it. They tried no repair: it is a guess that the evidence below supports as far as it goes.
    `total` takes `item['price']` of every item, and there is none here [1].

    Give the price a default there.
    [1] store.py:18-18
    Gap: Who else sums prices: looked with grep, found nothing.
    ");
    let told = project.read("pull-request.md");
    assert!(told.contains("**The proposal** · citations: 1 ↪ moved"), "{told}");
}

#[tokio::test]
async fn what_does_not_hold_in_a_proposal_twice_is_shown_as_such() {
    let stubborn = json!({
        "answer": "`Basket.total` is at fault [1].",
        "citations": [{"path": "basket.py", "start": 1, "end": 2, "symbol": "Basket"}],
        "gaps": [],
    });
    let project = Project::new();
    let model = Model::start(with_proposal(vec![submit(stubborn)])).await;
    solved(&project, &model, &["--knowledge", "proposal"]).await.assert_code(0);
    assert_eq!(model.requests_of(&Who::Answerer(PROPOSAL.into())).len(), 2);
    assert_eq!(project.knowledge()["blocks"][0]["citations"][0]["check"], "unverified");
    let comment = body(&project);
    assert!(comment.contains("⚠ **No citation of this proposal holds: read it as a guess.**"), "{comment}");
    assert!(
        comment.contains("**Named in the proposal but not in the repository:** `Basket.total`"),
        "{comment}"
    );
    let resolver = all_text(&model.requests_of(&Who::Resolver)[0]);
    assert!(resolver.contains("(No citation of this answer could be verified: treat it as a guess.)"));
    assert!(resolver.contains("basket.py:1-2 `Basket` (UNVERIFIED"), "{resolver}");
}

#[tokio::test]
async fn a_proposal_that_a_limit_ends_is_none_and_the_repair_goes_on() {
    let project = Project::new();
    let model = Model::start(with_proposal(vec![bash("true")])).await;
    let mut command = project.acquire(&model);
    command.env("ACQUIRE_LIMITS__ANSWERER__STEPS", "2");
    command.args(["--sandbox", "namespaces", "--knowledge", "proposal"]);
    project.end(&mut command).await.assert_code(0);
    let run = project.run_json();
    assert_eq!(
        (&run["outcome"], &run["stages"][1]["agents"][0]["exit"]),
        (&json!("patch"), &json!("step_limit"))
    );
    assert_eq!(project.knowledge()["blocks"][0]["status"], "budget");
    let comment = body(&project);
    assert!(
        comment.contains("**No proposal: a limit on steps, money or time ended the search first.**"),
        "{comment}"
    );
    let resolver = all_text(&model.requests_of(&Who::Resolver)[0]);
    assert!(resolver.contains("(No answer: the reader was stopped first.)"), "{resolver}");
}

#[tokio::test]
async fn free_questions_have_no_category_anywhere() {
    let questions = json!({"questions": [
        {"question": Q1, "why": "It decides where to repair."},
        {"question": Q2, "why": "Others may rely on it."},
    ]});
    let mut categorised = questions.clone();
    categorised["questions"][0]["category"] = json!("design_usage");
    let free =
        Script { questioner: vec![text(&categorised.to_string()), text(&questions.to_string())], ..script() };
    let project = Project::new();
    let model = Model::start(free).await;
    solved(&project, &model, &["--knowledge", "freeq"]).await.assert_code(0);

    let run = project.run_json();
    assert_eq!((&run["strategy"]["knowledge"], &run["outcome"]), (&json!("freeq"), &json!("patch")));
    assert_eq!(stages(&run), ["prepare", "question", "answer", "resolve"]);
    let asked = model.requests_of(&Who::Questioner);
    assert_eq!(asked.len(), 2, "a category is not asked for, and sent back");
    for word in ["categor", "mechanism_behavior", "ecosystem_standards"] {
        assert!(!asked[0].to_string().contains(word), "{word}");
    }
    for pair in project.knowledge()["pairs"].as_array().unwrap() {
        assert!(pair["question"].get("category").is_none(), "{pair}");
        assert_eq!(pair["origin"], "questioner");
    }
    for question in [Q1, Q2] {
        let request = all_text(&model.requests_of(&Who::Answerer(question.into()))[0]);
        assert!(request.contains("\nYour question:\n") && !request.contains("category"), "{request}");
    }
    let comment = body(&project);
    assert!(
        comment.contains(&format!("#### 1. {Q1}\n\n<sub>Why it matters: It decides where to repair.</sub>"))
    );
    let resolver = all_text(&model.requests_of(&Who::Resolver)[0]);
    assert!(resolver.contains(&format!("## q1 {Q1}\n`total` reads")), "{resolver}");
}

#[tokio::test]
async fn free_questions_may_be_fewer_and_a_proposal_has_none() {
    let one = json!({"questions": [{"question": Q1, "why": "Because."}]});
    let project = Project::new();
    let model = Model::start(Script { questioner: vec![text(&one.to_string())], ..script() }).await;
    let arguments = ["--knowledge", "freeq", "--questions", "1", "--no-patch"];
    solved(&project, &model, &arguments).await.assert_code(0);
    assert_eq!(project.knowledge()["pairs"].as_array().unwrap().len(), 1);

    let project = Project::new();
    let model = Model::start(Script::default()).await;
    let ended = solved(&project, &model, &["--knowledge", "proposal", "--questions", "2"]).await;
    ended.assert_code(2).line("error: --knowledge proposal asks no questions; leave out --questions");
    assert!(!project.path("out").exists());
}

/// What stood in an agent's trajectory when the run was killed is gone on from.
#[tokio::test]
async fn a_proposal_goes_on_in_the_middle_after_a_kill() {
    let replies = vec![bash("echo one"), bash("echo two"), submit(proposal(18, LOOP))];
    let mut slow = replies.clone();
    slow[1] = Reply::After(Duration::from_secs(60), Box::new(slow[1].clone()));
    let project = Project::new();
    let model = Model::start(with_proposal(slow)).await;
    let mut command = project.acquire(&model);
    let mut child = command.args(["--sandbox", "namespaces", "--knowledge", "proposal"]).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while model.requests().len() < 2 {
        assert!(Instant::now() < deadline, "the second turn was never asked for");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    child.kill().await.unwrap();

    let model = Model::start(with_proposal(replies)).await;
    project.end(&mut project.resume(&model)).await.assert_code(0);
    let requests = model.requests_of(&Who::Answerer(PROPOSAL.into()));
    assert_eq!(requests.iter().map(turn_of).collect::<Vec<_>>(), [1, 2], "the first turn is not paid again");
    assert_eq!(project.run_json()["stages"][1]["agents"][0]["steps"], 3);
    assert_eq!(project.knowledge()["blocks"][0]["citations"][0]["check"], "verified");
}

#[tokio::test]
async fn free_questions_are_not_asked_again_after_a_kill() {
    let questions = json!({"questions": [{"question": Q1, "why": "a"}, {"question": Q2, "why": "b"}]});
    let free = Script { questioner: vec![text(&questions.to_string())], ..script() };
    let mut slow = free.clone();
    for replies in slow.answerers.values_mut() {
        replies[0] = Reply::After(Duration::from_secs(60), Box::new(replies[0].clone()));
    }
    let project = Project::new();
    let model = Model::start(slow).await;
    let mut command = project.acquire(&model);
    let mut child = command.args(["--sandbox", "namespaces", "--knowledge", "freeq"]).spawn().unwrap();
    until_there(&project.path("out/stages/question.json")).await;
    child.kill().await.unwrap();

    let model = Model::start(free).await;
    project.end(&mut project.resume(&model)).await.assert_code(0);
    assert!(model.requests_of(&Who::Questioner).is_empty());
    let run = project.run_json();
    assert_eq!((&run["strategy"]["knowledge"], &run["outcome"]), (&json!("freeq"), &json!("patch")));
    assert_eq!(run["stages"][1]["tokens"]["input"], 1_000, "what an earlier process used counts");
}

/// The knowledge of a run that is stored is not acquired again.
#[tokio::test]
async fn a_proposal_is_not_paid_again_after_a_kill() {
    let mut slow = with_proposal(vec![bash("cat store.py"), submit(proposal(18, LOOP))]);
    slow.resolver[0] = Reply::After(Duration::from_secs(60), Box::new(slow.resolver[0].clone()));
    let project = Project::new();
    let model = Model::start(slow.clone()).await;
    let mut command = project.acquire(&model);
    let mut child = command.args(["--sandbox", "namespaces", "--knowledge", "proposal"]).spawn().unwrap();
    until_there(&project.path("out/stages/proposal.json")).await;
    child.kill().await.unwrap();

    slow.resolver = with_proposal(vec![]).resolver;
    slow.answerers.insert(PROPOSAL.into(), vec![]);
    let model = Model::start(slow).await;
    project.end(&mut project.resume(&model)).await.assert_code(0);
    assert!(model.requests().iter().all(|(who, _)| *who == Who::Resolver));
    let run = project.run_json();
    assert_eq!((&run["strategy"]["knowledge"], &run["outcome"]), (&json!("proposal"), &json!("patch")));
    assert_eq!(run["stages"][1]["agents"][0]["steps"], 2, "what an earlier process used counts");
    assert_eq!(project.knowledge()["blocks"][0]["citations"][0]["check"], "verified");
}
