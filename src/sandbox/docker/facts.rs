//! What is said about the sandboxes, to agents and to people.

use super::{
    settings::DockerSettings,
    spec::{self, Image, MIB},
    volumes::Workspace,
};

/// Where the sandboxes are not what the settings say.
pub(super) fn for_people(settings: &DockerSettings, workspace: Workspace) -> Vec<String> {
    let mut notes = Vec::new();
    if let Workspace::Disk { wanted_bytes } = workspace {
        notes.push(format!(
            "The workspace of {} MiB is too large for memory: it is a plain volume, and nothing limits its size.",
            wanted_bytes / MIB
        ));
    }
    let memory_mib = spec::memory_limit(settings, workspace) / MIB;
    if memory_mib > settings.memory_mib {
        notes.push(format!(
            "A sandbox may use {memory_mib} MiB of memory instead of {}: its workspace counts as memory.",
            settings.memory_mib
        ));
    }
    notes
}

/// What agents are told, so that they waste no step on finding it out.
pub(super) fn for_agents(settings: &DockerSettings, workspace: Workspace, image: &Image) -> Vec<String> {
    let mut facts = vec![
        "The network is off: no name resolves, nothing can be downloaded or installed from it.".to_owned(),
        "Commands run as user 1000 without any privilege; `sudo` does not work.".to_owned(),
        format!(
            "The root file system is read-only. /tmp can be written ({} MiB, programs may run from it), and so \
             can /workspace where your task is to change it.",
            settings.tmp_mib
        ),
        format!(
            "Limits: {} MiB of memory including /tmp, {} CPUs, {} processes. A command that ends with 137, or \
             by signal 9, was most likely killed for want of memory.",
            spec::memory_limit(settings, workspace) / MIB,
            settings.cpus,
            settings.pids
        ),
        "ptrace is refused: strace, gdb and LeakSanitizer do not work (ASAN_OPTIONS=detect_leaks=0 helps)."
            .to_owned(),
    ];
    if let Workspace::Memory { bytes, .. } = workspace {
        facts.push(format!("/workspace holds at most {} MiB and counts as memory.", bytes / MIB));
    }
    if !image.volumes.is_empty() {
        facts.push(format!("Empty in this sandbox: {}.", image.volumes.join(", ")));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decision_3_a_plain_volume_and_a_raised_memory_limit_are_said() {
        let settings = |memory_mib| DockerSettings { memory_mib, ..DockerSettings::default() };
        let in_memory = Workspace::Memory { bytes: 512 * MIB, inodes: 1 };
        assert!(for_people(&settings(4096), in_memory).is_empty());
        insta::assert_snapshot!(for_people(&settings(1024), in_memory).concat(), @"A sandbox may use 1536 MiB of memory instead of 1024: its workspace counts as memory.");
        let on_disk = Workspace::Disk { wanted_bytes: 3000 * MIB };
        insta::assert_snapshot!(for_people(&settings(4096), on_disk).concat(), @"The workspace of 3000 MiB is too large for memory: it is a plain volume, and nothing limits its size.");
    }

    #[test]
    fn agents_are_told_what_they_would_otherwise_try() {
        let image = Image { id: "i".into(), volumes: vec!["/data".into()] };
        let workspace = Workspace::Memory { bytes: 512 * MIB, inodes: 1 };
        insta::assert_snapshot!(for_agents(&DockerSettings::default(), workspace, &image).join("\n"));
    }
}
