//! How commands run and end.

use std::time::Instant;

use acquire::{
    gate::visible::observation_text,
    method::ports::{CommandExit, CommandLimits, SandboxError, Sandboxes},
};

use super::*;

pub async fn r_ex_1_commands_start_afresh_with_nothing_on_stdin(sandboxes: &dyn Sandboxes) {
    let sandbox = resolver(sandboxes).await;
    assert_eq!(output(&*sandbox, "readlink /proc/self/fd/0; cat").await, "/dev/null");
    assert_eq!(output(&*sandbox, "pwd").await, "/workspace");
    assert_eq!(output(&*sandbox, "ls /proc/self/fd | tr '\\n' ' '").await, "0 1 2 3");
    // The sixth field is the session: the shell leads its own.
    assert_eq!(output(&*sandbox, "set -- $(</proc/$$/stat); echo $(($6 - $$))").await, "0");
    output(&*sandbox, "cd src; export LEFT=over; umask 0; set -e").await;
    assert_eq!(output(&*sandbox, "pwd; echo \"[$LEFT]\"; umask").await, "/workspace\n[]\n0022");
    assert_eq!(output(&*sandbox, "echo out; echo err >&2; echo out").await, "out\nerr\nout");
    // Bash must not take a command for an option.
    let dashed = run(&*sandbox, "-c 'exit 3'").await;
    assert_eq!(dashed.exit, CommandExit::Code(127), "{}", text(&dashed));
    assert_eq!(run(&*sandbox, "exit 3").await.exit, CommandExit::Code(3));
    assert_eq!(run(&*sandbox, "kill -TERM $$").await.exit, CommandExit::Signal(15));
}

pub async fn r_ex_2_escapees_and_fork_bombs_die_at_the_deadline(sandboxes: &dyn Sandboxes) {
    let sandbox = resolver(sandboxes).await;
    // Each says first that it runs: a busy machine may not let it say so in time once it has begun.
    let escapees = "
        echo started
        setsid sleep 1000 &
        (setsid bash -c 'sleep 1000 & disown; exec 1>&- 2>&-; sleep 1000' &)
        nohup sleep 1000 >/dev/null 2>&1 &
        trap '' TERM INT HUP
        sleep 1000";
    let fork_bomb = "echo started; bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 1000";
    let stopped = "echo started; sleep 1000 & kill -STOP $!; kill -STOP $$";
    for command in [escapees, fork_bomb, stopped] {
        let begun = Instant::now();
        let outcome = run_for(&*sandbox, 500, command).await;
        assert_eq!(outcome.exit, CommandExit::TimedOut, "{command}");
        assert!(text(&outcome).contains("started"), "{}", text(&outcome));
        assert!(outcome.duration >= Duration::from_millis(500));
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        assert_eq!(processes(&*sandbox).await, ALONE, "{command}");
    }
}

pub async fn r_ex_3_background_processes_end_with_the_command(sandboxes: &dyn Sandboxes) {
    let sandbox = resolver(sandboxes).await;
    let command = "sleep 1000 & (setsid sleep 1000 >/dev/null 2>&1 &); echo done; exit 7";
    let outcome = run(&*sandbox, command).await;
    assert_eq!((outcome.exit, outcome.background_ended), (CommandExit::Code(7), 2));
    assert!(outcome.duration < Duration::from_secs(5));
    let observation = observation_text(&outcome, 10_000);
    assert_eq!(observation, "done\n[2 background processes ended with the command]\n");
    assert_eq!(processes(&*sandbox).await, ALONE);
    // Processes that ended by themselves are not counted.
    let outcome = run(&*sandbox, "true & (true &); until set -- /proc/[0-9]*; [ $# = 2 ]; do :; done").await;
    assert_eq!(outcome.background_ended, 0);
}

pub async fn r_ex_4_endless_output_costs_a_fixed_amount_of_memory(sandboxes: &dyn Sandboxes) {
    let sandbox = resolver(sandboxes).await;
    let limits = CommandLimits { keep_bytes: 100, ..LIMITS };
    let outcome = sandbox.run("seq 1 1000000", limits).await.unwrap();
    assert_eq!(outcome.exit, CommandExit::Code(0));
    assert!(outcome.head.starts_with(b"1\n2\n3\n") && outcome.head.len() == 100);
    assert!(outcome.tail.ends_with(b"999999\n1000000\n") && outcome.tail.len() == 100);
    assert_eq!(outcome.omitted, 6_888_896 - 200);

    let outcome = sandbox.run("printf '%100s%100s' a b", limits).await.unwrap();
    assert_eq!((outcome.head.len(), outcome.tail.len(), outcome.omitted), (100, 100, 0));
    let outcome = sandbox.run("printf '%100s' a", limits).await.unwrap();
    assert_eq!((outcome.head.len(), outcome.tail.len()), (100, 0));

    // The host gets no more than what is kept; what passes through, passes through the supervisor.
    let peak = "set -- $(grep VmHWM /proc/1/status); echo $2";
    let before: u32 = output(&*sandbox, peak).await.parse().unwrap();
    let limits = CommandLimits { timeout: Duration::from_secs(1), ..limits };
    let outcome = sandbox.run("yes", limits).await.unwrap();
    assert_eq!(outcome.exit, CommandExit::TimedOut);
    assert_eq!((outcome.head.len(), outcome.tail.len()), (100, 100));
    assert!(outcome.omitted > 10_000_000, "only {} bytes came", outcome.omitted);
    let after: u32 = output(&*sandbox, peak).await.parse().unwrap();
    assert!(after - before < 1_024, "the supervisor grew from {before} to {after} KiB");
}

