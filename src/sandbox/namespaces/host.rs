//! What of the host is inside the sandbox: a list, and nothing else.
//!
//! Programs and libraries, the toolchain, five devices, and the few files of `/etc` that programs cannot do
//! without; of those, the ones that name users or hosts are made for the sandbox. Home folders, `/var`,
//! `/run` with its sockets, `/sys` and the rest of `/etc` are not there.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::launcher::{Bind, BindKind, Link};

/// Folders of programs. Where one is a symlink, the sandbox gets the same symlink.
const SYSTEM: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/libexec"];
/// The loader's cache, and the symlinks behind `cc`, `awk` and others.
const CONFIGURATION: [&str; 3] = ["/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"];
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
const DEVICE_LINKS: [(&str, &str); 4] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
];
/// Where the toolchain is, when it is not part of the system.
const TOOLCHAIN: &str = "/opt/rust";

/// What the host contributes to each of its sandboxes.
#[derive(Debug, Clone, Default)]
pub(super) struct Host {
    pub(super) binds: Vec<Bind>,
    pub(super) links: Vec<Link>,
    /// The `PATH` inside.
    pub(super) path: String,
}

impl Host {
    /// Looks at the host; what it does not have is left out.
    pub(super) fn survey() -> Self {
        let mut host = Self {
            path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into(),
            ..Self::default()
        };
        for path in SYSTEM.iter().chain(&CONFIGURATION) {
            host.add(path);
        }
        for path in DEVICES {
            host.binds.push(Bind { source: path.into(), target: path.into(), kind: BindKind::Device });
        }
        for (path, target) in DEVICE_LINKS {
            host.links.push(Link { path: path.into(), target: target.into() });
        }
        if let Some(sysroot) = toolchain() {
            host.path = format!("{TOOLCHAIN}/bin:{}", host.path);
            host.bind(&sysroot, TOOLCHAIN);
        }
        host
    }

    fn add(&mut self, path: &str) {
        let Ok(metadata) = fs::symlink_metadata(path) else { return };
        if !metadata.is_symlink() {
            self.bind(Path::new(path), path);
        } else if let Some(target) =
            fs::read_link(path).ok().and_then(|t| t.into_os_string().into_string().ok())
        {
            self.links.push(Link { path: path.into(), target });
        }
    }

    /// Binds a folder or file, and what is mounted below it once more by itself: making a mount read-only
    /// does not reach the mounts below it.
    fn bind(&mut self, source: &Path, target: &str) {
        let kind = BindKind::ReadOnly;
        self.binds.push(Bind { source: source.into(), target: target.into(), kind });
        for inner in mounts_below(source) {
            let Some(rest) = inner.strip_prefix(source).ok().and_then(Path::to_str) else { continue };
            let target = format!("{target}/{rest}");
            self.binds.push(Bind { source: inner, target, kind });
        }
    }
}

/// The Rust toolchain's folder, when there is one outside of the system's own.
fn toolchain() -> Option<PathBuf> {
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        // A folder of somebody's project could name another toolchain.
        .current_dir("/")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let sysroot = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim_end());
    let usable = output.status.success() && sysroot.is_absolute() && sysroot.join("bin/rustc").is_file();
    (usable && !sysroot.starts_with("/usr")).then_some(sysroot)
}

fn mounts_below(folder: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut inner: Vec<_> = (table.lines())
        .filter_map(|line| line.split(' ').nth(4))
        .map(|path| PathBuf::from(unescaped(path)))
        .filter(|path| path.starts_with(folder) && path != folder)
        .collect();
    inner.sort();
    inner.dedup();
    inner
}

/// The kernel writes blanks and backslashes of paths as three octal digits.
fn unescaped(path: &str) -> String {
    let mut pieces = path.split('\\');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match piece.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(char::from(byte));
                plain.push_str(&piece[3..]);
            }
            None => {
                plain.push('\\');
                plain.push_str(piece);
            }
        }
    }
    plain
}

/// Files of `/etc` that are made for the sandbox.
pub(super) fn made_files() -> Vec<(String, String)> {
    [
        (
            "/etc/passwd",
            "agent:x:1000:1000:agent:/tmp/home:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n",
        ),
        ("/etc/group", "agent:x:1000:\nnogroup:x:65534:\n"),
        ("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
        ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    ]
    .map(|(path, content)| (path.into(), content.into()))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_10_nothing_of_the_host_but_programs_and_a_toolchain_is_bound() {
        let host = Host::survey();
        let allowed =
            ["/usr", "/bin", "/sbin", "/lib", "/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"];
        for bind in &host.binds {
            let fine = match bind.kind {
                BindKind::Device => DEVICES.contains(&bind.target.as_str()),
                BindKind::ReadOnly if bind.target.starts_with(TOOLCHAIN) => true,
                BindKind::ReadOnly => allowed.iter().any(|path| bind.target.starts_with(path)),
                BindKind::Writable => false,
            };
            assert!(fine, "{bind:?}");
        }
        assert!(host.binds.iter().any(|bind| bind.target == "/usr"));
    }

    #[test]
    fn paths_of_the_mount_table_are_unescaped() {
        assert_eq!(unescaped("/a\\040b\\134c"), "/a b\\c");
        assert_eq!(unescaped("/plain"), "/plain");
        assert_eq!(unescaped("/odd\\9"), "/odd\\9");
    }
}
