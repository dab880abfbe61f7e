//! Which files of the workspace changed (R-EX-9).

use std::{
    collections::BTreeMap,
    hash::Hasher,
    io::{self, Read as _},
    ops::Range,
    os::fd::{AsFd, OwnedFd},
    thread::sleep,
    time::{Duration, Instant},
};

use super::{
    system::{self, Kind, Moment, Stamp},
    wire::{self, Listed, ListedKind, Mode},
    workspace::{self, Failure},
};

/// Deeper directories are reported as special, not entered; no tree of git's has them.
const MAX_DEPTH: usize = 256;
/// Most entries that a workspace may have to be listed.
const MAX_WALKED: usize = 1_000_000;

/// A state of the workspace: what stands at each path, directories left out.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// The paths of all entries, one behind the other: a workspace is looked through after every command,
    /// and an allocation for each of its files would be what takes longest.
    paths: Vec<u8>,
    /// In the order of paths, byte by byte.
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    /// In `paths`.
    path: Range<usize>,
    stamp: Stamp,
    /// Of a file as it was filled in. Programs can write through a memory map without a trace in the
    /// stamp on some file systems (tmpfs).
    digest: Option<u64>,
}

impl Snapshot {
    /// A state from files that were just written, with the digests of their contents, in any order.
    pub fn of(files: BTreeMap<Vec<u8>, (Stamp, Option<u64>)>) -> Self {
        let mut snapshot = Self::default();
        for (path, (stamp, digest)) in files {
            snapshot.add(&path, stamp, digest);
        }
        snapshot
    }

    /// The workspace as it is now; `.git` is skipped at any depth (S-23).
    pub fn take(root: &OwnedFd) -> Result<Self, Failure> {
        let mut snapshot = Self::default();
        // A descriptor of its own: where a directory was read to is kept with the descriptor.
        let top = system::open_in(root.as_fd(), b".", system::O_RDONLY | system::O_DIRECTORY, 0)
            .map_err(|error| Failure::of("open", b"the workspace", &error))?;
        snapshot.walk(&top, &mut Vec::new(), 1)?;
        Ok(snapshot)
    }

    /// Adds what stands below `dir`, whose path with a slash behind it is `prefix`.
    fn walk(&mut self, dir: &OwnedFd, prefix: &mut Vec<u8>, depth: usize) -> Result<(), Failure> {
        let names = system::names_in(dir).map_err(|error| Failure::of("list", prefix, &error))?;
        let mut found = Vec::with_capacity(names.len());
        for name in names.into_iter().filter(|name| name != b".git") {
            let stamp = system::stamp_in(dir.as_fd(), &name)
                .map_err(|error| Failure::of("look at", &[prefix, name.as_slice()].concat(), &error))?;
            let length = prefix.len() + name.len();
            let is_entered =
                stamp.kind() == Kind::Directory && depth < MAX_DEPTH && length < wire::MAX_PATH - 256;
            found.push((name, stamp, is_entered));
        }
        // Whose contents follow is sorted as if the slash stood there, so that whole paths are in order.
        let key = |name: &[u8], is_entered: bool, at: usize| {
            name.get(at).copied().or(is_entered.then_some(b'/').filter(|_| at == name.len()))
        };
        found.sort_unstable_by(|(a, _, a_entered), (b, _, b_entered)| {
            let common = a.len().min(b.len());
            let rest = || key(a, *a_entered, common).cmp(&key(b, *b_entered, common));
            a[..common].cmp(&b[..common]).then_with(rest)
        });
        let outer = prefix.len();
        for (name, stamp, is_entered) in found {
            prefix.extend_from_slice(&name);
            if is_entered {
                let inner =
                    workspace::open_dir(dir, &name).map_err(|error| Failure::of("open", prefix, &error))?;
                prefix.push(b'/');
                self.walk(&inner, prefix, depth + 1)?;
            } else {
                self.add(prefix, stamp, None);
            }
            prefix.truncate(outer);
            if self.entries.len() > MAX_WALKED {
                return Err(Failure {
                    cause: wire::Cause::Full,
                    message: format!("the workspace has more than {MAX_WALKED} files"),
                });
            }
        }
        Ok(())
    }

    /// The path must be greater than all before it.
    fn add(&mut self, path: &[u8], stamp: Stamp, digest: Option<u64>) {
        let start = self.paths.len();
        self.paths.extend_from_slice(path);
        self.entries.push(Entry { path: start..self.paths.len(), stamp, digest });
    }

    fn path(&self, entry: &Entry) -> &[u8] {
        &self.paths[entry.path.clone()]
    }

