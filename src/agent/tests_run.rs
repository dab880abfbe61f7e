//! Which commands run tests, by the programs that projects test with.

/// Parts of commands that run tests.
const RUNNERS: [&str; 24] = [
    "pytest",
    "py.test",
    "unittest",
    "tox",
    "nox",
    "runtests",
    "bin/test",
    "cargo test",
    "cargo nextest",
    "go test",
    "npm test",
    "npm run test",
    "yarn test",
    "pnpm test",
    "jest",
    "vitest",
    "mvn",
    "gradle",
    "rspec",
    "rake test",
    "make test",
    "make check",
    "ctest",
    "phpunit",
];

/// Whether the command's exit code is that of a test run. In a pipeline or a list it would be the exit code
/// of whatever comes last; only `&&` keeps a failure a failure.
pub fn runs_tests(command: &str) -> bool {
    let command = command.trim();
    let last_word_counts = !command.replace("2>&1", "").replace("&&", "").contains(['|', ';', '&', '\n']);
    last_word_counts && RUNNERS.iter().any(|runner| command.contains(runner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_whose_exit_code_is_the_tests_own_count() {
        for test in
            ["python -m pytest -q tests/a.py", "cd sub && cargo test --offline 2>&1", " go test ./...\n"]
        {
            assert!(runs_tests(test), "{test}");
        }
        for other in [
            "pytest | tail -5",
            "pytest; echo done",
            "pytest || true",
            "pytest &",
            "pytest\ntrue",
            "cat tests/test_a.py",
        ] {
            assert!(!runs_tests(other), "{other}");
        }
    }
}
