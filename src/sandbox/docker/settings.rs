//! What an operator may set about the Docker sandbox.

use bollard::models::SystemInfo;
use serde::{Deserialize, Serialize};

use crate::method::ports::SandboxError;

/// The `[sandbox]` settings that only Docker knows. Sizes are in MiB (1,048,576 bytes).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DockerSettings {
    /// Image of the agents' containers: a name, or an id with its `sha256:`. It needs `bash` and is
    /// never pulled. `scripts/sandbox-image` makes the default one.
    pub image: String,
    /// Memory of one container, without swap; raised where the workspace, which lies in memory,
    /// would leave less than 1,024 for programs.
    pub memory_mib: u64,
    /// CPUs of one container; no more than the engine has.
    pub cpus: f64,
    /// Processes and threads of one container.
    pub pids: u32,
    /// Size of `/tmp`, which lies in memory and counts towards `memory_mib`.
    pub tmp_mib: u64,
    /// Size of `/workspace`; by default three times the repository's tree, at least 512. Up to 1,024 it
    /// lies in memory and the kernel holds the limit; above that it is a plain volume without a limit.
    pub workspace_mib: Option<u64>,
}

impl Default for DockerSettings {
    fn default() -> Self {
        Self {
            image: "acquire-sandbox:1".to_owned(),
            memory_mib: 4096,
            cpus: 2.0,
            pids: 512,
            tmp_mib: 256,
            workspace_mib: None,
        }
    }
}

impl DockerSettings {
    /// Refuses values with which no container can work.
    ///
    /// # Errors
    /// [`SandboxError::Unavailable`] names the key, its value and the least that it takes.
    pub fn check(&self) -> Result<(), SandboxError> {
        let too_small = |key: &str, value: String, least: &str| {
            Err(SandboxError::Unavailable(format!("sandbox.{key} = {value} is too small: at least {least}")))
        };
        if self.image.trim().is_empty() {
            return Err(SandboxError::Unavailable(
                "sandbox.image is empty: name an image, such as acquire-sandbox:1".to_owned(),
            ));
        }
        if self.memory_mib < 128 {
            return too_small("memory_mib", self.memory_mib.to_string(), "128");
        }
        if !self.cpus.is_finite() || self.cpus < 0.1 {
            return too_small("cpus", self.cpus.to_string(), "0.1");
        }
        if self.pids < 16 {
            return too_small("pids", self.pids.to_string(), "16");
        }
        if self.tmp_mib < 1 {
            return too_small("tmp_mib", self.tmp_mib.to_string(), "1");
        }
        match self.workspace_mib {
            Some(size) if size < 1 => too_small("workspace_mib", size.to_string(), "1"),
            _ => Ok(()),
        }
    }

    /// Refuses an engine that cannot hold the limits, and asks it for no more than it has.
    pub(super) fn within_reach(self, info: &SystemInfo) -> Result<Self, SandboxError> {
        for (holds, what) in [(info.memory_limit, "memory"), (info.pids_limit, "the number of processes")] {
            if holds == Some(false) {
                return Err(SandboxError::Unavailable(format!(
                    "the Docker engine cannot limit {what}: cgroups are missing, or not delegated to a rootless \
                     engine. Repair that, or use `--sandbox namespaces` for a repository of your own"
                )));
            }
        }
        let cpus = info.ncpu.filter(|cpus| *cpus > 0).map_or(self.cpus, |cpus| self.cpus.min(cpus as f64));
        Ok(Self { cpus, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_left_out_take_their_defaults_and_unknown_ones_are_refused() {
        let settings: DockerSettings = serde_json::from_str(r#"{"pids": 64}"#).unwrap();
        assert_eq!(settings, DockerSettings { pids: 64, ..DockerSettings::default() });
        let error = serde_json::from_str::<DockerSettings>(r#"{"pid": 64}"#).unwrap_err().to_string();
        assert!(error.contains("pid"), "{error}");
    }

    #[test]
    fn values_that_no_container_can_live_with_name_their_key() {
        let default = DockerSettings::default;
        assert!(default().check().is_ok());
        for (bad, key) in [
            (DockerSettings { image: " ".into(), ..default() }, "image"),
            (DockerSettings { memory_mib: 0, ..default() }, "memory_mib"),
            (DockerSettings { cpus: f64::NAN, ..default() }, "cpus"),
            (DockerSettings { pids: 1, ..default() }, "pids"),
            (DockerSettings { tmp_mib: 0, ..default() }, "tmp_mib"),
            (DockerSettings { workspace_mib: Some(0), ..default() }, "workspace_mib"),
        ] {
            let error = bad.check().unwrap_err().to_string();
            assert!(error.starts_with(&format!("sandbox.{key}")), "{error}");
        }
    }

    #[test]
    fn an_engine_that_cannot_hold_the_limits_is_refused() {
        for info in [
            SystemInfo { memory_limit: Some(false), ..SystemInfo::default() },
            SystemInfo { pids_limit: Some(false), ..SystemInfo::default() },
        ] {
            let error = DockerSettings::default().within_reach(&info).unwrap_err().to_string();
            assert!(error.contains("cannot limit"), "{error}");
        }
    }

    #[test]
    fn no_more_cpus_are_asked_for_than_there_are() {
        let info = SystemInfo { ncpu: Some(1), ..SystemInfo::default() };
        assert_eq!(DockerSettings::default().within_reach(&info).unwrap().cpus, 1.0);
        assert_eq!(DockerSettings::default().within_reach(&SystemInfo::default()).unwrap().cpus, 2.0);
    }
}
