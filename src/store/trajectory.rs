//! An agent's trajectory: a file that only grows, line by line.
//!
//! A line counts once its newline is there. Whatever stands behind the last newline was being written when
//! the process ended; it is cut off when the file is opened, and after a write that failed.
//!
//! One line at a time is held in memory, and its length is limited: a file may have come with a folder that
//! somebody else made.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};

use crate::method::ports::{Opening, StoreError, Turn};

use super::{
    file_error,
    regular::{open_own, too_large},
};

/// Largest trajectory, in bytes. Long runs have some ten million.
const MAX_BYTES: u64 = 1 << 30;
/// Longest line, in bytes: twice the longest reply that is taken from a model (16 MiB), since a turn holds two
/// at most.
const MAX_LINE_BYTES: u64 = 32 << 20;
/// Most lines. An agent may be given 100,000 steps, and has few turns that are none.
const MAX_LINES: usize = 200_000;

/// An open trajectory file.
pub struct Trajectory {
    path: PathBuf,
    file: File,
    /// Where each whole line ends, its newline included; the opening's first.
    ends: Vec<u64>,
}

impl Trajectory {
    /// `None` where there is no such file yet.
    pub fn find(path: &Path) -> Result<Option<Self>, StoreError> {
        let file = match open_own(path, OpenOptions::new().read(true).append(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file_error(path, format!("cannot be opened: {error}"))),
        };
        let (found, length) = Self::of(path, file)?;
        if found.end() < length {
            found.file.set_len(found.end()).map_err(|error| found.failed("cut back", &error))?;
        }
        Ok(Some(found))
    }

    /// An open file, to read it only: another process may be writing to it. `path` is what errors call it.
    pub fn look(path: &Path, file: File) -> Result<Self, StoreError> {
        Self::of(path, file).map(|(found, _)| found)
    }

    /// The file's whole lines, and its length with what stands behind them.
    fn of(path: &Path, file: File) -> Result<(Self, u64), StoreError> {
        let mut found = Self { path: path.to_owned(), file, ends: Vec::new() };
        let length = found.file.metadata().map_err(|error| found.failed("read", &error))?.len();
        if length > MAX_BYTES {
            return Err(found.failed("read", &too_large(length, MAX_BYTES)));
        }
        found.ends = ends(&found.file, length).map_err(|error| found.failed("read", &error))?;
        let starts = std::iter::once(&0).chain(&found.ends);
        let mut lines = (1..).zip(starts.zip(&found.ends));
        if let Some((line, _)) = lines.find(|(_, (start, end))| *end - *start > MAX_LINE_BYTES) {
            return Err(damaged(path, line, &format!("it has more than {MAX_LINE_BYTES} bytes")));
        }
        Ok((found, length))
    }

    /// A new file with its opening.
    pub fn create(path: &Path, opening: &Opening) -> Result<Self, StoreError> {
        let made = open_own(path, OpenOptions::new().read(true).append(true).create(true));
        let file = made.map_err(|error| file_error(path, format!("cannot be made: {error}")))?;
        let mut new = Self { path: path.to_owned(), file, ends: Vec::new() };
        new.start(opening)?;
        Ok(new)
    }

    /// Writes the opening; the file must still be empty.
    pub fn start(&mut self, opening: &Opening) -> Result<(), StoreError> {
        if !self.ends.is_empty() {
            return Err(file_error(&self.path, "already has an opening"));
        }
        self.append_line(opening)
    }

    /// `None` when the process ended while the opening was being written.
    pub fn opening(&self) -> Result<Option<Opening>, StoreError> {
        match self.ends.first() {
            Some(end) => parse(&self.path, 1, &self.read(0, *end)?).map(Some),
            None => Ok(None),
        }
    }

    /// The turns in order, each read when it is asked for.
    pub fn turns(&self) -> impl Iterator<Item = Result<Turn, StoreError>> {
        let lines = self.ends.windows(2).map(|ends| (ends[0], ends[1]));
        (1..).zip(lines).map(|(number, (start, end))| self.turn(number, start, end))
    }

    /// The turn of this number, in its place in the file.
    fn turn(&self, number: u32, start: u64, end: u64) -> Result<Turn, StoreError> {
        let line = number as usize + 1;
        let turn: Turn = parse(&self.path, line, &self.read(start, end - start)?)?;
        if turn.turn != number {
            let why = format!("it holds turn {} where turn {number} belongs", turn.turn);
            return Err(damaged(&self.path, line, &why));
        }
        Ok(turn)
    }

    /// Appends the turn that follows the last one.
    pub fn append(&mut self, turn: &Turn) -> Result<(), StoreError> {
        // The opening's line makes the number of lines the number of the next turn.
        let next = self.ends.len();
        if next == 0 || turn.turn as usize != next {
            let reason = format!("turn {} cannot be stored where turn {next} belongs", turn.turn);
            return Err(file_error(&self.path, reason));
        }
        self.append_line(turn)
    }

