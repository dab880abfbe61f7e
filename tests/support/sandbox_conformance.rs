//! What every sandbox engine must hold, one test for each requirement, under its id.
//!
//! An engine's test binary says how it makes the sandboxes of a run:
//!
//! ```ignore
//! #[path = "../support/sandbox_conformance.rs"]
//! mod sandbox_conformance;
//!
//! async fn sandboxes(tree: Arc<dyn SourceTree>, history: History) -> Arc<dyn Sandboxes> { … }
//! sandbox_conformance!(sandboxes);
//! ```
//!
//! The function may also give an `Option`: `None` skips the test, after having said why. The sandbox needs
//! bash, coreutils, git and python3.

#[path = "sandbox_conformance/commands.rs"]
pub mod commands;
#[path = "sandbox_conformance/hostile.rs"]
pub mod hostile;
#[path = "sandbox_conformance/memory_tree.rs"]
pub mod memory_tree;
#[path = "sandbox_conformance/walls.rs"]
pub mod walls;
#[path = "sandbox_conformance/workspace.rs"]
pub mod workspace;

use std::{sync::Arc, time::Duration};

use acquire::{
    domain::{AgentName, Change, TreeChanges},
    method::ports::{Access, CommandExit, CommandLimits, CommandOutcome, Sandbox, SandboxError, Sandboxes},
};
pub use memory_tree::MemoryTree;

/// Expands to the tests.
#[macro_export]
macro_rules! sandbox_conformance {
    ($make:path) => {
        $crate::sandbox_conformance!(@tests $make, commands {
            r_ex_1_commands_start_afresh_with_nothing_on_stdin,
            r_ex_2_escapees_and_fork_bombs_die_at_the_deadline,
            r_ex_3_background_processes_end_with_the_command,
            r_ex_4_endless_output_costs_a_fixed_amount_of_memory,
            r_ex_5_an_outcome_can_be_neither_forged_nor_suppressed,
            r_ex_8_output_becomes_text_that_hides_nothing,
            a_command_that_cannot_be_executed_is_an_outcome,
            closing_ends_a_running_command,
        });
        $crate::sandbox_conformance!(@tests $make, workspace {
            r_ex_9_changes_are_listed_since_the_base_and_since_the_last_listing,
            s_20_a_frozen_sandbox_runs_nothing_and_is_still_read,
            s_23_no_git_folder_is_ever_listed,
            saved_changes_lie_on_top_of_the_base_and_count_as_changes,
            the_workspace_is_the_tree_and_a_usable_repository,
            read_only_sandboxes_are_separate_but_see_one_tree,
        });
        $crate::sandbox_conformance!(@tests $make, walls {
            s_10_nothing_of_the_host_is_found_inside,
            s_11_no_name_resolves_and_no_address_answers,
            s_12_dangerous_calls_are_refused,
            s_13_only_the_workspace_and_tmp_can_be_written,
            s_13_an_answerers_workspace_is_read_only,
        });
        $crate::sandbox_conformance!(@tests $make, hostile {
            an_agent_that_deletes_everything_is_survived,
            a_fifo_blocks_nobody,
            a_full_disk_is_an_error_of_the_command_alone,
            a_tree_too_large_for_the_workspace_is_a_clear_error,
        });
    };
    (@tests $make:path, $group:ident { $($name:ident,)* }) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                let tree = sandbox_conformance::MemoryTree::example();
                let history = tree.history_now();
                let made: Option<std::sync::Arc<dyn acquire::method::ports::Sandboxes>> =
                    $make(std::sync::Arc::new(tree), history).await.into();
                let Some(sandboxes) = made else { return };
                sandbox_conformance::$group::$name(&*sandboxes).await;
                sandboxes.close().await;
            }
        )*
    };
}

/// Ten seconds, and 4,000 bytes of each end.
pub const LIMITS: CommandLimits = CommandLimits { timeout: Duration::from_secs(10), keep_bytes: 4_000 };

pub async fn answerer(sandboxes: &dyn Sandboxes) -> Arc<dyn Sandbox> {
    sandboxes.open(&AgentName::answerer(1), Access::ReadOnly, &TreeChanges::default()).await.unwrap()
}

pub async fn resolver(sandboxes: &dyn Sandboxes) -> Arc<dyn Sandbox> {
    sandboxes.open(&AgentName::resolver(), Access::ReadWrite, &TreeChanges::default()).await.unwrap()
}

pub async fn run(sandbox: &dyn Sandbox, command: &str) -> CommandOutcome {
    sandbox.run(command, LIMITS).await.unwrap()
}

/// As [`run`], with another timeout.
pub async fn run_for(sandbox: &dyn Sandbox, millis: u64, command: &str) -> CommandOutcome {
    let limits = CommandLimits { timeout: Duration::from_millis(millis), ..LIMITS };
    sandbox.run(command, limits).await.unwrap()
}

/// The output of a command that must succeed, without the newline at its end.
pub async fn output(sandbox: &dyn Sandbox, command: &str) -> String {
    let outcome = run(sandbox, command).await;
    let text = text(&outcome);
    assert_eq!(outcome.exit, CommandExit::Code(0), "{command}: {text}");
    text.trim_end().to_owned()
}

/// Runs Python, as the one way to make single system calls in every image.
pub async fn python(sandbox: &dyn Sandbox, script: &str) -> String {
    output(sandbox, &format!("python3 - <<'EOF_OF_SCRIPT'\n{script}\nEOF_OF_SCRIPT")).await
}

pub fn text(outcome: &CommandOutcome) -> String {
    String::from_utf8_lossy(&[outcome.head.as_slice(), &outcome.tail].concat()).into_owned()
}

/// How many processes there are, PID 1 and the counting shell included.
pub async fn processes(sandbox: &dyn Sandbox) -> usize {
    output(sandbox, "set -- /proc/[0-9]*; echo $#").await.parse().unwrap()
}

/// With only the supervisor and the shell that counts.
pub const ALONE: usize = 2;

pub fn change(path: &str, content: &str) -> Change {
    Change { path: path.into(), mode: acquire::domain::FileMode::Regular, content: content.into() }
}

pub fn is_limit<T>(result: &Result<T, SandboxError>) -> bool {
    matches!(result, Err(SandboxError::Limit(_)))
}
