//! Which commands run tests, by the programs that projects test with.
//!
//! What counts is reported with the exit code that the host saw, as if the tests had said it. So a command
//! counts only when it is plain that its exit code is theirs; what is in doubt is no test.

mod words;

use words::{Word, commands};

/// Programs and the words that make them run tests. `*` is any number of other arguments, `OPTIONS` of
/// options; options that run no tests are refused below.
const RUNNERS: [&[&str]; 65] = [
    &["pytest"],
    &["py.test"],
    &["tox"],
    &["nox"],
    &["bin/test"],
    &["runtests"],
    &["runtests.py"],
    &["tests/runtests.py"],
    &["python", "OPTIONS", "-m", "pytest"],
    &["python", "OPTIONS", "-m", "unittest"],
    &["python", "OPTIONS", "-m", "tox"],
    &["python", "OPTIONS", "-m", "nox"],
    &["python", "OPTIONS", "-m", "coverage", "run", "OPTIONS", "-m", "pytest"],
    &["python", "OPTIONS", "-m", "coverage", "run", "OPTIONS", "-m", "unittest"],
    &["python", "OPTIONS", "bin/test"],
    &["python", "OPTIONS", "runtests.py"],
    &["python", "OPTIONS", "tests/runtests.py"],
    &["python", "OPTIONS", "manage.py", "test"],
    &["coverage", "run", "OPTIONS", "-m", "pytest"],
    &["coverage", "run", "OPTIONS", "-m", "unittest"],
    &["cargo", "OPTIONS", "test"],
    &["cargo", "OPTIONS", "nextest", "run"],
    &["go", "test"],
    &["npm", "OPTIONS", "test"],
    &["npm", "OPTIONS", "run", "test"],
    &["yarn", "OPTIONS", "test"],
    &["yarn", "OPTIONS", "run", "test"],
    &["pnpm", "OPTIONS", "test"],
    &["pnpm", "OPTIONS", "run", "test"],
    &["jest"],
    &["vitest"],
    &["mocha"],
    &["tape"],
    &["ava"],
    &["jasmine"],
    &["node", "OPTIONS", "--test"],
    &["deno", "test"],
    &["bun", "test"],
    &["mvn", "*", "test"],
    &["mvn", "*", "verify"],
    &["gradle", "*", "test"],
    &["gradle", "*", "check"],
    &["rspec"],
    &["bin/rspec"],
    &["rake", "test"],
    &["make", "OPTIONS", "test"],
    &["make", "OPTIONS", "check"],
    &["ctest"],
    &["meson", "test"],
    &["ninja", "OPTIONS", "test"],
    &["dotnet", "test"],
    &["mix", "test"],
    &["swift", "test"],
    &["stack", "test"],
    &["cabal", "test"],
    &["sbt", "test"],
    &["lein", "test"],
    &["dart", "test"],
    &["flutter", "test"],
    &["zig", "build", "test"],
    &["bats"],
    &["busted"],
    &["prove"],
    &["phpunit"],
    &["vendor/bin/phpunit"],
];

/// Options, and beginnings of options before a `=`, with which a runner of the name runs no test, or does not
/// say what came of it. An empty name is any runner.
const IDLE: [(&str, &[&str]); 11] = [
    ("", &["--help", "-h", "--version", "--list", "--list-tests", "--dry-run", "--passWithNoTests"]),
    (
        "pytest",
        &[
            "-V",
            "--collect-only",
            "--co",
            "--collectonly",
            "-o",
            "--override-ini",
            "--fixtures",
            "--markers",
            "--setup-plan",
            "--setup-only",
            "-c",
        ],
    ),
    ("tox", &["-l", "-a", "--notest", "-n", "--listenvs"]),
    ("nox", &["-l", "--install-only"]),
    ("cargo", &["--no-run", "--config", "-Z"]),
    ("go", &["-c", "-n", "-list", "-exec", "-toolexec", "--exec", "--c", "--n", "--toolexec"]),
    ("npm", &["--if-present", "--script-shell", "--prefix"]),
    ("jest", &["--listTests", "--showConfig", "--clearCache", "--init"]),
    (
        "mvn",
        &["-DskipTests", "-Dmaven.test.skip", "-Dmaven.test.failure.ignore", "-fn", "--fail-never", "-v"],
    ),
    ("gradle", &["-m", "-x", "--exclude-task", "-v"]),
    ("ctest", &["-N", "--show-only", "--print-labels"]),
];

