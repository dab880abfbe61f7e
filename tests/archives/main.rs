//! Released code as it comes from PyPI and crates.io, downloaded by these tests: what an example that we made
//! up ourselves would never hold. Where a registry cannot be reached they fail.

#[path = "../support/script.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod script;

mod citations;
mod repair;

use std::path::{Path, PathBuf};

/// A git repository with the source archive of a release as its one commit. Downloaded once a checkout.
fn released(registry: &str, name: &str, version: &str) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/lib/archive");
    let output = std::process::Command::new("bash")
        .arg(script)
        .args([registry, name, version])
        .output()
        .expect("bash is there");
    assert!(
        output.status.success(),
        "{name} {version} could not be had from {registry}, without which this test shows nothing:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim_end().into()
}
