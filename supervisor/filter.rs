//! The seccomp filter over everything in the sandbox: a BPF program, written by hand.
//!
//! It stacks on whatever the engine has set. Refused are calls that reach over the sandbox's walls or have
//! a record of kernel holes (io_uring, bpf, tracing, keys, mounts, namespaces, unusual sockets), and those
//! by which a process of the same user could still bend PID 1 (its limits and priorities). Refusals are
//! EPERM; `clone3` is ENOSYS, since its flags cannot be seen from here and libraries then use `clone`.

/// `struct sock_filter`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    pub code: u16,
    pub if_true: u8,
    pub if_false: u8,
    pub value: u32,
}

pub const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
pub const IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
pub const IF_AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
pub const IF_ANY_BIT: u16 = 0x45; // BPF_JMP | BPF_JSET | BPF_K
pub const RETURN: u16 = 0x06; // BPF_RET | BPF_K

pub const ALLOW: u32 = 0x7fff_0000;
pub const KILL: u32 = 0x8000_0000;
pub const EPERM: u32 = 0x0005_0001;
pub const ENOSYS: u32 = 0x0005_0026;
pub const EAFNOSUPPORT: u32 = 0x0005_0061;

/// Offsets in `struct seccomp_data`; both processors are little-endian.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

/// CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.
const NEW_NAMESPACES: u32 =
    0x0002_0000 | 0x0200_0000 | 0x0400_0000 | 0x0800_0000 | 0x1000_0000 | 0x2000_0000 | 0x4000_0000;

/// AF_UNIX, AF_INET, AF_INET6, AF_NETLINK. Others reach what a network namespace does not wall off
/// (AF_VSOCK: the machine's host) or rarely used kernel code.
const SOCKET_FAMILIES: [u32; 4] = [1, 2, 10, 16];

/// The numbers of one processor.
pub struct Calls {
    pub architecture: u32,
    /// From this number on there is a second table of the same calls (x32); 0 where there is none.
    second_table: u32,
    /// Refused whatever their arguments.
    refused: &'static [u32],
    /// Refused where the first argument is PID 1: limits and scheduling of the supervisor.
    on_process: &'static [u32],
    clone: u32,
    clone3: u32,
    socket: u32,
    setpriority: u32,
    ioprio_set: u32,
}

/// Calls newer than 2019 have one number on all processors.
macro_rules! refused {
    ($($number:literal)*) => {
        &[
            $($number,)*
            425, 426, 427, // io_uring_setup, io_uring_enter, io_uring_register
            428, 429, 430, 431, 432, 433, // open_tree, move_mount, fsopen, fsconfig, fsmount, fspick
            442, 467, // mount_setattr, open_tree_attr
            438, 440, 448, // pidfd_getfd, process_madvise, process_mrelease
        ]
    };
}

pub const X86_64: Calls = Calls {
    architecture: 0xc000_003e,
    second_table: 0x4000_0000,
    refused: refused! {
        101 310 311 312 // ptrace, process_vm_readv, process_vm_writev, kcmp
        321 323 298 300 // bpf, userfaultfd, perf_event_open, fanotify_init
        248 249 250 // add_key, request_key, keyctl
        165 166 155 161 // mount, umount2, pivot_root, chroot
        272 308 304 // unshare, setns, open_by_handle_at
        256 279 // migrate_pages, move_pages
    },
    // prlimit64, sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr
    on_process: &[302, 142, 144, 203, 314],
    clone: 56,
    clone3: 435,
    socket: 41,
    setpriority: 141,
    ioprio_set: 251,
};

pub const AARCH64: Calls = Calls {
    architecture: 0xc000_00b7,
    second_table: 0,
    refused: refused! {
        117 270 271 272
        280 282 241 262
        217 218 219
        40 39 41 51
        97 268 265
        238 239
    },
    on_process: &[261, 118, 119, 122, 274],
    clone: 220,
    clone3: 435,
    socket: 198,
    setpriority: 140,
    ioprio_set: 30,
};

#[cfg(target_arch = "x86_64")]
pub const NATIVE: Calls = X86_64;
#[cfg(target_arch = "aarch64")]
pub const NATIVE: Calls = AARCH64;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the sandbox's seccomp filter knows the system calls of x86_64 and aarch64 only");

