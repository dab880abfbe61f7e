//! A run's volumes: what each is for, how large, and how it gets its content.
//!
//! The workspace is a tmpfs, which gives it a hard size, the right owner and no trace on the host's disk.
//! What a tmpfs holds vanishes when the last container that uses it stops. Above
//! [`LARGEST_IN_MEMORY`] it is a plain volume, whose size the engine cannot limit.
//!
//! The supervisor and the packed history lie in plain volumes that every container of the run mounts
//! read-only. They are filled through a container that is created but never started: no program of the
//! image runs with them writable.

use std::{collections::HashMap, io, path::PathBuf, time::Duration};

use bollard::models::{ContainerCreateBody, HostConfig, VolumeCreateRequest};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::{fs::File, io::AsyncReadExt};
use tokio_util::io::ReaderStream;

use super::{
    engine::Engine,
    labels::Owner,
    spec::{Image, MIB, USER, volume},
};
use crate::method::ports::SandboxError;

/// Largest workspace that may lie in memory.
const LARGEST_IN_MEMORY: u64 = 1024 * MIB;
const SMALLEST: u64 = 512 * MIB;
/// A tmpfs hands out whole pages.
const PAGE: u64 = 4096;
/// Where a volume is mounted in the container that is never started.
const STAGE: &str = "stage";

/// What holds a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workspace {
    /// A tmpfs that ends at this size; writing more fails with "no space left on device".
    Memory { bytes: u64, inodes: u64 },
    /// A folder on the engine's disk, without a limit; so much was wanted.
    Disk { wanted_bytes: u64 },
}

impl Workspace {
    /// By the operator's setting, else three times the tree, whose files have these sizes.
    pub fn plan(setting_mib: Option<u64>, file_sizes: impl Iterator<Item = u64>) -> Self {
        let (mut files, mut tree) = (0_u64, 0_u64);
        for size in file_sizes {
            files += 1;
            tree = tree.saturating_add(size.div_ceil(PAGE).saturating_mul(PAGE));
        }
        let bytes = match setting_mib {
            Some(mib) => mib.saturating_mul(MIB),
            None => tree.saturating_mul(3).max(SMALLEST),
        };
        if bytes > LARGEST_IN_MEMORY {
            return Self::Disk { wanted_bytes: bytes };
        }
        // A build makes many small files, but an inode each takes about a kilobyte of the kernel's memory.
        Self::Memory { bytes, inodes: (files * 4).max(131_072) }
    }

    fn driver_options(self) -> Option<HashMap<String, String>> {
        let Self::Memory { bytes, inodes } = self else { return None };
        let options = format!("size={bytes},nr_inodes={inodes},uid={USER},gid={USER},mode=0755,nosuid,nodev");
        Some(
            [("type", "tmpfs".to_owned()), ("device", "tmpfs".to_owned()), ("o", options)]
                .map(|(key, value)| (key.to_owned(), value))
                .into(),
        )
    }
}

/// Creates the volume of a workspace, empty and owned by the user inside.
pub(super) async fn create_workspace(
    engine: &Engine,
    image: &Image,
    owner: &Owner,
    name: &str,
    workspace: Workspace,
) -> Result<(), SandboxError> {
    engine.create_volume(request(owner, name, workspace.driver_options())).await?;
    if let Workspace::Disk { .. } = workspace {
        stage(engine, image, owner, name, Root::OfUser, vec![]).await?;
    }
    Ok(())
}

/// Creates a plain volume with this content, which belongs to root and which everyone may read.
pub(super) async fn create_filled(
    engine: &Engine,
    image: &Image,
    owner: &Owner,
    name: &str,
    content: Vec<Entry>,
) -> Result<(), SandboxError> {
    engine.create_volume(request(owner, name, None)).await?;
    stage(engine, image, owner, name, Root::OfRoot, content).await
}

fn request(
    owner: &Owner,
    name: &str,
    driver_options: Option<HashMap<String, String>>,
) -> VolumeCreateRequest {
    VolumeCreateRequest {
        name: Some(name.to_owned()),
        driver: Some("local".to_owned()),
        driver_opts: driver_options,
        labels: Some(owner.labels()),
        ..VolumeCreateRequest::default()
    }
}

/// An entry to lay into a volume, at a path relative to its root.
#[derive(Debug)]
pub(super) enum Entry {
    Directory {
        path: String,
    },
    /// A program, from memory, that may be run but not read: the kernel keeps what runs from such a file
    /// from being traced or dumped.
    Program {
        path: String,
        content: &'static [u8],
    },
    /// A file of the host's, with its size.
    File {
        path: String,
        from: PathBuf,
        size: u64,
    },
}

