//! What is looked at in a folder on this machine before libgit2 opens it.
//!
//! Somebody else may have made the folder. libgit2 opens whatever has the name that it looks for, and waits for
//! ever on a pipe; and it follows `include` in a repository's settings to any file of this machine (S-51).

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::engine::shown;
use crate::method::ports::SourceError;

/// Files of a git folder that libgit2 opens on its way to a commit, where they are there.
const FILES: [&str; 8] =
    ["HEAD", "config", "config.worktree", "commondir", "gitdir", "packed-refs", "shallow", "index"];
/// Largest of the files that are read here, in bytes; git's own are far below.
const MAX_BYTES: u64 = 1 << 20;
/// Folders of references within one another, and references in all, that are looked at.
const MAX_REFERENCES: (usize, usize) = (64, 1_000_000);

/// Fails where a file that is no regular one, or settings that include others, stand in the way. A folder that
/// is no repository is left for libgit2 to say so.
pub(super) fn look(folder: &Path) -> Result<(), SourceError> {
    let Some(git) = git_folder(folder)? else { return Ok(()) };
    regular_files(&git)?;
    no_includes(&git)?;
    if let Some(common) = read(&git.join("commondir"))? {
        let common = git.join(common.trim_end());
        regular_files(&common)?;
        no_includes(&common)?;
    }
    Ok(())
}

/// The folder that holds `HEAD`: `.git`, what a file `.git` names, or the folder itself where it is bare.
fn git_folder(folder: &Path) -> Result<Option<PathBuf>, SourceError> {
    let dot_git = folder.join(".git");
    match fs::metadata(&dot_git) {
        Ok(found) if found.is_dir() => return Ok(Some(dot_git)),
        Ok(_) => {}
        Err(_) => return Ok(Some(folder.to_owned())),
    }
    let text = read(&dot_git)?.unwrap_or_default();
    Ok(text.strip_prefix("gitdir:").map(|named| folder.join(named.trim())))
}

fn regular_files(git: &Path) -> Result<(), SourceError> {
    for name in FILES {
        regular(&git.join(name))?;
    }
    references(&git.join("refs"))
}

fn references(refs: &Path) -> Result<(), SourceError> {
    let (most_depth, most) = MAX_REFERENCES;
    let mut open = vec![(refs.to_owned(), 0)];
    let mut count = 0;
    while let Some((folder, depth)) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            count += 1;
            if depth > most_depth || count > most {
                return Err(refused(refs, "holds too many references, or too deep ones"));
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push((entry.path(), depth + 1)),
                _ => _ = regular(&entry.path())?,
            }
        }
    }
    Ok(())
}

/// Links are followed, as git does. What is not there is fine.
fn regular(path: &Path) -> Result<bool, SourceError> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() || found.is_dir() => Ok(found.is_file()),
        Ok(_) => Err(refused(path, "is not a regular file")),
        Err(_) => Ok(false),
    }
}

/// `None` where there is no such file.
fn read(path: &Path) -> Result<Option<String>, SourceError> {
    if !regular(path)? {
        return Ok(None);
    }
    let told = |error: io::Error| refused(path, &format!("cannot be read: {error}"));
    if fs::metadata(path).map_err(told)?.len() > MAX_BYTES {
        return Err(refused(path, &format!("is larger than {MAX_BYTES} bytes")));
    }
    let bytes = fs::read(path).map_err(told)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

fn no_includes(git: &Path) -> Result<(), SourceError> {
    for name in ["config", "config.worktree"] {
        let path = git.join(name);
        if read(&path)?.is_some_and(|text| includes(&text)) {
            return Err(refused(
                &path,
                "takes in other files by `include`, which is not followed; remove it, or give a clone",
            ));
        }
    }
    Ok(())
}

/// Whether a section `include` or `includeIf` is there. It may follow another on one line, so every bracket
/// counts that is not in a comment; a value that looks like one is refused too.
fn includes(settings: &str) -> bool {
    settings.lines().map(str::trim_start).filter(|line| !line.starts_with(['#', ';'])).any(|line| {
        line.split('[').skip(1).any(|after| {
            let name = after.trim_start().to_ascii_lowercase();
            name.strip_prefix("include").is_some_and(|rest| {
                let rest = rest.strip_prefix("if").unwrap_or(rest);
                !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-')
            })
        })
    })
}

fn refused(path: &Path, why: &str) -> SourceError {
    SourceError::Input(format!("{} {why}", shown(&path.display().to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_51_every_way_to_include_is_seen() {
        for text in [
            "[include]\n\tpath = /etc/passwd\n",
            "[core]\n\tbare = false\n  [ INCLUDE ]path=x",
            "[includeIf \"gitdir:/\"]\npath = x",
            "[includeif \"onbranch:main\"]",
            "[core][include]path=x",
            "[include.sub]",
        ] {
            assert!(includes(text), "{text:?}");
        }
        for text in
            ["[core]\n\tpath = include\n", "# [include]\n ; [include]\n", "[includes]\n", "[include-not]\n"]
        {
            assert!(!includes(text), "{text:?}");
        }
    }
}
