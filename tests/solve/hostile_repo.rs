//! Repositories that are strange, large, or mean harm: the run works, and the patch is what the Resolver did.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, path::Path, process::Command};

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::{
    project::Project,
    script::{Model, Reply, Script, Who, bash, submit},
};

/// Kind, executable bit, name and content of everything in a folder, in ASCII.
const LISTING: &str = r#"export LC_ALL=C
find . -name .git -prune -o \( -type f -o -type l \) -print0 | sort -z | while IFS= read -r -d '' path; do
    if [ -L "$path" ]; then printf 'link %q %s\n' "$path" "$(readlink "$path")"; continue; fi
    if [ -x "$path" ]; then printf 'program '; else printf 'file '; fi
    printf '%q %s\n' "$path" "$(sha256sum <"$path" | cut -c1-12)"
done"#;

/// For the real git: files are taken as they are, whatever `.gitattributes` asks for.
const AS_IT_IS: &str = "* -text -filter\n";

/// A Resolver that runs these one after another, then submits.
fn resolver(commands: &[&str]) -> Script {
    let end = submit(json!({"summary": "Edited.", "used_answers": [], "leave_out": []}));
    let commands = commands.iter().map(|command| bash(command));
    Script { resolver: commands.chain([end]).collect::<Vec<Reply>>(), ..Script::default() }
}

