//! The parts of a run, made from its inputs: repository, sandboxes, models.

use std::{
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jiff::SignedDuration;
use secrecy::{ExposeSecret, SecretString};

use crate::{
    config::{RoleModel, SandboxKind, SandboxSection, Tools},
    domain::{CommitId, RepoId, RunId},
    method::{
        context::{Models, RunError},
        ports::{ChatModel, History, SandboxError, Sandboxes, SourceError, SourceTree},
    },
    model::{self, Header, Recorder, Recording, RecordingError, Replayer, Strictness, TextTools},
    repo::{Credential, Mirror, Settings as MirrorSettings, Source},
    report::preparing,
    sandbox::{
        CommandBudget,
        docker::{DockerRun, DockerSandboxes, DockerSettings, Engine, InstanceId, REAP_EVERY},
        namespaces::{self, Namespaces},
    },
    store::{open_regular, read_at_most, too_large},
};

use super::{
    Host, StartError, active,
    inputs::{Replay, ReplaySource, Replies, Request},
    settings::{RoleModels, model_settings},
    text_words::TEXT_WORDS,
};

/// A sandbox's objects outlive the longest run by this much before other instances may remove them.
const LEASE_MARGIN: SignedDuration = SignedDuration::from_hours(1);
/// The git host whose token `GITHUB_TOKEN` is, unless the repository's own says otherwise.
const GITHUB: &str = "https://github.com";
/// Largest file of recorded replies, in bytes. Those of a long run have some ten million, and all are in memory.
const MAX_RECORDING_BYTES: u64 = 256 << 20;

/// Folders below the cache that runs share.
pub struct Folders {
    pub mirrors: PathBuf,
    /// One locked file for each run that is alive.
    pub alive: PathBuf,
    /// Scratch space of this run, removed at its end.
    pub work: PathBuf,
    pub instance: PathBuf,
    /// Where the namespaces sandbox keeps its folders.
    pub namespaces: PathBuf,
}

impl Folders {
    pub fn below(cache: &Path, run: &RunId) -> Self {
        Self {
            mirrors: cache.join("mirrors"),
            alive: cache.join("alive"),
            work: cache.join("work").join(run.as_str()),
            instance: cache.join("instance"),
            namespaces: cache.join("namespaces"),
        }
    }

    /// Removes the scratch folders of runs that are dead.
    pub fn sweep(&self) {
        let Some(all) = self.work.parent() else { return };
        // Who is alive is asked afterwards: a run may begin meanwhile.
        let found: Vec<_> = std::fs::read_dir(all).into_iter().flatten().flatten().collect();
        let Some(alive) = active::alive(&self.alive) else { return };
        for entry in found {
            let run = entry.file_name().to_str().and_then(|n| RunId::try_from(n.to_owned()).ok());
            if run.is_some_and(|run| !alive.contains(&run)) {
                remove_folder(&entry.path());
            }
        }
    }
}

/// Removes a folder of ours; what cannot be removed now is swept by a later run.
pub fn remove_folder(path: &Path) {
    if let Err(error) = std::fs::remove_dir_all(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "a scratch folder could not be removed");
    }
}

/// The repository at the base commit.
pub struct Repository {
    pub tree: Arc<dyn SourceTree>,
    /// Where its web host is known to have the base commit.
    pub links: Option<RepoId>,
    pub notes: Vec<String>,
}

/// The secret in `GITHUB_TOKEN`, if any, and the one web host that it is sent to: github.com, or the GitHub
/// Enterprise server that the operator names in `GITHUB_SERVER_URL`. What a user or an issue names is no
/// reason to send it anywhere else.
pub fn github_token(host: &Host) -> Option<(String, SecretString)> {
    let token = host.environment.variable("GITHUB_TOKEN")?.trim();
    let web = host.environment.variable("GITHUB_SERVER_URL").unwrap_or(GITHUB).trim_end_matches('/');
    (!token.is_empty()).then(|| (web.to_owned(), token.to_owned().into()))
}

fn mirror_settings(host: &Host, folders: &Folders, source: &Source) -> Result<MirrorSettings, SourceError> {
    let git = &host.settings.git;
    let mut settings = MirrorSettings::new(folders.mirrors.clone());
    settings.max_bytes = git.max_mib << 20;
    settings.max_time = Duration::from_secs(git.seconds);
    if let (Some((web, token)), Source::Web(url)) = (github_token(host), source)
        && url.as_str().starts_with(&format!("{web}/"))
    {
        settings.credential = Some(Credential::new(&web, token)?);
    }
    Ok(settings)
}

/// Mirrors the repository and finds the base commit. The id is known even where the commit is not.
pub async fn open_mirror(request: &Request, host: &Host, folders: &Folders) -> Result<Mirror, SourceError> {
    let source = Source::parse(&request.repo)?;
    let settings = mirror_settings(host, folders, &source)?;
    Mirror::open(source, settings).await
}

