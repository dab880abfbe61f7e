//! Looks at everything that a run needs, with the code that a run uses: a sandbox is really opened and tried
//! from inside, a model is really asked. Costs one small call for each model.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crate::{
    agent::prompt,
    config::{Role, SandboxKind},
    domain::{AgentName, FileMode, RepoPath, RunId, TreeChanges},
    gate::visible::observation_text,
    method::{
        facts,
        ports::{
            Access, ChatModel, ChatRequest, CommandLimits, Finish, Message, Sandbox, SandboxError, Sandboxes,
            SourceTree,
        },
    },
    repo::create_repository,
    report::doctor::{Examined, State},
    sandbox::docker::Engine,
};

use super::{
    AnswererKind, Host, KnowledgeKind, Replies, Request, StartError, active,
    parts::{self, Folders},
    settings::RoleModels,
};

/// Prints what confines it.
const SCRIPT: &str = include_str!("doctor.sh");
/// Size of the workspace that is tried: large enough for any page size, small enough to be filled at once.
const WORKSPACE_MIB: u64 = 64;
/// A reply that is longer than a call to a tool is cut; models that think first need some room.
const REPLY_TOKENS: u32 = 512;

/// What to look at.
#[derive(Debug, Clone)]
pub struct Checkup {
    /// Names what is made meanwhile.
    pub id: RunId,
    pub sandbox: SandboxKind,
    pub image: Option<String>,
    /// Whether models are asked.
    pub ask_models: bool,
}

/// Looks at all of it in order. Each result is shown when it is there; a check that cannot be made because of an
/// earlier one is left out. Nothing is left behind.
pub async fn examine(checkup: &Checkup, host: &Host, show: impl Fn(&Examined)) -> Vec<Examined> {
    let mut found = Findings { all: Vec::new(), show };
    if let Some(cache) = folders(host, &mut found) {
        sandbox(checkup, &cache, host, &mut found).await;
    }
    models(checkup, host, &mut found).await;
    found.all
}

struct Findings<F> {
    all: Vec<Examined>,
    show: F,
}

impl<F: Fn(&Examined)> Findings<F> {
    fn add(&mut self, name: impl Into<String>, state: State, text: impl ToString) {
        let it = Examined::new(name, state, text.to_string());
        (self.show)(&it);
        self.all.push(it);
    }

    fn check(&mut self, name: &str, fine: bool, text: impl ToString, otherwise: impl ToString) {
        match fine {
            true => self.add(name, State::Ok, text),
            false => self.add(name, State::Failed, otherwise),
        }
    }
}

/// The cache, where it can be used.
fn folders(host: &Host, found: &mut Findings<impl Fn(&Examined)>) -> Option<PathBuf> {
    let runs = host.environment.working_folder.join(&host.settings.paths.runs);
    let cache = match host.settings.cache(&host.environment) {
        Ok(cache) => cache,
        Err(error) => {
            found.add("cache", State::Failed, error);
            return None;
        }
    };
    let cache_fine = can_write(&cache);
    let told = |path: &Path, error: &std::io::Error, key: &str| {
        format!("{} cannot be written: {error}. Set `[paths] {key}` to a folder that can", path.display())
    };
    match &cache_fine {
        Ok(()) => found.add("cache", State::Ok, cache.display()),
        Err(error) => found.add("cache", State::Failed, told(&cache, error, "cache")),
    }
    // It is made by the first run; what must be there is a place for it.
    // A link that leads nowhere is there too, and in the way.
    let is_there = |path: &&Path| path.symlink_metadata().is_ok();
    let place = runs.ancestors().find(is_there).unwrap_or(Path::new("/"));
    match can_write(place) {
        Ok(()) => found.add("runs", State::Ok, runs.display()),
        Err(error) => found.add("runs", State::Failed, told(place, &error, "runs")),
    }
    cache_fine.is_ok().then_some(cache)
}

/// Makes the folder, if it is not there, and a file in it that has no name.
fn can_write(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    tempfile::tempfile_in(folder).map(drop)
}

