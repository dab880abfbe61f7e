//! [`RunStore`] on a folder.

use std::{
    collections::HashMap,
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use serde_json::Value;

use crate::{
    domain::{AgentName, TreeChanges},
    method::ports::{Opening, RunStore, StoreError, Turn},
};

use super::{
    Redactor, atomic, file_error, redact, regular::open_own, trajectory::Trajectory, trees::SavedTrees,
};

/// A run's folder, held by this process alone until it is dropped or the process ends.
///
/// Work on the disk happens on threads that may block.
#[derive(Clone)]
pub struct RunFolder(Arc<Folder>);

struct Folder {
    path: PathBuf,
    redact: Redactor,
    /// Each agent's file has a lock of its own, so that one agent's sync does not hold up the others.
    trajectories: Mutex<HashMap<AgentName, Arc<Mutex<Option<Trajectory>>>>>,
    /// The kernel lets go of the lock when this is closed, however the process ends.
    _lock: File,
}

/// The folder below which runs lie where nobody says otherwise.
const OURS: &str = ".acquire";

/// Makes a folder for a run, for its owner alone; one that exists is fine. Where it lies in a repository, the
/// repository's status does not show it.
pub fn make_run_folder(path: &Path) -> Result<(), StoreError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| {
        file_error(path, format!("cannot be made: {error}; name another folder by --out"))
    })?;
    if let Some(ours) = path.ancestors().skip(1).find(|folder| folder.file_name() == Some(OURS.as_ref())) {
        let file = ours.join(".gitignore");
        if !file.exists() {
            atomic::write(&file, b"*\n")?;
        }
    }
    Ok(())
}

impl RunFolder {
    /// Takes a folder for a new run. It is made where it is missing, and must not hold the work of another.
    pub fn create(path: &Path, redact: Redactor) -> Result<Self, StoreError> {
        make_run_folder(path)?;
        let folder = Folder::lock(path, redact)?;
        if folder.holds_work() {
            return Err(file_error(
                path,
                "holds a run already; go on with it by --resume, or name another folder by --out",
            ));
        }
        folder.prepare()
    }

    /// Takes the folder of a run that ended early.
    pub fn resume(path: &Path, redact: Redactor) -> Result<Self, StoreError> {
        if !path.is_dir() {
            return Err(file_error(path, "is no folder; --resume takes the --out folder of an earlier run"));
        }
        // Looked at before the lock, which is a file: a wrong folder is left as it is. A run that was killed
        // before it stored anything has its folder of stages, too.
        if !path.join("stages").is_dir() {
            return Err(file_error(path, "holds no run; --resume takes the --out folder of an earlier run"));
        }
        Folder::lock(path, redact)?.prepare()
    }

    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Removes the saved trees of a run that has ended for good: nothing will be resumed from them, and their
    /// content is not redacted.
    pub fn forget_trees(&self) -> Result<(), StoreError> {
        let trees = self.0.path.join("trees");
        match std::fs::remove_dir_all(&trees) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(file_error(&trees, format!("cannot be removed: {error}")))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn redact(&self) -> &Redactor {
        &self.0.redact
    }

    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Folder) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let folder = Arc::clone(&self.0);
        match tokio::task::spawn_blocking(move || work(&folder)).await {
            Ok(done) => done,
            Err(ended) => Err(file_error(&self.0.path, format!("the work on it ended early: {ended}"))),
        }
    }
}

