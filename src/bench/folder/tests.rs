use std::fs;

use super::*;
use crate::runs::KnowledgeKind;

const ARM: Arm = Arm { knowledge: KnowledgeKind::Qa, questions: 2 };

fn asked() -> Asked {
    Asked { data_sha256: "d".into(), repo: "r".into(), image: None }
}

fn summary(outcome: &str, class: Option<&str>) -> String {
    let error = class.map(|class| format!(r#""error":{{"class":"{class}","message":"m"}},"#));
    format!(
        r#"{{"run_id":"20261130-100000-a1b2c3","version":"0.1.0","repo":"r","base":"b","issue":{{"title":"t"}},
        "strategy":{{"knowledge":"qa","answerer":"explore","resolver":"agent"}},"models":{{}},"sandbox":"docker",
        "outcome":"{outcome}",{}"stages":[],"total":{{"seconds":1.0,"usd":0.5,"tokens":{{"input":1,"cached":0,"output":1}}}}}}"#,
        error.unwrap_or_default()
    )
}

/// A bench with one run in it.
struct One {
    _temporary: tempfile::TempDir,
    folder: BenchFolder,
    id: InstanceId,
    run: PathBuf,
}

impl One {
    fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let folder = BenchFolder::open(temporary.path(), &asked(), false).unwrap();
        let id = InstanceId::parse("a-1").unwrap();
        let run = folder.run(ARM, &id);
        fs::create_dir_all(run.join("stages")).unwrap();
        Self { _temporary: temporary, folder, id, run }
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.run.join(name), content).unwrap();
    }

    fn standing(&self) -> Standing {
        self.folder.standing(ARM, &self.id)
    }

    fn cost(&self) -> Option<f64> {
        self.folder.cost(ARM, &self.id).map(Money::usd)
    }
}

#[test]
fn a_folder_takes_no_other_bench() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("out");
    drop(BenchFolder::open(&path, &asked(), true).unwrap());
    drop(BenchFolder::open(&path, &asked(), true).unwrap());
    let told = |asked: Asked| BenchFolder::open(&path, &asked, false).unwrap_err().to_string();
    assert!(told(Asked { data_sha256: "e".into(), ..asked() }).contains("a bench of other instances"));
    assert!(told(Asked { repo: "s".into(), ..asked() }).contains("another --repo"));
    assert!(told(Asked { image: Some("i".into()), ..asked() }).contains("another --image"));
}

#[test]
fn s_09_who_counts_money_works_alone() {
    let temporary = tempfile::tempdir().unwrap();
    let open = |alone| BenchFolder::open(temporary.path(), &asked(), alone);
    let shared = [open(false).unwrap(), open(false).unwrap()];
    assert!(matches!(open(true), Err(FolderError::NotAlone { .. })));
    drop(shared);
    let alone = open(true).unwrap();
    assert!(matches!(open(true), Err(FolderError::NotAlone { .. })));
    assert!(matches!(open(false), Err(FolderError::Taken { .. })));
    drop(alone);
    open(false).unwrap();
}

#[test]
fn a_run_stands_where_its_folder_says() {
    let one = One::new();
    assert_eq!(one.standing(), Standing::New, "nothing was stored yet");
    one.write("stages/inputs.json", "{}");
    assert_eq!(one.standing(), Standing::Open);

    let with = |outcome: &str, class: Option<&str>| {
        one.write("run.json", &summary(outcome, class));
        one.standing()
    };
    assert_eq!(with("cancelled", None), Standing::Open);
    assert!(matches!(with("failed", Some("model_unreachable")), Standing::Failed(_)));
    assert!(matches!(with("failed", Some("no_questions")), Standing::Finished(_)));
    assert!(matches!(with("no_patch", None), Standing::Finished(_)));
    one.write("run.json", "{");
    assert_eq!(one.standing(), Standing::Open, "a damaged one is made again");

    let lock = File::create(one.run.join("run.lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(one.standing(), Standing::Locked);
    drop(lock);
    assert_ne!(one.standing(), Standing::Locked);
}

#[test]
fn s_09_a_killed_process_leaves_a_cost_that_nobody_knows() {
    let one = One::new();
    assert_eq!(one.cost(), Some(0.0));
    one.write("stages/inputs.json", "{}");
    assert_eq!(one.cost(), None, "killed before it could say anything");
    for (outcome, class) in
        [("cancelled", None), ("failed", Some("model_unreachable")), ("failed", Some("no_questions"))]
    {
        one.write("run.json", &summary(outcome, class));
        assert_eq!(one.cost(), Some(0.5));
        one.write("account.open", "");
        assert_eq!(one.cost(), None, "it was gone on with, and killed");
        fs::remove_file(one.run.join("account.open")).unwrap();
    }
    one.write("account.open", "");
    one.write("run.json", &summary("patch", None));
    assert_eq!(one.cost(), Some(0.5), "nothing is left to pay for");
    let lock = File::create(one.run.join("run.lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(one.cost(), None);
}

#[test]
fn pipes_in_the_folder_of_a_run_are_not_waited_for() {
    let one = One::new();
    one.write("stages/inputs.json", "{}");
    for name in ["run.json", "run.lock", "knowledge.json", "patch.diff"] {
        nix::unistd::mkfifo(&one.run.join(name), nix::sys::stat::Mode::S_IRWXU).unwrap();
    }
    assert_eq!(one.standing(), Standing::Open);
    assert_eq!(one.folder.knowledge(ARM, &one.id), None);
    assert!(one.folder.patch(ARM, &one.id).unwrap_err().to_string().contains("not a regular file"));
}

#[test]
fn one_process_at_a_time_marks_a_run() {
    let one = One::new();
    let held = one.folder.lock_marks(ARM, &one.id).unwrap();
    assert!(held.is_some());
    assert!(one.folder.lock_marks(ARM, &one.id).unwrap().is_none());
    drop(held);
    assert!(one.folder.lock_marks(ARM, &one.id).unwrap().is_some());
}
