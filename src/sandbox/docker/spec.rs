//! How a container is confined, as a value: settings in, the engine's words out.
//!
//! Whatever the engine's own defaults or the image would weaken is said outright: the image's user,
//! entry point, health check and volumes are all overridden. What is not said here on purpose is the
//! seccomp profile, the AppArmor profile and the masked paths: the engine's defaults stay, and the
//! supervisor stacks a seccomp filter of its own on every command.

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount,
    MountType, MountVolumeOptions, ResourcesUlimits,
};
use sha2::{Digest, Sha256};

use super::{labels::Owner, settings::DockerSettings, volumes::Workspace};
use crate::method::ports::Access;

pub(super) const MIB: u64 = 1024 * 1024;

/// Where the repository lies.
pub(super) const WORKSPACE: &str = "/workspace";
/// Where the packed history lies; agents' repositories name it as their alternates.
pub(super) const HISTORY: &str = "/history";
/// Where the supervisor's volume is mounted.
const SUPERVISOR_MOUNT: &str = "/acquire";
/// The supervisor's name in its volume.
pub(super) const SUPERVISOR_FILE: &str = "supervisor";
/// The user and the group of everything inside; also the owner of the workspace.
pub(super) const USER: u64 = 1000;
/// Room that a container's memory limit leaves beside a full workspace, which counts towards it.
const MEMORY_BESIDE_WORKSPACE: u64 = 1024 * MIB;
/// A tmpfs takes an inode, and so memory of the kernel, for each file however small.
const TMP_INODES: u64 = 65_536;

/// An image as the engine knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    /// `sha256:…`; names move, ids do not.
    pub id: String,
    /// Paths at which the image asks for volumes.
    pub volumes: Vec<String>,
}

/// What one container is made from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ContainerSpec {
    pub image: Image,
    pub cpus: f64,
    pub pids: u32,
    pub memory_bytes: u64,
    pub tmp_bytes: u64,
    pub workspace_volume: String,
    pub access: Access,
    pub supervisor_volume: String,
    pub history_volume: String,
}

impl ContainerSpec {
    /// The engine's words for it, with the labels of its owner.
    pub fn body(&self, owner: &Owner) -> ContainerCreateBody {
        ContainerCreateBody { labels: Some(owner.container_labels(&self.posture())), ..self.unlabelled() }
    }

    /// A hash over everything that confines the container, and over nothing else: two containers with
    /// the same posture are held in the same way, whichever image, run and volumes they have.
    pub fn posture(&self) -> String {
        let mut body = self.unlabelled();
        body.image = None;
        for mount in body.host_config.iter_mut().flat_map(|host| host.mounts.iter_mut().flatten()) {
            mount.source = None;
        }
        let mut value = serde_json::to_value(body).expect("a container body is plain JSON data");
        value.sort_all_objects();
        hex::encode(&Sha256::digest(value.to_string())[..8])
    }

    fn unlabelled(&self) -> ContainerCreateBody {
        ContainerCreateBody {
            image: Some(self.image.id.clone()),
            entrypoint: Some(vec![format!("{SUPERVISOR_MOUNT}/{SUPERVISOR_FILE}")]),
            cmd: Some(vec![WORKSPACE.to_owned()]),
            user: Some(format!("{USER}:{USER}")),
            working_dir: Some(WORKSPACE.to_owned()),
            hostname: Some("sandbox".to_owned()),
            // The engine lays these over the image's own. Nothing of the host's is among them. The
            // supervisor makes the home.
            env: Some(["HOME=/tmp/home", "TMPDIR=/tmp", "CI=true", "PAGER=cat"].map(str::to_owned).to_vec()),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            open_stdin: Some(true),
            // When the host hangs up, the supervisor reads the end of its input and ends.
            stdin_once: Some(true),
            // With a terminal, output could forge the headers of the stream's frames.
            tty: Some(false),
            healthcheck: Some(HealthConfig {
                test: Some(vec!["NONE".to_owned()]),
                ..HealthConfig::default()
            }),
            host_config: Some(self.host_config()),
            ..ContainerCreateBody::default()
        }
    }

    fn host_config(&self) -> HostConfig {
        let memory = signed(self.memory_bytes);
        let limit = |name: &str, value| ResourcesUlimits {
            name: Some(name.to_owned()),
            soft: Some(value),
            hard: Some(value),
        };
        HostConfig {
            network_mode: Some("none".to_owned()),
            // Else the host's own resolver settings can be read inside.
            dns: Some(vec!["127.0.0.1".to_owned()]),
            dns_search: Some(vec![".".to_owned()]),
            privileged: Some(false),
            cap_drop: Some(vec!["ALL".to_owned()]),
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
            readonly_rootfs: Some(true),
            ipc_mode: Some("private".to_owned()),
            cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
            // An engine may be set to put an init of its own in front; PID 1 is the supervisor's place.
            init: Some(false),
            memory: Some(memory),
            memory_swap: Some(memory),
            nano_cpus: Some((self.cpus * 1e9) as i64),
            pids_limit: Some(i64::from(self.pids)),
            ulimits: Some(vec![limit("nofile", 4096), limit("core", 0)]),
            tmpfs: Some(self.tmpfs()),
            shm_size: Some(signed(64 * MIB)),
            mounts: Some(vec![
                volume(&self.workspace_volume, WORKSPACE, self.access == Access::ReadWrite),
                volume(&self.supervisor_volume, SUPERVISOR_MOUNT, false),
                volume(&self.history_volume, HISTORY, false),
            ]),
            // Output is the agents' and may be endless; the engine must not keep it on the host's disk.
            log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
            // An end must leave its exit code to be read.
            auto_remove: Some(false),
            ..HostConfig::default()
        }
    }

