//! The project's notes for contributors, read from the base commit (S-08): never from a work tree, where a link
//! could lead out of the repository.

use crate::{
    domain::RepoPath,
    gate::intake::{
        INSTRUCTION_FILES, Instructions, MAX_INSTRUCTION_BYTES, NotRead, admit_instructions, may_read,
    },
    method::ports::{SourceError, SourceTree, TreeEntry},
    report::preparing,
};

/// What models may read of them, and what people should know of the reading.
#[derive(Debug, Default, PartialEq)]
pub struct Found {
    pub instructions: Vec<Instructions>,
    pub notes: Vec<String>,
}

/// Looks into the root of the repository only.
pub async fn find(tree: &dyn SourceTree, entries: &[TreeEntry]) -> Result<Found, SourceError> {
    let mut found = Found::default();
    for file in INSTRUCTION_FILES {
        let Some(entry) = entries.iter().find(|entry| entry.path == file.as_bytes()) else { continue };
        let path = RepoPath::parse(file).expect("the names of the files are valid paths");
        let read = match may_read(entry.mode, entry.size) {
            Ok(()) => match tree.read(&path, MAX_INSTRUCTION_BYTES).await? {
                Some(content) => admit_instructions(&mut found.instructions, file, &content),
                // A tree may name a file twice; then this is the other one.
                None => Err(NotRead::Link),
            },
            Err(why) => Err(why),
        };
        match read {
            Ok(removed) if removed.is_empty() => {}
            Ok(removed) => found.notes.push(preparing::removed_from_instructions(file, &removed)),
            Err(why) => found.notes.push(preparing::instructions_not_read(file, &why)),
        }
    }
    Ok(found)
}