/// The tree at the base that was asked for.
pub async fn at_base(mirror: &Mirror, base: Option<&str>) -> Result<Repository, SourceError> {
    let tree = mirror.at(base).await?;
    let published = mirror.is_published(tree.commit()).await?;
    let links = mirror.repo_id().filter(|_| published).cloned();
    // A user who names a commit knows what is taken. A folder that cannot be compared costs the note only.
    let changed = base.is_none() && mirror.has_uncommitted_changes().await.unwrap_or(false);
    let notes = changed.then(|| preparing::UNCOMMITTED.to_owned()).into_iter().collect();
    Ok(Repository { tree: Arc::new(tree), links, notes })
}

/// The tree of a run that goes on.
pub async fn at_commit(
    request: &Request,
    commit: &CommitId,
    host: &Host,
    folders: &Folders,
) -> Result<Arc<dyn SourceTree>, SourceError> {
    let source = Source::parse(&request.repo)?;
    let settings = mirror_settings(host, folders, &source)?;
    Ok(Arc::new(Mirror::resume(source, settings, commit).await?))
}

/// The sandboxes of a run, and what to say of the choice.
pub async fn open_sandboxes(
    request: &Request,
    run: &RunId,
    tree: Arc<dyn SourceTree>,
    history: History,
    host: &Host,
    folders: &Folders,
) -> Result<(Arc<dyn Sandboxes>, Vec<String>), RunError> {
    let settings = &host.settings.sandbox;
    let connect = || Engine::connect(settings.host.as_deref());
    let engine = match request.sandbox {
        SandboxKind::Docker => {
            let or = |e| SandboxError::Unavailable(format!("{e}, or use `--sandbox namespaces`"));
            Ok(connect().await.map_err(or)?)
        }
        SandboxKind::Namespaces => Err("Sandbox: namespaces.".to_owned()),
        SandboxKind::Auto => {
            connect().await.map_err(|reason| format!("Sandbox: namespaces, which is weaker: {reason}."))
        }
    };
    let engine = match engine {
        Ok(engine) => engine,
        Err(why_none) => {
            let sandboxes = start_namespaces(settings, run, tree, history, folders).await?;
            let mut notes = vec![format!("{why_none} Fit for your own repositories only.")];
            notes.extend(sandboxes.notes());
            return Ok((Arc::new(sandboxes), notes));
        }
    };
    let image = request.image.clone().unwrap_or_else(|| settings.image.clone());
    let alive = folders.alive.clone();
    let now = host.clock.now();
    let longest =
        SignedDuration::from_secs(host.settings.limits.run.seconds.try_into().unwrap_or(i64::MAX / 4));
    let lease_until =
        now.saturating_add(longest.saturating_add(LEASE_MARGIN)).unwrap_or(jiff::Timestamp::MAX);
    let sandboxes = DockerSandboxes::start(DockerRun {
        engine,
        settings: DockerSettings {
            image: image.clone(),
            memory_mib: settings.memory_mib,
            cpus: settings.cpus,
            pids: settings.pids,
            tmp_mib: settings.tmp_mib,
            workspace_mib: settings.workspace_mib,
        },
        instance: instance_id(&folders.instance)?,
        run: run.clone(),
        lease_until,
        source: tree,
        history,
        active: Arc::new(move || active::alive(&alive)),
        clock: host.clock.clone(),
        reap_every: REAP_EVERY,
    })
    .await?;
    let mut notes = vec![format!("Sandbox: Docker, image {image} ({}).", sandboxes.image_id())];
    notes.extend(sandboxes.notes());
    Ok((Arc::new(sandboxes), notes))
}

async fn start_namespaces(
    settings: &SandboxSection,
    run: &RunId,
    tree: Arc<dyn SourceTree>,
    history: History,
    folders: &Folders,
) -> Result<Namespaces, SandboxError> {
    let mib = |number: u64| number << 20;
    let limits = namespaces::Settings {
        memory_bytes: mib(settings.memory_mib),
        pids: settings.pids.into(),
        workspace_bytes: settings.workspace_mib.map(mib),
        tmp_bytes: mib(settings.tmp_mib),
        budget: CommandBudget::default(),
    };
    let program = std::env::current_exe()
        .map_err(|e| SandboxError::Unavailable(format!("this program's own file cannot be found: {e}")))?;
    Namespaces::start(run.clone(), tree, Some(history), limits, &folders.namespaces, program).await
}

