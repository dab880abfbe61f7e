//! What a run says while it prepares, before its first agent.

pub const READING_REPOSITORY: &str = "Reading the repository.";
pub const PACKING_HISTORY: &str = "Packing its history for the agents.";
pub const STARTING_SANDBOXES: &str = "Starting the sandboxes.";
