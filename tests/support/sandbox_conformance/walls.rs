//! What lies beyond the walls.

use std::{net::TcpListener, os::linux::net::SocketAddrExt as _, os::unix::net, time::SystemTime};

use acquire::method::ports::{CommandExit, Sandboxes};

use super::*;

/// Looks for a word everywhere: in all files whose content can be as new as the word, and in all that /proc
/// tells. Arguments: the word in reverse (so that this script does not find itself), the time it was made.
const SEARCH: &str = r#"
import os, stat, sys
word, born = sys.argv[1][::-1].encode(), float(sys.argv[2])
found, seen = [], 0
def look(path):
    global seen
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            content = file.read(64 << 20)
    except OSError:
        return
    seen += 1
    if content and word in content:
        found.append(path)
for top, folders, files in os.walk("/"):
    if top == "/":
        folders[:] = [f for f in folders if f not in ("proc", "sys")]
    for name in folders + files:
        path = os.path.join(top, name)
        if word in os.fsencode(path):
            found.append(path)
    for name in files:
        path = os.path.join(top, name)
        try:
            info = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISLNK(info.st_mode) and word in os.fsencode(os.readlink(path)):
            found.append(path)
        if stat.S_ISREG(info.st_mode) and info.st_ctime >= born:
            look(path)
for pid in [p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]:
    for name in ("environ", "cmdline", "maps", "mountinfo", "status", "comm", "root", "cwd"):
        look(f"/proc/{pid}/{name}")
for name in ("mounts", "cmdline", "version", "keys", "key-users", "net/unix", "sysvipc/shm"):
    look(f"/proc/{name}")
for name, value in os.environ.items():
    if word in f"{name}={value}".encode():
        found.append(f"${name}")
print(" ".join(sorted(set(found))) or "nothing", "of", "enough" if seen > 10 else seen)
"#;

pub async fn s_10_nothing_of_the_host_is_found_inside(sandboxes: &dyn Sandboxes) {
    let word = format!("canary-{:032x}", random_number());
    let born = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64() - 1.0;
    let places: Vec<_> = [std::env::temp_dir(), std::env::current_dir().unwrap()]
        .into_iter()
        .chain(std::env::var_os("HOME").map(Into::into))
        .filter_map(|folder| tempfile::Builder::new().prefix(&word).tempfile_in(folder).ok())
        .collect();
    for place in &places {
        std::fs::write(place.path(), &word).unwrap();
    }
    assert!(!places.is_empty());
    for name in PLANTED {
        // SAFETY: no other thread of a test touches these variables, and glibc guards the rest.
        unsafe { std::env::set_var(name, &word) };
    }
    for sandbox in [answerer(sandboxes).await, resolver(sandboxes).await] {
        let reversed: String = word.chars().rev().collect();
        let search = format!("python3 - {reversed} {born} <<'EOF_OF_SCRIPT'\n{SEARCH}\nEOF_OF_SCRIPT");
        let outcome = run_for(&*sandbox, 60_000, &search).await;
        assert_eq!(text(&outcome), "nothing of enough\n");
        // The search finds what is there.
        let planted =
            format!("export A=$(rev <<< {reversed}); rev <<< {reversed} > /tmp/planted; sleep 60 & ");
        let outcome = run_for(&*sandbox, 60_000, &format!("{planted}{search}")).await;
        let found = text(&outcome);
        assert!(
            found.starts_with("$A /proc/") && found.ends_with("/environ /tmp/planted of enough\n"),
            "{found}"
        );
        assert_eq!(output(&*sandbox, "env | grep -ci ACQUIRE; true").await, "0");
    }
    for name in PLANTED {
        // SAFETY: as above.
        unsafe { std::env::remove_var(name) };
    }
}

/// Variables of the host that hold secrets, and one of no known name.
const PLANTED: [&str; 4] = ["ACQUIRE_MODEL__API_KEY", "GITHUB_TOKEN", "OPENAI_API_KEY", "SOME_CANARY"];

fn random_number() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).unwrap();
    u128::from_le_bytes(bytes)
}

const CONNECT: &str = r#"
import os, socket, sys
port, abstract = int(sys.argv[1]), sys.argv[2]
socket.setdefaulttimeout(2)
answers = []
def attempt(name, act):
    try:
        act()
        answers.append(name)
    except OSError:
        pass
for name in ("github.com", "api.github.com", "host.docker.internal", "metadata.google.internal"):
    attempt(name, lambda: socket.getaddrinfo(name, 443))