/// This installation's name, made when it is first needed.
fn instance_id(path: &Path) -> Result<InstanceId, SandboxError> {
    let unavailable = |what: String| SandboxError::Unavailable(format!("{}: {what}", path.display()));
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let mut random = [0; 8];
            getrandom::fill(&mut random).map_err(|e| unavailable(format!("no random bytes: {e}")))?;
            let name = hex::encode(random);
            // Two first runs at once: both take what the first of them wrote.
            let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))
                .map_err(|e| unavailable(format!("cannot be made: {e}")))?;
            std::io::Write::write_all(&mut file, name.as_bytes())
                .map_err(|e| unavailable(format!("cannot be written: {e}")))?;
            match file.persist_noclobber(path) {
                Ok(_) => name,
                Err(_) => {
                    std::fs::read_to_string(path).map_err(|e| unavailable(format!("cannot be read: {e}")))?
                }
            }
        }
        Err(error) => return Err(unavailable(format!("cannot be read: {error}"))),
    };
    InstanceId::parse(text.trim())
        .map_err(|e| unavailable(format!("{e}. Remove the file; a new one is made")))
}

/// The model of each role: live, or from a recording.
pub fn connect_models(roles: &RoleModels, replies: &Replies, host: &Host) -> Result<Models, StartError> {
    if let Some(Replay { source, lenient }) = &replies.replay {
        let strictness = if *lenient { Strictness::Lenient } else { Strictness::Strict };
        let replayer = match source {
            ReplaySource::File(path) => {
                let text = recorded_text(path).map_err(|error| unrecorded(path, &error))?;
                Replayer::parse(path, &text, strictness)
            }
            ReplaySource::Text { name, text } => Replayer::parse(Path::new(name), text, strictness),
        };
        let model: Arc<dyn ChatModel> = Arc::new(replayer.map_err(unusable)?);
        return Ok(Models { questioner: model.clone(), answerer: model.clone(), resolver: model });
    }
    // Roles with the same model share one client, and with it what its provider was found to refuse.
    let mut opened: Vec<(&RoleModel, Arc<dyn ChatModel>)> = Vec::new();
    let mut of = |role| -> Result<Arc<dyn ChatModel>, StartError> {
        if let Some((_, model)) = opened.iter().find(|(other, _)| same_model(other, role)) {
            return Ok(model.clone());
        }
        let variable = |name: &str| host.environment.variable(name).map(str::to_owned);
        let model = model::connect(&model_settings(role), variable).map_err(unusable)?;
        let model: Arc<dyn ChatModel> = match role.tools {
            Tools::Native => model,
            Tools::Text => Arc::new(TextTools::new(model, TEXT_WORDS)),
        };
        opened.push((role, model.clone()));
        Ok(model)
    };
    Ok(Models {
        questioner: of(&roles.questioner)?,
        answerer: of(&roles.answerer)?,
        resolver: of(&roles.resolver)?,
    })
}

/// The same models, their replies recorded where that was asked for.
pub fn record_models(
    models: Models,
    roles: &RoleModels,
    replies: &Replies,
    host: &Host,
    redact: &model::Redact,
) -> Result<Models, StartError> {
    let Some(path) = &replies.record else { return Ok(models) };
    let mut names = [&roles.questioner, &roles.answerer, &roles.resolver].map(|role| &*role.name).to_vec();
    names.dedup();
    let header = Header {
        recorded_with: names.join(", "),
        at: host.clock.now(),
        note: String::new(),
        price: models.questioner.price(),
    };
    let file = file_to_record_in(path).map_err(|error| unrecorded(path, &error))?;
    let recording = Arc::new(Recording::on(file, path, &header).map_err(unusable)?);
    let recorded = |model| Arc::new(Recorder::new(model, recording.clone(), redact.clone()));
    Ok(Models {
        questioner: recorded(models.questioner),
        answerer: recorded(models.answerer),
        resolver: recorded(models.resolver),
    })
}

fn recorded_text(path: &Path) -> io::Result<String> {
    let file = open_regular(path, OpenOptions::new().read(true))?;
    let bytes = read_at_most(&file, MAX_RECORDING_BYTES)?;
    // Lossy, since a kill may have cut the last line inside a character.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A new file, or one that can still be replayed.
fn file_to_record_in(path: &Path) -> io::Result<File> {
    let file = open_regular(path, OpenOptions::new().read(true).write(true).create(true))?;
    let size = file.metadata()?.len();
    if size > MAX_RECORDING_BYTES { Err(too_large(size, MAX_RECORDING_BYTES)) } else { Ok(file) }
}

fn unrecorded(path: &Path, error: &io::Error) -> StartError {
    unusable(RecordingError { path: path.to_owned(), reason: error.to_string() })
}

fn unusable(error: impl std::fmt::Display) -> StartError {
    StartError::usage("settings", error)
}

fn same_model(a: &RoleModel, b: &RoleModel) -> bool {
    let key = |model: &RoleModel| model.api_key.as_ref().map(|key| key.expose_secret().to_owned());
    a.name == b.name
        && a.protocol == b.protocol
        && a.tools == b.tools
        && a.base_url == b.base_url
        && a.price == b.price
        && a.max_tokens == b.max_tokens
        && a.retries == b.retries
        && a.timeout_seconds == b.timeout_seconds
        && key(a) == key(b)
}
