//! Paths below the workspace, opened part by part and never through a symlink.

use std::{
    fmt::Display,
    fs::File,
    io::{self, Read as _},
    os::fd::{AsFd, OwnedFd},
};

use super::{
    system::{self, Kind, Stamp},
    wire::{self, Cause},
};

/// What went wrong, for the host.
#[derive(Debug)]
pub struct Failure {
    pub cause: Cause,
    pub message: String,
}

impl Failure {
    pub fn refused(message: String) -> Self {
        Self { cause: Cause::Refused, message }
    }

    /// `doing` something to `path` failed.
    pub fn of(doing: &str, path: &[u8], error: &io::Error) -> Self {
        let cause = match error.raw_os_error() {
            Some(system::ENOSPC | system::EDQUOT | system::EFBIG) => Cause::Full,
            Some(
                system::ENOENT
                | system::ENOTDIR
                | system::EISDIR
                | system::EEXIST
                | system::EINVAL
                | system::ELOOP
                | system::ENAMETOOLONG,
            ) => Cause::Refused,
            _ => Cause::System,
        };
        let full = if cause == Cause::Full { "the workspace is full: " } else { "" };
        Self { cause, message: format!("{full}cannot {doing} {}: {error}", shown(path)) }
    }
}

/// A path for a message.
pub fn shown(path: &[u8]) -> impl Display {
    String::from_utf8_lossy(path).into_owned()
}

/// The parts of a relative path; refuses what could leave the workspace or name nothing.
pub fn parts(path: &[u8]) -> Result<Vec<&[u8]>, Failure> {
    let refuse = |reason| Err(Failure::refused(format!("{} {reason}", shown(path))));
    if path.len() > wire::MAX_PATH {
        return refuse("is too long for a path");
    }
    if path.contains(&0) {
        return refuse("has a NUL in it");
    }
    let parts: Vec<&[u8]> = path.split(|&byte| byte == b'/').collect();
    if parts.iter().any(|part| matches!(*part, b"" | b"." | b"..")) {
        return refuse("is no plain relative path: it has an empty, `.` or `..` part");
    }
    Ok(parts)
}

/// The directory that the last part of a path is in.
pub fn open_parent(root: &OwnedFd, parts: &[&[u8]]) -> io::Result<OwnedFd> {
    let mut dir = root.try_clone()?;
    for part in &parts[..parts.len() - 1] {
        dir = open_dir(&dir, part)?;
    }
    Ok(dir)
}

/// Opens a directory, made accessible to its owner where an agent took that away.
pub fn open_dir(parent: &OwnedFd, name: &[u8]) -> io::Result<OwnedFd> {
    let stamp = system::stamp_in(parent.as_fd(), name)?;
    if stamp.kind() != Kind::Directory {
        return Err(io::Error::from_raw_os_error(system::ENOTDIR));
    }
    if stamp.mode & 0o500 != 0o500 {
        system::change_mode_in(parent.as_fd(), name, stamp.mode | 0o500)?;
    }
    system::open_in(parent.as_fd(), name, system::O_RDONLY | system::O_DIRECTORY, 0)
}

/// Opens a regular file to read; does not wait on anything else that stands there.
pub fn open_file(parent: &OwnedFd, name: &[u8], stamp: &Stamp) -> io::Result<File> {
    if stamp.kind() != Kind::File {
        return Err(io::Error::from_raw_os_error(system::EINVAL));
    }
    let open = || system::open_in(parent.as_fd(), name, system::O_RDONLY | system::O_NONBLOCK, 0);
    let file = match open() {
        Err(error) if error.raw_os_error() == Some(system::EACCES) => {
            system::change_mode_in(parent.as_fd(), name, stamp.mode | 0o400)?;
            open()?
        }
        other => other?,
    };
    Ok(file.into())
}

/// Sends the content of a file, or the target of a symlink, to `send` in pieces; its second argument says
/// which is the last.
pub fn fetch(
    root: &OwnedFd,
    path: &[u8],
    max_bytes: u64,
    mut send: impl FnMut(Vec<u8>, bool) -> io::Result<()>,
) -> Result<io::Result<()>, Failure> {
    let failed = |error: io::Error| Failure::of("read", path, &error);
    let parts = parts(path)?;
    let name = parts[parts.len() - 1];
    let parent = open_parent(root, &parts).map_err(failed)?;
    let stamp = system::stamp_in(parent.as_fd(), name).map_err(failed)?;
    if !matches!(stamp.kind(), Kind::File | Kind::Symlink) {
        return Err(Failure::refused(format!("{} is neither a file nor a symlink", shown(path))));
    }
    if stamp.size > max_bytes {
        let size = stamp.size;
        return Err(Failure {
            cause: Cause::Full,
            message: format!("{} has {size} bytes; at most {max_bytes} are taken", shown(path)),
        });
    }
    if stamp.kind() == Kind::Symlink {
        let target = system::read_link_in(parent.as_fd(), name).map_err(failed)?;
        return Ok(send(target, true));
    }
    let mut file = open_file(&parent, name, &stamp).map_err(failed)?;
    let mut left = stamp.size;
    loop {
        let mut piece = vec![0; left.min(wire::CHUNK as u64) as usize];
        file.read_exact(&mut piece).map_err(failed)?;
        left -= piece.len() as u64;
        if let Err(gone) = send(piece, left == 0) {
            return Ok(Err(gone));
        }
        if left == 0 {
            return Ok(Ok(()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn workspace() -> (tempfile::TempDir, OwnedFd) {
        let dir = tempfile::tempdir().unwrap();
        let root = system::open_root(dir.path().as_os_str()).unwrap();
        (dir, root)
    }

    fn fetched(root: &OwnedFd, path: &str, max: u64) -> Result<Vec<u8>, String> {
        let mut all = Vec::new();
        let mut ends = 0;
        let sent = fetch(root, path.as_bytes(), max, |piece, last| {
            all.extend(piece);
            ends += u32::from(last);
            Ok(())
        });
        sent.map_err(|failure| failure.message)?.unwrap();
        assert_eq!(ends, 1);
        Ok(all)
    }

    #[test]
    fn s_20_only_files_and_symlink_targets_inside_the_workspace_are_fetched() {
        let (dir, root) = workspace();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "secret").unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        let large = vec![b'x'; 2 * wire::CHUNK];
        std::fs::write(dir.path().join("sub/large"), &large).unwrap();
        std::fs::write(dir.path().join("empty"), "").unwrap();
        std::fs::write(dir.path().join("closed"), "shut").unwrap();
        let closed = std::fs::Permissions::from_mode(0o000);
        std::fs::set_permissions(dir.path().join("closed"), closed).unwrap();
        symlink(outside.path(), dir.path().join("way-out")).unwrap();
        symlink("sub", dir.path().join("way-in")).unwrap();
        nix::unistd::mkfifo(&dir.path().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();

        assert_eq!(fetched(&root, "sub/large", 1 << 20), Ok(large));
        assert_eq!(fetched(&root, "empty", 0), Ok(vec![]));
        assert_eq!(fetched(&root, "closed", 9), Ok(b"shut".to_vec()));
        assert_eq!(fetched(&root, "way-in", 9), Ok(b"sub".to_vec()));
        assert_eq!(
            fetched(&root, "sub/large", 100),
            Err("sub/large has 524288 bytes; at most 100 are taken".into())
        );
        for path in
            ["way-out/secret", "way-in/large", "fifo", "sub", "none", "../x", "/etc/passwd", "", "sub//large"]
        {
            assert!(fetched(&root, path, 1 << 20).is_err(), "{path}");
        }
    }
}