for address in ("169.254.169.254", "172.17.0.1", "172.18.0.1", "10.0.0.1", "10.0.2.2", "192.168.0.1",
                "127.0.0.1", "1.1.1.1", "8.8.8.8", "140.82.121.4"):
    for target in (80, 443, 2375, port):
        attempt(f"{address}:{target}", lambda: socket.create_connection((address, target)))
    attempt(f"{address} udp", lambda: socket.socket(type=socket.SOCK_DGRAM).connect((address, 53))
            if address != "127.0.0.1" else socket.create_connection((address, 1)))
for address in ("::1", "fe80::1", "2606:4700:4700::1111", "fd00:ec2::254"):
    attempt(address, lambda: socket.create_connection((address, port)))
attempt("the host's abstract socket", lambda: socket.socket(socket.AF_UNIX).connect("\0" + abstract))
for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock"):
    attempt(path, lambda: socket.socket(socket.AF_UNIX).connect(path))
for family in (40, 17, 38, 31, 44):  # vsock, packet, alg, bluetooth, xdp
    attempt(f"family {family}", lambda: socket.socket(family, socket.SOCK_STREAM))
    attempt(f"raw family {family}", lambda: socket.socket(family, socket.SOCK_RAW))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
interfaces = [name for _, name in socket.if_nameindex() if not name.startswith(("tunl", "sit", "ip6", "gre", "erspan"))]
print(answers, interfaces)
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname())
print("talks to itself")
"#;

pub async fn s_11_no_name_resolves_and_no_address_answers(sandboxes: &dyn Sandboxes) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let name = format!("acquire-{:x}", random_number());
    let address = net::SocketAddr::from_abstract_name(&name).unwrap();
    let _host_socket = net::UnixListener::bind_addr(&address).unwrap();
    net::UnixStream::connect_addr(&address).expect("the host itself reaches it");
    for sandbox in [answerer(sandboxes).await, resolver(sandboxes).await] {
        let script = format!("python3 - {port} {name} <<'EOF_OF_SCRIPT'\n{CONNECT}\nEOF_OF_SCRIPT");
        let outcome = run_for(&*sandbox, 60_000, &script).await;
        assert_eq!(text(&outcome), "[] ['lo']\ntalks to itself\n");
    }
}

/// Calls that must fail with EPERM, EACCES or ENOSYS whatever their arguments; the number of each on both
/// processors.
const DANGEROUS: &str = r#"
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"
calls = {
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "unshare": (272, 97), "setns": (308, 268), "ptrace": (101, 117), "bpf": (321, 280),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "userfaultfd": (323, 282),
    "perf_event_open": (298, 241), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "open_by_handle_at": (304, 265), "io_uring_setup": (425,) * 2, "io_uring_enter": (426,) * 2,
    "io_uring_register": (427,) * 2, "open_tree": (428,) * 2, "move_mount": (429,) * 2, "fsopen": (430,) * 2,
    "fsconfig": (431,) * 2, "fsmount": (432,) * 2, "fspick": (433,) * 2, "mount_setattr": (442,) * 2,
    "pidfd_getfd": (438,) * 2, "clone3": (435,) * 2, "process_madvise": (440,) * 2,
    "process_mrelease": (448,) * 2, "open_tree_attr": (467,) * 2, "kcmp": (312, 272),
    "migrate_pages": (256, 238), "move_pages": (279, 239), "fanotify_init": (300, 262),
}
EPERM, EACCES, ENOSYS = 1, 13, 38
for name, numbers in calls.items():
    result = libc.syscall(numbers[0 if x86 else 1], 0, 0, 0, 0, 0, 0)
    if result != -1 or ctypes.get_errno() not in (EPERM, EACCES, ENOSYS):
        print(name, result, ctypes.get_errno())
for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
    result = libc.syscall(56 if x86 else 220, flag | 17, 0, 0, 0, 0)
    if result == 0:
        os._exit(0)
    if result != -1 or ctypes.get_errno() != EPERM:
        print("clone", hex(flag), result)
if os.fork() == 0:
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]), "from an ordinary child")
"#;

/// Asks for the process id in the way of 32-bit programs.
const OTHER_TABLES: &str = r#"
import ctypes, mmap, os, platform
libc = ctypes.CDLL(None, use_errno=True)
if platform.machine() == "x86_64":
    assert libc.syscall(0x40000000 | 39) == -1
    if os.fork() == 0:
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20; int 0x80; ret
        ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == -31  # SIGSYS
print("refused")
"#;

