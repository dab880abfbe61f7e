//! `acquire export` on a run's folder, which may be somebody else's.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use insta::assert_snapshot;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    project::{Project, assert_exit},
    script::{Model, Script, bash, submit},
};

const SECRET: &str = "root:$6$not-for-viewers";

/// A run that ended with a patch, and a file beside it that is none of the run's.
async fn with_run() -> Project {
    let project = Project::new();
    let end = json!({"summary": "Words.", "used_answers": [], "leave_out": []});
    let script =
        Script { resolver: vec![bash("echo '# total' >> README.md"), submit(end)], ..Script::default() };
    let model = Model::start(script).await;
    let mut command = project.acquire(&model);
    project.end(command.args(["--questions", "0", "--sandbox", "namespaces"])).await.assert_code(0);
    fs::write(project.path("shadow"), SECRET).unwrap();
    project
}

fn export(project: &Project) -> Command {
    let mut command = project.program();
    command.arg("export").arg(project.path("out")).arg("--out").arg(project.path("exports"));
    command
}

/// All that lies in the folder of exports.
fn exported(project: &Project) -> String {
    let files = project.path("exports").read_dir().into_iter().flatten();
    files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

#[tokio::test]
async fn a_run_is_exported_with_its_patch() {
    let project = with_run().await;
    let ended = project.end(&mut export(&project)).await;
    ended.assert_code(0);
    let file = PathBuf::from(ended.printed.trim_end());
    assert_eq!(file, project.path("exports/resolver.traj.json"));
    let value: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(value["info"]["submission"], project.read("patch.diff"));
    assert_eq!(value["info"]["model_stats"]["api_calls"], 2);
    let roles: Vec<&str> =
        value["messages"].as_array().unwrap().iter().map(|it| it["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant", "tool", "exit"]);
}

#[tokio::test]
async fn a_link_in_a_run_leads_nowhere() {
    let project = with_run().await;
    let kept = project.path("kept");
    for name in ["run.json", "patch.diff", "trajectories", "trajectories/resolver.jsonl"] {
        let path = project.path("out").join(name);
        fs::rename(&path, &kept).unwrap();
        // Of a folder: one that holds what an export wants.
        symlink(if name == "trajectories" { &kept } else { Path::new("/dev/null") }, &path).unwrap();
        let to_file = || {
            fs::remove_file(&path).unwrap();
            symlink(project.path("shadow"), &path).unwrap();
        };
        for change in [&(|| ()) as &dyn Fn(), &to_file] {
            change();
            let output = export(&project).output().await.unwrap();
            assert_exit(&output, 2);
            let told = String::from_utf8(output.stderr).unwrap();
            let expected = format!("error: {}: cannot be read: it is ", path.display());
            assert!(told.starts_with(&expected) && told.contains("links in a run's folder"), "{told}");
            assert_eq!(exported(&project), "", "{name}");
        }
        fs::remove_file(&path).unwrap();
        fs::rename(&kept, &path).unwrap();
    }
    let partial = project.path("out/patch.partial.diff");
    fs::remove_file(project.path("out/patch.diff")).unwrap();
    symlink(project.path("shadow"), &partial).unwrap();
    let ended = project.end(&mut export(&project)).await;
    assert_snapshot!(ended.assert_code(2).told, @"error: DIR/out/patch.partial.diff: cannot be read: it is a link, and links in a run's folder are not followed");
    assert_eq!(exported(&project), "");
}

#[tokio::test]
async fn a_file_that_fits_into_no_memory_is_told_with_its_limit() {
    let project = with_run().await;
    let told = async |name: &str| {
        let path = project.path("out").join(name);
        let size = path.metadata().unwrap().len();
        let file = fs::OpenOptions::new().append(true).open(path).unwrap();
        file.set_len(20 << 30).unwrap();
        let ended = project.end(&mut export(&project)).await;
        file.set_len(size).unwrap();
        assert_eq!(exported(&project), "");
        ended.assert_code(2).told.clone()
    };
    assert_snapshot!(told("trajectories/resolver.jsonl").await, @"error: DIR/out/trajectories/resolver.jsonl: cannot be read: it has 21474836480 bytes, more than the 1073741824 that are read");
    assert_snapshot!(told("patch.diff").await, @"error: DIR/out/patch.diff: cannot be read: it has 21474836480 bytes, more than the 268435456 that are read");
}