/// Whose a staged volume's own folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Root {
    /// The user's inside.
    OfUser,
    /// Root's; everyone else may look.
    OfRoot,
}

/// Unpacks `content` into a volume by way of a container that never runs.
async fn stage(
    engine: &Engine,
    image: &Image,
    owner: &Owner,
    volume_name: &str,
    root: Root,
    content: Vec<Entry>,
) -> Result<(), SandboxError> {
    let body = ContainerCreateBody {
        image: Some(image.id.clone()),
        // Never run; an image need not name a command.
        entrypoint: Some(vec!["/stage".to_owned()]),
        labels: Some(owner.labels()),
        host_config: Some(HostConfig {
            network_mode: Some("none".to_owned()),
            mounts: Some(vec![volume(volume_name, &format!("/{STAGE}"), true)]),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    let id = engine.create_container(&format!("{volume_name}-stage"), body).await?;
    let bytes: u64 = content.iter().map(Entry::size).sum();
    // Generous: a megabyte a second.
    let patience = Duration::from_secs(60 + bytes / MIB);
    let archive = archive(root, content)?;
    let uploaded = engine.upload(&id, "/", patience, archive).await;
    let removed = engine.remove_container(&id).await;
    uploaded?;
    Ok(removed?)
}

impl Entry {
    fn size(&self) -> u64 {
        match self {
            Self::Directory { .. } => 0,
            Self::Program { content, .. } => content.len() as u64,
            Self::File { size, .. } => *size,
        }
    }

    fn header(&self) -> Result<tar::Header, SandboxError> {
        match self {
            Self::Directory { path } => header(path, tar::EntryType::Directory, 0, 0o755, 0),
            Self::Program { path, .. } => header(path, tar::EntryType::Regular, self.size(), 0o111, 0),
            Self::File { path, .. } => header(path, tar::EntryType::Regular, self.size(), 0o444, 0),
        }
    }
}

/// A header that says owner and mode outright: without capabilities, nobody inside could mend them.
fn header(
    path: &str,
    kind: tar::EntryType,
    size: u64,
    mode: u32,
    owner: u64,
) -> Result<tar::Header, SandboxError> {
    let mut header = tar::Header::new_gnu();
    header.set_path(format!("{STAGE}/{path}")).map_err(|error| {
        SandboxError::Unavailable(format!("{path} cannot be laid into a volume: {error}"))
    })?;
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header.set_uid(owner);
    header.set_gid(owner);
    header.set_mtime(0);
    header.set_cksum();
    Ok(header)
}

/// The tar stream of `content`, which lies in the folder [`STAGE`]. Files are read as the stream goes on.
fn archive(
    root: Root,
    content: Vec<Entry>,
) -> Result<impl stream::Stream<Item = io::Result<Bytes>> + Send + 'static, SandboxError> {
    let (mode, owner) = match root {
        Root::OfUser => (0o755, USER),
        Root::OfRoot => (0o555, 0),
    };
    let root = header("", tar::EntryType::Directory, 0, mode, owner)?;
    let mut parts = vec![once(root.as_bytes().to_vec())];
    for entry in content {
        parts.push(once(entry.header()?.as_bytes().to_vec()));
        let size = entry.size();
        match entry {
            Entry::Directory { .. } => continue,
            Entry::Program { content, .. } => parts.push(once(content.to_vec())),
            Entry::File { from, .. } => {
                let open =
                    async move { File::open(from).await.map(|file| ReaderStream::new(file.take(size))) };
                parts.push(stream::once(open).try_flatten().boxed());
            }
        }
        parts.push(once(vec![0; (size.next_multiple_of(512) - size) as usize]));
    }
    parts.push(once(vec![0; 1024]));
    Ok(stream::iter(parts).flatten())
}

fn once(bytes: Vec<u8>) -> stream::BoxStream<'static, io::Result<Bytes>> {
    stream::once(async move { Ok(Bytes::from(bytes)) }).boxed()
}

/// Everything below a folder of the host's, which we have written: packs and their indexes.
///
/// # Errors
/// [`SandboxError::Unavailable`] when it cannot be read or holds something other than files and folders.
pub(super) async fn entries_below(folder: PathBuf) -> Result<Vec<Entry>, SandboxError> {
    let walk = move || -> io::Result<Vec<Entry>> {
        let mut found = Vec::new();
        let mut open = vec![String::new()];
        while let Some(below) = open.pop() {
            for item in std::fs::read_dir(folder.join(&below))? {
                let item = item?;
                let name = item.file_name().into_string().map_err(|_| io::ErrorKind::InvalidFilename)?;
                let path = if below.is_empty() { name } else { format!("{below}/{name}") };
                // Says what the entry itself is: a symbolic link is not followed.
                let metadata = item.metadata()?;
                if metadata.is_dir() {
                    open.push(path.clone());
                    found.push(Entry::Directory { path });
                } else if metadata.is_file() {
                    found.push(Entry::File { path, from: item.path(), size: metadata.len() });
                } else {
                    return Err(io::Error::other(format!("{} is no file", item.path().display())));
                }
            }
        }
        Ok(found)
    };
    let walked = tokio::task::spawn_blocking(walk).await.map_err(io::Error::other);
    walked.flatten().map_err(|error| SandboxError::Unavailable(format!("the packed history: {error}")))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn decision_3_a_workspace_is_three_times_the_tree_and_at_least_half_a_gibibyte() {
        let plan = |sizes: &[u64]| match Workspace::plan(None, sizes.iter().copied()) {
            Workspace::Memory { bytes, .. } => bytes,
            Workspace::Disk { .. } => panic!("it should lie in memory"),
        };
        assert_eq!(plan(&[]), 512 * MIB);
        assert_eq!(plan(&[200 * MIB]), 600 * MIB);
        // A file of one byte takes a page.
        assert_eq!(plan(&vec![1; 65_536]), 768 * MIB);
    }

    #[test]
    fn decision_3_above_a_gibibyte_a_workspace_is_a_plain_volume() {
        let disk = |mib| Workspace::Disk { wanted_bytes: mib * MIB };
        assert_eq!(Workspace::plan(None, [342 * MIB].into_iter()), disk(1026));
        assert_eq!(Workspace::plan(Some(1025), [].into_iter()), disk(1025));
        assert!(matches!(Workspace::plan(Some(1024), [].into_iter()), Workspace::Memory { .. }));
    }

    #[test]
    fn decision_3_the_kernel_holds_size_inodes_and_owner() {
        let options = Workspace::Memory { bytes: 7, inodes: 9 }.driver_options().unwrap();
        assert_eq!(options["type"], "tmpfs");
        assert_eq!(options["o"], "size=7,nr_inodes=9,uid=1000,gid=1000,mode=0755,nosuid,nodev");
        assert_eq!(Workspace::Disk { wanted_bytes: 7 }.driver_options(), None);
    }

    #[test]
    fn decision_9_archives_are_written_by_a_tar_library_that_is_new_enough() {
        let lock = include_str!("../../../Cargo.lock");
        let version =
            lock.split("name = \"tar\"\nversion = \"").nth(1).and_then(|rest| rest.split('"').next());
        let numbers: Vec<u32> = version.unwrap().split('.').map(|part| part.parse().unwrap()).collect();
        assert!(numbers >= vec![0, 4, 45], "{numbers:?}");
        assert!(!lock.contains("name = \"tokio-tar\""));
    }

    #[tokio::test]
    async fn an_archive_says_owner_and_mode_of_everything_and_holds_the_files() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("pack")).unwrap();
        std::fs::write(folder.path().join("pack/a.pack"), vec![7; 100_000]).unwrap();
        let mut content = entries_below(folder.path().to_owned()).await.unwrap();
        content.push(Entry::Program { path: "supervisor".into(), content: b"\x7fELF" });
        let stream = archive(Root::OfRoot, content).unwrap();
        let bytes: Vec<Bytes> = stream.try_collect().await.unwrap();
        let bytes = bytes.concat();

        let mut seen = Vec::new();
        for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            let header = entry.header();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            let path = entry.path().unwrap().display().to_string();
            seen.push((path, header.mode().unwrap(), content.len()));
        }
        let expected = [
            ("stage/", 0o555, 0),
            ("stage/pack", 0o755, 0),
            ("stage/pack/a.pack", 0o444, 100_000),
            ("stage/supervisor", 0o111, 4),
        ];
        assert_eq!(seen, expected.map(|(path, mode, size)| (path.to_owned(), mode, size)));
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_read_breaks_the_archive_instead_of_cutting_it() {
        let missing = Entry::File { path: "a".into(), from: "/nonexistent/a".into(), size: 5 };
        let stream = archive(Root::OfUser, vec![missing]).unwrap();
        assert!(stream.try_collect::<Vec<Bytes>>().await.is_err());
    }

    #[tokio::test]
    async fn a_symbolic_link_among_the_packs_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("x")).unwrap();
        let error = entries_below(folder.path().to_owned()).await.unwrap_err().to_string();
        assert!(error.contains("is no file"), "{error}");
    }
}
