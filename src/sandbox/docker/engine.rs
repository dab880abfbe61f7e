//! The engine behind its socket: every call with a time limit of its own, every failure told apart.
//!
//! bollard's own time limit covers only the wait for response headers and is one for all calls, which
//! hits uploads and spares calls that hang; it is set out of the way.

use std::{collections::HashMap, future::Future, io, time::Duration};

use bollard::{
    API_DEFAULT_VERSION, Docker, body_try_stream,
    container::AttachContainerResults,
    errors::Error as BollardError,
    models::{
        ContainerCreateBody, ContainerState, ContainerSummary, ImageInspect, SystemInfo, Volume,
        VolumeCreateRequest,
    },
    query_parameters::{
        AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, InspectContainerOptions,
        ListContainersOptionsBuilder, ListVolumesOptionsBuilder, RemoveContainerOptionsBuilder,
        RemoveVolumeOptions, StartContainerOptions, UploadToContainerOptionsBuilder, WaitContainerOptions,
        WaitContainerOptionsBuilder,
    },
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};

use super::{labels::OURS, spec::Image};
use crate::method::ports::SandboxError;

const DEFAULT_ADDRESS: &str = "unix:///var/run/docker.sock";

/// Calls that only look something up.
const LOOK_UP: Duration = Duration::from_secs(10);
/// Calls that make or remove something; an engine with a full disk cache takes its time.
const CHANGE: Duration = Duration::from_secs(60);
/// Longer than any limit of ours.
const BOLLARD_SECONDS: u64 = 24 * 3600;

/// A connection to a Docker engine that has answered.
#[derive(Debug, Clone)]
pub struct Engine {
    docker: Docker,
    address: String,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum EngineError {
    #[error("no Docker engine answers at {address} ({reason})")]
    Unreachable { address: String, reason: String },
    #[error("the user that runs this may not use the Docker engine at {address}")]
    Forbidden { address: String },
    #[error("the Docker engine at {address} did not {what} within {} s", .after.as_secs())]
    Silent { address: String, what: &'static str, after: Duration },
    #[error("the Docker engine would not {what}: {message} ({status})")]
    Refused { what: &'static str, status: u16, message: String },
}

impl EngineError {
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    /// Somebody else is at it, or a container still uses it.
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { status: 409, .. })
    }

    fn advice(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => ". Start Docker",
            Self::Forbidden { .. } => ". Run as root or as a member of the group that owns the socket",
            Self::Silent { .. } => ". See whether `docker ps` answers; restart Docker if it does not",
            Self::Refused { .. } => "",
        }
    }
}

/// While a sandbox is being made, the operator must act. (What breaks under way is told by
/// [`super::sandbox`], which knows that the work can go on in a fresh sandbox.)
impl From<EngineError> for SandboxError {
    fn from(error: EngineError) -> Self {
        Self::Unavailable(format!("{error}{}", error.advice()))
    }
}

type Answer<T> = Result<T, EngineError>;

