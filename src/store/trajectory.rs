//! An agent's trajectory: a file that only grows, line by line.
//!
//! A line counts once its newline is there. Whatever stands behind the last newline was being written when
//! the process ended; it is cut off when the file is opened, and after a write that failed.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};

use crate::method::ports::{Opening, StoreError, Turn};

use super::{file_error, open_regular};

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
        let Some((found, length)) = Self::open(path, OpenOptions::new().read(true).append(true))? else {
            return Ok(None);
        };
        if found.end() < length {
            found.file.set_len(found.end()).map_err(|error| found.failed("cut back", &error))?;
        }
        Ok(Some(found))
    }

    /// Opens a file to read it only: another process may be writing to it. `None` where there is no such file.
    pub fn look(path: &Path) -> Result<Option<Self>, StoreError> {
        Ok(Self::open(path, OpenOptions::new().read(true))?.map(|(found, _)| found))
    }

    /// The file's whole lines, and its length with what stands behind them.
    fn open(path: &Path, options: &mut OpenOptions) -> Result<Option<(Self, u64)>, StoreError> {
        let file = match open_regular(path, options) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file_error(path, format!("cannot be opened: {error}"))),
        };
        let mut found = Self { path: path.to_owned(), file, ends: Vec::new() };
        let length = found.file.metadata().map_err(|error| found.failed("read", &error))?.len();
        let bytes = found.read(0, length)?;
        found.ends = bytes
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'\n')
            .map(|(at, _)| at as u64 + 1)
            .collect();
        Ok(Some((found, length)))
    }

    /// A new file with its opening.
    pub fn create(path: &Path, opening: &Opening) -> Result<Self, StoreError> {
        let made = OpenOptions::new().read(true).append(true).create(true).open(path);
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

    pub fn turns(&self) -> Result<Vec<Turn>, StoreError> {
        let Some(start) = self.ends.first() else { return Ok(Vec::new()) };
        let bytes = self.read(*start, self.end() - start)?;
        let mut turns = Vec::with_capacity(self.ends.len() - 1);
        for (line, text) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let expected = line as u32 + 1;
            let turn: Turn = parse(&self.path, line + 2, text)?;
            if turn.turn != expected {
                return Err(damaged(
                    &self.path,
                    line + 2,
                    &format!("it holds turn {} where turn {expected} belongs", turn.turn),
                ));
            }
            turns.push(turn);
        }
        Ok(turns)
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
                    prop_assert!(left.turns().unwrap().is_empty());
                    left.start(&opening()).unwrap();
                }
                let found = left.turns().unwrap();
                prop_assert_eq!(&found[..], &turns[..found.len()]);
                prop_assert!(found.len() >= seen, "a longer file holds fewer turns");
                seen = found.len();
                left.append(&turn(seen as u32 + 1, "goes on")).unwrap();
                prop_assert_eq!(Trajectory::find(&killed).unwrap().unwrap().turns().unwrap().len(), seen + 1);
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
        assert_eq!(trajectory.turns().unwrap().len(), 3);
        trajectory.cut(1).unwrap();
        trajectory.append(&turn(2, "B")).unwrap();
        let left = Trajectory::find(&path).unwrap().unwrap();
        assert_eq!(left.turns().unwrap(), [turn(1, "a"), turn(2, "B")]);
        assert_eq!(left.opening().unwrap(), Some(opening()));
        trajectory.cut(0).unwrap();
        assert!(Trajectory::find(&path).unwrap().unwrap().turns().unwrap().is_empty());
    }

    #[test]
    fn turns_out_of_order_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut trajectory = written(&folder.path().join("a.jsonl"), &[turn(1, "a")]);
        for number in [0, 1, 3] {
            assert!(trajectory.append(&turn(number, "x")).is_err(), "turn {number} was taken");
        }
        assert!(trajectory.start(&opening()).is_err());
        assert_eq!(trajectory.turns().unwrap(), [turn(1, "a")]);
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
            let error = left.opening().err().or(left.turns().err()).expect("the damage was not seen");
            error.to_string().replace(folder.path().to_str().unwrap(), "DIR")
        };
        let lines: Vec<&str> = good.lines().collect();
        insta::assert_snapshot!(told(good.replace(lines[2], "{\"turn\":2")), @"run state: DIR/resolver.jsonl: line 3 is damaged (EOF while parsing an object at line 2 column 0); delete line 3 and all after it to go on from turn 1, or start a new run");
        insta::assert_snapshot!(told(good.replace(&format!("{}\n", lines[2]), "")), @"run state: DIR/resolver.jsonl: line 3 is damaged (it holds turn 3 where turn 2 belongs); delete line 3 and all after it to go on from turn 1, or start a new run");
        insta::assert_snapshot!(told(good.replace(lines[0], "\0\0")), @"run state: DIR/resolver.jsonl: line 1 is damaged (expected value at line 1 column 1); delete the file to run this agent anew, or start a new run");
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
        assert_eq!(trajectory.turns().unwrap(), [turn(1, "a")]);
    }
}
