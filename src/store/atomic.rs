//! Files that are either the old ones or the new ones, whatever happens in between.

use std::{
    fs::{self, File, Permissions},
    io::{self, BufWriter, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use crate::method::ports::StoreError;

use super::{
    file_error,
    regular::{open_own, read_at_most},
};

/// Largest file that is read whole, in bytes. What an agent changed has at most 50 MB (see
/// [`crate::gate::harvest`]); a patch adds what was removed, and JSON writes a byte as up to six. What is larger
/// than all of that was not written here.
pub const MAX_FILE_BYTES: u64 = 256 << 20;

/// How unfinished files are named; [`sweep`] removes those that a killed process left.
const UNFINISHED: &str = ".unfinished-";

/// Replaces `path` by a file with this content, on the disk when this returns.
pub fn write(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    write_with(path, |file| file.write_all(content))
}

/// As [`write`], for content that is made bit by bit.
pub fn write_with(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<&mut File>) -> io::Result<()>,
) -> Result<(), StoreError> {
    replace(path, content).map_err(|error| file_error(path, format!("cannot be written: {error}")))
}

fn replace(path: &Path, content: impl FnOnce(&mut BufWriter<&mut File>) -> io::Result<()>) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .permissions(Permissions::from_mode(0o666)) // less the umask, as for any file
        .tempfile_in(folder)?;
    let mut writer = BufWriter::new(file.as_file_mut());
    content(&mut writer)?;
    writer.flush()?;
    drop(writer);
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

/// As [`make_folder`], for a folder below a run's own: a link in its place would lead out of the run.
pub fn make_own_folder(path: &Path) -> Result<(), StoreError> {
    make_folder(path)?;
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(file_error(path, "is a link, and links in a run's folder are not followed; remove it")),
        Err(error) => Err(file_error(path, format!("cannot be looked at: {error}"))),
    }
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

/// All of a file of at most [`MAX_FILE_BYTES`] that is no link. `None` where there is no such file.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let read =
        open_own(path, File::options().read(true)).and_then(|file| read_at_most(&file, MAX_FILE_BYTES));
    match read {
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