    /// What differs in `now`, in the order of paths. With `contents`, files whose stamp did not change are
    /// read as well.
    pub fn changes(&self, now: &Self, contents: Option<&OwnedFd>) -> Result<Vec<Listed>, Failure> {
        let mut listed = Vec::new();
        let mut before = self.entries.iter().peekable();
        for entry in &now.entries {
            let path = now.path(entry);
            while let Some(gone) = before.next_if(|gone| self.path(gone) < path) {
                listed.push(Listed { path: self.path(gone).to_vec(), kind: ListedKind::Removed });
            }
            let same = match before.next_if(|same| self.path(same) == path) {
                Some(before) if before.stamp == entry.stamp => match (contents, before.digest) {
                    (Some(root), Some(digest)) => digest_at(root, path, &entry.stamp) == Some(digest),
                    _ => true,
                },
                _ => false,
            };
            if !same {
                listed.push(Listed { path: path.to_vec(), kind: listed_kind(&entry.stamp) });
            }
        }
        let gone = before.map(|gone| Listed { path: self.path(gone).to_vec(), kind: ListedKind::Removed });
        listed.extend(gone);
        if listed.len() > wire::MAX_LISTED {
            return Err(Failure {
                cause: wire::Cause::Full,
                message: format!("more than {} files changed", wire::MAX_LISTED),
            });
        }
        Ok(listed)
    }