impl Folder {
    fn lock(path: &Path, redact: Redactor) -> Result<Self, StoreError> {
        let file = path.join("run.lock");
        let lock = open_own(&file, OpenOptions::new().write(true).create(true).truncate(false))
            .map_err(|error| file_error(&file, format!("cannot be opened: {error}")))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(file_error(
                    path,
                    "another acquire process works in this folder; wait for it, or name another folder by --out",
                ));
            }
            Err(TryLockError::Error(error)) => {
                return Err(file_error(&file, format!("cannot be locked: {error}")));
            }
        }
        Ok(Self { path: path.to_owned(), redact, trajectories: Mutex::default(), _lock: lock })
    }

    /// Whether something was paid for that a new run would bury.
    fn holds_work(&self) -> bool {
        ["stages", "trajectories"]
            .iter()
            .any(|name| self.path.join(name).read_dir().is_ok_and(|mut files| files.next().is_some()))
    }

    fn prepare(self) -> Result<RunFolder, StoreError> {
        for name in ["stages", "trajectories", "trees"] {
            let folder = self.path.join(name);
            atomic::make_own_folder(&folder)?;
            atomic::sweep(&folder)?;
        }
        atomic::sweep(&self.path)?;
        Ok(RunFolder(Arc::new(self)))
    }

    fn stage_file(&self, name: &str) -> Result<PathBuf, StoreError> {
        let fine = !name.is_empty()
            && name.len() <= 64
            && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b));
        if !fine {
            return Err(file_error(&self.path, format!("{name:?} is no name of a stage")));
        }
        Ok(self.path.join("stages").join(format!("{name}.json")))
    }

    fn stage(&self, name: &str) -> Result<Option<Value>, StoreError> {
        let path = self.stage_file(name)?;
        let Some(bytes) = atomic::read(&path)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            file_error(&path, format!("is damaged ({error}); delete it to run this stage again"))
        })
    }

    /// What the stage rests on reaches the disk before it.
    fn put_stage(&self, name: &str, output: &Value) -> Result<(), StoreError> {
        let path = self.stage_file(name)?;
        let text = serde_json::to_vec_pretty(&redact::value(output, &self.redact))
            .map_err(|error| file_error(&path, format!("cannot be encoded: {error}")))?;
        for trajectory in self.open_trajectories() {
            if let Some(trajectory) = &*hold(&trajectory) {
                trajectory.sync()?;
            }
        }
        atomic::write(&path, &text)
    }

    fn trajectory_file(&self, agent: &AgentName) -> PathBuf {
        self.path.join("trajectories").join(format!("{agent}.jsonl"))
    }

    fn open_trajectories(&self) -> Vec<Arc<Mutex<Option<Trajectory>>>> {
        hold(&self.trajectories).values().cloned().collect()
    }

    /// Calls `work` with the agent's trajectory, if it has one.
    fn with_trajectory<T>(
        &self,
        agent: &AgentName,
        work: impl FnOnce(&mut Option<Trajectory>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let slot = Arc::clone(hold(&self.trajectories).entry(agent.clone()).or_default());
        let mut trajectory = hold(&slot);
        if trajectory.is_none() {
            *trajectory = Trajectory::find(&self.trajectory_file(agent))?;
        }
        work(&mut trajectory)
    }

    fn open_agent(&self, agent: &AgentName, opening: &Opening) -> Result<(), StoreError> {
        let opening = redact::opening(opening, &self.redact);
        self.with_trajectory(agent, |found| {
            if let Some(trajectory) = found {
                return trajectory.start(&opening);
            }
            *found = Some(Trajectory::create(&self.trajectory_file(agent), &opening)?);
            atomic::sync_folder(&self.path.join("trajectories"))
        })
    }

    fn append_turn(&self, agent: &AgentName, turn: &Turn) -> Result<(), StoreError> {
        let turn = redact::turn(turn, &self.redact);
        self.with_trajectory(agent, |trajectory| match trajectory {
            Some(trajectory) => trajectory.append(&turn),
            None => Err(file_error(&self.trajectory_file(agent), "has no opening yet")),
        })
    }

    /// Trees go first: a kill in between leaves turns without a tree, which the same cut removes, and never
    /// a tree of a turn that will be made anew.
    fn cut_turns(&self, agent: &AgentName, last: u32) -> Result<(), StoreError> {
        self.trees(agent).cut(last)?;
        self.with_trajectory(agent, |trajectory| match trajectory {
            Some(trajectory) => trajectory.cut(last),
            None => Ok(()),
        })
    }

    fn trees(&self, agent: &AgentName) -> SavedTrees {
        SavedTrees::of(&self.path.join("trees").join(agent.as_str()))
    }

    fn save_tree(&self, agent: &AgentName, turn: u32, changes: TreeChanges) -> Result<(), StoreError> {
        if !changes.is_empty() {
            self.with_trajectory(agent, |trajectory| match trajectory {
                Some(trajectory) => trajectory.sync(),
                None => Ok(()),
            })?;
        }
        self.trees(agent).save(turn, changes)
    }
}

fn hold<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it holds this lock")
}

#[async_trait]
impl RunStore for RunFolder {
    async fn stage(&self, name: &str) -> Result<Option<Value>, StoreError> {
        let name = name.to_owned();
        self.on_disk(move |folder| folder.stage(&name)).await
    }

    async fn put_stage(&self, name: &str, output: &Value) -> Result<(), StoreError> {
        let (name, output) = (name.to_owned(), output.clone());
        self.on_disk(move |folder| folder.put_stage(&name, &output)).await
    }

    async fn opening(&self, agent: &AgentName) -> Result<Option<Opening>, StoreError> {
        let agent = agent.clone();
        self.on_disk(move |folder| {
            folder.with_trajectory(&agent, |trajectory| match trajectory {
                Some(trajectory) => trajectory.opening(),
                None => Ok(None),
            })
        })
        .await
    }

