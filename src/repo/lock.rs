//! Lock files, which keep two processes from writing the same mirror at once.

use std::{
    fs::{File, TryLockError},
    path::Path,
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use super::engine::{check, io_error};
use crate::method::ports::SourceError;

/// How often a lock that somebody else holds is tried again.
const INTERVAL: Duration = Duration::from_millis(20);

/// Takes the lock for as long as the returned file is open. The system frees it when a process dies.
pub(super) fn take_lock(
    path: &Path,
    max_wait: Duration,
    token: &CancellationToken,
) -> Result<File, SourceError> {
    let locking = io_error("locking the mirror");
    let file = File::create(path).map_err(&locking)?;
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(locking(error)),
            Err(TryLockError::WouldBlock) => {}
        }
        if started.elapsed() > max_wait {
            return Err(SourceError::Limit(format!(
                "another process has held {} for {} s; wait for it or end it",
                path.display(),
                max_wait.as_secs_f32()
            )));
        }
        check(token)?;
        std::thread::sleep(INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_55_a_lock_is_waited_for_but_not_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.lock");
        let token = CancellationToken::new();
        let held = take_lock(&path, Duration::ZERO, &token).unwrap();
        assert!(matches!(take_lock(&path, Duration::ZERO, &token), Err(SourceError::Limit(_))));
        let waiting = std::thread::spawn({
            let path = path.clone();
            move || take_lock(&path, Duration::from_secs(60), &CancellationToken::new())
        });
        drop(held);
        waiting.join().unwrap().unwrap();
        let held = take_lock(&path, Duration::ZERO, &token);
        token.cancel();
        let refused = take_lock(&path, Duration::from_secs(60), &token).unwrap_err();
        assert_eq!(refused.to_string(), "git: cancelled");
        drop(held);
    }
}
