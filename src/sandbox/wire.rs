//! What the host and the supervisor say to each other. Both sides compile this one file: std only, no I/O.
//!
//! The supervisor is started as `supervisor WORKSPACE`, where WORKSPACE is an absolute path, as PID 1 of
//! its PID namespace, and speaks on its stdin and stdout. A frame is a little-endian `u32` (the length of
//! what follows, 1 to [`MAX_FRAME`]), one byte that says its kind, and the fields of that kind.
//!
//! The supervisor says [`Reply::Ready`] first. Then the host asks and the supervisor answers, one request
//! at a time and in order:
//!
//! | request | answer |
//! |---|---|
//! | any number of `Entry` (with its `More`) and `Remove`, then `FillEnd`; at most once, before any `Run` | `Filled` |
//! | `Run` | `Outcome` |
//! | `List` | `Listed` until one is the last |
//! | `Freeze` | `Frozen` |
//! | `Fetch` | `Content` until one is the last |
//!
//! Each may be answered by `Failed` instead; a fill is always read to its end first. When the host hangs
//! up (end of file on stdin), the supervisor kills everything and exits.

/// Raised when a frame changes its meaning. Both sides come from one build, so they must be equal.
pub const VERSION: u8 = 1;
/// Longest frame, in bytes.
pub const MAX_FRAME: usize = 16 << 20;
/// Content travels in pieces of at most this many bytes.
pub const CHUNK: usize = 256 << 10;
/// Longest path, in bytes; Linux takes no longer one in a single call.
pub const MAX_PATH: usize = 4_096;
/// Most entries that a listing may have.
pub const MAX_LISTED: usize = 200_000;
/// Most bytes that a command's output keeps from its beginning, and as many from its end.
pub const MAX_KEEP: usize = 4 << 20;

/// Where an entry of the fill comes from. Base and git entries may mix; saved changes come after both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The tree of the base commit.
    Base,
    /// The host's own `.git` files; the only stage that may write below `.git`, and writes nowhere else.
    Git,
    /// Changes saved earlier. They count as changes against the base.
    Saved,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Regular,
    Executable,
    Symlink,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// An entry of `size` bytes and the first of them (at most [`CHUNK`]).
    Entry {
        stage: Stage,
        mode: Mode,
        size: u64,
        path: Vec<u8>,
        content: Vec<u8>,
    },
    /// The next bytes of the last entry.
    More {
        content: Vec<u8>,
    },
    /// A saved removal; it belongs to [`Stage::Saved`].
    Remove {
        path: Vec<u8>,
    },
    FillEnd,
    Run {
        timeout_ms: u64,
        keep_bytes: u64,
        command: Vec<u8>,
    },
    List {
        since: Reference,
    },
    Freeze,
    Fetch {
        path: Vec<u8>,
        max_bytes: u64,
    },
}

/// The state that a listing compares with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reference {
    Base,
    /// The last listing of this kind; before there was one, the workspace as it was filled.
    LastListing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Ready { version: u8 },
    Filled { entries: u64, bytes: u64 },
    Outcome(Outcome),
    Listed { entries: Vec<Listed>, last: bool },
    Frozen,
    Content { bytes: Vec<u8>, last: bool },
    Failed { cause: Cause, message: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub exit: Exit,
    pub head: Vec<u8>,
    pub tail: Vec<u8>,
    pub omitted: u64,
    pub background_ended: u32,
    pub micros: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
    TimedOut,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub path: Vec<u8>,
    pub kind: ListedKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListedKind {
    Changed { mode: Mode, size: u64 },
    Removed,
    Special,
}

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The workspace is full, or something is larger or more than allowed.
    Full,
    /// The request cannot be met as it stands: a bad path, no such file, a frozen sandbox.
    Refused,
    /// The sandbox lacks something that it needs, such as bash.
    Missing,
    /// Anything else that the system said.
    System,
}

/// A frame that is not what this file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl Request {
    /// The whole frame, its length included.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Entry { stage, mode, size, path, content } => {
                Frame::new(1).u8(*stage as u8).u8(*mode as u8).u64(*size).bytes(path).rest(content)
            }
            Self::More { content } => Frame::new(2).rest(content),
            Self::Remove { path } => Frame::new(3).rest(path),
            Self::FillEnd => Frame::new(4).rest(&[]),
            Self::Run { timeout_ms, keep_bytes, command } => {
                Frame::new(5).u64(*timeout_ms).u64(*keep_bytes).rest(command)
            }
            Self::List { since } => Frame::new(6).u8(*since as u8).rest(&[]),
            Self::Freeze => Frame::new(7).rest(&[]),
            Self::Fetch { path, max_bytes } => Frame::new(8).u64(*max_bytes).rest(path),
        }
    }

    /// From a frame without its length.
    pub fn decode(frame: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(frame);
        let request = match fields.u8()? {
            1 => Self::Entry {
                stage: match fields.u8()? {
                    0 => Stage::Base,
                    1 => Stage::Git,
                    2 => Stage::Saved,
                    _ => return Err(Malformed("unknown stage")),
                },
                mode: fields.mode()?,
                size: fields.u64()?,
                path: fields.path()?,
                content: fields.rest(),
            },
            2 => Self::More { content: fields.rest() },
            3 => Self::Remove { path: fields.rest() },
            4 => Self::FillEnd,
            5 => Self::Run {
                timeout_ms: fields.u64()?,
                keep_bytes: fields.u64()?.min(MAX_KEEP as u64),
                command: fields.rest(),
            },
            6 => Self::List {
                since: match fields.u8()? {
                    0 => Reference::Base,
                    1 => Reference::LastListing,
                    _ => return Err(Malformed("unknown reference")),
                },
            },
            7 => Self::Freeze,
            8 => Self::Fetch { max_bytes: fields.u64()?, path: fields.rest() },
            _ => return Err(Malformed("unknown request")),
        };
        fields.end(request)
    }
}