/// The whole program.
pub fn program(calls: &Calls) -> Vec<Instruction> {
    let mut program =
        vec![load(ARCHITECTURE), jump(IF_EQUAL, calls.architecture, 1, 0), give(KILL), load(NUMBER)];
    if calls.second_table != 0 {
        program.extend([jump(IF_AT_LEAST, calls.second_table, 0, 1), give(EPERM)]);
    }
    for &number in calls.refused {
        program.extend([jump(IF_EQUAL, number, 0, 1), give(EPERM)]);
    }
    program.extend([jump(IF_EQUAL, calls.clone3, 0, 1), give(ENOSYS)]);
    // From here on a call's arguments decide. Each block answers for its call, so the number stays loaded
    // for the blocks after it.
    block(
        &mut program,
        calls.clone,
        &[load(argument(0)), jump(IF_ANY_BIT, NEW_NAMESPACES, 0, 1), give(EPERM), give(ALLOW)],
    );
    let mut families = vec![load(argument(0))];
    for family in SOCKET_FAMILIES {
        families.extend([jump(IF_EQUAL, family, 0, 1), give(ALLOW)]);
    }
    families.push(give(EAFNOSUPPORT));
    block(&mut program, calls.socket, &families);
    for &number in calls.on_process {
        block(&mut program, number, &[load(argument(0)), jump(IF_EQUAL, 1, 0, 1), give(EPERM), give(ALLOW)]);
    }
    // (which, who, …): only single processes, and not PID 1. PRIO_PROCESS is 0, IOPRIO_WHO_PROCESS 1.
    for (number, single_process) in [(calls.setpriority, 0), (calls.ioprio_set, 1)] {
        block(
            &mut program,
            number,
            &[
                load(argument(0)),
                jump(IF_EQUAL, single_process, 1, 0),
                give(EPERM),
                load(argument(1)),
                jump(IF_EQUAL, 1, 0, 1),
                give(EPERM),
                give(ALLOW),
            ],
        );
    }
    program.push(give(ALLOW));
    program
}

/// `body`, which must end in a return, for the call `number` alone.
fn block(program: &mut Vec<Instruction>, number: u32, body: &[Instruction]) {
    program.push(jump(IF_EQUAL, number, 0, body.len() as u8));
    program.extend(body);
}

fn load(offset: u32) -> Instruction {
    Instruction { code: LOAD, if_true: 0, if_false: 0, value: offset }
}

/// Skips `if_true` or `if_false` instructions.
fn jump(code: u16, value: u32, if_true: u8, if_false: u8) -> Instruction {
    Instruction { code, if_true, if_false, value }
}