/// What of the shell itself can make a test that stands behind it another command, or end the shell before it.
/// Programs can do neither.
const OF_THE_SHELL: [&str; 71] = [
    ".",
    "!",
    "[[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "case",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "do",
    "done",
    "elif",
    "else",
    "enable",
    "esac",
    "eval",
    "exec",
    "exit",
    "export",
    "printf",
    "fc",
    "fg",
    "fi",
    "for",
    "function",
    "getopts",
    "hash",
    "help",
    "history",
    "if",
    "in",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "read",
    "readarray",
    "readonly",
    "return",
    "select",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "then",
    "time",
    "times",
    "trap",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "until",
    "wait",
    "while",
    "{",
    "}",
];

/// Whether the command's exit code is that of a test run.
pub fn runs_tests(command: &str) -> bool {
    let Some(mut commands) = commands(command) else { return false };
    // Only `&&` joins them, which keeps a failure a failure: whatever else runs must leave the shell as it is.
    let tests = commands.extract_if(.., |words| is_test(words)).count();
    tests > 0 && commands.iter().all(|words| is_harmless(words))
}

fn is_harmless(words: &[Word]) -> bool {
    let Some(words) = without_assignments(words) else { return false };
    words.first().is_some_and(|program| {
        let name = program.text.as_str();
        is_plain(program) && !OF_THE_SHELL.contains(&name)
    })
}

fn is_test(words: &[Word]) -> bool {
    if words.iter().any(|word| word.expands) {
        return false;
    }
    let Some(words) = without_wrappers(words) else { return false };
    let Some(program) = words.first().filter(|word| is_plain(word)).and_then(|word| program(&word.text))
    else {
        return false;
    };
    let words: Vec<&str> = [program].into_iter().chain(words[1..].iter().map(|w| w.text.as_str())).collect();
    let Some(runner) = RUNNERS.iter().find(|runner| begins(&words, runner)) else { return false };
    let is_idle = |word: &&str| {
        IDLE.iter().filter(|(name, _)| name.is_empty() || runner.contains(name)).any(|(_, options)| {
            options.iter().any(|option| {
                word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
            })
        })
    };
    // With some options and all variables `make` runs other commands than the makefile's, or none.
    let is_remade = |word: &&str| {
        let known = word.starts_with("-j") || ["-s", "-k", "-B", "--silent", "--keep-going"].contains(word);
        matches!(program, "make" | "rake") && (word.contains('=') || (word.starts_with('-') && !known))
    };
    !words.iter().any(|word| is_idle(word) || is_remade(word))
}

/// The words after harmless assignments; `None` when one is not.
fn without_assignments(mut words: &[Word]) -> Option<&[Word]> {
    while let Some((name, _)) =
        words.first().and_then(|word| word.text.split_once('=')).filter(|(name, _)| is_name(name))
    {
        if !is_harmless_name(name) {
            return None;
        }
        words = &words[1..];
    }
    Some(words)
}

fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
    !text.is_empty() && !text.as_bytes()[0].is_ascii_digit() && text.trim_end_matches('+').bytes().all(fits)
}

/// Not those that say where programs and their parts are found, or which options programs get.
fn is_harmless_name(name: &str) -> bool {
    let name = name.trim_end_matches('+').to_ascii_uppercase();
    let starts = ["LD_", "DYLD_", "BASH", "SHELL", "CARGO", "RUSTC", "GIT_", "NPM_", "TOX", "NOX", "PYTEST"];
    let ends = [
        "PATH", "HOME", "OPTS", "OPTIONS", "OPT", "FLAGS", "LIB", "LOADER", "PLUGINS", "PLUGIN", "STARTUP",
        "WRAPPER", "RUNNER", "IFS", "EXEC", "CONFIG",
    ];
    name != "ENV"
        && !starts.iter().any(|start| name.starts_with(start))
        && !ends.iter().any(|end| name.ends_with(end))
}