impl Reply {
    /// The whole frame, its length included.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Ready { version } => Frame::new(1).u8(*version).rest(&[]),
            Self::Filled { entries, bytes } => Frame::new(2).u64(*entries).u64(*bytes).rest(&[]),
            Self::Outcome(outcome) => {
                let (kind, number) = match outcome.exit {
                    Exit::Code(code) => (0, code),
                    Exit::Signal(signal) => (1, signal),
                    Exit::TimedOut => (2, 0),
                };
                Frame::new(3)
                    .u8(kind)
                    .u32(number as u32)
                    .u64(outcome.omitted)
                    .u32(outcome.background_ended)
                    .u64(outcome.micros)
                    .bytes(&outcome.head)
                    .rest(&outcome.tail)
            }
            Self::Listed { entries, last } => {
                let mut frame = Frame::new(4).u8(u8::from(*last));
                for entry in entries {
                    frame = match entry.kind {
                        ListedKind::Changed { mode, size } => frame.u8(0).u8(mode as u8).u64(size),
                        ListedKind::Removed => frame.u8(1),
                        ListedKind::Special => frame.u8(2),
                    };
                    frame = frame.bytes(&entry.path);
                }
                frame.rest(&[])
            }
            Self::Frozen => Frame::new(5).rest(&[]),
            Self::Content { bytes, last } => Frame::new(6).u8(u8::from(*last)).rest(bytes),
            Self::Failed { cause, message } => Frame::new(7).u8(*cause as u8).rest(message.as_bytes()),
        }
    }

    /// From a frame without its length.
    pub fn decode(frame: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(frame);
        let reply = match fields.u8()? {
            1 => Self::Ready { version: fields.u8()? },
            2 => Self::Filled { entries: fields.u64()?, bytes: fields.u64()? },
            3 => {
                let (kind, number) = (fields.u8()?, fields.u32()? as i32);
                Self::Outcome(Outcome {
                    exit: match kind {
                        0 => Exit::Code(number),
                        1 => Exit::Signal(number),
                        2 => Exit::TimedOut,
                        _ => return Err(Malformed("unknown exit")),
                    },
                    omitted: fields.u64()?,
                    background_ended: fields.u32()?,
                    micros: fields.u64()?,
                    head: fields.bytes()?,
                    tail: fields.rest(),
                })
            }
            4 => {
                let last = fields.flag()?;
                let mut entries = Vec::new();
                while !fields.0.is_empty() {
                    let kind = match fields.u8()? {
                        0 => ListedKind::Changed { mode: fields.mode()?, size: fields.u64()? },
                        1 => ListedKind::Removed,
                        2 => ListedKind::Special,
                        _ => return Err(Malformed("unknown kind of entry")),
                    };
                    entries.push(Listed { path: fields.path()?, kind });
                }
                Self::Listed { entries, last }
            }
            5 => Self::Frozen,
            6 => Self::Content { last: fields.flag()?, bytes: fields.rest() },
            7 => Self::Failed {
                cause: match fields.u8()? {
                    0 => Cause::Full,
                    1 => Cause::Refused,
                    2 => Cause::Missing,
                    3 => Cause::System,
                    _ => return Err(Malformed("unknown cause")),
                },
                message: String::from_utf8_lossy(&fields.rest()).into_owned(),
            },
            _ => return Err(Malformed("unknown reply")),
        };
        fields.end(reply)
    }
}

/// Builds a frame; [`Frame::rest`] puts the last field and the length in.
struct Frame(Vec<u8>);

impl Frame {
    fn new(kind: u8) -> Self {
        Self(vec![0, 0, 0, 0, kind])
    }

    fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(self, value: &[u8]) -> Self {
        let mut frame = self.u32(value.len() as u32);
        frame.0.extend_from_slice(value);
        frame
    }

    fn rest(mut self, value: &[u8]) -> Vec<u8> {
        self.0.extend_from_slice(value);
        let length = (self.0.len() - 4) as u32;
        self.0[..4].copy_from_slice(&length.to_le_bytes());
        self.0
    }
}

/// What of a frame is still to be read.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take(&mut self, count: usize) -> Result<&[u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        let bytes = self.take(4)?.try_into().map_err(|_| Malformed("it ends too early"))?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        let bytes = self.take(8)?.try_into().map_err(|_| Malformed("it ends too early"))?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a flag is neither 0 nor 1")),
        }
    }

    fn mode(&mut self) -> Result<Mode, Malformed> {
        match self.u8()? {
            0 => Ok(Mode::Regular),
            1 => Ok(Mode::Executable),
            2 => Ok(Mode::Symlink),
            _ => Err(Malformed("unknown mode")),
        }
    }

    fn bytes(&mut self) -> Result<Vec<u8>, Malformed> {
        let length = self.u32()? as usize;
        Ok(self.take(length)?.to_vec())
    }

    fn path(&mut self) -> Result<Vec<u8>, Malformed> {
        let path = self.bytes()?;
        if path.len() > MAX_PATH { Err(Malformed("a path is too long")) } else { Ok(path) }
    }

    fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).to_vec()
    }

    fn end<T>(self, value: T) -> Result<T, Malformed> {
        if self.0.is_empty() { Ok(value) } else { Err(Malformed("it has bytes too many")) }
    }
}
