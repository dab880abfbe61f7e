//! Large repositories, made once and kept among the build's files.
//!
//! Their content is the same on every machine: lines of made-up code whose words come from a fixed sequence
//! of numbers, so that they compress about as code does.

use std::{
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::ensure;

use super::project::git_command;

/// Of Sphinx's size in 2021: files of its tree, and commits of its main branch.
pub const FILES: usize = 1_800;
pub const COMMITS: usize = 10_000;
const FILES_A_COMMIT: usize = 2;
/// A file is that many paragraphs of about 1.1 kB; a commit replaces some of them.
const PARAGRAPHS: usize = 12;
const PARAGRAPHS_AN_EDIT: usize = 3;
const LINES: usize = 28;

/// A tree of 100 MB.
const LARGE_FILES: usize = 5_000;
const LARGE_BYTES: usize = 20_000;

/// A bare repository with 10,000 commits.
pub fn with_long_history() -> anyhow::Result<PathBuf> {
    kept("bench-long-history-1.git", |stream| {
        let mut words = Words::new();
        let mut files: Vec<Vec<String>> =
            (0..FILES).map(|_| (0..PARAGRAPHS).map(|_| words.paragraph()).collect()).collect();
        commit(stream, 0)?;
        for (number, file) in files.iter().enumerate() {
            put(stream, &path(number), &file.concat())?;
        }
        for number in 1..COMMITS {
            commit(stream, number)?;
            for _ in 0..FILES_A_COMMIT {
                let chosen = words.below(FILES);
                let first = words.below(PARAGRAPHS - PARAGRAPHS_AN_EDIT + 1);
                for paragraph in &mut files[chosen][first..first + PARAGRAPHS_AN_EDIT] {
                    *paragraph = words.paragraph();
                }
                put(stream, &path(chosen), &files[chosen].concat())?;
            }
        }
        Ok(())
    })
}

/// A bare repository with one commit of 5,000 files.
pub fn with_large_tree() -> anyhow::Result<PathBuf> {
    kept("bench-large-tree-1.git", |stream| {
        let mut words = Words::new();
        commit(stream, 0)?;
        for number in 0..LARGE_FILES {
            let mut text = String::new();
            while text.len() < LARGE_BYTES {
                text.push_str(&words.paragraph());
            }
            text.truncate(LARGE_BYTES);
            put(stream, &path(number), &text)?;
        }
        Ok(())
    })
}

fn path(number: usize) -> String {
    format!("src/package{}/module{}/file{number:04}.py", number % 12, number % 60)
}

/// Makes the repository where it is not there yet, from what is written in the form of `git fast-import`.
fn kept(name: &str, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let target = folder.join(name);
    if target.exists() {
        return Ok(target);
    }
    eprintln!("run: making {}", target.display());
    // Under another name until it is whole.
    let draft = tempfile::tempdir_in(folder)?;
    succeed(git_command(draft.path()).args(["init", "--quiet", "--bare", "--initial-branch=main"]))?;
    let mut import = git_command(draft.path());
    let mut import = import.args(["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn()?;
    let mut stream = BufWriter::new(import.stdin.take().expect("it is a pipe"));
    write(&mut stream)?;
    stream.flush()?;
    drop(stream);
    ensure!(import.wait()?.success(), "git fast-import failed");
    succeed(git_command(draft.path()).args(["repack", "-a", "-d", "-f", "--quiet"]))?;
    std::fs::rename(draft.keep(), &target)?;
    Ok(target)
}

fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let ended = command.status()?;
    ensure!(ended.success(), "{command:?} ended with {ended}");
    Ok(())
}

fn commit(stream: &mut dyn Write, number: usize) -> io::Result<()> {
    let message = format!("Change number {number}\n");
    writeln!(stream, "commit refs/heads/main")?;
    writeln!(stream, "committer Ada <ada@example.com> {} +0000", 1_300_000_000 + number * 10_000)?;
    write!(stream, "data {}\n{message}", message.len())
}

fn put(stream: &mut dyn Write, path: &str, text: &str) -> io::Result<()> {
    writeln!(stream, "M 100644 inline {path}\ndata {}\n{text}", text.len())
}

/// Made-up code.
struct Words {
    state: u64,
    vocabulary: Vec<String>,
}

impl Words {
    fn new() -> Self {
        let mut words = Self { state: 0, vocabulary: Vec::new() };
        let vocabulary = (0..3_000).map(|_| {
            let length = 3 + words.below(8);
            (0..length).map(|_| char::from(b'a' + words.below(26) as u8)).collect()
        });
        words.vocabulary = vocabulary.collect();
        words
    }

    /// The next number of a SplitMix64 sequence, below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }

    fn paragraph(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..LINES {
            let chosen: [usize; 4] = std::array::from_fn(|_| self.below(self.vocabulary.len()));
            let [to, object, method, argument] = chosen.map(|word| self.vocabulary[word].as_str());
            text.push_str(&format!("    {to} = {object}.{method}({argument})\n"));
        }
        text
    }
}
