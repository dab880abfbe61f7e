//! What a run says while it prepares, before its first agent, and notes on what it took.

pub const READING_REPOSITORY: &str = "Reading the repository.";
pub const PACKING_HISTORY: &str = "Packing its history for the agents.";
pub const STARTING_SANDBOXES: &str = "Starting the sandboxes.";
/// The user's work tree is another one than the commit that is worked on.
pub const UNCOMMITTED: &str =
    "Uncommitted changes in the repository are not seen: its last commit is worked on.";

/// Why a file of the project's notes for contributors was not given to agents.
pub fn instructions_not_read(file: &str, why: &impl std::fmt::Display) -> String {
    format!("{file} was not read: {why}.")
}

/// What hidden parts were taken out of such a file.
pub fn removed_from_instructions(file: &str, removed: &impl std::fmt::Display) -> String {
    format!("Taken out of {file} before a model read it, since people do not see it: {removed}.")
}

/// The tests are run once before any change.
pub fn trying_tests(command: &str) -> String {
    format!("Running `{command}` on the untouched repository.")
}
