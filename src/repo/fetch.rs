//! One fetch over http into a mirror.

use std::{collections::HashMap, fs, num::NonZeroU16, path::Path, sync::Arc};

use git2::{AutotagOption, Direction, FetchOptions, Oid, RemoteCallbacks, RemoteRedirect, Repository};
use url::Url;

use super::{
    engine::{git_error, io_error},
    history,
    kept_packs::packs_in,
    store::Store,
    transport::Session,
};
use crate::method::ports::SourceError;

/// What the server says of its HEAD.
pub(super) struct Fetched {
    pub head: Option<Oid>,
    /// Full name of the reference that HEAD is, such as `refs/heads/main`.
    pub default_branch: Option<String>,
}

/// Brings branches and tags of the mirror to what the server has. Only called under the mirror's lock.
pub(super) fn fetch(
    store: &Store,
    url: &Url,
    session: &Arc<Session>,
    depth: Option<NonZeroU16>,
) -> Result<Fetched, SourceError> {
    let fetching = git_error("fetching");
    let repository = store.repository()?;
    let mut remote = repository.remote_anonymous(url.as_str()).map_err(&fetching)?;
    let packs_dir = store.dir().join("objects/pack");
    remove_leftovers(&packs_dir)?;
    let packs = || packs_in(&packs_dir);
    let is_new = packs()?.is_empty();
    let mut trunk_packs = None;
    let fetched = session.run(
        || {
            let mut connection = remote.connect_auth(Direction::Fetch, Some(RemoteCallbacks::new()), None)?;
            let default_branch =
                connection.default_branch().ok().and_then(|b| b.as_str().ok().map(str::to_owned));
            let advertised: Vec<(String, Oid)> =
                connection.list()?.iter().map(|head| (head.name().to_owned(), head.oid())).collect();
            let head = advertised.iter().find(|(name, _)| name == "HEAD").map(|(_, id)| *id);
            let is_current = forget_others(&repository, &advertised)?;
            let fetched = Fetched { head, default_branch };
            if is_current {
                return Ok(fetched);
            }
            // The default branch first and alone: what a server sends then is that branch's history exactly,
            // which saves packing it again for agents.
            let trunk = fetched.default_branch.as_ref().filter(|_| is_new);
            if let Some(trunk) = trunk {
                download(connection.remote(), &[&format!("+{trunk}:{trunk}")], session, depth)?;
                drop(connection);
                trunk_packs = packs().ok();
                download(&mut remote, &ALL, session, depth)?;
            } else {
                download(connection.remote(), &ALL, session, depth)?;
            }
            repository.refdb_compress()?;
            Ok(fetched)
        },
        fetching,
    )?;
    if let (Some(packs), Some(head)) = (trunk_packs, fetched.head) {
        history::adopt(store, head, &packs)?;
    }
    Ok(fetched)
}

const ALL: [&str; 2] = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];

fn download(
    remote: &mut git2::Remote<'_>,
    what: &[&str],
    session: &Session,
    depth: Option<NonZeroU16>,
) -> Result<(), git2::Error> {
    let mut callbacks = RemoteCallbacks::new();
    callbacks.transfer_progress(|_| session.may_go_on());
    let mut options = FetchOptions::new();
    options
        .remote_callbacks(callbacks)
        .download_tags(AutotagOption::None)
        .update_fetchhead(false)
        .follow_redirects(RemoteRedirect::None);
    if let Some(depth) = depth {
        options.depth(depth.get().into());
    }
    remote.fetch(what, Some(&mut options), None)
}

/// Deletes branches and tags that the server has no more, before new ones arrive whose names would collide
/// with them (`a` and `a/b`). Says whether nothing is left to fetch.
fn forget_others(repository: &Repository, advertised: &[(String, Oid)]) -> Result<bool, git2::Error> {
    let wanted: HashMap<&str, Oid> = advertised
        .iter()
        .filter(|(name, _)| is_branch_or_tag(name) && !name.ends_with("^{}"))
        .map(|(name, id)| (name.as_str(), *id))
        .collect();
    let mut current = 0;
    for reference in repository.references()? {
        let mut reference = reference?;
        let known = reference.name().ok().and_then(|name| wanted.get(name));
        match (known, reference.target()) {
            (Some(id), Some(target)) if *id == target => current += 1,
            (Some(_), _) => {}
            (None, _) => reference.delete()?,
        }
    }
    Ok(current == wanted.len())
}

fn is_branch_or_tag(name: &str) -> bool {
    name.starts_with("refs/heads/") || name.starts_with("refs/tags/")
}

/// Half-received packs of a fetch that was killed. Nobody else fetches now.
fn remove_leftovers(packs: &Path) -> Result<(), SourceError> {
    let cleaning = io_error("cleaning the mirror");
    for file in fs::read_dir(packs).map_err(&cleaning)? {
        let file = file.map_err(&cleaning)?;
        if file.file_name().to_string_lossy().starts_with("pack_git2_") {
            fs::remove_file(file.path()).map_err(&cleaning)?;
        }
    }
    Ok(())
}