/// The words after assignments and after programs that run another and end as it ends.
fn without_wrappers(words: &[Word]) -> Option<&[Word]> {
    let mut words = without_assignments(words)?;
    loop {
        let texts: Vec<&str> = words.iter().take(3).map(|word| word.text.as_str()).collect();
        let taken = match texts[..] {
            ["env" | "time" | "command" | "nohup", ..] => 1,
            ["nice", "-n", _] => 3,
            ["timeout", time, ..] if is_duration(time) => 2,
            ["poetry" | "uv" | "pipenv" | "pdm" | "hatch" | "rye", "run", ..] => 2,
            ["bundle" | "pnpm" | "yarn", "exec", ..] => 2,
            ["xvfb-run" | "npx", "-a" | "--no-install" | "--yes", ..] => 2,
            ["nice" | "npx" | "xvfb-run", ..] => 1,
            ["node", script, ..] if of_node_modules(script).is_some() => 1,
            _ => return Some(words),
        };
        let assigns = texts[0] == "env";
        words = &words[taken..];
        if assigns {
            words = without_assignments(words)?;
        }
    }
}

fn is_duration(text: &str) -> bool {
    let number = text.trim_end_matches(['s', 'm', 'h']);
    number.len() + 1 >= text.len() && number.parse::<f64>().is_ok_and(|seconds| seconds > 0.0)
}

/// A word that names a program as it stands.
fn is_plain(word: &Word) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./+:".contains(&byte);
    word.text == "[" || (!word.expands && !word.text.is_empty() && word.text.bytes().all(fits))
}

/// A program's name in [`RUNNERS`]. In a folder it counts only where a system or a project keeps programs: an
/// agent can put a `pytest` anywhere else.
fn program(text: &str) -> Option<&str> {
    if let Some(name) = of_node_modules(text) {
        return RUNNERS.iter().find(|runner| runner[0] == name).map(|runner| runner[0]);
    }
    let text = text.strip_prefix("./").unwrap_or(text);
    let system = ["/usr/bin/", "/usr/local/bin/", "/bin/", ".venv/bin/", "venv/bin/"];
    let name = system.iter().find_map(|folder| text.strip_prefix(folder)).unwrap_or(text);
    if name.contains('/') {
        return RUNNERS.iter().find(|runner| runner[0] == name).map(|runner| runner[0]);
    }
    let version = name
        .strip_prefix("python")
        .filter(|rest| rest.is_empty() || rest.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit()));
    match name {
        _ if version.is_some() => Some("python"),
        "gradlew" => Some("gradle"),
        "mvnw" => Some("mvn"),
        "pytest-3" => Some("pytest"),
        _ => Some(name),
    }
}

/// A program's name where npm puts it: in the project, or in the root of an image.
fn of_node_modules(text: &str) -> Option<&str> {
    let text = text.strip_prefix("./").or_else(|| text.strip_prefix('/')).unwrap_or(text);
    let place = text.strip_prefix("node_modules/").filter(|place| !place.contains(".."))?;
    let name = place.rsplit('/').next()?;
    Some(name.strip_suffix(".js").or_else(|| name.strip_suffix(".mjs")).unwrap_or(name))
}

fn begins(words: &[&str], runner: &[&str]) -> bool {
    match (runner, words) {
        ([], _) => true,
        (["*", rest @ ..], _) => {
            begins(words, rest) || words.split_first().is_some_and(|(_, others)| begins(others, runner))
        }
        (["OPTIONS", ..], ["-W" | "-X" | "-j", _, others @ ..]) if begins(others, runner) => true,
        (["OPTIONS", rest @ ..], [word, others @ ..]) => {
            begins(words, rest) || (is_option(word) && begins(others, runner))
        }
        ([first, rest @ ..], [word, others @ ..]) => {
            word.strip_prefix("./").unwrap_or(word) == *first && begins(others, rest)
        }
        (_, []) => false,
    }
}

