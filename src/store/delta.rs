//! One saved delta of a workspace as bytes.
//!
//! The format is our own because the content is hostile: paths are whatever Linux allows and must come
//! back exactly, and nothing may be unpacked. After [`MAGIC`] come records of a kind (u8), the length of the
//! path and of the content (u64, little endian), path, content. The last record is [`END`] with the SHA-256
//! of all bytes before it, so that damage is found instead of resumed from.

use sha2::{Digest, Sha256};

use crate::domain::{Change, FileMode, TreeChanges};

const MAGIC: &[u8] = b"acquire-delta-1\n";
const END: u8 = b'e';
const REMOVED: u8 = b'd';

fn kind(mode: FileMode) -> u8 {
    match mode {
        FileMode::Regular => b'r',
        FileMode::Executable => b'x',
        FileMode::Symlink => b'l',
    }
}

pub fn encode(changes: &TreeChanges) -> Vec<u8> {
    let content: usize = changes.changed.iter().map(|c| c.content.len() + c.path.len() + 17).sum();
    let mut out = Vec::with_capacity(MAGIC.len() + content + 1024);
    out.extend_from_slice(MAGIC);
    for change in &changes.changed {
        put(&mut out, kind(change.mode), &change.path, &change.content);
    }
    for path in &changes.removed {
        put(&mut out, REMOVED, path, b"");
    }
    let digest = Sha256::digest(&out);
    out.push(END);
    out.extend_from_slice(&digest);
    out
}

fn put(out: &mut Vec<u8>, kind: u8, path: &[u8], content: &[u8]) {
    out.push(kind);
    out.extend_from_slice(&(path.len() as u64).to_le_bytes());
    out.extend_from_slice(&(content.len() as u64).to_le_bytes());
    out.extend_from_slice(path);
    out.extend_from_slice(content);
}

/// The changes, or what is wrong with the bytes.
pub fn decode(bytes: &[u8]) -> Result<TreeChanges, &'static str> {
    let mut rest = bytes.strip_prefix(MAGIC).ok_or("it is not a saved tree of this version")?;
    let mut changes = TreeChanges::default();
    loop {
        let before_record = bytes.len() - rest.len();
        let kind = take(&mut rest, 1)?[0];
        if kind == END {
            let digest = Sha256::digest(&bytes[..before_record]);
            return if rest == digest.as_slice() { Ok(changes) } else { Err("its checksum does not match") };
        }
        let path_length = take_length(&mut rest)?;
        let content_length = take_length(&mut rest)?;
        let path = take(&mut rest, path_length)?.to_vec();
        let content = take(&mut rest, content_length)?.to_vec();
        let mode = match kind {
            b'r' => FileMode::Regular,
            b'x' => FileMode::Executable,
            b'l' => FileMode::Symlink,
            REMOVED => {
                changes.removed.push(path);
                continue;
            }
            _ => return Err("it has a record of an unknown kind"),
        };
        changes.changed.push(Change { path, mode, content });
    }
}

fn take<'a>(rest: &mut &'a [u8], length: u64) -> Result<&'a [u8], &'static str> {
    let cut = "it ends too early";
    let (taken, left) = rest.split_at_checked(usize::try_from(length).map_err(|_| cut)?).ok_or(cut)?;
    *rest = left;
    Ok(taken)
}

fn take_length(rest: &mut &[u8]) -> Result<u64, &'static str> {
    let bytes = take(rest, 8)?.try_into().expect("exactly 8 bytes were taken");
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        vec(any::<u8>(), 0..40)
    }

    fn changes() -> impl Strategy<Value = TreeChanges> {
        let mode = prop_oneof![Just(FileMode::Regular), Just(FileMode::Executable), Just(FileMode::Symlink)];
        let change =
            (bytes(), mode, bytes()).prop_map(|(path, mode, content)| Change { path, mode, content });
        (vec(change, 0..6), vec(bytes(), 0..6))
            .prop_map(|(changed, removed)| TreeChanges { changed, removed })
    }

    proptest! {
        #[test]
        fn any_bytes_come_back_exactly(changes in changes()) {
            prop_assert_eq!(decode(&encode(&changes)).unwrap(), changes);
        }

        #[test]
        fn damage_is_found(changes in changes(), at: prop::sample::Index, flip in 1u8..) {
            let good = encode(&changes);
            let mut bad = good.clone();
            bad[at.index(good.len())] ^= flip;
            prop_assert!(decode(&bad).is_err());
            prop_assert!(decode(&good[..at.index(good.len())]).is_err());
            bad = good;
            bad.push(0);
            prop_assert!(decode(&bad).is_err());
        }
    }
}
