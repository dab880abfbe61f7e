//! What a model is shown of a command.

use minijinja::context;

use crate::{
    gate::visible::observed,
    method::ports::{CommandExit, CommandLimits, CommandOutcome},
};

use super::prompt;

/// Words an outcome for the model; output of more than `limit` characters keeps its two ends.
pub fn observe(outcome: &CommandOutcome, limits: CommandLimits, limit: usize) -> String {
    let exit = match outcome.exit {
        CommandExit::Code(code) => format!("exit code {code}"),
        CommandExit::Signal(signal) => format!("ended by signal {signal}"),
        CommandExit::TimedOut => format!("timed out after {} s", limits.timeout.as_secs()),
    };
    let seen = observed(outcome, limit);
    prompt::render(
        "agent/observation.md",
        context! {
            exit,
            timed_out => outcome.exit == CommandExit::TimedOut,
            out_of_memory => matches!(outcome.exit, CommandExit::Code(137) | CommandExit::Signal(9)),
            output => seen.text,
            shortened => seen.is_cut,
        },
    )
}
