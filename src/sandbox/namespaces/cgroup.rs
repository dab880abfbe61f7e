//! Limits on memory and processes by cgroup, where this process may set them.
//!
//! Root may nearly everywhere, an ordinary user where a part of the tree was handed to them (as systemd does
//! for a desktop's own applications). What cannot be limited is said to the agents and in the run's notes.

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread::sleep,
    time::Duration,
};

/// Cgroups of one sandbox; removed when dropped, by when its processes must be gone.
#[derive(Debug, Default)]
pub(super) struct Cgroups {
    folders: Vec<PathBuf>,
    pub(super) holds_memory: bool,
    pub(super) holds_processes: bool,
}

/// A file of a cgroup that holds a limit.
struct Limit {
    file: &'static str,
    value: String,
    /// Kernels without swap accounting lack some.
    optional: bool,
}

impl Cgroups {
    /// `name` must be new on this machine.
    pub(super) fn create(name: &str, memory_bytes: u64, processes: u64) -> Self {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let limit = |file, value: &dyn ToString, optional| Limit { file, value: value.to_string(), optional };
        let mut cgroups = Self::default();
        for parent in unified_parents(&table, &own) {
            let limits = [
                limit("memory.max", &memory_bytes, false),
                limit("memory.swap.max", &0, true),
                limit("pids.max", &processes, false),
            ];
            if cgroups.add(&parent.join(name), &limits).is_ok() {
                (cgroups.holds_memory, cgroups.holds_processes) = (true, true);
                return cgroups;
            }
        }
        if let Some(parent) = separate_parent(&table, &own, "memory") {
            let limits = [
                limit("memory.limit_in_bytes", &memory_bytes, false),
                limit("memory.memsw.limit_in_bytes", &memory_bytes, true),
            ];
            cgroups.holds_memory = cgroups.add(&parent.join(name), &limits).is_ok();
        }
        if let Some(parent) = separate_parent(&table, &own, "pids") {
            let limits = [limit("pids.max", &processes, false)];
            cgroups.holds_processes = cgroups.add(&parent.join(name), &limits).is_ok();
        }
        cgroups
    }

    /// The files that take a process in.
    pub(super) fn entrances(&self) -> Vec<PathBuf> {
        self.folders.iter().map(|folder| folder.join("cgroup.procs")).collect()
    }

    fn add(&mut self, folder: &Path, limits: &[Limit]) -> io::Result<()> {
        fs::create_dir(folder)?;
        for Limit { file, value, optional } in limits {
            match fs::write(folder.join(file), value) {
                Err(error) if !optional => {
                    fs::remove_dir(folder)?;
                    return Err(error);
                }
                _ => {}
            }
        }
        self.folders.push(folder.to_owned());
        Ok(())
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for folder in &self.folders {
            remove(folder);
        }
    }
}

/// Removes the cgroups whose name begins with `prefix`, left behind by a host that was killed.
pub(super) fn reap(prefix: &str) {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let separate = ["memory", "pids"].iter().filter_map(|name| separate_parent(&table, &own, name));
    for parent in unified_parents(&table, &own).into_iter().chain(separate) {
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                remove(&entry.path());
            }
        }
    }
}

/// The kernel refuses while processes are still going away.
fn remove(folder: &Path) {
    for _ in 0..50 {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => sleep(Duration::from_millis(10)),
            _ => return,
        }
    }
    tracing::warn!("the cgroup {} is still in use and stays", folder.display());
}

/// A line of the mount table: root inside its file system, mount point, type, options of the file system.
fn mounts(table: &str) -> impl Iterator<Item = (&str, &str, &str, &str)> {
    table.lines().filter_map(|line| {
        let (place, system) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let mut system = system.split(' ');
        Some((place.next()?, place.next()?, system.next()?, system.nth(1)?))
    })
}

/// Folders of the unified tree where a new cgroup would get both controllers: from this process's own
/// upwards, the nearest first.
fn unified_parents(table: &str, own: &str) -> Vec<PathBuf> {
    let Some(path) = own.lines().find_map(|line| line.strip_prefix("0::")) else { return Vec::new() };
    let Some((root, mount, ..)) = mounts(table).find(|(.., kind, _)| *kind == "cgroup2") else {
        return Vec::new();
    };
    let own = inside(root, mount, path);
    let hands_down = |folder: &&Path| {
        let controllers = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
        ["memory", "pids"].iter().all(|wanted| controllers.split_whitespace().any(|c| c == *wanted))
    };
    own.ancestors()
        .take_while(|folder| folder.starts_with(mount))
        .filter(hands_down)
        .map(Path::to_owned)
        .collect()
}

/// This process's own folder in the separate tree of one controller (cgroup v1).
fn separate_parent(table: &str, own: &str, controller: &str) -> Option<PathBuf> {
    let has = |list: &str| list.split(',').any(|c| c == controller);
    let path = own.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        has(controllers).then_some(path)
    })?;
    let (root, mount, ..) = mounts(table).find(|(.., kind, options)| *kind == "cgroup" && has(options))?;
    Some(inside(root, mount, path))
}

/// Where `path` of a cgroup tree is, whose part `root` is mounted at `mount`.
fn inside(root: &str, mount: &str, path: &str) -> PathBuf {
    let below = path.strip_prefix(root).unwrap_or_default().trim_start_matches('/');
    Path::new(mount).join(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separate_trees_are_found_where_they_are_mounted() {
        let table = "\
30 25 0:26 / /sys/fs/cgroup/pids rw,relatime shared:9 - cgroup cgroup rw,pids
31 25 0:27 /box /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
";
        let own = "8:pids:/\n4:memory:/box/inner\n0::/\n";
        let parent = |name| separate_parent(table, own, name);
        assert_eq!(parent("pids"), Some("/sys/fs/cgroup/pids".into()));
        assert_eq!(parent("memory"), Some("/sys/fs/cgroup/memory/inner".into()));
        assert_eq!(parent("cpu"), None);
        assert!(unified_parents(table, own).is_empty());
    }

    #[test]
    fn the_unified_tree_is_searched_upwards_for_controllers() {
        let tree = tempfile::tempdir().unwrap();
        let mount = tree.path().to_str().unwrap();
        let own = tree.path().join("user/app/me");
        fs::create_dir_all(&own).unwrap();
        for (folder, controllers) in [(&own, ""), (&tree.path().join("user/app"), "cpu memory pids")] {
            fs::write(folder.join("cgroup.subtree_control"), controllers).unwrap();
        }
        fs::write(tree.path().join("cgroup.subtree_control"), "memory").unwrap();
        let table = format!("29 25 0:26 / {mount} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
        assert_eq!(unified_parents(&table, "0::/user/app/me\n"), [tree.path().join("user/app")]);
    }
}
