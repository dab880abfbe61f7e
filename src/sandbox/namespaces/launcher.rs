//! The process that builds the walls and stays outside of them.
//!
//! It is this program, started anew with an empty environment, because what it forks stays alive as long
//! as the sandbox and runs as the sandbox's user: a fork of the host's own process would keep a copy of its
//! memory, keys included, in reach of that user. Starting anew also makes it single-threaded, as forking
//! without exec needs it, and lets root become another user for good.
//!
//! Where hakoniwa is careless, this file is not: the user is never 0 inside or outside; every bind names
//! its flags, since hakoniwa's own fallback would silently drop "read-only"; no tmpfs is without a size;
//! devices are bound one by one, since its `/dev` is writable without limit.

use std::{
    ffi::OsString,
    fmt::Display,
    fs::{self, File},
    io::{Error, Result, Write as _},
    os::{fd::AsRawFd as _, unix::process::CommandExt as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use hakoniwa::{
    Container, MountOptions, Namespace, Rlimit,
    landlock::{CompatMode, FsAccess, Resource, Ruleset},
};
use nix::{
    fcntl::{OFlag, open},
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::{
        prctl,
        stat::{Mode, SFlag, fstat},
    },
    unistd::{Gid, Uid, dup2_stdin, dup2_stdout, setgroups, setresgid, setresuid},
};
use serde::{Deserialize, Serialize};

/// The first argument that makes this program a launcher.
pub(super) const COMMAND: &str = "launch-sandbox";
/// The user inside, whoever it is outside.
const USER: u32 = 1000;
/// Where root gathers what the user that it becomes could not reach; in a mount namespace of its own.
const STAGE: &str = "/tmp";

/// Everything that a sandbox consists of.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Launch {
    /// An empty folder that becomes the root.
    pub(super) root: PathBuf,
    /// Uid and gid to become first; set when root starts it.
    pub(super) become_user: Option<u32>,
    /// Files to write "0" to, which puts the writer into a cgroup.
    pub(super) cgroups: Vec<PathBuf>,
    pub(super) binds: Vec<Bind>,
    pub(super) tmpfs: Vec<Tmpfs>,
    pub(super) links: Vec<Link>,
    pub(super) files: Vec<(String, String)>,
    pub(super) environment: Vec<(String, String)>,
    /// Most processes and threads, where no cgroup sees to that.
    pub(super) processes: Option<u64>,
    /// What becomes PID 1.
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
}

/// A file or folder of the host in the sandbox; never with set-user-id, devices only where it is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bind {
    pub(super) source: PathBuf,
    pub(super) target: String,
    pub(super) kind: BindKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum BindKind {
    ReadOnly,
    Writable,
    /// A device such as /dev/null.
    Device,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tmpfs {
    pub(super) target: String,
    pub(super) bytes: u64,
    pub(super) files: u64,
    /// Permissions of its root, in octal as `mount` takes them.
    pub(super) mode: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Link {
    pub(super) path: String,
    pub(super) target: String,
}

/// Whether this process was started to launch a sandbox, and how that ended. To be asked first in `main`,
/// while there is one thread.
pub fn launched() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != COMMAND {
        return None;
    }
    Some(match launch(arguments.next()) {
        Ok(code) => code,
        Err(error) => {
            say(error);
            ExitCode::FAILURE
        }
    })
}

/// Tells the host, which may be gone.
fn say(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn launch(argument: Option<OsString>) -> Result<ExitCode> {
    let argument = argument.and_then(|a| a.into_string().ok()).unwrap_or_default();
    let mut launch: Launch = serde_json::from_str(&argument).during("reading what to launch")?;
    for procs in &launch.cgroups {
        fs::write(procs, "0").during(format_args!("joining the cgroup of {}", procs.display()))?;
    }
    if let Some(user) = launch.become_user {
        stage(&mut launch, user).during("gathering the sandbox's folders")?;
        become_user(user).during("becoming an ordinary user")?;
    }
    if Uid::effective().is_root() {
        return Err(Error::other("a sandbox must not be started as root"));
    }
    std::env::set_current_dir("/")?;

    let container = container(&launch)?;
    let (program, arguments) = (launch.program, launch.arguments);
    let start = move || {
        if let Err(error) = loopback_up() {
            // Without it only tests of network programs suffer.
            say(format_args!("the loopback interface stays down: {error}"));
        }
        let error = std::process::Command::new(&program).args(&arguments).exec();
        say(format_args!("the supervisor cannot be started: {error}"));
        i32::from(u8::MAX)
    };
    // SAFETY: this process has one thread, so a fork of it may do anything.
    let mut command = unsafe { container.command_from_closure(start) };
    command.envs(launch.environment.iter().map(|(key, value)| (key, value)));
    let mut child = command.spawn().during("starting the sandbox")?;
    // Only the supervisor may hold these, or nobody would notice its end.
    let null = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    let status = child.wait().during("waiting for the sandbox")?;
    if status.exit_code.is_none() {
        say(status.reason);
    }
    Ok(ExitCode::from(u8::try_from(status.code).unwrap_or(u8::MAX)))
}

/// Says what was being done when something failed.
trait During<T> {
    fn during(self, what: impl Display) -> Result<T>;
}

impl<T, E: Display> During<T> for std::result::Result<T, E> {
    fn during(self, what: impl Display) -> Result<T> {
        self.map_err(|error| Error::other(format!("{what}: {error}")))
    }
}

/// Binds everything that only root may reach to a place where the later user can. Nobody outside of this
/// process sees it, and it is gone with it.
fn stage(launch: &mut Launch, user: u32) -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    // Opened before the stage covers whatever lies there.
    let private: Vec<_> = (launch.binds.iter().enumerate())
        .filter(|(_, bind)| bind.kind != BindKind::Device)
        .map(|(number, bind)| {
            let source = open(&bind.source, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())
                .during(format_args!("opening {}", bind.source.display()))?;
            Ok((number, source))
        })
        .collect::<Result<_>>()?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), STAGE, Some("tmpfs"), flags, Some("size=1m,nr_inodes=1k,mode=755"))?;
    for (number, source) in private {
        let bind = &mut launch.binds[number];
        let place = Path::new(STAGE).join(number.to_string());
        if SFlag::from_bits_truncate(fstat(&source)?.st_mode).contains(SFlag::S_IFDIR) {
            fs::create_dir(&place)?;
        } else {
            File::create(&place)?;
        }
        let source = format!("/proc/self/fd/{}", source.as_raw_fd());
        let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
        mount(Some(source.as_str()), &place, None::<&str>, flags, None::<&str>)?;
        bind.source = place;
    }
    launch.root = Path::new(STAGE).join("root");
    fs::create_dir(&launch.root)?;
    std::os::unix::fs::chown(&launch.root, Some(user), Some(user))?;
    Ok(())
}

