//! Opens files that somebody else may have put there: a pipe would be waited on for ever, a device read
//! without end.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Opens a regular file; links are followed. Anything else is refused, without waiting for whoever is at the
/// other end of it.
pub fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(nix::libc::O_NONBLOCK).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_dir() {
        // A folder is refused by the first read, with the system's own words.
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_or_a_device_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero")] {
            let told = open_regular(path, OpenOptions::new().read(true)).unwrap_err().to_string();
            assert_eq!(told, "it is not a regular file", "{}", path.display());
        }
        // Without a reader at the other end, the system itself refuses to write.
        assert!(open_regular(&pipe, OpenOptions::new().write(true).create(true)).is_err());
        assert!(open_regular(&folder.path().join("none"), OpenOptions::new().read(true)).is_err());
        std::fs::write(folder.path().join("file"), "x").unwrap();
        assert!(open_regular(&folder.path().join("file"), OpenOptions::new().read(true)).is_ok());
    }
}
