//! The command line: one file a command, what it was asked ([`args`]), and what it shows meanwhile
//! ([`progress`]).

pub mod args;
pub mod progress;