fn give(answer: u32) -> Instruction {
    Instruction { code: RETURN, if_true: 0, if_false: 0, value: answer }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the program as the kernel does.
    fn answer(calls: &Calls, architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let mut data = [number.to_le_bytes(), architecture.to_le_bytes()].concat();
        data.extend([0; 8]); // instruction pointer
        data.extend(arguments.iter().flat_map(|a| a.to_le_bytes()));
        let program = program(calls);
        let (mut at, mut loaded) = (0, 0);
        loop {
            let Instruction { code, if_true, if_false, value } = program[at];
            let taken = match code {
                RETURN => return value,
                LOAD => {
                    let offset = value as usize;
                    loaded = u32::from_le_bytes(data[offset..offset + 4].try_into().unwrap());
                    0
                }
                IF_EQUAL if loaded == value => if_true,
                IF_AT_LEAST if loaded >= value => if_true,
                IF_ANY_BIT if loaded & value != 0 => if_true,
                _ => if_false,
            };
            at += 1 + usize::from(taken);
        }
    }

    fn native(calls: &Calls, number: u32, arguments: [u64; 6]) -> u32 {
        answer(calls, calls.architecture, number, arguments)
    }

    const NOTHING: [u64; 6] = [0; 6];

    /// Names and numbers as in the kernel's `asm/unistd_64.h` (x86_64) and `asm-generic/unistd.h` (aarch64).
    const REFUSED: [(&str, u32, u32); 35] = [
        ("ptrace", 101, 117),
        ("process_vm_readv", 310, 270),
        ("process_vm_writev", 311, 271),
        ("kcmp", 312, 272),
        ("bpf", 321, 280),
        ("userfaultfd", 323, 282),
        ("perf_event_open", 298, 241),
        ("fanotify_init", 300, 262),
        ("add_key", 248, 217),
        ("request_key", 249, 218),
        ("keyctl", 250, 219),
        ("mount", 165, 40),
        ("umount2", 166, 39),
        ("pivot_root", 155, 41),
        ("chroot", 161, 51),
        ("unshare", 272, 97),
        ("setns", 308, 268),
        ("open_by_handle_at", 304, 265),
        ("migrate_pages", 256, 238),
        ("move_pages", 279, 239),
        ("io_uring_setup", 425, 425),
        ("io_uring_enter", 426, 426),
        ("io_uring_register", 427, 427),
        ("open_tree", 428, 428),
        ("move_mount", 429, 429),
        ("fsopen", 430, 430),
        ("fsconfig", 431, 431),
        ("fsmount", 432, 432),
        ("fspick", 433, 433),
        ("pidfd_getfd", 438, 438),
        ("process_madvise", 440, 440),
        ("mount_setattr", 442, 442),
        ("process_mrelease", 448, 448),
        ("open_tree_attr", 467, 467),
        // Answered as if it did not exist, so that libraries use clone.
        ("clone3", 435, 435),
    ];
    const ON_PROCESS: [(&str, u32, u32); 5] = [
        ("prlimit64", 302, 261),
        ("sched_setparam", 142, 118),
        ("sched_setscheduler", 144, 119),
        ("sched_setaffinity", 203, 122),
        ("sched_setattr", 314, 274),
    ];
    /// socket, clone, setpriority, ioprio_set.
    const BY_ARGUMENTS: [[u32; 4]; 2] = [[41, 56, 141, 251], [198, 220, 140, 30]];

    /// Each processor's column of a table.
    fn both(table: &[(&'static str, u32, u32)]) -> [(&'static Calls, Vec<(&'static str, u32)>); 2] {
        let column =
            |of: fn(&(&'static str, u32, u32)) -> u32| table.iter().map(|row| (row.0, of(row))).collect();
        [(&X86_64, column(|row| row.1)), (&AARCH64, column(|row| row.2))]
    }

    #[test]
    fn s_12_calls_that_reach_over_the_walls_are_refused_on_both_processors() {
        for (calls, refused) in both(&REFUSED) {
            assert_eq!(calls.refused.len() + 1, refused.len(), "a call is missing in this test's table");
            for (name, number) in refused {
                let expected = if name == "clone3" { ENOSYS } else { EPERM };
                assert_eq!(native(calls, number, NOTHING), expected, "{name}");
            }
        }
        for (calls, [socket, ..]) in [&X86_64, &AARCH64].into_iter().zip(BY_ARGUMENTS) {
            for family in [3, 17, 38, 40] {
                assert_eq!(native(calls, socket, [family, 0, 0, 0, 0, 0]), EAFNOSUPPORT);
            }
            for family in [1, 2, 10, 16] {
                assert_eq!(native(calls, socket, [family, 0, 0, 0, 0, 0]), ALLOW);
            }
        }
    }

    #[test]
    fn s_12_clone_makes_processes_and_threads_but_no_namespaces() {
        const CLONE_VM_FILES_SIGHAND_THREAD: u64 = 0x100 | 0x400 | 0x800 | 0x10000;
        for (calls, [_, clone, ..]) in [&X86_64, &AARCH64].into_iter().zip(BY_ARGUMENTS) {
            for flags in [17, CLONE_VM_FILES_SIGHAND_THREAD] {
                assert_eq!(native(calls, clone, [flags, 0, 0, 0, 0, 0]), ALLOW);
            }
            for bit in 0..32 {
                let flag = 1 << bit;
                let expected = if NEW_NAMESPACES & flag == 0 { ALLOW } else { EPERM };
                assert_eq!(native(calls, clone, [u64::from(flag) | 17, 0, 0, 0, 0, 0]), expected);
            }
        }
    }

    #[test]
    fn s_12_other_tables_of_calls_are_refused() {
        const I386: u32 = 0x4000_0003;
        assert_eq!(answer(&X86_64, I386, 1, NOTHING), KILL);
        assert_eq!(answer(&AARCH64, 0x4000_0028, 1, NOTHING), KILL);
        assert_eq!(native(&X86_64, 0x4000_0000 | 101, NOTHING), EPERM);
        assert_eq!(native(&X86_64, 0x4000_0000, NOTHING), EPERM);
    }

    #[test]
    fn r_ex_5_limits_and_priorities_of_pid_1_cannot_be_set() {
        for (calls, on_process) in both(&ON_PROCESS) {
            assert_eq!(calls.on_process.len(), on_process.len(), "a call is missing in this test's table");
            for (name, number) in on_process {
                assert_eq!(native(calls, number, [1, 0, 0, 0, 0, 0]), EPERM, "{name}");
                // The kernel reads a process id from the lower half alone.
                assert_eq!(native(calls, number, [1 << 32 | 1, 0, 0, 0, 0, 0]), EPERM);
                assert_eq!(native(calls, number, [0, 0, 0, 0, 0, 0]), ALLOW);
                assert_eq!(native(calls, number, [4_711, 0, 0, 0, 0, 0]), ALLOW);
            }
        }
        for (calls, [.., setpriority, ioprio_set]) in [&X86_64, &AARCH64].into_iter().zip(BY_ARGUMENTS) {
            for (number, one) in [(setpriority, 0), (ioprio_set, 1)] {
                assert_eq!(native(calls, number, [one, 0, 0, 0, 0, 0]), ALLOW);
                assert_eq!(native(calls, number, [one, 1, 0, 0, 0, 0]), EPERM);
                assert_eq!(native(calls, number, [2, 0, 0, 0, 0, 0]), EPERM);
            }
        }
    }

    #[test]
    fn everyday_calls_pass() {
        // read, write, openat, execve, wait4, mmap, futex, socketpair, prctl, kill of x86_64
        for number in [0, 1, 257, 59, 61, 9, 202, 53, 157, 62] {
            assert_eq!(native(&X86_64, number, NOTHING), ALLOW, "{number}");
        }
        assert!(program(&NATIVE).len() < 4_096);
    }
}