pub async fn s_12_dangerous_calls_are_refused(sandboxes: &dyn Sandboxes) {
    for sandbox in [answerer(sandboxes).await, resolver(sandboxes).await] {
        assert_eq!(python(&*sandbox, DANGEROUS).await, "0 from an ordinary child");
        assert_eq!(python(&*sandbox, OTHER_TABLES).await, "refused");
        for command in ["mount -t tmpfs none /tmp", "mount -o remount,rw /workspace", "unshare -Ur true"] {
            let outcome = run(&*sandbox, command).await;
            assert!(!matches!(outcome.exit, CommandExit::Code(0 | 127)), "{command}: {}", text(&outcome));
        }
        let identity = "grep -E '^(Uid|Gid|Cap(Inh|Prm|Eff|Amb)|NoNewPrivs|Seccomp):' /proc/self/status | tr -s '\\t ' ' '";
        assert_eq!(
            output(&*sandbox, identity).await,
            "Uid: 1000 1000 1000 1000\nGid: 1000 1000 1000 1000\nCapInh: 0000000000000000\n\
             CapPrm: 0000000000000000\nCapEff: 0000000000000000\nCapAmb: 0000000000000000\n\
             NoNewPrivs: 1\nSeccomp: 2"
        );
        assert_eq!(output(&*sandbox, "ulimit -n; ulimit -c").await, "4096\n0");
    }
}

/// Tries to write, in every way, in every folder that it can find; prints where it worked.
const WRITE: &str = r#"
import os, stat
EROFS, EACCES, EPERM, ENOENT = 30, 13, 1, 2
wrote, errors = set(), set()
def attempt(place, act):
    try:
        act()
        wrote.add(place)
    except OSError as error:
        errors.add(error.errno)
for top, folders, files in os.walk("/"):
    if top == "/":
        folders[:] = [f for f in folders if f not in ("proc", "sys")]
    if top.count("/") > 3:
        folders[:] = []
    path = os.path.join(top, "written-by-test")
    attempt(top, lambda: os.close(os.open(path, os.O_CREAT | os.O_WRONLY)))
    attempt(top, lambda: os.mkdir(path + ".d"))
    attempt(top, lambda: os.symlink("x", path + ".l"))
    for name in files[:3]:
        path = os.path.join(top, name)
        if stat.S_ISREG(os.lstat(path).st_mode):
            attempt(path, lambda: os.close(os.open(path, os.O_WRONLY)))
            attempt(path, lambda: os.chmod(path, 0o777))
places = sorted({"/".join(place.split("/")[:3]) if place.startswith("/dev") else "/" + place.split("/")[1] for place in wrote})
print(places, sorted(errors - {EROFS, EACCES, EPERM}))
"#;

pub async fn s_13_only_the_workspace_and_tmp_can_be_written(sandboxes: &dyn Sandboxes) {
    let resolver = resolver(sandboxes).await;
    assert_eq!(python(&*resolver, WRITE).await, "['/dev/shm', '/tmp', '/workspace'] []");
    let answerer = answerer(sandboxes).await;
    assert_eq!(python(&*answerer, WRITE).await, "['/dev/shm', '/tmp'] []");
}

const CHANGE: &str = r#"
import os
EROFS = 30
def attempt(name, act):
    try:
        act()
        print(name, "worked")
    except OSError as error:
        if error.errno != EROFS:
            print(name, error)
attempt("create", lambda: os.open("new", os.O_CREAT | os.O_WRONLY))
attempt("write", lambda: os.open("README.md", os.O_WRONLY))
attempt("truncate", lambda: os.truncate("README.md", 0))
attempt("append", lambda: os.open("src/main.py", os.O_APPEND | os.O_WRONLY))
attempt("unlink", lambda: os.unlink("README.md"))
attempt("rename", lambda: os.rename("README.md", "other"))
attempt("link", lambda: os.link("README.md", "other"))
attempt("symlink", lambda: os.symlink("x", "other"))
attempt("mkdir", lambda: os.mkdir("new"))
attempt("rmdir", lambda: os.rmdir("src"))
attempt("chmod", lambda: os.chmod("README.md", 0o777))
attempt("chown", lambda: os.chown("README.md", os.getuid(), os.getgid()))
attempt("utime", lambda: os.utime("README.md"))
attempt("mkfifo", lambda: os.mkfifo("new"))
attempt("setxattr", lambda: os.setxattr("README.md", "user.x", b"x"))
attempt("git", lambda: os.open(".git/config", os.O_WRONLY))
attempt("git new", lambda: os.open(".git/new", os.O_CREAT | os.O_WRONLY))
print("tried")
"#;

pub async fn s_13_an_answerers_workspace_is_read_only(sandboxes: &dyn Sandboxes) {
    let sandbox = answerer(sandboxes).await;
    assert_eq!(python(&*sandbox, CHANGE).await, "tried");
    assert_eq!(output(&*sandbox, "cat README.md; git status --porcelain").await, "# Example");
    // The same calls work where writing is allowed, so it is the mount that refuses them.
    let resolver = resolver(sandboxes).await;
    assert!(python(&*resolver, CHANGE).await.contains("create worked\nwrite worked"));
}
