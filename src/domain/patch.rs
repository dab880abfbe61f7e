//! The patch: what changed in the Resolver's workspace and may leave it.

use serde::{Deserialize, Serialize};

use super::RepoPath;

/// Something that changed in the workspace but is not part of the patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Shown text; invalid UTF-8 and control characters are escaped.
    pub path: String,
    pub reason: String,
}

/// The contract of `patch` in `run.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchSummary {
    pub files: Vec<RepoPath>,
    pub insertions: usize,
    pub deletions: usize,
    pub left_out: Vec<LeftOut>,
}

/// A patch as git sees it: the difference of two trees in the bare repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patch {
    /// Unified diff in git's format, binary files included; bytes, since files need not be UTF-8.
    #[serde(with = "base64_bytes")]
    pub diff: Vec<u8>,
    /// Object id of the new tree, in the bare repository.
    pub tree: String,
    pub summary: PatchSummary,
}

/// Bytes in JSON: files need not be UTF-8.
mod base64_bytes {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}
