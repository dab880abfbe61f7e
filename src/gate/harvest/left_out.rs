//! The list of what is not taken, short enough to be read.

use std::collections::BTreeMap;

use crate::{domain::LeftOut, gate::shown};

/// More than this many of one reason in one folder are told as one.
const MANY: usize = 8;
/// More than this many folders of one name and reason, such as `__pycache__`, are told as one.
const MANY_FOLDERS: usize = 3;
/// Lines of the list.
const MAX_LINES: usize = 100;

/// A folder and how many files it holds.
type Folder = (Vec<u8>, usize);

/// Collects by folder and reason.
#[derive(Default)]
pub(super) struct LeftOuts {
    /// Whole folders, and how many files they hold.
    folders: BTreeMap<(Vec<u8>, &'static str), usize>,
    /// Single entries, by folder and reason.
    single: BTreeMap<(Vec<u8>, String), Vec<Vec<u8>>>,
}

impl LeftOuts {
    pub fn one(&mut self, path: &[u8], reason: &str) {
        let folder = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let key = (path[..folder].to_vec(), reason.to_owned());
        self.single.entry(key).or_default().push(path.to_vec());
    }

    /// Left out for being part of `top`, a folder above the path or the path itself.
    pub fn below(&mut self, top: &[u8], path: &[u8], reason: &'static str) {
        if top == path {
            return self.one(path, reason);
        }
        *self.folders.entry((top.to_vec(), reason)).or_default() += 1;
    }

    /// Sorted by path.
    pub fn into_list(self) -> Vec<LeftOut> {
        let many = |path: &str, count: usize| match count {
            1 => format!("{path} (1 file)"),
            _ => format!("{path} ({} files)", shown::number(count as u64)),
        };
        let mut list: Vec<LeftOut> = Vec::new();
        let mut alike: BTreeMap<(Vec<u8>, &'static str), Vec<Folder>> = BTreeMap::new();
        for ((folder, reason), count) in self.folders {
            let name = folder.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
            alike.entry((name, reason)).or_default().push((folder, count));
        }
        for ((name, reason), folders) in alike {
            if folders.len() > MANY_FOLDERS {
                let files = folders.iter().map(|(_, count)| count).sum::<usize>();
                let (places, files) = (shown::number(folders.len() as u64), shown::number(files as u64));
                let path = format!("{}/ in {places} folders ({files} files)", shown::path(&name));
                list.push(LeftOut { path, reason: reason.to_owned() });
                continue;
            }
            for (folder, count) in folders {
                let path = many(&format!("{}/", shown::path(&folder)), count);
                list.push(LeftOut { path, reason: reason.to_owned() });
            }
        }
        for ((folder, reason), paths) in self.single {
            if paths.len() > MANY {
                list.push(LeftOut { path: many(&format!("{}*", shown::path(&folder)), paths.len()), reason });
            } else {
                let one = |path: Vec<u8>| LeftOut { path: shown::path(&path), reason: reason.clone() };
                list.extend(paths.into_iter().map(one));
            }
        }
        list.sort_by(|a, b| a.path.cmp(&b.path));
        if list.len() > MAX_LINES {
            let more = list.len() - MAX_LINES + 1;
            list.truncate(MAX_LINES - 1);
            let path = format!("… and {} more", shown::number(more as u64));
            list.push(LeftOut { path, reason: "various".to_owned() });
        }
        list
    }
}