fn become_user(user: u32) -> Result<()> {
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    setgroups(&[])?;
    setresgid(gid, gid, gid)?;
    setresuid(uid, uid, uid)?;
    // Changing users makes a process's own /proc files root's; the id maps are written there. This process
    // holds nothing that is worth hiding.
    prctl::set_dumpable(true)?;
    Ok(())
}

fn container(launch: &Launch) -> Result<Container> {
    let mut container = Container::new();
    for namespace in [Namespace::Network, Namespace::Ipc, Namespace::Uts, Namespace::Cgroup] {
        container.unshare(namespace);
    }
    container.uidmap(USER).gidmap(USER).hostname("sandbox").rootdir(&launch.root);
    for bind in &launch.binds {
        let source = bind.source.to_str().ok_or_else(|| Error::other("a path is not UTF-8"))?;
        container.mount(source, &bind.target, "", bind.options()?, None);
    }
    for Tmpfs { target, bytes, files, mode } in &launch.tmpfs {
        let size = format!("size={bytes},nr_inodes={files},mode={mode}");
        let options = MountOptions::NOSUID | MountOptions::NODEV;
        container.mount("tmpfs", target, "tmpfs", options, Some(size));
    }
    container.dir("/etc", 0o755);
    for Link { path, target } in &launch.links {
        container.symlink(target, path);
    }
    for (path, content) in &launch.files {
        container.file(path, content);
    }
    container.setrlimit(Rlimit::Nofile, 4_096, 4_096).setrlimit(Rlimit::Core, 0, 0);
    if let Some(processes) = launch.processes {
        container.setrlimit(Rlimit::Nproc, processes, processes);
    }
    if landlock_is_there() {
        container.landlock_ruleset(second_lock(launch));
    }
    Ok(container)
}

impl Bind {
    fn options(&self) -> Result<MountOptions> {
        let options = MountOptions::BIND | MountOptions::REC | MountOptions::NOSUID;
        let options = options
            | match self.kind {
                BindKind::ReadOnly => MountOptions::RDONLY | MountOptions::NODEV,
                BindKind::Writable => MountOptions::NODEV,
                BindKind::Device => MountOptions::empty(),
            };
        // A user namespace may not drop what the host's mount has.
        let host = nix::sys::statvfs::statvfs(&self.source)
            .during(format_args!("looking at {}", self.source.display()))?
            .flags();
        let noexec = host.contains(nix::sys::statvfs::FsFlags::ST_NOEXEC);
        Ok(if noexec { options | MountOptions::NOEXEC } else { options })
    }
}

/// Landlock once more says what mounts say already: writing is for the places that are made for it.
fn second_lock(launch: &Launch) -> Ruleset {
    let mut rules = Ruleset::default();
    rules.restrict(Resource::FS, CompatMode::Enforce);
    rules.allow_path("/", FsAccess::R | FsAccess::X);
    for place in ["/dev", "/proc"] {
        rules.allow_path(place, FsAccess::R | FsAccess::W);
    }
    let tmpfs = launch.tmpfs.iter().map(|tmpfs| &tmpfs.target);
    let writable = launch.binds.iter().filter(|b| b.kind == BindKind::Writable).map(|b| &b.target);
    for place in tmpfs.chain(writable) {
        rules.allow_path(place, FsAccess::R | FsAccess::W | FsAccess::X);
    }
    rules
}

fn landlock_is_there() -> bool {
    const VERSION: u32 = 1;
    // SAFETY: with this flag the call takes no attributes and answers the version.
    let version = unsafe {
        nix::libc::syscall(nix::libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION)
    };
    version >= 1
}

/// As in a container without a network, programs may talk to themselves.
fn loopback_up() -> std::io::Result<()> {
    use nix::libc::{IFF_UP, SIOCSIFFLAGS, c_char, ifreq, ioctl};
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: zero is a valid `ifreq`.
    let mut request: ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as c_char;
    }
    request.ifr_ifru.ifru_flags = IFF_UP as i16;
    // SAFETY: the request lives across the call.
    match unsafe { ioctl(socket.as_raw_fd(), SIOCSIFFLAGS, &raw const request) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