    /// Drops all turns after `last`: one call to the kernel, so there is no state in between.
    pub fn cut(&mut self, last: u32) -> Result<(), StoreError> {
        let lines = (last as usize + 1).min(self.ends.len());
        let Some(end) = lines.checked_sub(1).map(|line| self.ends[line]) else { return Ok(()) };
        self.file.set_len(end).map_err(|error| self.failed("cut back", &error))?;
        self.ends.truncate(lines);
        self.sync()
    }

    /// Brings everything to the disk.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|error| self.failed("synced to the disk", &error))
    }

    fn append_line(&mut self, value: &impl Serialize) -> Result<(), StoreError> {
        let mut line = serde_json::to_vec(value).map_err(|error| self.failed("encoded", &error))?;
        line.push(b'\n');
        if let Err(error) = self.file.write_all(&line) {
            // What was written of the line, if anything, must not stand in front of the next one. Should
            // this fail too, the half line is refused as damage on the next open.
            let _ = self.file.set_len(self.end());
            return Err(self.failed("written", &error));
        }
        self.ends.push(self.end() + line.len() as u64);
        Ok(())
    }

    fn end(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn read(&self, from: u64, length: u64) -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, from).map_err(|error| self.failed("read", &error))?;
        Ok(bytes)
    }

    fn failed(&self, what: &str, error: &dyn std::fmt::Display) -> StoreError {
        file_error(&self.path, format!("cannot be {what}: {error}"))
    }
}

