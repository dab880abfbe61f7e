//! The few calls of the C library that the standard library does not wrap, made safe.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_long, c_uint, c_ulong, c_void},
    io,
    mem::{MaybeUninit, size_of},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    time::Duration,
};

unsafe extern "C" {
    fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int;
    fn getpid() -> c_int;
    fn setsid() -> c_int;
    fn umask(mask: c_uint) -> c_uint;
    fn kill(pid: c_int, signal: c_int) -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn signal(signal: c_int, handler: usize) -> usize;
    fn sigaddset(set: *mut SignalSet, signal: c_int) -> c_int;
    fn sigprocmask(how: c_int, set: *const SignalSet, old: *mut SignalSet) -> c_int;
    fn signalfd(fd: c_int, set: *const SignalSet, flags: c_int) -> c_int;
    fn poll(fds: *mut Poll, count: c_ulong, timeout: c_int) -> c_int;
    fn fcntl(fd: c_int, command: c_int, ...) -> c_int;
    fn dup2(from: c_int, to: c_int) -> c_int;
    fn openat(dir: c_int, path: *const c_char, flags: c_int, ...) -> c_int;
    fn mkdirat(dir: c_int, path: *const c_char, mode: c_uint) -> c_int;
    fn unlinkat(dir: c_int, path: *const c_char, flags: c_int) -> c_int;
    fn symlinkat(target: *const c_char, dir: c_int, path: *const c_char) -> c_int;
    fn readlinkat(dir: c_int, path: *const c_char, buffer: *mut c_char, size: usize) -> isize;
    fn fchmodat(dir: c_int, path: *const c_char, mode: c_uint, flags: c_int) -> c_int;
    fn statx(dir: c_int, path: *const c_char, flags: c_int, mask: c_uint, out: *mut Statx) -> c_int;
    fn getdents64(fd: c_int, buffer: *mut c_void, size: usize) -> isize;
    fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
}

/// glibc's `sigset_t`.
#[repr(C)]
struct SignalSet([c_ulong; 16]);

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: c_long,
}

#[repr(C)]
struct StatxTime {
    seconds: i64,
    nanoseconds: u32,
    _padding: i32,
}

#[repr(C)]
struct Statx {
    _mask: u32,
    _block_size: u32,
    _attributes: u64,
    _links: u32,
    _uid: u32,
    _gid: u32,
    mode: u16,
    _padding: u16,
    inode: u64,
    size: u64,
    _blocks: u64,
    _attributes_mask: u64,
    _accessed: StatxTime,
    _born: StatxTime,
    changed: StatxTime,
    modified: StatxTime,
    _rest: [u64; 16],
}

pub const SIGKILL: c_int = 9;
pub const ENOENT: i32 = 2;
pub const EACCES: i32 = 13;
pub const EEXIST: i32 = 17;
pub const ENOTDIR: i32 = 20;
pub const EISDIR: i32 = 21;
pub const EINVAL: i32 = 22;
pub const EFBIG: i32 = 27;
pub const ENOSPC: i32 = 28;
pub const ENAMETOOLONG: i32 = 36;
pub const ELOOP: i32 = 40;
pub const EDQUOT: i32 = 122;

pub const O_RDONLY: c_int = 0;
pub const O_WRONLY: c_int = 0o1;
pub const O_CREAT: c_int = 0o100;
pub const O_EXCL: c_int = 0o200;
pub const O_NONBLOCK: c_int = 0o4000;
const O_CLOEXEC: c_int = 0o2_000_000;
#[cfg(target_arch = "x86_64")]
pub const O_DIRECTORY: c_int = 0o200_000;
#[cfg(target_arch = "x86_64")]
const O_NOFOLLOW: c_int = 0o400_000;
#[cfg(target_arch = "aarch64")]
pub const O_DIRECTORY: c_int = 0o40_000;
#[cfg(target_arch = "aarch64")]
const O_NOFOLLOW: c_int = 0o100_000;

pub const REMOVE_DIRECTORY: c_int = 0x200;

pub const POLLIN: i16 = 1;
pub const POLLERR: i16 = 8;
pub const POLLHUP: i16 = 16;