    /// `/tmp`, and an empty one at every path where the image asks for a volume: an anonymous volume
    /// there would be writable, without a limit, and on the host's disk. The engine's folder of message
    /// queues, which everyone may write to, is covered.
    fn tmpfs(&self) -> HashMap<String, String> {
        let options =
            format!("rw,exec,nosuid,nodev,mode=1777,size={},nr_inodes={TMP_INODES}", self.tmp_bytes);
        let taken = [WORKSPACE, SUPERVISOR_MOUNT, HISTORY];
        self.image
            .volumes
            .iter()
            .map(|path| path.trim_end_matches('/'))
            .filter(|path| !taken.contains(path))
            .chain(["/tmp"])
            .map(|path| (path.to_owned(), options.clone()))
            .chain([("/dev/mqueue".to_owned(), "ro,noexec,nosuid,nodev,size=4096".to_owned())])
            .collect()
    }
}

/// The memory limit of a container with such a workspace, in bytes.
pub(super) fn memory_limit(settings: &DockerSettings, workspace: Workspace) -> u64 {
    let wanted = settings.memory_mib.saturating_mul(MIB);
    match workspace {
        Workspace::Memory { bytes, .. } => wanted.max(bytes + MEMORY_BESIDE_WORKSPACE),
        Workspace::Disk { .. } => wanted,
    }
}

/// A mount of a named volume. Without `no_copy` the engine would copy into it what the image has there.
pub(super) fn volume(name: &str, target: &str, writable: bool) -> Mount {
    Mount {
        typ: Some(MountType::VOLUME),
        source: Some(name.to_owned()),
        target: Some(target.to_owned()),
        read_only: Some(!writable),
        volume_options: Some(MountVolumeOptions { no_copy: Some(true), ..MountVolumeOptions::default() }),
        ..Mount::default()
    }
}

/// The engine's sizes are signed.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{domain::RunId, sandbox::docker::labels::InstanceId};

    fn spec() -> ContainerSpec {
        ContainerSpec {
            image: Image { id: "sha256:00".into(), volumes: vec![] },
            cpus: 2.0,
            pids: 512,
            memory_bytes: 4096 * MIB,
            tmp_bytes: 256 * MIB,
            workspace_volume: "w".into(),
            access: Access::ReadOnly,
            supervisor_volume: "s".into(),
            history_volume: "h".into(),
        }
    }

    fn owner(run: &str) -> Owner {
        Owner {
            instance: InstanceId::parse("i").unwrap(),
            run: RunId::try_from(run.to_owned()).unwrap(),
            lease_until: "2026-11-30T11:00:00Z".parse().unwrap(),
        }
    }

    #[test]
    fn decision_5_the_container_is_confined_in_every_way_that_the_engine_knows() {
        let mut body = serde_json::to_value(spec().body(&owner("run-1"))).unwrap();
        body.sort_all_objects();
        insta::assert_snapshot!(serde_json::to_string_pretty(&body).unwrap());
    }

    #[test]
    fn decision_5_nothing_of_the_host_is_bound_and_no_capability_is_given() {
        let host = spec().body(&owner("run-1")).host_config.unwrap();
        assert!(host.binds.is_none() && host.cap_add.is_none() && host.devices.is_none());
        assert!(host.mounts.unwrap().iter().all(|mount| mount.typ == Some(MountType::VOLUME)));
    }

    #[test]
    fn the_posture_changes_with_the_confinement_and_with_nothing_else() {
        let posture = spec().posture();
        let renamed = ContainerSpec {
            image: Image { id: "sha256:11".into(), volumes: vec![] },
            workspace_volume: "other".into(),
            ..spec()
        };
        assert_eq!(renamed.posture(), posture);
        for weaker in [
            ContainerSpec { pids: 513, ..spec() },
            ContainerSpec { memory_bytes: 1, ..spec() },
            ContainerSpec { access: Access::ReadWrite, ..spec() },
        ] {
            assert_ne!(weaker.posture(), posture);
        }
    }

    #[test]
    fn the_posture_does_not_depend_on_the_order_of_a_hash_map() {
        let image = Image { id: "sha256:00".into(), volumes: (0..20).map(|n| format!("/data{n}")).collect() };
        let spec = ContainerSpec { image, ..spec() };
        let first = spec.posture();
        assert!((0..20).all(|_| spec.posture() == first));
    }

    #[test]
    fn volumes_that_an_image_asks_for_become_sized_tmpfs() {
        let image = Image { id: "i".into(), volumes: vec!["/data/".into(), "/workspace".into()] };
        let tmpfs = ContainerSpec { image, ..spec() }.tmpfs();
        let mut paths: Vec<_> = tmpfs.keys().map(String::as_str).collect();
        paths.sort_unstable();
        assert_eq!(paths, ["/data", "/dev/mqueue", "/tmp"]);
        assert!(tmpfs["/data"].contains("size=268435456"));
    }

    #[test]
    fn decision_3_the_memory_limit_leaves_a_gibibyte_beside_the_workspace() {
        let limit = |memory_mib, workspace| {
            memory_limit(&DockerSettings { memory_mib, ..DockerSettings::default() }, workspace) / MIB
        };
        let in_memory = |mib| Workspace::Memory { bytes: mib * MIB, inodes: 1 };
        assert_eq!(limit(4096, in_memory(512)), 4096);
        assert_eq!(limit(1024, in_memory(900)), 1924);
        assert_eq!(limit(512, Workspace::Disk { wanted_bytes: 9000 * MIB }), 512);
    }
}