/// Where the whole lines in the first `length` bytes of a file end.
fn ends(file: &File, length: u64) -> io::Result<Vec<u64>> {
    let mut reader = BufReader::with_capacity(64 << 10, file.take(length));
    let (mut ends, mut at) = (Vec::new(), 0);
    loop {
        let part = reader.fill_buf()?;
        if part.is_empty() {
            return Ok(ends);
        }
        ends.extend(memchr::memchr_iter(b'\n', part).map(|newline| at + newline as u64 + 1));
        if ends.len() > MAX_LINES {
            let text = format!("it has more than {MAX_LINES} lines");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let length = part.len();
        at += length as u64;
        reader.consume(length);
    }
}

fn parse<T: DeserializeOwned>(path: &Path, line: usize, text: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(text).map_err(|error| damaged(path, line, &error.to_string()))
}

fn damaged(path: &Path, line: usize, why: &str) -> StoreError {
    let what_to_do = if line == 1 {
        "delete the file to run this agent anew".to_owned()
    } else {
        format!("delete line {line} and all after it to go on from turn {}", line - 2)
    };
    file_error(path, format!("line {line} is damaged ({why}); {what_to_do}, or start a new run"))
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::store::examples::{example_opening as opening, example_turn as turn};

    fn numbered(texts: &[String]) -> Vec<Turn> {
        texts.iter().zip(1..).map(|(text, number)| turn(number, text)).collect()
    }

    impl Trajectory {
        fn turns_read(&self) -> Vec<Turn> {
            self.turns().collect::<Result<_, _>>().unwrap()
        }
    }

    fn written(path: &Path, turns: &[Turn]) -> Trajectory {
        let mut trajectory = Trajectory::create(path, &opening()).unwrap();
        turns.iter().for_each(|turn| trajectory.append(turn).unwrap());
        trajectory
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(6))]

        /// A process may die after any byte. What is left must be the first turns, whole, and must go on.
        #[test]
        fn a_kill_at_any_byte_leaves_a_prefix_that_goes_on(texts in vec("(?s).{0,12}", 0..4)) {
            let folder = tempfile::tempdir().unwrap();
            let turns = numbered(&texts);
            let whole = folder.path().join("whole.jsonl");
            written(&whole, &turns);
            let bytes = std::fs::read(&whole).unwrap();
            let killed = folder.path().join("killed.jsonl");
            let mut seen = 0;
            for end in 0..=bytes.len() {
                std::fs::write(&killed, &bytes[..end]).unwrap();
                let mut left = Trajectory::find(&killed).unwrap().unwrap();
                if left.opening().unwrap().is_none() {
                    prop_assert!(left.turns_read().is_empty());
                    left.start(&opening()).unwrap();
                }
                let found = left.turns_read();
                prop_assert_eq!(&found[..], &turns[..found.len()]);
                prop_assert!(found.len() >= seen, "a longer file holds fewer turns");
                seen = found.len();
                left.append(&turn(seen as u32 + 1, "goes on")).unwrap();
                prop_assert_eq!(Trajectory::find(&killed).unwrap().unwrap().turns_read().len(), seen + 1);
            }
            prop_assert_eq!(seen, turns.len());
        }
    }

    #[test]
    fn a_cut_drops_the_turns_after_it_and_the_file_goes_on_from_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let mut trajectory = written(&path, &numbered(&["a", "b", "c"].map(String::from)));
        trajectory.cut(7).unwrap();
        assert_eq!(trajectory.turns_read().len(), 3);
        trajectory.cut(1).unwrap();
        trajectory.append(&turn(2, "B")).unwrap();
        let left = Trajectory::find(&path).unwrap().unwrap();
        assert_eq!(left.turns_read(), [turn(1, "a"), turn(2, "B")]);
        assert_eq!(left.opening().unwrap(), Some(opening()));
        trajectory.cut(0).unwrap();
        assert!(Trajectory::find(&path).unwrap().unwrap().turns_read().is_empty());
    }

    #[test]
    fn turns_out_of_order_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut trajectory = written(&folder.path().join("a.jsonl"), &[turn(1, "a")]);
        for number in [0, 1, 3] {
            assert!(trajectory.append(&turn(number, "x")).is_err(), "turn {number} was taken");
        }
        assert!(trajectory.start(&opening()).is_err());
        assert_eq!(trajectory.turns_read(), [turn(1, "a")]);
    }

    #[test]
    fn damage_is_told_with_file_line_and_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resolver.jsonl");
        written(&path, &numbered(&["a", "b", "c"].map(String::from)));
        let good = std::fs::read_to_string(&path).unwrap();
        let told = |text: String| {
            std::fs::write(&path, text).unwrap();
            let left = Trajectory::find(&path).unwrap().unwrap();
            let error =
                left.opening().err().or(left.turns().find_map(Result::err)).expect("the damage was not seen");
            error.to_string().replace(folder.path().to_str().unwrap(), "DIR")
        };
        let lines: Vec<&str> = good.lines().collect();
        insta::assert_snapshot!(told(good.replace(lines[2], "{\"turn\":2")), @"run state: DIR/resolver.jsonl: line 3 is damaged (EOF while parsing an object at line 2 column 0); delete line 3 and all after it to go on from turn 1, or start a new run");
        insta::assert_snapshot!(told(good.replace(&format!("{}\n", lines[2]), "")), @"run state: DIR/resolver.jsonl: line 3 is damaged (it holds turn 3 where turn 2 belongs); delete line 3 and all after it to go on from turn 1, or start a new run");
        insta::assert_snapshot!(told(good.replace(lines[0], "\0\0")), @"run state: DIR/resolver.jsonl: line 1 is damaged (expected value at line 1 column 1); delete the file to run this agent anew, or start a new run");
    }

    #[test]
    fn what_no_run_has_written_is_refused_before_it_is_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resolver.jsonl");
        let told = |change: &dyn Fn(&mut File)| {
            let _ = std::fs::remove_file(&path);
            written(&path, &[turn(1, "a")]);
            change(&mut OpenOptions::new().append(true).open(&path).unwrap());
            let error = Trajectory::find(&path).err().expect("it was taken").to_string();
            error.replace(folder.path().to_str().unwrap(), "DIR")
        };
        insta::assert_snapshot!(told(&|file| file.set_len(20 << 30).unwrap()), @"run state: DIR/resolver.jsonl: cannot be read: it has 21474836480 bytes, more than the 1073741824 that are read");
        insta::assert_snapshot!(told(&|file| {
            file.set_len(MAX_LINE_BYTES + 2_000).unwrap();
            file.write_all(b"\n").unwrap();
        }), @"run state: DIR/resolver.jsonl: line 3 is damaged (it has more than 33554432 bytes); delete line 3 and all after it to go on from turn 1, or start a new run");
        insta::assert_snapshot!(told(&|file| file.write_all(&vec![b'\n'; MAX_LINES]).unwrap()), @"run state: DIR/resolver.jsonl: cannot be read: it has more than 200000 lines");
    }

    #[test]
    fn a_link_is_neither_read_nor_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a.jsonl"), folder.path().join("other"));
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(Trajectory::create(&path, &opening()).is_err());
        assert!(!other.exists());
        std::fs::write(&other, "half a line").unwrap();
        assert!(Trajectory::find(&path).is_err());
        assert_eq!(std::fs::read(&other).unwrap(), b"half a line", "it was cut back");
    }

    #[test]
    fn a_write_that_fails_leaves_no_half_line() {
        // A file opened for reading only stands in for a full disk: the write fails, the length stays.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let mut trajectory = written(&path, &[turn(1, "a")]);
        trajectory.file = File::open(&path).unwrap();
        let error = trajectory.append(&turn(2, "b")).unwrap_err().to_string();
        assert!(error.contains("cannot be written"), "{error}");
        assert_eq!(trajectory.turns_read(), [turn(1, "a")]);
    }
}