/// An option that stands for itself and does not name a program to run, such as `-c`.
fn is_option(word: &str) -> bool {
    word.starts_with(['-', '+'])
        && !matches!(word, "-" | "--" | "-c" | "-m" | "-h" | "-V" | "--eval" | "-O" | "-OO")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_whose_exit_code_is_the_tests_own_count() {
        for test in [
            "python -m pytest -q tests/a.py",
            "cd sub && cargo test --offline 2>&1",
            " go test ./...\n",
            "pytest",
            "pytest tests && echo ok",
            "pytest -k 'a or (b | c)' \"tests/x y.py\" > out.txt 2>&1 # all",
            "CI=1 RUST_BACKTRACE=1 cargo +nightly test",
            "python3.12 -W error -m unittest -v",
            "env DJANGO_SETTINGS_MODULE=a timeout 60 ./tests/runtests.py basic",
            "timeout 5m poetry run pytest -x",
            "pip install -e . && npm test",
            ".venv/bin/pytest && /usr/bin/python3 -m pytest",
            "npx jest && ./gradlew --offline :app:build test",
            "make -j4 check",
            "make -j 4 test",
            "[ -d tests ] && npx jest",
            "mvn -q -Dtest=A test",
            "bin/test sympy/core",
            "node /node_modules/tape/bin/tape 'test/**/*.js'",
            "./node_modules/.bin/mocha --reporter dot && node node_modules/jest/bin/jest.js a",
            "node --experimental-vm-modules --test test/",
            "meson test -C build && ctest --test-dir /tmp/build",
            "dotnet test",
        ] {
            assert!(runs_tests(test), "{test}");
        }
        for other in [
            "pytest | tail -5",
            "pytest; echo done",
            "pytest || true",
            "pytest &",
            "pytest\ntrue",
            "cat tests/test_a.py",
            "",
        ] {
            assert!(!runs_tests(other), "{other}");
        }
    }

    #[test]
    fn what_only_looks_like_a_test_does_not_count() {
        for other in [
            "echo pytest tests passed",
            "true # pytest tests",
            "bash -c 'exit 0' pytest",
            "bash -c 'pytest; true'",
            "! pytest tests",
            "time ! pytest",
            "/tmp/b/pytest tests",
            "./b/pytest tests",
            "../pytest",
            "PATH=/tmp/x:$PATH pytest",
            "PATH=/tmp/x pytest",
            "env PATH=/tmp/x pytest",
            "PYTHONPATH=/tmp/x python -m pytest",
            "LD_PRELOAD=/tmp/x.so pytest",
            "PYTEST_ADDOPTS=--co pytest",
            "GOFLAGS=-run=none go test",
            "PATH=/tmp/x && pytest",
            "export PATH=/tmp/x && pytest",
            "alias pytest=true; pytest",
            "alias pytest=true && pytest",
            "pytest() { true; } && pytest",
            "function pytest { true; }\npytest",
            "hash -p /bin/true pytest && pytest",
            "trap 'exit 0' EXIT && pytest",
            "exit 0 && pytest",
            "\"ex\"it 0 && pytest",
            "{exit,0} && pytest",
            "exec true && pytest",
            ". ./x && pytest",
            "$X && pytest",
            "$X pytest",
            "pytest $FLAGS",
            "'pytest tests'",
            "grep pytest setup.cfg",
            "pip install pytest",
            "python -c 'pass' -m pytest",
            "python run.py -m pytest",
            "python -h -m pytest",
            "pytest --collect-only",
            "pytest --version",
            "cargo test --no-run",
            "cargo test -- --list",
            "cargo --config x.toml test",
            "go test -c ./...",
            "make -n test",
            "make -i test",
            "make -ki test",
            "printf -v PATH /tmp/x && pytest",
            "make test PYTHON=true",
            "mvn -DskipTests test",
            "npm test --if-present",
            "timeout --version pytest",
            "command -v pytest",
            "env -S 'true' pytest",
            "if pytest; then true; fi",
            "(pytest)",
            "$(pytest)",
            "pytest <<< x",
            "ls bin/test",
            "node test/run.js",
            "node node_modules/../x/tape",
            "node_modules/.bin/eslint .",
            "node -e 0 --test",
            "dotnet test --list-tests",
        ] {
            assert!(!runs_tests(other), "{other}");
        }
    }
}
