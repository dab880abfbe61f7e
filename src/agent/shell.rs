//! The `bash` tool: one command in the agent's sandbox.

use std::sync::Arc;

use async_trait::async_trait;
use minijinja::context;
use serde_json::Value;

use crate::method::ports::{Access, CallContext, CommandLimits, Tool, ToolError, ToolOutcome, ToolSpec};

use super::{
    observation::observe,
    prompt,
    workbench::{Ran, Workbench},
};

/// `bash {command}` on a [`Workbench`].
pub struct Shell {
    pub bench: Arc<Workbench>,
    pub limits: CommandLimits,
    /// Most characters of output that the model is shown.
    pub output_chars: usize,
}

#[async_trait]
impl Tool for Shell {
    fn spec(&self) -> ToolSpec {
        prompt::tool_spec(
            "tools/bash.json",
            context! {
                seconds => self.limits.timeout.as_secs(),
                output_chars => self.output_chars,
                writable => self.bench.access() == Access::ReadWrite,
            },
        )
    }

    async fn call(&self, arguments: Value, call: CallContext) -> Result<ToolOutcome, ToolError> {
        let command = match arguments.get("command") {
            Some(Value::String(command)) if !command.trim().is_empty() => command,
            Some(Value::String(_)) => return Ok(ToolOutcome::BadArguments("`command` is empty".into())),
            _ => return Ok(ToolOutcome::BadArguments("it needs `command`, a string".into())),
        };
        if command.contains('\0') {
            return Ok(ToolOutcome::BadArguments(
                "`command` holds a NUL character, which no shell takes".into(),
            ));
        }
        // The command ends with the agent's time, and the sandbox lives on for a harvest.
        let ran = self.bench.run(command, self.limits, call.time_left).await?;
        Ok(ToolOutcome::Observation(match ran {
            Ran::Outcome { outcome, limits, note } => {
                let seen = observe(&outcome, limits, self.output_chars);
                note.map_or(seen.clone(), |note| format!("{note}\n{seen}"))
            }
            Ran::Lost { reason, turn } => prompt::render("agent/sandbox_lost.md", context! { reason, turn }),
            Ran::UsedUp { reason } => prompt::render("agent/sandbox_limit.md", context! { reason }),
            Ran::TimeOver => prompt::render("agent/time_over.md", context! {}),
        }))
    }
}
