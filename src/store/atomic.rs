//! Files that are either the old ones or the new ones, whatever happens in between.

use std::{
    fs::{self, File, Permissions},
    io::{self, Read, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use crate::method::ports::StoreError;

use super::{file_error, open_regular};

/// How unfinished files are named; [`sweep`] removes those that a killed process left.
const UNFINISHED: &str = ".unfinished-";

/// Replaces `path` by a file with this content, on the disk when this returns.
pub fn write(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    replace(path, content).map_err(|error| file_error(path, format!("cannot be written: {error}")))
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .permissions(Permissions::from_mode(0o666)) // less the umask, as for any file
        .tempfile_in(folder)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(folder)?.sync_all()
}

/// Brings the names in a folder to the disk.
pub fn sync_folder(path: &Path) -> Result<(), StoreError> {
    File::open(path)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| file_error(path, format!("cannot be synced to the disk: {error}")))
}

/// Makes a folder and those above it; one that exists is fine.
pub fn make_folder(path: &Path) -> Result<(), StoreError> {
    fs::create_dir_all(path).map_err(|error| file_error(path, format!("cannot be made: {error}")))
}

/// Removes a file; one that is not there is fine.
pub fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(file_error(path, format!("cannot be removed: {error}")))
        }
        _ => Ok(()),
    }
}

/// `None` where there is no such file.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let read = || {
        let mut bytes = Vec::new();
        open_regular(path, File::options().read(true))?.read_to_end(&mut bytes).map(|_| bytes)
    };
    match read() {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file_error(path, format!("cannot be read: {error}"))),
    }
}

/// Removes what a killed process left unfinished in a folder.
pub fn sweep(folder: &Path) -> Result<(), StoreError> {
    let failed = |error| file_error(folder, format!("cannot be read: {error}"));
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_what_a_kill_left_is_swept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write(&path, b"old").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), b"new");

        fs::write(folder.path().join(".unfinished-x1"), b"ne").unwrap();
        sweep(folder.path()).unwrap();
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["a.json"]);
    }

    #[test]
    fn a_write_that_fails_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), b"kept").unwrap();
        let error = write(&path, b"new").unwrap_err();
        assert!(error.to_string().contains("cannot be written"), "{error}");
        assert_eq!(fs::read(path.join("inside")).unwrap(), b"kept");
    }
}
