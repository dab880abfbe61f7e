//! What a run says while it prepares, before its first agent, and notes on what it took.

pub const READING_REPOSITORY: &str = "Reading the repository.";
pub const PACKING_HISTORY: &str = "Packing its history for the agents.";
pub const STARTING_SANDBOXES: &str = "Starting the sandboxes.";
/// The user's work tree is another one than the commit that is worked on.
pub const UNCOMMITTED: &str =
    "Uncommitted changes in the repository are not seen: its last commit is worked on.";