    /// Waits until the clock of file systems has moved on, so that every later write leaves a later time
    /// than this snapshot has. It takes one tick at most, some milliseconds.
    pub fn settle(&self) -> io::Result<()> {
        let latest: Moment = self.entries.iter().map(|entry| entry.stamp.changed).max().unwrap_or_default();
        // A clock that was set back must not hold the sandbox up.
        let patience = Instant::now() + Duration::from_millis(100);
        while system::file_clock()? <= latest && Instant::now() < patience {
            sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

fn listed_kind(stamp: &Stamp) -> ListedKind {
    let mode = match stamp.kind() {
        Kind::File if stamp.mode & 0o100 != 0 => Mode::Executable,
        Kind::File => Mode::Regular,
        Kind::Symlink => Mode::Symlink,
        Kind::Directory | Kind::Special => return ListedKind::Special,
    };
    ListedKind::Changed { mode, size: stamp.size }
}

/// Recognises accidental changes; an agent that made a collision on purpose would hide its own work.
#[derive(Default)]
pub struct Digest(std::hash::DefaultHasher);

impl Digest {
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    pub fn finish(&self) -> u64 {
        self.0.finish()
    }
}

/// `None` where the file cannot be read.
fn digest_at(root: &OwnedFd, path: &[u8], stamp: &Stamp) -> Option<u64> {
    let parts = workspace::parts(path).ok()?;
    let parent = workspace::open_parent(root, &parts).ok()?;
    let mut file = workspace::open_file(&parent, parts[parts.len() - 1], stamp).ok()?;
    let mut digest = Digest::default();
    let mut piece = vec![0; wire::CHUNK];
    loop {
        match file.read(&mut piece).ok()? {
            0 => return Some(digest.finish()),
            length => digest.add(&piece[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{FileExt as _, PermissionsExt as _, symlink},
        path::Path,
    };

    use super::*;

    struct Workspace {
        dir: tempfile::TempDir,
        root: OwnedFd,
    }

    impl Workspace {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let root = system::open_root(dir.path().as_os_str()).unwrap();
            Self { dir, root }
        }

        fn path(&self, path: &str) -> std::path::PathBuf {
            self.dir.path().join(path)
        }

        fn write(&self, path: &str, content: &str) {
            fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
            fs::write(self.path(path), content).unwrap();
        }

        fn snapshot(&self) -> Snapshot {
            let snapshot = Snapshot::take(&self.root).map_err(|f| f.message).unwrap();
            snapshot.settle().unwrap();
            snapshot
        }

        fn changes_since(&self, before: &Snapshot) -> Vec<(String, ListedKind)> {
            let listed = before.changes(&self.snapshot(), Some(&self.root)).map_err(|f| f.message).unwrap();
            listed.into_iter().map(|l| (String::from_utf8_lossy(&l.path).into_owned(), l.kind)).collect()
        }
    }

    #[test]
    fn r_ex_9_changes_are_new_changed_and_removed_entries() {
        let workspace = Workspace::new();
        for path in ["same", "rewritten", "touched-mode", "gone", "dir/gone", "becomes-link"] {
            workspace.write(path, "1");
        }
        let before = workspace.snapshot();
        assert_eq!(workspace.changes_since(&before), []);

        workspace.write("rewritten", "2");
        fs::set_permissions(workspace.path("touched-mode"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::remove_file(workspace.path("gone")).unwrap();
        fs::remove_dir_all(workspace.path("dir")).unwrap();
        fs::remove_file(workspace.path("becomes-link")).unwrap();
        symlink("/etc/passwd", workspace.path("becomes-link")).unwrap();
        workspace.write("new/deep/file", "12345");
        nix::unistd::mkfifo(&workspace.path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::create_dir(workspace.path("empty-dir")).unwrap();

        let changed = |mode, size| ListedKind::Changed { mode, size };
        assert_eq!(
            workspace.changes_since(&before),
            [
                ("becomes-link".into(), changed(Mode::Symlink, 11)),
                ("dir/gone".into(), ListedKind::Removed),
                ("fifo".into(), ListedKind::Special),
                ("gone".into(), ListedKind::Removed),
                ("new/deep/file".into(), changed(Mode::Regular, 5)),
                ("rewritten".into(), changed(Mode::Regular, 1)),
                ("touched-mode".into(), changed(Mode::Executable, 1)),
            ]
        );
    }

    /// Names around the slash, which a directory's contents have and its name has not.
    #[test]
    fn r_ex_9_states_are_compared_in_the_order_of_whole_paths() {
        let workspace = Workspace::new();
        let paths = ["a", "a!b", "b-/x", "b/x", "b/y/z", "b.c", "b0", "c", "c.d/e", "é"];
        for path in paths {
            workspace.write(path, "1");
        }
        let before = workspace.snapshot();
        assert!(before.entries.is_sorted_by(|a, b| before.path(a) < before.path(b)));
        assert_eq!(before.entries.len(), paths.len());
        for path in paths {
            let before = workspace.snapshot();
            workspace.write(path, "12");
            assert_eq!(
                workspace.changes_since(&before),
                [(path.into(), ListedKind::Changed { mode: Mode::Regular, size: 2 })]
            );
            let before = workspace.snapshot();
            fs::remove_file(workspace.path(path)).unwrap();
            assert_eq!(workspace.changes_since(&before), [(path.into(), ListedKind::Removed)]);
        }
        assert_eq!(before.changes(&workspace.snapshot(), None).map(|all| all.len()).ok(), Some(paths.len()));
    }

    #[test]
    fn r_ex_9_a_write_right_after_a_snapshot_is_seen_though_its_time_was_set_back() {
        let workspace = Workspace::new();
        workspace.write("a", "1");
        for turn in 0..10 {
            let before = workspace.snapshot();
            let modified = fs::metadata(workspace.path("a")).unwrap().modified().unwrap();
            // Same size, same inode, same modification time; only the change time tells.
            let file = fs::File::options().write(true).open(workspace.path("a")).unwrap();
            file.write_all_at(turn.to_string().as_bytes(), 0).unwrap();
            file.set_modified(modified).unwrap();
            assert_eq!(workspace.changes_since(&before).len(), 1, "{turn}");
        }
    }

    #[test]
    fn r_ex_9_contents_tell_what_stamps_do_not() {
        let workspace = Workspace::new();
        workspace.write("mapped", "before");
        let stamp = system::stamp_in(workspace.root.as_fd(), b"mapped").unwrap();
        let base = |digest| Snapshot::of([(b"mapped".to_vec(), (stamp, Some(digest)))].into());
        let mut digest = Digest::default();
        digest.add(b"bef");
        digest.add(b"ore");
        assert_eq!(workspace.changes_since(&base(digest.finish())), []);
        // As if written through a memory map: the content is another one, the stamp is not.
        let mut other = Digest::default();
        other.add(b"after!");
        assert_eq!(workspace.changes_since(&base(other.finish())).len(), 1);
    }

    #[test]
    fn s_23_dot_git_is_skipped_at_any_depth() {
        let workspace = Workspace::new();
        let before = workspace.snapshot();
        for path in
            [".git/config", "sub/.git/hooks/pre-commit", "sub/module/.git", ".github/x", "sub/.gitignore"]
        {
            workspace.write(path, "x");
        }
        let names: Vec<_> = workspace.changes_since(&before).into_iter().map(|(path, _)| path).collect();
        assert_eq!(names, [".github/x", "sub/.gitignore"]);
    }

    #[test]
    fn a_hostile_tree_is_listed_without_following_or_drowning() {
        let workspace = Workspace::new();
        symlink("/", workspace.path("root")).unwrap();
        symlink(".", workspace.path("loop")).unwrap();
        workspace.write("closed/inside", "x");
        fs::set_permissions(workspace.path("closed"), fs::Permissions::from_mode(0o000)).unwrap();
        let mut deep = OwnedFd::try_clone(&workspace.root).unwrap();
        for _ in 0..400 {
            system::make_dir_in(deep.as_fd(), b"deep").unwrap();
            deep = workspace::open_dir(&deep, b"deep").unwrap();
        }
        let listed = workspace.changes_since(&Snapshot::default());
        let names: Vec<_> = listed.iter().map(|(path, _)| path.as_str()).collect();
        let deepest = vec!["deep"; MAX_DEPTH].join("/");
        assert_eq!(names, ["closed/inside", &deepest, "loop", "root"]);
        assert_eq!(listed[1].1, ListedKind::Special);
        assert!(Path::new("/etc/passwd").exists());
    }
}