/// Lets a Resolver run these commands; what the last one printed.
async fn edited(project: &Project, sandbox: &str, commands: &[&str]) -> String {
    let model = Model::start(resolver(commands)).await;
    let mut command = project.acquire(&model);
    project.end(command.args(["--questions", "0", "--sandbox", sandbox])).await.assert_code(0);
    let request = model.requests_of(&Who::Resolver).pop().unwrap();
    let observation = request["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
    let (exit, output) = observation.split_once('\n').unwrap();
    assert_eq!(exit, "[exit code 0]", "{observation}");
    output.trim_end().to_owned()
}

/// What [`LISTING`] says of a folder on this machine.
fn listing(folder: &Path) -> String {
    let output = Command::new("bash").args(["-c", LISTING]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// A clone with the patch applied to it by the real git.
fn applied(project: &Project) -> std::path::PathBuf {
    let clone = project.path("clone");
    project.git(&["clone", "--quiet", "--no-checkout", ".", clone.to_str().unwrap()]);
    fs::create_dir_all(clone.join(".git/info")).unwrap();
    fs::write(clone.join(".git/info/attributes"), AS_IT_IS).unwrap();
    let diff = project.path("out/patch.diff");
    for arguments in [&["checkout", "--quiet"][..], &["apply", "--index", diff.to_str().unwrap()]] {
        let status = Command::new("git").args(arguments).current_dir(&clone).status().unwrap();
        assert!(status.success(), "git {arguments:?}");
    }
    clone
}

fn diff(project: &Project) -> String {
    let diff = fs::read(project.path("out/patch.diff")).unwrap();
    let text: String =
        diff.utf8_chunks().map(|c| c.valid().to_owned() + &"\u{FFFD}".repeat(c.invalid().len())).collect();
    // Object ids differ with every content; what they name stands below them.
    text.replace('\r', "␍").lines().filter(|line| !line.starts_with("index ")).collect::<Vec<_>>().join("\n")
}

fn left_out(project: &Project) -> Vec<String> {
    let run = project.run_json();
    let all = run["patch"]["left_out"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    all.iter().map(|one| format!("{}: {}", text(&one["path"]), text(&one["reason"]))).collect()
}

/// Everything that a checkout may hold and a tool may spoil.
fn strange() -> Project {
    let project = Project::with(&[("README.md", b"# strange\n")]);
    fs::write(project.path("repo/.git/info/attributes"), AS_IT_IS).unwrap();
    project.write(&[
        ("crlf.txt", b"one\r\ntwo\r\nthree\r\n"),
        ("mixed.txt", b"one\r\ntwo\nthree\r"),
        ("latin1.py", b"# caf\xe9\nname = 'na\xefve'\nprice = 1\n"),
        ("no-newline.txt", b"first\nlast"),
        ("picture.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0"),
        ("tool.sh", b"#!/bin/sh\necho tool\n"),
        (
            "old/name.py",
            b"def one():\n    return 1\n\n\ndef two():\n    return 2\n\n\ndef three():\n    return 3\n",
        ),
        ("gone.txt", b"gone\n"),
        ("empty", b""),
        ("big.bin", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"),
        (".gitattributes", b"*.bin filter=lfs diff=lfs merge=lfs -text\n*.txt text eol=crlf\n"),
        (".gitmodules", b"[submodule \"x\"]\n\tpath = vendored\n\turl = -u./payload\n"),
    ]);
    let repo = project.path("repo");
    std::os::unix::fs::symlink("/etc/passwd", repo.join("passwd")).unwrap();
    std::os::unix::fs::symlink("..", repo.join("up")).unwrap();
    std::os::unix::fs::symlink("nowhere", repo.join("dangling")).unwrap();
    for name in [&b"caf\xe9.txt"[..], "größe.txt".as_bytes(), b"with space and \"quotes\".txt", b"-rf"] {
        fs::write(repo.join(OsStr::from_bytes(name)), "x\n").unwrap();
    }
    project.git(&["add", "-A"]);
    let other = "1111111111111111111111111111111111111111";
    project.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{other},vendored")]);
    project.git(&["commit", "-q", "-m", "Strange"]);
    project
}

#[tokio::test]
async fn a_strange_repository_keeps_every_byte_but_those_edited() {
    for sandbox in ["docker", "namespaces"] {
        let project = strange();
        let untouched = edited(&project, sandbox, &[LISTING]).await;
        assert_eq!(untouched, listing(&project.path("repo")), "the workspace is the commit, byte for byte");
        assert_eq!(project.run_json()["outcome"], "no_patch");
        fs::remove_dir_all(project.path("out")).unwrap();

        let edits = r#"export LC_ALL=C
            sed -i 's/two/TWO/' crlf.txt mixed.txt
            sed -i 's/price = 1/price = 2/' latin1.py
            printf ' more' >> no-newline.txt
            printf '\7' | dd of=picture.png bs=1 seek=9 conv=notrunc status=none
            chmod +x tool.sh
            mkdir new && mv old/name.py new/name.py && sed -i 's/return 2/return 22/' new/name.py
            rm gone.txt
            printf 'a\r\nb' > added.txt
            : > added-empty
            printf '#!/bin/sh\n' > added-tool && chmod 755 added-tool
            echo y >> größe.txt
            echo y >> 'with space and "quotes".txt'
            echo y >> ./-rf"#;
        let held = edited(&project, sandbox, &[edits, "git status --short", LISTING]).await;
        assert_eq!(listing(&applied(&project)), held, "the patch is what the workspace held");
        assert_eq!(left_out(&project), [] as [&str; 0]);
        assert_snapshot!("edits", diff(&project));
    }
}

#[tokio::test]
async fn what_no_patch_can_carry_is_left_out_and_said() {
    let project = strange();
    let edits = r#"
        echo y >> $'caf\xe9.txt'
        ln -sfn /root passwd
        rm up && mkdir up && echo inside > up/file
        rm dangling && echo 'now a file' > dangling
        mkdir -p vendored && echo payload > vendored/payload
        echo '[filter "lfs"]' >> .gitmodules
        ln -s /etc/shadow shadow
        printf x > Crlf.TXT
        echo fine >> tool.sh"#;
    edited(&project, "namespaces", &[edits]).await;
    assert_snapshot!(left_out(&project).join("\n"), @r"
    Crlf.TXT: its name differs from crlf.txt only in case or Unicode form
    caf\xE9.txt: it is not UTF-8
    passwd: a changed symbolic link
    shadow: a new symbolic link
    vendored: a submodule, which cannot change
    ");
    assert_snapshot!(diff(&project), @r#"
    diff --git a/.gitmodules b/.gitmodules
    --- a/.gitmodules
    +++ b/.gitmodules
    @@ -1,3 +1,4 @@
     [submodule "x"]
     	path = vendored
     	url = -u./payload
    +[filter "lfs"]
    diff --git a/dangling b/dangling
    deleted file mode 120000
    --- a/dangling
    +++ /dev/null
    @@ -1 +0,0 @@
    -nowhere
    \ No newline at end of file
    diff --git a/dangling b/dangling
    new file mode 100644
    --- /dev/null
    +++ b/dangling
    @@ -0,0 +1 @@
    +now a file
    diff --git a/tool.sh b/tool.sh
    --- a/tool.sh
    +++ b/tool.sh
    @@ -1,2 +1,3 @@
     #!/bin/sh
     echo tool
    +fine
    diff --git a/up b/up
    deleted file mode 120000
    --- a/up
    +++ /dev/null
    @@ -1 +0,0 @@
    -..
    \ No newline at end of file
    diff --git a/up/file b/up/file
    new file mode 100644
    --- /dev/null
    +++ b/up/file
    @@ -0,0 +1 @@
    +inside
    "#);
    applied(&project);
}

/// Writes a tree object that git itself would refuse to make, and its commit.
fn commit_raw_tree(project: &Project, entries: &[(&str, &[u8], &str)]) {
    let mut tree = Vec::new();
    for (mode, name, id) in entries {
        tree.extend([mode.as_bytes(), b" ", name, b"\0"].concat());
        tree.extend(git2::Oid::from_str(id).unwrap().as_bytes());
    }
    let repository = git2::Repository::open(project.path("repo")).unwrap();
    let tree = repository.odb().unwrap().write(git2::ObjectType::Tree, &tree).unwrap();
    let commit = project.git(&["commit-tree", &tree.to_string(), "-m", "Raw"]);
    project.git(&["update-ref", "refs/heads/trunk", commit.trim()]);
}

#[tokio::test]
async fn git_folders_in_disguise_are_never_written_out_and_never_lost() {
    let project = Project::with(&[("inner/config", b"[core]\n\tfsmonitor = touch /tmp/ran\n")]);
    let id = |what: &str| project.git(&["rev-parse", what]).trim().to_owned();
    let (folder, blob) = (id("HEAD:inner"), id("HEAD:inner/config"));
    commit_raw_tree(
        &project,
        &[
            ("40000", b"..", &folder),
            ("40000", b".GIT", &folder),
            ("40000", ".g\u{200c}it".as_bytes(), &folder),
            ("100644", b"/abs", &blob),
            ("100644", b"a/../../b", &blob),
            ("100644", b"a\\..\\b", &blob),
            ("40000", b"git~1", &folder),
            ("100644", b"new\nline", &blob),
            ("100644", b"safe", &blob),
            ("100644", b"tab\tbed", &blob),
        ],
    );
    let before = project.git(&["ls-tree", "-r", "-z", "trunk"]);
    let held = edited(&project, "namespaces", &["echo edited >> safe", "git diff --name-only; ls -A"]).await;
    assert_eq!(held, "safe\n.git\nsafe");
    assert_snapshot!(diff(&project), @"
    diff --git a/safe b/safe
    --- a/safe
    +++ b/safe
    @@ -1,2 +1,3 @@
     [core]
     	fsmonitor = touch /tmp/ran
    +edited
    ");
    assert_eq!(left_out(&project), [] as [&str; 0]);
    assert_eq!(project.git(&["ls-tree", "-r", "-z", "trunk"]), before, "the user's repository is only read");
}

#[tokio::test]
async fn a_tree_that_cannot_be_changed_makes_no_patch() {
    let project = Project::new();
    let blob = project.git(&["rev-parse", "HEAD:store.py"]).trim().to_owned();
    commit_raw_tree(&project, &[("100644", b"twice", &blob), ("100644", b"twice", &blob)]);
    edited(&project, "namespaces", &["echo edited > other"]).await;
    let run = project.run_json();
    assert_eq!((&run["outcome"], run.get("error")), (&json!("no_patch"), None));
    let told = project.read("pull-request.md");
    assert!(told.contains("names one file twice"), "{told}");
}

#[tokio::test]
async fn a_file_of_100_mb_is_carried_over_and_left_out_when_changed() {
    let project = Project::new();
    fs::File::create(project.path("repo/large.bin")).unwrap().set_len(100 << 20).unwrap();
    project.git(&["add", "-A"]);
    project.git(&["commit", "-q", "-m", "Large"]);
    let size = edited(&project, "namespaces", &["echo edited >> README.md", "stat -c %s large.bin"]).await;
    assert_eq!(size, (100 << 20).to_string());
    assert_eq!(left_out(&project), [] as [&str; 0]);
    assert_eq!(fs::metadata(applied(&project).join("large.bin")).unwrap().len(), 100 << 20);

    fs::remove_dir_all(project.path("out")).unwrap();
    edited(&project, "namespaces", &["echo edited >> README.md; echo x >> large.bin"]).await;
    assert_eq!(project.run_json()["patch"]["files"], json!(["README.md"]));
    assert_snapshot!(left_out(&project).join("\n"), @"large.bin: 104.9 MB, more than the 10.0 MB that a file may have");
}

#[tokio::test]
async fn a_tree_of_20_000_files_is_worked_on_and_not_all_of_it_changed() {
    let project = Project::new();
    // Straight into a pack: so many small files on a disk take longer than all the rest.
    let mut import = b"commit refs/heads/trunk\ncommitter A <a@b> 1700000000 +0000\ndata 4\nmany\n".to_vec();
    for number in 0..20_000 {
        let content = format!("file {number}\n");
        let (folder, length) = (number / 100, content.len());
        import.extend(format!("M 644 inline d{folder}/f{number}\ndata {length}\n{content}\n").bytes());
    }
    fs::write(project.path("import"), import).unwrap();
    let status = Command::new("git")
        .args(["fast-import", "--quiet", "--force"])
        .current_dir(project.path("repo"))
        .stdin(fs::File::open(project.path("import")).unwrap())
        .status();
    assert!(status.unwrap().success());

    let count = "find . -name .git -prune -o -type f -print | wc -l; git status --short";
    let held = edited(&project, "docker", &["echo edited >> d7/f700", count]).await;
    assert_eq!(held, "20000\n M d7/f700");
    assert_eq!(project.run_json()["patch"]["files"], json!(["d7/f700"]));

    fs::remove_dir_all(project.path("out")).unwrap();
    edited(&project, "namespaces", &["find . -type f -name 'f*' -exec sed -i s/file/FILE/ {} +"]).await;
    let run = project.run_json();
    assert_eq!(run["outcome"], "no_patch");
    let told = project.read("pull-request.md");
    assert!(told.contains("20000 entries of the workspace changed, more than the 5000"), "{told}");
}
