//! libgit2 itself: its process-wide settings, and how async code calls it.

use std::sync::Once;

use git2::ConfigLevel;
use tokio_util::sync::CancellationToken;

use super::transport;
use crate::method::ports::SourceError;

/// Makes the process-wide settings once, before the first use of libgit2.
pub(super) fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let levels = [ConfigLevel::System, ConfigLevel::Global, ConfigLevel::XDG, ConfigLevel::ProgramData];
        for level in levels {
            // SAFETY: these options are unsynchronised globals; `Once` makes this the only writer, and every
            // entry into libgit2 passes through here first.
            unsafe { git2::opts::set_search_path(level, "") }.expect("fails only when memory runs out");
        }
        // The check protects programs that obey a stranger's config. Here config starts nothing, and it would
        // refuse a repository of another user with advice (`safe.directory`) that is not read either.
        // SAFETY: as above.
        unsafe { git2::opts::set_verify_owner_validation(false) }.expect("this option takes any value");
        transport::register();
    });
}

/// Runs `work` on a blocking thread (S-51). The token is cancelled when the returned future is dropped, so
/// that a long walk or transfer ends soon after nobody waits for it any more.
pub(super) async fn blocking<T, E>(
    work: impl FnOnce(&CancellationToken) -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<SourceError> + Send + 'static,
{
    let token = CancellationToken::new();
    let _cancels_on_drop = token.clone().drop_guard();
    let task = tokio::task::spawn_blocking(move || {
        init();
        work(&token)
    });
    task.await.unwrap_or_else(|failed| match failed.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Err(cancelled().into()),
    })
}

pub(super) fn cancelled() -> SourceError {
    SourceError::Git("cancelled".into())
}

/// Fails when nobody waits any more.
pub(super) fn check(token: &CancellationToken) -> Result<(), SourceError> {
    if token.is_cancelled() { Err(cancelled()) } else { Ok(()) }
}

/// An error of libgit2 with what was being done.
pub(super) fn git_error(doing: &str) -> impl Fn(git2::Error) -> SourceError + '_ {
    move |error| SourceError::Git(format!("{doing}: {}", shown(error.message())))
}

/// An error of the file system with what was being done.
pub(super) fn io_error(doing: &str) -> impl Fn(std::io::Error) -> SourceError + '_ {
    move |error| SourceError::Git(format!("{doing}: {error}"))
}

/// Text from a repository or a server, fit for a terminal and one line: control characters escaped, shortened.
pub(super) fn shown(text: &str) -> String {
    text.chars()
        .take(300)
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect()
}

/// As [`shown`], for a name that need not be UTF-8: other bytes are escaped.
pub(super) fn shown_bytes(name: &[u8]) -> String {
    let chunks = name.utf8_chunks();
    chunks.map(|chunk| shown(chunk.valid()) + &chunk.invalid().escape_ascii().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_50_libgit2_is_the_vendored_one_without_tls_or_ssh() {
        let version = git2::Version::get();
        assert!(version.libgit2_version() >= (1, 9, 7), "{:?}", version.libgit2_version());
        assert!(version.vendored());
        assert!(!version.https() && !version.ssh());
    }

    /// Versions in the lock file, by the name of the crate.
    fn locked(name: &str) -> Vec<(u64, u64, u64)> {
        let lock = include_str!("../../Cargo.lock");
        let entry = format!("name = \"{name}\"\nversion = \"");
        let after = lock.split(&entry).skip(1);
        let number = |text: Option<&str>| text.and_then(|t| t.split(['-', '+']).next()?.parse().ok());
        after
            .filter_map(|text| {
                let mut parts = text.split('"').next()?.splitn(3, '.');
                Some((number(parts.next())?, number(parts.next())?, number(parts.next())?))
            })
            .collect()
    }

    #[test]
    fn decision_9_floors_hold_and_banned_crates_are_absent() {
        assert!(git2::Version::get().libgit2_version() >= (1, 9, 7));
        let tar = locked("tar");
        assert!(tar.iter().all(|version| *version >= (0, 4, 45)) && tar.len() == 1, "{tar:?}");
        for banned in ["tokio-tar", "async-tar", "openssl-sys", "aws-lc-sys", "libssh2-sys"] {
            assert_eq!(locked(banned), [], "{banned}");
        }
    }

    #[test]
    fn s_51_no_search_path_is_left() {
        init();
        for level in [ConfigLevel::System, ConfigLevel::Global, ConfigLevel::XDG, ConfigLevel::ProgramData] {
            // SAFETY: nothing writes these globals after `init`.
            let path = unsafe { git2::opts::get_search_path(level) }.unwrap();
            assert_eq!(path.to_bytes(), b"", "{level:?}");
        }
    }

    #[tokio::test]
    async fn s_51_dropping_the_future_cancels_the_work() {
        let (started, mut has_started) = tokio::sync::mpsc::channel(1);
        let (ended, has_ended) = std::sync::mpsc::channel();
        let work = blocking(move |token| {
            started.blocking_send(()).unwrap();
            while check(token).is_ok() {
                std::thread::yield_now();
            }
            ended.send(()).unwrap();
            Ok::<_, SourceError>(())
        });
        tokio::select! {
            _ = work => unreachable!("it ends only when it is cancelled"),
            _ = has_started.recv() => {}
        }
        has_ended.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
    }

    #[test]
    fn hostile_text_becomes_one_harmless_line() {
        assert_eq!(shown("a\x1b[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(shown_bytes(b"caf\xe9/\xc3\xa9\n"), "caf\\xe9/\u{e9}\\n");
    }
}
