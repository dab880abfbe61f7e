//! What an answer's prose names is looked up too: paths, lines and identifiers in code spans.

use std::{collections::BTreeSet, sync::Arc};

use tokio::sync::mpsc;

use crate::{
    gate::prose::{Named, named_artifacts},
    method::ports::{SourceError, SourceTree, TreeEntry},
};

/// Text files up to this size are searched for identifiers, in bytes.
const MAX_FILE_BYTES: usize = 2 * 1024 * 1024;

/// Everything that `text` names but neither the commit nor `given` has, as the text writes it, sorted.
/// `given` is what the Answerer was handed: an answer may speak of what the issue speaks of.
pub async fn missing(text: &str, given: &str, tree: Arc<dyn SourceTree>) -> Result<Vec<String>, SourceError> {
    let mut missing = BTreeSet::new();
    let mut names: Vec<(String, Vec<String>)> = Vec::new();
    let entries = tree.entries().await?;
    for named in named_artifacts(text) {
        let shown = named.to_string();
        if given.contains(&shown) {
            continue;
        }
        let holds = match named {
            Named::Path(path) => path_holds(&path, None, &entries, &*tree).await?,
            Named::Lines { path, last, .. } => path_holds(&path, Some(last), &entries, &*tree).await?,
            Named::Identifier(name) => {
                let words = name.split([':', '.', '#', '-', '>']).filter(|w| !w.is_empty());
                names.push((shown, words.map(str::to_owned).collect()));
                continue;
            }
        };
        if !holds {
            missing.insert(shown);
        }
    }
    let words = names.iter().flat_map(|(_, words)| words).cloned().collect();
    let absent = absent_words(words, tree).await?;
    let unknown = names
        .into_iter()
        .filter(|(_, words)| words.iter().any(|w| absent.contains(w) && !has_word(given.as_bytes(), w)));
    missing.extend(unknown.map(|(shown, _)| shown));
    Ok(missing.into_iter().collect())
}

/// A path holds when it, or a path that ends with it, is a file or folder; a line when the file has it.
async fn path_holds(
    path: &str,
    line: Option<u32>,
    entries: &[TreeEntry],
    tree: &dyn SourceTree,
) -> Result<bool, SourceError> {
    let wanted =
        path.trim_start_matches("./").trim_start_matches("/workspace/").trim_end_matches('/').as_bytes();
    if wanted.is_empty() || wanted == b"/workspace" {
        return Ok(true);
    }
    let mut suffix = vec![b'/'];
    suffix.extend_from_slice(wanted);
    let is_file = |e: &&TreeEntry| e.path == wanted || e.path.ends_with(&suffix);
    let Some(line) = line else {
        let mut infix = suffix.clone();
        infix.push(b'/');
        let is_folder = |e: &TreeEntry| {
            e.path.starts_with(&infix[1..]) || e.path.windows(infix.len()).any(|part| part == infix)
        };
        return Ok(entries.iter().any(|e| is_file(&e) || is_folder(e)));
    };
    for entry in entries.iter().filter(is_file) {
        let Ok(path) = crate::domain::RepoPath::from_bytes(&entry.path) else { continue };
        if let Ok(Some(bytes)) = tree.read(&path, MAX_FILE_BYTES as u64).await
            && String::from_utf8_lossy(&bytes).lines().count() >= line as usize
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Those of `words` that stand as a whole word in no file and no path of the commit.
async fn absent_words(
    words: BTreeSet<String>,
    tree: Arc<dyn SourceTree>,
) -> Result<BTreeSet<String>, SourceError> {
    if words.is_empty() {
        return Ok(words);
    }
    let (send, mut files) = mpsc::channel(16);
    let producer = tokio::spawn(async move { tree.stream_files(send).await });
    let search = tokio::task::spawn_blocking(move || {
        let mut absent = words;
        while let Some(file) = files.blocking_recv() {
            absent.retain(|word| !has_word(&file.path, word));
            if file.content.len() <= MAX_FILE_BYTES {
                absent.retain(|word| !has_word(&file.content, word));
            }
            if absent.is_empty() {
                // Dropping the receiver ends the producer.
                break;
            }
        }
        absent
    });
    let absent =
        search.await.map_err(|e| SourceError::Git(format!("the search for identifiers ended: {e}")))?;
    match producer.await {
        // An early end of the search closes the channel under the producer: no failure of the source.
        Ok(Err(error)) if !absent.is_empty() => Err(error),
        _ => Ok(absent),
    }
}

fn has_word(text: &[u8], word: &str) -> bool {
    let is_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_' || *b >= 0x80;
    memchr::memmem::find_iter(text, word.as_bytes()).any(|at| {
        let before = at.checked_sub(1).and_then(|i| text.get(i));
        let after = text.get(at + word.len());
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}
