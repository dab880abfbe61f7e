//! The one place that writes to standard output and standard error.
//!
//! `println!` and its sisters panic where a stream takes nothing more; `lib.rs` denies them. A run costs money, and
//! what it came to lies in files: no stream may end it.

use std::{
    fmt::Display,
    io::{self, ErrorKind, Write},
    process::ExitCode,
};

/// A result that standard output did not take.
#[derive(Debug, thiserror::Error)]
#[error("standard output cannot be written to")]
pub struct NotPrinted(#[from] io::Error);

/// Prints a result on standard output, and a line's end.
///
/// A reader that has left (`acquire … | head`) has seen what it wanted: that is no error, and the command ends
/// with the exit code of its work.
pub fn print(text: impl Display) -> Result<(), NotPrinted> {
    taken(write(&mut io::stdout().lock(), text))
}

/// Says something on standard error, and a line's end. Where nobody can hear it, it is not said.
pub fn tell(text: impl Display) {
    let _ = write(&mut io::stderr().lock(), text);
}

/// Shows help, or what is wrong with the command line, and gives the exit code.
pub fn show_usage(error: &clap::Error) -> ExitCode {
    let printed = error.print().and_then(|()| io::stdout().flush());
    if let (Err(failed), false) = (taken(printed), error.use_stderr()) {
        tell(format_args!("error: {:#}", anyhow::Error::from(failed)));
        return ExitCode::from(1);
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

fn write(to: &mut impl Write, text: impl Display) -> io::Result<()> {
    writeln!(to, "{text}")?;
    to.flush()
}

fn taken(written: io::Result<()>) -> Result<(), NotPrinted> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that takes nothing.
    struct Shut(ErrorKind);

    impl Write for Shut {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Tells only when it is flushed that it had no room, as a full disk may.
    struct Late;

    impl Write for Late {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(ErrorKind::StorageFull.into())
        }
    }

    #[test]
    fn a_reader_that_left_is_no_error_and_a_full_disk_is_one() {
        let mut whole = Vec::new();
        taken(write(&mut whole, "two\nlines")).unwrap();
        assert_eq!(whole, b"two\nlines\n");
        taken(write(&mut Shut(ErrorKind::BrokenPipe), "a")).unwrap();
        let told = |written| format!("{:#}", anyhow::Error::from(taken(written).unwrap_err()));
        let expected = "standard output cannot be written to: no storage space";
        assert_eq!(told(write(&mut Shut(ErrorKind::StorageFull), "a")), expected);
        assert_eq!(told(write(&mut Late, "a")), expected);
    }
}
