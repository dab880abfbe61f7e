//! The supervisor's standard streams as plain byte streams.
//!
//! The engine frames what comes out, so that stdout and stderr stay apart; only the supervisor itself
//! writes to either (a command's output goes through the supervisor), so nothing inside can forge a frame.

use std::{io, pin::Pin};

use bollard::container::{AttachContainerResults, LogOutput};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::io::StreamReader;

/// Most characters of one piece of the supervisor's stderr that are logged.
const LOGGED: usize = 2_000;

/// What the supervisor writes to stdout, and its stdin. Its stderr is logged under `container`.
pub(super) fn split(
    attached: AttachContainerResults,
    container: String,
) -> (impl AsyncRead + Send + Unpin + 'static, Pin<Box<dyn AsyncWrite + Send>>) {
    (StreamReader::new(stdout(attached.output, container).boxed()), attached.input)
}

fn stdout(
    output: impl Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send + 'static,
    container: String,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    output.filter_map(move |piece| {
        let kept = match piece {
            Ok(LogOutput::StdOut { message }) => Some(Ok(message)),
            Ok(LogOutput::StdErr { message }) => {
                let text: String =
                    String::from_utf8_lossy(&message).trim_end().chars().take(LOGGED).collect();
                tracing::warn!(container, stderr = ?text, "the supervisor complains");
                None
            }
            // An unframed piece: the engine speaks of an error of its own, or the stream was cut.
            Ok(LogOutput::StdIn { message } | LogOutput::Console { message }) => {
                let text: String = String::from_utf8_lossy(&message).chars().take(LOGGED).collect();
                Some(Err(io::Error::other(format!("the engine broke the stream off: {text:?}"))))
            }
            Err(error) => Some(Err(io::Error::other(error))),
        };
        std::future::ready(kept)
    })
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use tokio::io::AsyncReadExt;

    use super::*;

    async fn read(pieces: Vec<LogOutput>) -> io::Result<Vec<u8>> {
        let pieces = stream::iter(pieces.into_iter().map(Ok));
        let mut all = Vec::new();
        StreamReader::new(stdout(pieces, "c".into()).boxed()).read_to_end(&mut all).await?;
        Ok(all)
    }

    #[tokio::test]
    async fn only_stdout_is_read() {
        let pieces = vec![
            LogOutput::StdOut { message: "ab".into() },
            LogOutput::StdErr { message: "noise".into() },
            LogOutput::StdOut { message: "c".into() },
        ];
        assert_eq!(read(pieces).await.unwrap(), b"abc");
    }

    #[tokio::test]
    async fn an_unframed_piece_is_an_error_and_never_data() {
        let error = read(vec![LogOutput::Console { message: "oops".into() }]).await.unwrap_err();
        assert!(error.to_string().contains("oops"), "{error}");
    }
}