    async fn open_agent(&self, agent: &AgentName, opening: &Opening) -> Result<(), StoreError> {
        let (agent, opening) = (agent.clone(), opening.clone());
        self.on_disk(move |folder| folder.open_agent(&agent, &opening)).await
    }

    async fn turns(&self, agent: &AgentName) -> Result<Vec<Turn>, StoreError> {
        let agent = agent.clone();
        self.on_disk(move |folder| {
            folder.with_trajectory(&agent, |trajectory| match trajectory {
                Some(trajectory) => trajectory.turns().collect(),
                None => Ok(Vec::new()),
            })
        })
        .await
    }

    async fn append_turn(&self, agent: &AgentName, turn: &Turn) -> Result<(), StoreError> {
        let (agent, turn) = (agent.clone(), turn.clone());
        self.on_disk(move |folder| folder.append_turn(&agent, &turn)).await
    }

    async fn cut_turns(&self, agent: &AgentName, last: u32) -> Result<(), StoreError> {
        let agent = agent.clone();
        self.on_disk(move |folder| folder.cut_turns(&agent, last)).await
    }

    async fn save_tree(&self, agent: &AgentName, turn: u32, changes: &TreeChanges) -> Result<(), StoreError> {
        let (agent, changes) = (agent.clone(), changes.clone());
        self.on_disk(move |folder| folder.save_tree(&agent, turn, changes)).await
    }

    async fn saved_tree(
        &self,
        agent: &AgentName,
        turn: u32,
    ) -> Result<Option<(u32, TreeChanges)>, StoreError> {
        let agent = agent.clone();
        self.on_disk(move |folder| folder.trees(&agent).newest(turn)).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        domain::{Change, FileMode},
        method::ports::Message,
        store::examples::{example_opening as opening, example_turn as turn},
    };

    fn plain() -> Redactor {
        Arc::new(str::to_owned)
    }

    fn file(path: &[u8], content: &[u8]) -> TreeChanges {
        let change = Change { path: path.into(), mode: FileMode::Regular, content: content.into() };
        TreeChanges { changed: vec![change], removed: vec![] }
    }

    fn told<T>(result: Result<T, StoreError>, folder: &tempfile::TempDir) -> String {
        let error = result.err().expect("no error").to_string();
        error.replace(folder.path().to_str().unwrap(), "DIR")
    }

    #[tokio::test]
    async fn a_run_goes_on_where_its_process_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let agent = AgentName::resolver();
        {
            let run = RunFolder::create(&path, plain()).unwrap();
            let mode = std::os::unix::fs::MetadataExt::mode(&path.metadata().unwrap());
            assert_eq!(mode & 0o777, 0o700, "others can read it");
            run.put_stage("prepare", &json!({"commit": "c"})).await.unwrap();
            run.open_agent(&agent, &opening()).await.unwrap();
            for (number, text) in [(1, "a"), (2, "b"), (3, "c")] {
                run.append_turn(&agent, &turn(number, text)).await.unwrap();
            }
            run.save_tree(&agent, 1, &file(b"x\xff", b"1")).await.unwrap();
            run.save_tree(&agent, 3, &file(b"y", b"3")).await.unwrap();
        }
        let run = RunFolder::resume(&path, plain()).unwrap();
        assert_eq!(run.stage("prepare").await.unwrap(), Some(json!({"commit": "c"})));
        assert_eq!(run.stage("question").await.unwrap(), None);
        assert_eq!(run.opening(&agent).await.unwrap(), Some(opening()));
        assert_eq!(run.opening(&AgentName::questioner()).await.unwrap(), None);
        assert_eq!(run.turns(&agent).await.unwrap().len(), 3);
        assert_eq!(run.saved_tree(&agent, 2).await.unwrap(), Some((1, file(b"x\xff", b"1"))));

