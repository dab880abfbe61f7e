//! Builds the supervisor: the small static program that is PID 1 of every sandbox and travels inside
//! `acquire`. It uses the standard library only, so the compiler and the C linker that build everything
//! else are all it takes.

use std::{
    env,
    path::PathBuf,
    process::{Command, exit},
};

fn main() {
    println!("cargo::rerun-if-changed=supervisor");
    println!("cargo::rerun-if-changed=src/sandbox/wire.rs");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let target = variable("TARGET");
    if !target.contains("-linux-gnu") {
        fail(&format!(
            "acquire's sandbox supervisor is built for Linux with glibc, and the target is {target}. \
             Build with `--target x86_64-unknown-linux-gnu` or `--target aarch64-unknown-linux-gnu`."
        ));
    }
    let supervisor = PathBuf::from(variable("OUT_DIR")).join("supervisor");
    let mut rustc = Command::new(variable("RUSTC"));
    rustc
        .args(["supervisor/main.rs", "--crate-name", "supervisor", "--edition", "2024", "-O"])
        .args(["-C", "panic=abort", "-C", "target-feature=+crt-static", "-C", "strip=symbols"])
        .args(["--target", &target])
        .arg("-o")
        .arg(&supervisor);
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg("-C").arg(format!("linker={linker}"));
    }
    match rustc.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => fail(&format!(
            "the sandbox supervisor could not be built. It is linked statically, which needs a C compiler \
             and the C library's static archive (Debian and Ubuntu: `apt install gcc libc6-dev`; Fedora: \
             `dnf install gcc glibc-static`). rustc says:\n{}",
            String::from_utf8_lossy(&output.stderr)
        )),
        Err(error) => fail(&format!("{:?} could not be started: {error}", rustc.get_program())),
    }
}

/// A variable that cargo sets for every build script.
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| fail(&format!("cargo did not set {name}")))
}

fn fail(message: &str) -> ! {
    for line in message.lines() {
        println!("cargo::error={line}");
    }
    exit(1)
}