async fn sandbox(checkup: &Checkup, cache: &Path, host: &Host, found: &mut Findings<impl Fn(&Examined)>) {
    match Engine::connect(host.settings.sandbox.host.as_deref()).await {
        Ok(engine) => match engine.describe().await {
            Ok(text) => found.add("engine", State::Ok, text),
            Err(error) => found.add("engine", State::Failed, error),
        },
        Err(error) if checkup.sandbox == SandboxKind::Docker => found.add("engine", State::Failed, error),
        Err(error) => found.add(
            "engine",
            State::Note,
            format!(
                "{error}. Without one, only the weaker namespaces sandbox is there: for your own repositories"
            ),
        ),
    }
    let scratch = match tempfile::tempdir_in(cache) {
        Ok(scratch) => scratch,
        Err(error) => return found.add("sandbox", State::Failed, format!("{}: {error}", cache.display())),
    };
    let folders = Folders {
        mirrors: scratch.path().join("mirrors"),
        work: scratch.path().join("work"),
        ..Folders::below(cache, &checkup.id)
    };
    let alive = match active::register(&folders.alive, &checkup.id) {
        Ok(alive) => alive,
        Err(error) => {
            return found.add("sandbox", State::Failed, format!("{}: {error}", folders.alive.display()));
        }
    };
    match open(checkup, scratch.path(), &folders, host).await {
        Ok((sandboxes, notes)) => {
            for note in notes {
                found.add("sandbox", State::Note, note);
            }
            look_inside(&*sandboxes, found).await;
            sandboxes.close().await;
        }
        Err(error) => found.add("sandbox", State::Failed, error),
    }
    drop(alive);
}

/// Opens the sandboxes of a run on a repository of one file.
async fn open(
    checkup: &Checkup,
    scratch: &Path,
    folders: &Folders,
    host: &Host,
) -> Result<(Arc<dyn Sandboxes>, Vec<String>), StartError> {
    let repository = scratch.join("repository");
    let failed = |error: &dyn std::fmt::Display| StartError::failed("cache_folder", error);
    std::fs::create_dir(&repository).map_err(|e| failed(&e))?;
    let readme = RepoPath::parse("README.md").map_err(|e| failed(&e))?;
    let files = vec![(readme, FileMode::Regular, b"# Doctor\n".to_vec())];
    create_repository(repository.clone(), files, "A repository to try sandboxes on\n".into()).await?;
    let request = Request {
        repo: repository.to_string_lossy().into_owned(),
        issue: None,
        base: None,
        knowledge: KnowledgeKind::None,
        questions: 0,
        asked: Vec::new(),
        answerer: AnswererKind::default(),
        patch: true,
        image: checkup.image.clone(),
        sandbox: checkup.sandbox,
    };
    let mut host = host.clone();
    host.settings.sandbox.workspace_mib = Some(WORKSPACE_MIB);
    let mirror = parts::open_mirror(&request, &host, folders).await?;
    let tree = Arc::new(mirror.at(None).await?);
    let history = tree.history(folders.work.join("history"), host.settings.git.history_mib << 20).await?;
    Ok(parts::open_sandboxes(&request, &checkup.id, tree, history, &host, folders).await?)
}

/// Tries from inside what is promised of a sandbox.
async fn look_inside(sandboxes: &dyn Sandboxes, found: &mut Findings<impl Fn(&Examined)>) {
    let kind = sandboxes.kind();
    let opened = sandboxes.open(&AgentName::probe(), Access::ReadWrite, &TreeChanges::default()).await;
    let sandbox = match opened {
        Ok(sandbox) => sandbox,
        Err(error) => return found.add("sandbox", State::Failed, error),
    };
    found.add("sandbox", State::Ok, format!("{kind}: opened, and a command can be run in it"));
    match confinement(&*sandbox).await {
        Ok(seen) => judge(kind, &seen, found),
        Err(error) => found.add("confinement", State::Failed, error),
    }
    match facts::probe(&*sandbox).await {
        Ok(probed) => {
            found.add("tools", State::Note, format!("in the sandbox: {}", probed.tools.join(", ")));
        }
        Err(error) => found.add("tools", State::Failed, error),
    }
    sandbox.close().await;
}

