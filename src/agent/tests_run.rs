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

/// Whether the host reports this command's exit code as that of a test.
pub fn runs_tests(command: &str) -> bool {
    RUNNERS.iter().any(|runner| command.contains(runner))
}
