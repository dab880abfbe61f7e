//! A sandbox that is up, and on its way to the one who asked for it.

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::sandbox::DockerSandbox;
use crate::method::ports::Sandbox as _;

/// Closed when it is dropped untaken: whoever asked may have stopped waiting at the last moment.
pub(super) struct Opened {
    sandbox: Option<DockerSandbox>,
    /// Where the closing is awaited at the end of the run.
    tasks: TaskTracker,
}

impl Opened {
    pub fn new(sandbox: DockerSandbox, tasks: TaskTracker) -> Self {
        Self { sandbox: Some(sandbox), tasks }
    }

    pub fn take(mut self) -> DockerSandbox {
        self.sandbox.take().expect("it is taken once, with `self`")
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // Without a runtime this process is ending, and what it leaves is the reaper's.
        if let Some(sandbox) = self.sandbox.take()
            && let Ok(runtime) = Handle::try_current()
        {
            self.tasks.spawn_on(async move { sandbox.close().await }, &runtime);
        }
    }
}
