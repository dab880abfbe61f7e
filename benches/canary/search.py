"""Searches everything that a sandbox shows for a text, and tells where it stands.

Runs inside the sandbox, as a command of an agent. The texts are given backwards, so that the search does not
find itself. The second one is a control: it is planted in a file, an environment and a command line, and a
search that does not find all three has proved nothing.
"""

import json
import os
import re
import stat
import subprocess
import sys
import tempfile

CANARY, CONTROL = (text[::-1].encode() for text in sys.argv[1:3])
OVERLAP = 4096
# Endless or about the machine's memory, and closed to all but root.
NOT_READ = {"/proc/kcore", "/proc/kmsg", "/proc/sysrq-trigger", "/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup"}
OF_A_PROCESS = ("environ", "cmdline", "maps", "mountinfo", "status", "comm", "cgroup", "auxv", "limits")

told = {"files": 0, "bytes": 0, "processes": 0, "unreadable": 0, "found": [], "control": []}


def look(place, content):
    for text, found in ((CANARY, told["found"]), (CONTROL, told["control"])):
        at = content.find(text)
        if at >= 0 and place not in found:
            # Which of the host's places it comes from stands behind it.
            behind = re.match(rb"-?[a-z_]{0,20}", content[at + len(text) :])
            found.append(f"{place} {behind.group().decode()}".strip())


def name_of(path):
    return os.fsdecode(path).replace(CANARY.decode(), "CANARY").replace(CONTROL.decode(), "CONTROL")


def read(path, most=None):
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(descriptor, "rb", buffering=0) as file:
            tail, size = b"", 0
            while piece := file.read(1 << 20):
                look(name_of(path), tail + piece)
                tail, size = piece[-OVERLAP:], size + len(piece)
                if most and size >= most:
                    break
        told["files"] += 1
        told["bytes"] += size
    except OSError:
        told["unreadable"] += 1


def link(path):
    try:
        look(name_of(path), os.fsencode(os.readlink(path)))
    except OSError:
        pass


def processes():
    for name in os.listdir("/proc"):
        path = f"/proc/{name}"
        if name.isdigit():
            told["processes"] += 1
            for part in OF_A_PROCESS:
                read(f"{path}/{part}")
            for part in ("cwd", "exe", "root"):
                link(f"{path}/{part}")
            try:
                for descriptor in os.listdir(f"{path}/fd"):
                    link(f"{path}/fd/{descriptor}")
            except OSError:
                pass
        elif path not in NOT_READ and os.path.isfile(path):
            read(path, most=1 << 20)


def files():
    seen = set()
    for folder, folders, names in os.walk(b"/"):
        if folder == b"/":
            # The one is searched apart; the other is the kernel's, and the same for everybody.
            folders[:] = [name for name in folders if name not in (b"proc", b"sys")]
        for name in folders + names:
            path = os.path.join(folder, name)
            look(name_of(path), path)
            try:
                status = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISLNK(status.st_mode):
                link(path)
            elif stat.S_ISREG(status.st_mode) and (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                read(path)


def objects_of_git():
    """They are compressed on disk."""
    command = ["git", "-C", "/workspace", "cat-file", "--batch-all-objects", "--batch"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    look("git objects", done.stdout)
    told["bytes"] += len(done.stdout)
    told["git_objects_bytes"] = len(done.stdout)


def main():
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/control", "wb") as file:
            file.write(CONTROL)
        sleeper = [sys.executable, "-c", "import sys; sys.stdin.read()"]
        inside = {**os.environ, "CONTROL": CONTROL.decode()}
        with (
            subprocess.Popen([*sleeper, CONTROL.decode()], stdin=subprocess.PIPE) as one,
            subprocess.Popen(sleeper, env=inside, stdin=subprocess.PIPE) as other,
        ):
            look("env", "\0".join(f"{key}={value}" for key, value in os.environ.items()).encode())
            processes()
            files()
            objects_of_git()
            one.stdin.close()
            other.stdin.close()
    # A place that was seen in two ways is one.
    control = {re.sub(r"^/proc/\d+/", "", re.sub(r"^/.*/(?=control)", "", place.split()[0])) for place in told["control"]}
    told["control"] = sorted(control & {"control", "cmdline", "environ"})
    print("SEARCHED " + json.dumps(told))


main()