/// Each line tries one thing on PID 1 and says "done: …" if it worked.
const ATTACKS_ON_PID_1: &str = r#"
import ctypes, os, resource, signal, struct
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, act):
    try:
        act()
        print("done:", name)
    except OSError as error:
        pass
def call(number, *arguments):
    if libc.syscall(number, *arguments) == -1:
        raise OSError(ctypes.get_errno(), "refused")
def ptrace(request):
    call({"x86_64": 101, "aarch64": 117}[os.uname().machine], request, 1, 0, 0)
forged = struct.pack("<IBBIQIQI", 31, 3, 0, 0, 0, 0, 0, 0) + b"forged"
for fd in range(0, 12):
    attempt(f"open fd {fd}", lambda: os.write(os.open(f"/proc/1/fd/{fd}", os.O_WRONLY), forged))
attempt("list fds", lambda: os.listdir("/proc/1/fd"))
attempt("write memory", lambda: os.open("/proc/1/mem", os.O_RDWR))
attempt("read environment", lambda: open("/proc/1/environ").read())
attempt("be preferred by the OOM killer", lambda: open("/proc/1/oom_score_adj", "w").write("1000"))
attempt("attach", lambda: ptrace(16))
attempt("seize", lambda: ptrace(0x4206))
attempt("limit its time", lambda: resource.prlimit(1, resource.RLIMIT_CPU, (0, 0)))
attempt("limit its files", lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0)))
attempt("limit its memory", lambda: resource.prlimit(1, resource.RLIMIT_AS, (0, 0)))
attempt("starve it", lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
attempt("starve its user", lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19))
attempt("make it idle", lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)))
attempt("make it idle in another way", lambda: os.sched_setparam(1, os.sched_param(0)))
attempt("bind it to a processor", lambda: os.sched_setaffinity(1, {min(os.sched_getaffinity(0))}))
attributes = ctypes.create_string_buffer(struct.pack("<IIQiIQQQ", 48, 0, 0, 0, 0, 0, 0, 0))
attempt("set its attributes", lambda: call({"x86_64": 314, "aarch64": 274}[os.uname().machine], 1, attributes, 0))
attempt("take a descriptor", lambda: call(438, os.pidfd_open(1), 1, 0))
print("tried")
for number in set(signal.valid_signals()) - {signal.SIGCHLD}:
    os.kill(1, number)
print("signalled")
"#;

pub async fn r_ex_5_an_outcome_can_be_neither_forged_nor_suppressed(sandboxes: &dyn Sandboxes) {
    let sandbox = resolver(sandboxes).await;
    assert_eq!(python(&*sandbox, ATTACKS_ON_PID_1).await, "tried\nsignalled");
    for (command, exit) in [
        ("kill -9 1; kill -STOP 1; kill -SEGV 1; exit 41", CommandExit::Code(41)),
        ("kill -9 -1; exit 42", CommandExit::Code(42)),
        ("kill -9 $$", CommandExit::Signal(9)),
        ("exec >&- 2>&-; exit 43", CommandExit::Code(43)),
        // Frames on stdout are output like everything else.
        (r"printf '\x1f\0\0\0\3\0\0\0\0\0\0\0\0'; exit 44", CommandExit::Code(44)),
        ("for fd in /proc/*/fd/*; do echo forged > $fd; done 2>/dev/null; exit 45", CommandExit::Code(45)),
        ("for fd in {3..30}; do echo forged >&$fd; done 2>/dev/null; exit 47", CommandExit::Code(47)),
        ("for i in {1..200}; do (ulimit -n 3; ulimit -u 1) & done; wait; exit 46", CommandExit::Code(46)),
    ] {
        assert_eq!(run(&*sandbox, command).await.exit, exit, "{command}");
    }
    assert_eq!(output(&*sandbox, "echo still here").await, "still here");
    assert_eq!(processes(&*sandbox).await, ALONE);
}

pub async fn r_ex_8_output_becomes_text_that_hides_nothing(sandboxes: &dyn Sandboxes) {
    let sandbox = answerer(sandboxes).await;
    let outcome = run(&*sandbox, r"printf '\e[31mred\e[0m zero\xe2\x80\x8bwidth \xff\n'").await;
    assert_eq!(observation_text(&outcome, 100), "red zero\\u{200B}width \u{fffd}\n");
}

pub async fn a_command_that_cannot_be_executed_is_an_outcome(sandboxes: &dyn Sandboxes) {
    let sandbox = answerer(sandboxes).await;
    for command in [format!("echo {}", "x".repeat(200_000)), "echo a\0b".to_owned()] {
        let outcome = run(&*sandbox, &command).await;
        assert_eq!(outcome.exit, CommandExit::Code(126));
        assert!(text(&outcome).starts_with("bash: the command cannot be executed: "), "{}", text(&outcome));
    }
    assert_eq!(output(&*sandbox, "echo fine").await, "fine");
}

pub async fn closing_ends_a_running_command(sandboxes: &dyn Sandboxes) {
    let sandbox = answerer(sandboxes).await;
    let begun = Instant::now();
    let (outcome, ()) = tokio::join!(sandbox.run("sleep 1000", LIMITS), sandbox.close());
    assert!(matches!(outcome, Err(SandboxError::Lost(_))), "{outcome:?}");
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert!(matches!(sandbox.run("true", LIMITS).await, Err(SandboxError::Lost(_))));
}