/// What the script prints, by name.
async fn confinement(sandbox: &dyn Sandbox) -> Result<HashMap<String, String>, SandboxError> {
    let limits = CommandLimits { timeout: Duration::from_secs(60), keep_bytes: 16 * 1024 };
    let outcome = sandbox.run(SCRIPT, limits).await?;
    let text = observation_text(&outcome, limits.keep_bytes);
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    Ok(lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
}

fn judge(kind: &str, seen: &HashMap<String, String>, found: &mut Findings<impl Fn(&Examined)>) {
    const UPDATE: &str = "Update the engine and the kernel; do not run strangers' code here before";
    let value = |name: &str| seen.get(name).map_or("", String::as_str);
    let count = |name: &str| value(name).parse().unwrap_or(0u64);
    let no_privilege = value("NoNewPrivs") == "1"
        && value("CapEff").chars().all(|c| c == '0')
        && !matches!(value("uid"), "" | "0");
    found.check(
        "privileges",
        no_privilege,
        format!("none: user {}, no capabilities, no new privileges", value("uid")),
        format!(
            "a command has user {}, capabilities {}, NoNewPrivs {}. {UPDATE}",
            value("uid"),
            value("CapEff"),
            value("NoNewPrivs")
        ),
    );
    // In a container the engine's filter stands below ours.
    let wanted = if kind == "docker" { 2 } else { 1 };
    // Kernels before 5.9 do not count them.
    let counted = value("Seccomp_filters");
    let filtered = value("Seccomp") == "2" && (counted.is_empty() || count("Seccomp_filters") >= wanted);
    found.check(
        "seccomp",
        filtered,
        format!("on{}", if counted.is_empty() { String::new() } else { format!(", {counted} filters") }),
        format!(
            "mode {}, {counted} filters, where {wanted} belong: the engine runs containers without its default \
             profile, or the kernel has no seccomp. {UPDATE}",
            value("Seccomp")
        ),
    );
    found.check(
        "network",
        seen.contains_key("interfaces") && value("interfaces").is_empty(),
        "off",
        format!("a command sees the interfaces {}. {UPDATE}", value("interfaces")),
    );
    found.check(
        "root file system",
        !seen.contains_key("writable"),
        "read-only",
        format!("{} can be written. {UPDATE}", value("writable")),
    );
    let written = count("written");
    found.check(
        "quota",
        (WORKSPACE_MIB / 2..=WORKSPACE_MIB).contains(&written),
        format!("held: a workspace of {WORKSPACE_MIB} MiB took {written} MiB and no more"),
        format!(
            "a workspace of {WORKSPACE_MIB} MiB took {written} MiB: its size is not held, and an agent can fill the \
             disk or the memory of this machine"
        ),
    );
}

/// Asks each model once, with a tool that it is to call.
async fn models(checkup: &Checkup, host: &Host, found: &mut Findings<impl Fn(&Examined)>) {
    let models = match RoleModels::of(&host.settings, &host.environment) {
        Ok(roles) => match parts::connect_models(&roles, &Replies::default(), host) {
            Ok(models) => models,
            Err(error) => return found.add("model", State::Failed, error),
        },
        Err(error) => return found.add("model", State::Failed, error),
    };
    let by_role = [
        (Role::Questioner, models.questioner),
        (Role::Answerer, models.answerer),
        (Role::Resolver, models.resolver),
    ];
    let mut asked: Vec<(Vec<&str>, Arc<dyn ChatModel>)> = Vec::new();
    for (role, model) in by_role {
        match asked.iter_mut().find(|(_, other)| Arc::ptr_eq(other, &model)) {
            Some((roles, _)) => roles.push(role.name()),
            None => asked.push((vec![role.name()], model)),
        }
    }
    let one = asked.len() == 1;
    for (roles, model) in asked {
        let name = if one { "model".to_owned() } else { format!("model ({})", roles.join(", ")) };
        if checkup.ask_models {
            let (state, text) = ask(&*model, host).await;
            found.add(name, state, text);
        }
        if model.price().is_none() {
            let tokens = host.settings.limits.resolver.tokens;
            found.add(
                "price",
                State::Note,
                format!(
                    "of {} is not known: limits in money do not hold, {tokens} tokens an agent stand in. Set \
                     `[model.price]`",
                    model.name()
                ),
            );
        }
    }
}

/// One cheap call.
async fn ask(model: &dyn ChatModel, host: &Host) -> (State, String) {
    let request = ChatRequest {
        agent: AgentName::probe(),
        turn: 1,
        messages: vec![Message::User { content: prompt::render("doctor/task.md", minijinja::context! {}) }],
        tools: vec![prompt::tool_spec("doctor/report.json", minijinja::context! {})],
        temperature: None,
        max_tokens: Some(REPLY_TOKENS),
        response_schema: None,
        volatile: Vec::new(),
    };
    let started = host.clock.monotonic();
    let reply = tokio::select! {
        biased;
        () = host.cancel.cancelled() => return (State::Failed, "cancelled".into()),
        reply = model.chat(&request) => reply,
    };
    let seconds = (host.clock.monotonic() - started).as_secs_f64();
    let reply = match reply {
        Ok(reply) => reply,
        Err(error) => return (State::Failed, error.to_string()),
    };
    let notes: String = reply.notes.iter().map(|note| format!("; {note}")).collect();
    let said = format!("{} answers, in {seconds:.1} s, {} tokens{notes}", model.name(), reply.tokens.total());
    match (reply.calls.is_empty(), reply.finish) {
        (false, _) => (State::Ok, format!("{said}; it calls tools")),
        (true, Finish::Length) => {
            (State::Ok, format!("{said}; its reply was cut before it could call a tool"))
        }
        (true, _) => (
            State::Failed,
            format!(
                "{said}, but in words: it did not call the tool that it was told to call. Agents work by calling tools: set `tools = \"text\"` under `[model]`, or take a model that can"
            ),
        ),
    }
}