        // Turns 2 and 3 are made anew: what turn 3 once left behind must not come back with the new turn 3.
        run.cut_turns(&agent, 1).await.unwrap();
        run.append_turn(&agent, &turn(2, "B")).await.unwrap();
        run.append_turn(&agent, &turn(3, "C")).await.unwrap();
        assert_eq!(run.turns(&agent).await.unwrap(), [turn(1, "a"), turn(2, "B"), turn(3, "C")]);
        assert_eq!(run.saved_tree(&agent, 3).await.unwrap(), Some((1, file(b"x\xff", b"1"))));
    }

    #[test]
    fn git_does_not_see_runs_where_they_usually_lie() {
        let folder = tempfile::tempdir().unwrap();
        let ignore = folder.path().join(".acquire/.gitignore");
        make_run_folder(&folder.path().join("out")).unwrap();
        assert!(!folder.path().join(".gitignore").exists(), "a folder of the user's choice is theirs");
        make_run_folder(&folder.path().join(".acquire/runs/1")).unwrap();
        assert_eq!(std::fs::read_to_string(&ignore).unwrap(), "*\n");
        std::fs::write(&ignore, "runs\n").unwrap();
        make_run_folder(&folder.path().join(".acquire/runs/2")).unwrap();
        assert_eq!(std::fs::read_to_string(&ignore).unwrap(), "runs\n", "theirs, once it is there");
    }

    #[test]
    fn a_folder_belongs_to_one_process_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = RunFolder::create(folder.path(), plain()).unwrap();
        insta::assert_snapshot!(told(RunFolder::resume(folder.path(), plain()), &folder), @"run state: DIR: another acquire process works in this folder; wait for it, or name another folder by --out");
        drop(first);
        RunFolder::resume(folder.path(), plain()).unwrap();
    }

    #[tokio::test]
    async fn a_run_is_never_overwritten_and_never_made_up() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        insta::assert_snapshot!(told(RunFolder::resume(&missing, plain()), &folder), @"run state: DIR/missing: is no folder; --resume takes the --out folder of an earlier run");
        insta::assert_snapshot!(told(RunFolder::resume(folder.path(), plain()), &folder), @"run state: DIR: holds no run; --resume takes the --out folder of an earlier run");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "a wrong folder is left as it is");
        // A run that came to nothing, such as one whose issue file was missing, is in nobody's way.
        drop(RunFolder::create(folder.path(), plain()).unwrap());
        let run = RunFolder::create(folder.path(), plain()).unwrap();
        run.put_stage("prepare", &json!(1)).await.unwrap();
        drop(run);
        insta::assert_snapshot!(told(RunFolder::create(folder.path(), plain()), &folder), @"run state: DIR: holds a run already; go on with it by --resume, or name another folder by --out");
    }

    #[test]
    fn a_run_that_was_killed_before_it_stored_anything_can_be_resumed() {
        let folder = tempfile::tempdir().unwrap();
        drop(RunFolder::create(folder.path(), plain()).unwrap());
        RunFolder::resume(folder.path(), plain()).unwrap();
    }

    #[test]
    fn a_link_in_the_place_of_what_a_run_has_is_not_followed() {
        for name in ["run.lock", "stages", "trajectories", "trees"] {
            let folder = tempfile::tempdir().unwrap();
            let (run, elsewhere) = (folder.path().join("run"), folder.path().join("elsewhere"));
            drop(RunFolder::create(&run, plain()).unwrap());
            let place = run.join(name);
            std::fs::rename(&place, &elsewhere).unwrap();
            std::os::unix::fs::symlink(&elsewhere, &place).unwrap();
            let told = told(RunFolder::resume(&run, plain()), &folder);
            let expected = format!("run state: DIR/run/{name}: ");
            assert!(told.starts_with(&expected) && told.contains("is a link, and links in"), "{told}");
        }
    }

    #[tokio::test]
    async fn a_stage_that_is_damaged_or_badly_named_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunFolder::create(folder.path(), plain()).unwrap();
        std::fs::write(folder.path().join("stages/answer.json"), "{\"pairs\": [").unwrap();
        insta::assert_snapshot!(told(run.stage("answer").await, &folder), @"run state: DIR/stages/answer.json: is damaged (EOF while parsing a list at line 1 column 11); delete it to run this stage again");
        insta::assert_snapshot!(told(run.put_stage("../run", &json!(1)).await, &folder), @r#"run state: DIR: "../run" is no name of a stage"#);
    }

    #[tokio::test]
    async fn s_33_no_secret_reaches_a_trajectory_or_a_stage() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunFolder::create(folder.path(), Arc::new(|text| text.replace("hunter2", "***"))).unwrap();
        let agent = AgentName::answerer(1);
        let secret = Message::User { content: "key: \"hunter2\"\n".into() };
        run.open_agent(&agent, &Opening { messages: vec![secret], ..opening() }).await.unwrap();
        run.append_turn(&agent, &turn(1, "hunter2")).await.unwrap();
        run.put_stage("answer", &json!({"text": ["hunter2"]})).await.unwrap();
        for file in ["trajectories/answerer-1.jsonl", "stages/answer.json"] {
            let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
            assert!(!text.contains("hunter2") && text.contains("***"), "{file}: {text}");
        }
        assert_eq!(run.turns(&agent).await.unwrap(), [turn(1, "***")]);
    }
}