impl Engine {
    /// Connects to the engine at `host` (`unix:///path`), by default at what `DOCKER_HOST` says, else at
    /// the standard socket, and agrees on a version of its interface.
    ///
    /// # Errors
    /// [`SandboxError::Unavailable`] when none answers, or not to this user.
    pub async fn connect(host: Option<&str>) -> Result<Self, SandboxError> {
        let from_environment = || std::env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty());
        let address =
            host.map(str::to_owned).or_else(from_environment).unwrap_or_else(|| DEFAULT_ADDRESS.to_owned());
        if !address.starts_with("unix://") {
            return Err(SandboxError::Unavailable(format!(
                "the Docker engine at {address} cannot be used: only sockets (unix:///path) are. Change \
                 sandbox.host or DOCKER_HOST"
            )));
        }
        let docker = Docker::connect_with_unix(&address, BOLLARD_SECONDS, API_DEFAULT_VERSION)
            .map_err(|error| classify(&address, "be reached", &error))?;
        let docker = within(&address, "tell its version", LOOK_UP, docker.negotiate_version()).await?;
        Ok(Self { docker, address })
    }

    async fn call<T>(
        &self,
        what: &'static str,
        patience: Duration,
        call: impl Future<Output = Result<T, BollardError>>,
    ) -> Answer<T> {
        within(&self.address, what, patience, call).await
    }

    /// Which engine this is, for people.
    ///
    /// # Errors
    /// [`SandboxError::Unavailable`] when it does not answer.
    pub async fn describe(&self) -> Result<String, SandboxError> {
        let info = self.info().await?;
        let version = info.server_version.as_deref().unwrap_or("of an unknown version");
        let cgroups = info.cgroup_version.map(|version| format!(", cgroups {version}")).unwrap_or_default();
        Ok(format!("Docker {version} at {}{cgroups}", self.address))
    }

    pub(super) async fn info(&self) -> Answer<SystemInfo> {
        self.call("describe itself", LOOK_UP, self.docker.info()).await
    }

    /// Looks a name up once, so that a tag that moves under way changes nothing.
    pub(super) async fn image(&self, name: &str) -> Result<Image, SandboxError> {
        match self.call("look up an image", LOOK_UP, self.docker.inspect_image(name)).await {
            Ok(image) => usable(name, image),
            Err(error) if error.is_not_found() => Err(SandboxError::Unavailable(format!(
                "Docker has no image `{name}`. Make the default one with scripts/sandbox-image, or name \
                 another with --image (sandbox.image) and fetch it with `docker pull`"
            ))),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn create_volume(&self, request: VolumeCreateRequest) -> Answer<()> {
        self.call("create a volume", CHANGE, self.docker.create_volume(request)).await.map(drop)
    }

    /// A volume that is gone, or that a container still uses, is no error: the reaper comes again.
    pub(super) async fn remove_volume(&self, name: &str) -> Answer<()> {
        let call = self.docker.remove_volume(name, None::<RemoveVolumeOptions>);
        gone(self.call("remove a volume", CHANGE, call).await)
    }

    pub(super) async fn create_container(&self, name: &str, body: ContainerCreateBody) -> Answer<String> {
        let options = CreateContainerOptionsBuilder::new().name(name).build();
        let call = self.docker.create_container(Some(options), body);
        let created = self.call("create a container", CHANGE, call).await?;
        for warning in created.warnings {
            tracing::warn!(
                container = name,
                warning,
                "the engine holds the container differently than asked"
            );
        }
        Ok(created.id)
    }

    pub(super) async fn start_container(&self, id: &str) -> Answer<()> {
        let call = self.docker.start_container(id, None::<StartContainerOptions>);
        self.call("start a container", CHANGE, call).await
    }

    /// Both directions of the first process's standard streams.
    pub(super) async fn attach(&self, id: &str) -> Answer<AttachContainerResults> {
        let options =
            AttachContainerOptionsBuilder::new().stream(true).stdin(true).stdout(true).stderr(true).build();
        self.call("attach to a container", LOOK_UP, self.docker.attach_container(id, Some(options))).await
    }

    /// Unpacks a tar stream into a container's file system, its volumes included.
    pub(super) async fn upload(
        &self,
        id: &str,
        path: &str,
        patience: Duration,
        tar: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    ) -> Answer<()> {
        let options = UploadToContainerOptionsBuilder::new().path(path).build();
        let call = self.docker.upload_to_container(id, Some(options), body_try_stream(tar));
        self.call("take an archive", patience, call).await
    }

    /// `None` when there is no such container.
    pub(super) async fn state(&self, id: &str) -> Answer<Option<ContainerState>> {
        let call = self.docker.inspect_container(id, None::<InspectContainerOptions>);
        match self.call("look up a container", LOOK_UP, call).await {
            Ok(container) => Ok(container.state),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The code that a container ended with; `None` while it runs on for `patience`.
    pub(super) async fn exit_code(&self, id: &str, patience: Duration) -> Answer<Option<i64>> {
        let mut wait = self.docker.wait_container(id, None::<WaitContainerOptions>);
        let ended = async {
            match wait.next().await {
                Some(Ok(response)) => Ok(Some(response.status_code)),
                // How bollard tells a code other than 0.
                Some(Err(BollardError::DockerContainerWaitError { code, .. })) => Ok(Some(code)),
                Some(Err(error)) => Err(error),
                None => Ok(None),
            }
        };
        match self.call("wait for a container", patience, ended).await {
            Err(EngineError::Silent { .. }) => Ok(None),
            other => other,
        }
    }

    /// Kills and removes, with the volumes that have no name. One that is gone is no error. Where somebody
    /// else is removing it already, waits until that is done: before, its volumes cannot be removed.
    pub(super) async fn remove_container(&self, id: &str) -> Answer<()> {
        let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
        let call = self.docker.remove_container(id, Some(options));
        match self.call("remove a container", CHANGE, call).await {
            Err(error) if error.is_conflict() => self.removed(id).await,
            other => gone(other),
        }
    }

    async fn removed(&self, id: &str) -> Answer<()> {
        let options = WaitContainerOptionsBuilder::new().condition("removed").build();
        let mut wait = self.docker.wait_container(id, Some(options));
        let removed = async {
            match wait.next().await {
                Some(Err(BollardError::DockerContainerWaitError { .. })) | Some(Ok(_)) | None => Ok(()),
                Some(Err(error)) => Err(error),
            }
        };
        gone(self.call("remove a container", CHANGE, removed).await)
    }

    /// All containers that any instance of acquire made, running or not.
    pub(super) async fn our_containers(&self) -> Answer<Vec<ContainerSummary>> {
        let options = ListContainersOptionsBuilder::new().all(true).filters(&ours()).build();
        self.call("list containers", LOOK_UP, self.docker.list_containers(Some(options))).await
    }

    /// All volumes that any instance of acquire made.
    pub(super) async fn our_volumes(&self) -> Answer<Vec<Volume>> {
        let options = ListVolumesOptionsBuilder::new().filters(&ours()).build();
        let listed = self.call("list volumes", LOOK_UP, self.docker.list_volumes(Some(options))).await?;
        Ok(listed.volumes.unwrap_or_default())
    }
}

fn ours() -> HashMap<&'static str, Vec<&'static str>> {
    HashMap::from([("label", vec![OURS])])
}

async fn within<T>(
    address: &str,
    what: &'static str,
    patience: Duration,
    call: impl Future<Output = Result<T, BollardError>>,
) -> Answer<T> {
    match tokio::time::timeout(patience, call).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(classify(address, what, &error)),
        Err(_) => Err(EngineError::Silent { address: address.to_owned(), what, after: patience }),
    }
}

fn classify(address: &str, what: &'static str, error: &BollardError) -> EngineError {
    if let BollardError::DockerResponseServerError { status_code, message } = error {
        return EngineError::Refused { what, status: *status_code, message: message.trim().to_owned() };
    }
    // The innermost cause says what happened; those around it say that something did. The io error of
    // this variant is not in its own chain of sources.
    let mut cause: &(dyn std::error::Error + 'static) = match error {
        BollardError::IOError { err } => err,
        other => other,
    };
    loop {
        if cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::PermissionDenied) {
            return EngineError::Forbidden { address: address.to_owned() };
        }
        match cause.source() {
            Some(inner) => cause = inner,
            None => break,
        }
    }
    let reason = match error {
        BollardError::SocketNotFoundError(_) => "there is no such socket".to_owned(),
        _ => cause.to_string(),
    };
    EngineError::Unreachable { address: address.to_owned(), reason }
}

fn gone(answer: Answer<()>) -> Answer<()> {
    match answer {
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        other => other,
    }
}

/// Refuses an image in which the supervisor cannot run.
fn usable(name: &str, image: ImageInspect) -> Result<Image, SandboxError> {
    let ours = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let (os, theirs) = (image.os.unwrap_or_default(), image.architecture.unwrap_or_default());
    if os != "linux" || theirs != ours {
        return Err(SandboxError::Unavailable(format!(
            "the image `{name}` is for {os}/{theirs}, but this acquire is for linux/{ours}. Name another with \
             --image (sandbox.image)"
        )));
    }
    let id = image
        .id
        .ok_or_else(|| SandboxError::Unavailable(format!("the engine knows no id of the image `{name}`")))?;
    Ok(Image { id, volumes: image.config.and_then(|config| config.volumes).unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(os: &str, architecture: &str) -> ImageInspect {
        ImageInspect {
            id: Some("sha256:00".into()),
            os: Some(os.into()),
            architecture: Some(architecture.into()),
            ..ImageInspect::default()
        }
    }

    #[test]
    fn an_image_for_another_machine_is_refused_with_both_named() {
        let error = usable("img", image("linux", "s390x")).unwrap_err().to_string();
        assert!(error.contains("`img` is for linux/s390x"), "{error}");
        assert!(usable("img", image("windows", "amd64")).is_err());
    }

    #[test]
    fn a_missing_or_used_object_counts_as_removed_and_other_refusals_do_not() {
        let refused = |status| EngineError::Refused { what: "remove a volume", status, message: "no".into() };
        assert!(gone(Err(refused(404))).is_ok());
        assert!(gone(Err(refused(409))).is_ok());
        assert!(gone(Err(refused(500))).is_err());
    }

    #[test]
    fn permission_is_told_apart_from_absence() {
        let error = |kind| BollardError::from(io::Error::from(kind));
        let forbidden = classify("unix:///s", "x", &error(io::ErrorKind::PermissionDenied));
        let absent = classify("unix:///s", "x", &error(io::ErrorKind::ConnectionRefused));
        assert!(matches!(absent, EngineError::Unreachable { .. }), "{absent}");
        assert!(matches!(forbidden, EngineError::Forbidden { .. }), "{forbidden}");
        insta::assert_snapshot!(SandboxError::from(forbidden), @"the user that runs this may not use the Docker engine at unix:///s. Run as root or as a member of the group that owns the socket");
    }

    #[tokio::test]
    async fn a_call_that_hangs_ends_at_its_own_limit() {
        let never = std::future::pending::<Result<(), BollardError>>();
        let error =
            within("unix:///s", "start a container", Duration::from_millis(5), never).await.unwrap_err();
        assert!(matches!(error, EngineError::Silent { .. }), "{error}");
    }

    #[tokio::test]
    async fn addresses_that_are_no_socket_are_refused_with_what_to_change() {
        let error = Engine::connect(Some("tcp://10.0.0.1:2375")).await.unwrap_err().to_string();
        assert!(error.contains("sandbox.host or DOCKER_HOST"), "{error}");
    }
}