/// An entry of `poll`; a negative descriptor is skipped.
#[repr(C)]
pub struct Poll {
    pub fd: RawFd,
    pub events: i16,
    pub happened: i16,
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn owned(result: c_int) -> io::Result<OwnedFd> {
    // SAFETY: the call has just made this descriptor, and nobody else knows it.
    checked(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A name for the C library; one with a NUL cannot exist.
fn c_string(name: &[u8]) -> io::Result<CString> {
    CString::new(name).map_err(|_| io::Error::from_raw_os_error(EINVAL))
}

/// Nobody may read this process's memory, descriptors or environment, or trace it.
pub fn become_undumpable() -> io::Result<()> {
    const PR_SET_DUMPABLE: c_int = 4;
    // SAFETY: plain numbers.
    checked(unsafe { prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) }).map(drop)
}

/// A BPF program as the kernel takes it.
#[repr(C)]
struct Program {
    length: u16,
    instructions: *const super::filter::Instruction,
}

/// Puts this process and everything that it will ever start under a seccomp filter, for good.
pub fn confine(filter: &[super::filter::Instruction]) -> io::Result<()> {
    const PR_SET_NO_NEW_PRIVS: c_int = 38;
    const PR_SET_SECCOMP: c_int = 22;
    const SECCOMP_MODE_FILTER: c_ulong = 2;
    let program = Program { length: filter.len() as u16, instructions: filter.as_ptr() };
    // SAFETY: the program lives across the call, and its length is its own.
    unsafe {
        checked(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        checked(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &raw const program as c_ulong, 0, 0)).map(drop)
    }
}

pub fn process_id() -> c_int {
    // SAFETY: takes nothing and cannot fail.
    unsafe { getpid() }
}

/// Usable between fork and exec.
pub fn new_session() -> io::Result<()> {
    // SAFETY: takes nothing.
    checked(unsafe { setsid() }).map(drop)
}

pub fn set_umask(mask: c_uint) {
    // SAFETY: a plain number; cannot fail.
    unsafe { umask(mask) };
}

/// Gives these signals back to the kernel, which then keeps them from PID 1 when they come from inside.
pub fn default_signals(signals: &[c_int]) {
    for &number in signals {
        // SAFETY: 0 is SIG_DFL.
        unsafe { signal(number, 0) };
    }
}

/// Sends SIGKILL to every process of this PID namespace but PID 1, which must be this process: anywhere
/// else the call would end the processes of a whole user, or machine.
pub fn kill_all_others() {
    assert_eq!(process_id(), 1, "only PID 1 may do this");
    // SAFETY: plain numbers; that nobody is left is no error here.
    unsafe { kill(-1, SIGKILL) };
}

/// What [`reap`] found.
pub enum Reaped {
    Ended { pid: c_int, status: c_int },
    StillRunning,
    NoChildren,
}

/// Takes one dead child, without waiting.
pub fn reap() -> Reaped {
    const WNOHANG: c_int = 1;
    let mut status = 0;
    // SAFETY: `status` is writable.
    match unsafe { waitpid(-1, &raw mut status, WNOHANG) } {
        0 => Reaped::StillRunning,
        pid if pid > 0 => Reaped::Ended { pid, status },
        _ => Reaped::NoChildren,
    }
}

/// A descriptor that is readable when children ended.
pub fn child_signals() -> io::Result<OwnedFd> {
    const SIGCHLD: c_int = 17;
    const SIG_BLOCK: c_int = 0;
    let mut set = SignalSet([0; 16]);
    // SAFETY: `set` is a `sigset_t`; zero is the empty set.
    unsafe {
        checked(sigaddset(&raw mut set, SIGCHLD))?;
        checked(sigprocmask(SIG_BLOCK, &raw const set, std::ptr::null_mut()))?;
        owned(signalfd(-1, &raw const set, O_CLOEXEC | O_NONBLOCK))
    }
}

/// Waits until something happens; `None` waits for ever.
pub fn wait_for(fds: &mut [Poll], timeout: Option<Duration>) -> io::Result<()> {
    // Rounded up, so that a deadline is not spun towards.
    let millis = timeout.map_or(-1, |t| c_int::try_from(t.as_micros().div_ceil(1_000)).unwrap_or(c_int::MAX));
    // SAFETY: the length is the slice's own.
    match checked(unsafe { poll(fds.as_mut_ptr(), fds.len() as c_ulong, millis) }) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

/// Moves a standard stream to a descriptor that no child inherits, and leaves /dev/null in its place.
pub fn take_stream(fd: RawFd) -> io::Result<OwnedFd> {
    const F_DUPFD_CLOEXEC: c_int = 1_030;
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    // SAFETY: plain numbers.
    let moved = owned(unsafe { fcntl(fd, F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: `fd` was a standard stream, which nobody else owns.
    checked(unsafe { dup2(null.as_raw_fd(), fd) })?;
    Ok(moved)
}

pub fn do_not_block(fd: BorrowedFd<'_>) -> io::Result<()> {
    const F_SETFL: c_int = 4;
    // SAFETY: plain numbers.
    checked(unsafe { fcntl(fd.as_raw_fd(), F_SETFL, O_NONBLOCK) }).map(drop)
}

/// Opens `name` in `dir`, which must be a single part or `.`; never through a symlink.
pub fn open_in(dir: BorrowedFd<'_>, name: &[u8], flags: c_int, mode: c_uint) -> io::Result<OwnedFd> {
    let name = c_string(name)?;
    // SAFETY: `name` ends with NUL.
    owned(unsafe { openat(dir.as_raw_fd(), name.as_ptr(), flags | O_NOFOLLOW | O_CLOEXEC, mode) })
}

pub fn make_dir_in(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    let name = c_string(name)?;
    // SAFETY: `name` ends with NUL.
    checked(unsafe { mkdirat(dir.as_raw_fd(), name.as_ptr(), 0o777) }).map(drop)
}

/// `flags` is 0 or [`REMOVE_DIRECTORY`].
pub fn remove_in(dir: BorrowedFd<'_>, name: &[u8], flags: c_int) -> io::Result<()> {
    let name = c_string(name)?;
    // SAFETY: `name` ends with NUL.
    checked(unsafe { unlinkat(dir.as_raw_fd(), name.as_ptr(), flags) }).map(drop)
}

pub fn make_link_in(dir: BorrowedFd<'_>, name: &[u8], target: &[u8]) -> io::Result<()> {
    let (name, target) = (c_string(name)?, c_string(target)?);
    // SAFETY: both end with NUL.
    checked(unsafe { symlinkat(target.as_ptr(), dir.as_raw_fd(), name.as_ptr()) }).map(drop)
}

pub fn read_link_in(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<Vec<u8>> {
    let name = c_string(name)?;
    let mut target = vec![0_u8; super::wire::MAX_PATH];
    // SAFETY: the size is the buffer's own.
    let length =
        unsafe { readlinkat(dir.as_raw_fd(), name.as_ptr(), target.as_mut_ptr().cast(), target.len()) };
    target.truncate(usize::try_from(length).map_err(|_| io::Error::last_os_error())?);
    Ok(target)
}

/// `name` must not be a symlink.
pub fn change_mode_in(dir: BorrowedFd<'_>, name: &[u8], mode: u16) -> io::Result<()> {
    let name = c_string(name)?;
    // SAFETY: `name` ends with NUL.
    checked(unsafe { fchmodat(dir.as_raw_fd(), name.as_ptr(), c_uint::from(mode & 0o7777), 0) }).map(drop)
}

/// A moment as the file system records it.
pub type Moment = (i64, u32);

/// What a file system says of an entry. Two equal ones at different times mean an untouched entry, since
/// nothing inside the sandbox can set a change time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub mode: u16,
    pub size: u64,
    pub inode: u64,
    pub modified: Moment,
    pub changed: Moment,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    Symlink,
    /// FIFO, socket or device.
    Special,
}

impl Stamp {
    pub fn kind(&self) -> Kind {
        match self.mode & 0o170_000 {
            0o100_000 => Kind::File,
            0o040_000 => Kind::Directory,
            0o120_000 => Kind::Symlink,
            _ => Kind::Special,
        }
    }
}

/// Of `name` in `dir`, a symlink itself included; of `dir` where `name` is empty.
pub fn stamp_in(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<Stamp> {
    const AT_SYMLINK_NOFOLLOW: c_int = 0x100;
    const AT_EMPTY_PATH: c_int = 0x1000;
    const STATX_BASIC_STATS: c_uint = 0x7ff;
    let name = c_string(name)?;
    let flags = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH;
    let mut out = MaybeUninit::<Statx>::zeroed();
    // SAFETY: `name` ends with NUL, and `out` has the kernel's layout (256 bytes).
    let out = unsafe {
        checked(statx(dir.as_raw_fd(), name.as_ptr(), flags, STATX_BASIC_STATS, out.as_mut_ptr()))?;
        out.assume_init()
    };
    Ok(Stamp {
        mode: out.mode,
        size: out.size,
        inode: out.inode,
        modified: (out.modified.seconds, out.modified.nanoseconds),
        changed: (out.changed.seconds, out.changed.nanoseconds),
    })
}

const _: () = assert!(size_of::<Statx>() == 256);

/// The names in a directory, `.` and `..` left out.
pub fn names_in(dir: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    let mut buffer = vec![0_u64; 4 << 10];
    loop {
        let size = buffer.len() * size_of::<u64>();
        // SAFETY: the size is the buffer's own.
        let length = unsafe { getdents64(dir.as_raw_fd(), buffer.as_mut_ptr().cast(), size) };
        let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
        if length == 0 {
            return Ok(names);
        }
        // SAFETY: the kernel has just written that many bytes.
        let mut rest = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), length) };
        // A record: inode (8 bytes), offset (8), length (2), type (1), name up to NUL.
        while rest.len() > 19 {
            let record = usize::from(u16::from_ne_bytes([rest[16], rest[17]]));
            let Ok(name) = CStr::from_bytes_until_nul(&rest[19..record]) else { break };
            if !matches!(name.to_bytes(), b"." | b"..") {
                names.push(name.to_bytes().to_vec());
            }
            rest = &rest[record..];
        }
    }
}

/// The clock that file systems take their times from; it moves in ticks of some milliseconds.
pub fn file_clock() -> io::Result<Moment> {
    const CLOCK_REALTIME_COARSE: c_int = 5;
    let mut now = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `now` is writable.
    checked(unsafe { clock_gettime(CLOCK_REALTIME_COARSE, &raw mut now) })?;
    Ok((now.seconds, now.nanoseconds as u32))
}

/// Opens a directory by its path, symlinks followed: for the workspace itself.
pub fn open_root(path: &std::ffi::OsStr) -> io::Result<OwnedFd> {
    let dir = std::fs::File::open(path)?;
    open_in(dir.as_fd(), b".", O_RDONLY | O_DIRECTORY, 0)
}
