//! Opens files that somebody else may have put there: a pipe would be waited on for ever, a device read
//! without end, a link leads to a file that nobody named, and a sparse file is larger than any memory.

use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Read},
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, openat},
    sys::stat::Mode,
};

const LINK: &str = "it is a link, and links in a run's folder are not followed";

/// Opens a regular file that a person named; links are followed. Anything else is refused, without waiting for
/// whoever is at the other end of it.
pub fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    regular(options.custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?)
}

/// As [`open_regular`], for a file that this program named itself, and which therefore is no link.
pub fn open_own(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW;
    regular(options.custom_flags(flags.bits()).open(path).map_err(in_words)?)
}

/// A folder is refused by the first read, with the system's own words.
fn regular(file: File) -> io::Result<File> {
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_dir() {
        return Ok(file);
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"))
}

/// The system's own words for a link that is not followed are of too many of them.
fn in_words(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(Errno::ELOOP as i32) {
        return io::Error::new(ErrorKind::InvalidInput, LINK);
    }
    error
}

/// All of a file that has at most `most` bytes; of a larger one nothing is read.
pub fn read_at_most(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let size = file.metadata()?.len();
    if size > most {
        return Err(too_large(size, most));
    }
    let mut bytes = Vec::new();
    // Files grow, and those of the kernel do not know their size.
    let read = file.take(most + 1).read_to_end(&mut bytes)? as u64;
    if read > most { Err(too_large(read, most)) } else { Ok(bytes) }
}

/// A file of `bytes` bytes, or of more than these, where `most` are read.
pub fn too_large(bytes: u64, most: u64) -> io::Error {
    let text = format!("it has {bytes} bytes, more than the {most} that are read");
    io::Error::new(ErrorKind::FileTooLarge, text)
}

/// A folder that was open before anything in it was looked at. What is opened through it lies in it: no name in
/// it is followed to somewhere else, also when it is exchanged meanwhile.
#[derive(Debug)]
pub struct HeldFolder {
    held: OwnedFd,
    path: PathBuf,
}

impl HeldFolder {
    /// The folder that a person named; links to it are followed.
    pub fn open(path: &Path) -> io::Result<Self> {
        let folder = File::options().read(true).custom_flags(OFlag::O_DIRECTORY.bits()).open(path)?;
        Ok(Self { held: folder.into(), path: path.to_owned() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A folder in this one.
    pub fn folder(&self, name: &str) -> io::Result<Self> {
        let held = self.open_name(name, OFlag::O_DIRECTORY).map_err(|error| match error.kind() {
            // For a link, too.
            ErrorKind::NotADirectory => {
                let text = "it is no folder, or a link, and links in a run's folder are not followed";
                io::Error::new(ErrorKind::NotADirectory, text)
            }
            _ => error,
        })?;
        Ok(Self { held, path: self.path.join(name) })
    }

    /// A regular file in this folder, to read it.
    pub fn file(&self, name: &str) -> io::Result<File> {
        regular(self.open_name(name, OFlag::O_NONBLOCK)?.into())
    }

    /// The names of what is in it, as far as they are UTF-8, sorted.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        // By its path: should that be another folder by now, only names are taken from it.
        for entry in self.path.read_dir()? {
            names.extend(entry?.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }

    fn open_name(&self, name: &str, flags: OFlag) -> io::Result<OwnedFd> {
        // A path would be followed through its folders.
        if name.contains('/') || name == ".." {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is not the name of a file"));
        }
        let flags = flags | OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        openat(&self.held, name, flags, Mode::empty()).map_err(|error| in_words(error.into()))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn read_only() -> OpenOptions {
        File::options().read(true).clone()
    }

    #[test]
    fn a_pipe_or_a_device_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero")] {
            let told = open_regular(path, &mut read_only()).unwrap_err().to_string();
            assert_eq!(told, "it is not a regular file", "{}", path.display());
        }
        // Without a reader at the other end, the system itself refuses to write.
        assert!(open_regular(&pipe, OpenOptions::new().write(true).create(true)).is_err());
        assert!(open_regular(&folder.path().join("none"), &mut read_only()).is_err());
        fs::write(folder.path().join("file"), "x").unwrap();
        assert!(open_regular(&folder.path().join("file"), &mut read_only()).is_ok());
        let held = HeldFolder::open(folder.path()).unwrap();
        assert_eq!(held.file("pipe").unwrap_err().to_string(), "it is not a regular file");
        assert_eq!(held.names().unwrap(), ["file", "pipe"]);
    }

    #[test]
    fn a_link_is_followed_only_where_a_person_named_it() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("run");
        fs::create_dir_all(folder.path().join("elsewhere")).unwrap();
        fs::create_dir_all(&inside).unwrap();
        fs::write(folder.path().join("secret"), "x").unwrap();
        symlink("../secret", inside.join("link")).unwrap();
        symlink("../elsewhere", inside.join("folder")).unwrap();
        symlink(&inside, folder.path().join("named")).unwrap();

        assert!(open_regular(&inside.join("link"), &mut read_only()).is_ok());
        assert_eq!(open_own(&inside.join("link"), &mut read_only()).unwrap_err().to_string(), LINK);
        let dangling = inside.join("dangling");
        symlink("../made", &dangling).unwrap();
        assert!(open_own(&dangling, OpenOptions::new().write(true).create(true)).is_err());
        assert!(!folder.path().join("made").exists());

        let held = HeldFolder::open(&folder.path().join("named")).unwrap();
        assert_eq!(held.file("link").unwrap_err().to_string(), LINK);
        let told = held.folder("folder").unwrap_err().to_string();
        assert!(told.starts_with("it is no folder, or a link"), "{told}");
        for name in ["../secret", "..", "/etc/passwd"] {
            assert_eq!(held.file(name).unwrap_err().to_string(), "it is not the name of a file", "{name}");
        }
        assert_eq!(held.file("none").unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_folder_that_is_exchanged_meanwhile_is_still_the_one_that_was_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("file"), "ours").unwrap();
        let held = HeldFolder::open(&path).unwrap();
        fs::rename(&path, folder.path().join("moved")).unwrap();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("file"), "theirs").unwrap();
        assert_eq!(read_at_most(&held.file("file").unwrap(), 9).unwrap(), b"ours");
    }

    #[test]
    fn what_is_too_large_is_refused_before_it_is_read() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(20 << 30).unwrap();
        let told = read_at_most(&file, 1 << 20).unwrap_err().to_string();
        assert_eq!(told, "it has 21474836480 bytes, more than the 1048576 that are read");
        file.set_len(3).unwrap();
        assert_eq!(read_at_most(&file, 3).unwrap().len(), 3);
        // Its size is said to be 0.
        let status = File::open("/proc/self/status").unwrap();
        assert_eq!(read_at_most(&status, 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }
}
