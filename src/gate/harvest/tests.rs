use proptest::prelude::*;

use super::*;

fn base(paths: &[&str]) -> Vec<TreeEntry> {
    let entry = |path: &&str| TreeEntry { path: path.as_bytes().to_vec(), mode: FileMode::Regular, size: 10 };
    paths.iter().map(entry).collect()
}

fn changed(path: impl AsRef<[u8]>) -> Listed {
    sized(path, 10)
}

fn sized(path: impl AsRef<[u8]>, size: u64) -> Listed {
    Listed { path: path.as_ref().to_vec(), kind: ListedKind::Changed { mode: FileMode::Regular, size } }
}

fn of_mode(path: &str, mode: FileMode) -> Listed {
    Listed { path: path.into(), kind: ListedKind::Changed { mode, size: 10 } }
}

fn removed(path: &str) -> Listed {
    Listed { path: path.into(), kind: ListedKind::Removed }
}

fn chosen(listed: &[Listed], base: &[TreeEntry]) -> Selection {
    select(listed, base, &[], &[], &HarvestLimits::default()).unwrap()
}

fn taken(selection: &Selection) -> Vec<&str> {
    selection.take.iter().map(|(path, ..)| path.as_str()).collect()
}

/// `path: reason` a line.
fn told(left_out: &[LeftOut]) -> String {
    left_out.iter().map(|one| format!("{}: {}\n", one.path, one.reason)).collect()
}

#[test]
fn s_21_only_files_and_within_limits() {
    let limits = HarvestLimits { file_bytes: 100, total_bytes: 150, entries: 3, depth: 3 };
    let listed = [
        Listed { path: b"pipe".to_vec(), kind: ListedKind::Special },
        sized("big", 101),
        sized("known", 5_000_000),
        changed("a/b/c"),
        changed("a/b/c2/d"),
    ];
    let selection = select(&listed, &base(&["known"]), &[], &[], &limits).unwrap();
    assert_eq!(taken(&selection), ["a/b/c"]);
    insta::assert_snapshot!(told(&selection.left_out), @"
    a/b/c2/d: it is nested more than 3 deep
    big: 101 bytes, more than the 100 bytes that a file may have
    known: 5.0 MB, more than the 100 bytes that a file may have
    pipe: a pipe, socket or device
    ");
    let error = |listed: &[Listed]| select(listed, &base(&["x", "y"]), &[], &[], &limits).unwrap_err();
    insta::assert_snapshot!(error(&[sized("a", 90), sized("b", 90)]), @"the changed files have 180 bytes, more than the 150 bytes that a patch may have");
    insta::assert_snapshot!(error(&["a", "b", "c", "d"].map(changed)), @"4 entries of the workspace changed, more than the 3 that a patch may have");
    let gone =
        select(&["c", "d", "e", "f"].map(removed), &base(&["a", "b", "c", "d", "e", "f"]), &[], &[], &limits);
    assert_eq!(gone, Err(HarvestError::TooManyEntries { count: 4, limit: 3 }));
    let mixed = select(
        &[changed("a"), changed("b"), removed("x"), removed("y")],
        &base(&["x", "y"]),
        &[],
        &[],
        &limits,
    );
    assert_eq!(mixed, Err(HarvestError::TooManyEntries { count: 4, limit: 3 }));
    insta::assert_snapshot!(error(&["x", "y"].map(removed)), @"every file of the repository was removed, and nothing put in its place");
    assert!(select(&[removed("x")], &base(&["x", "y"]), &[], &[], &limits).is_ok());
}

#[test]
fn s_22_bad_names_are_left_out_and_shown_escaped() {
    let listed: Vec<Listed> = [
        &b"/abs"[..],
        b"a\\..\\b",
        b"a/../b",
        b"caf\xe9.txt",
        b"new\nline",
        ".g\u{200c}it/config".as_bytes(),
        b"sub/.GIT/hooks/post-checkout",
        b"GIT~1",
        b"fine.txt",
    ]
    .map(changed)
    .to_vec();
    let selection = chosen(&listed, &[]);
    assert_eq!(taken(&selection), ["fine.txt"]);
    insta::assert_snapshot!(told(&selection.left_out), @r"
    .g\u{200c}it/config: a part of it is '.git' on some file system
    /abs: it must be relative
    GIT~1: a part of it is '.git' on some file system
    a/../b: it has a '.' or '..' part
    a\..\b: it has a backslash
    caf\xE9.txt: it is not UTF-8
    new\u{a}line: it has a control character
    sub/.GIT/hooks/post-checkout: a part of it is '.git' on some file system
    ");
}

#[test]
fn s_22_odd_names_of_the_base_stay_as_they_are_and_may_go() {
    let odd = [b"caf\xe9".to_vec(), b"a\\b".to_vec(), b"gone\xff".to_vec()];
    let base: Vec<TreeEntry> = odd
        .iter()
        .map(|path| TreeEntry { path: path.clone(), mode: FileMode::Regular, size: 1 })
        .chain(base(&["x"]))
        .collect();
    let listed =
        [changed(&odd[0]), Listed { path: odd[2].clone(), kind: ListedKind::Removed }, changed("new")];
    let selection = chosen(&listed, &base);
    assert_eq!(taken(&selection), ["new"]);
    assert_eq!(selection.removed, [odd[2].clone()]);
    insta::assert_snapshot!(told(&selection.left_out), @r"
    caf\xE9: it is not UTF-8
    ");
}

#[test]
fn s_22_no_new_name_collides_with_another_on_any_file_system() {
    let base = base(&["README", "src/lib.rs", "e\u{301}.txt", "Same", "same", "old/x"]);
    let listed =
        ["readme", "SRC/new.rs", "src/new.rs", "\u{e9}.txt", "Same2", "new/A", "new/a", "NEW/b", "sAme"]
            .map(changed);
    let selection = chosen(&listed, &base);
    assert_eq!(taken(&selection), ["NEW/b", "Same2", "src/new.rs"]);
    insta::assert_snapshot!(told(&selection.left_out), @"
    SRC/new.rs: its name differs from src only in case or Unicode form
    new/A: its name differs from NEW only in case or Unicode form
    new/a: its name differs from NEW only in case or Unicode form
    readme: its name differs from README only in case or Unicode form
    sAme: its name differs from Same only in case or Unicode form
    é.txt: its name differs from é.txt only in case or Unicode form
    ");
    // What the base has already may change.
    assert_eq!(taken(&chosen(&[changed("Same"), changed("same")], &base)), ["Same", "same"]);
}

#[test]
fn s_22_a_rename_that_changes_only_case_is_no_collision() {
    let base = base(&["README", "dir/a", "dir/b"]);
    let selection = chosen(&[removed("README"), changed("Readme")], &base);
    assert_eq!((taken(&selection), selection.removed.len()), (vec!["Readme"], 1));
    let listed = [removed("dir/a"), removed("dir/b"), changed("Dir/a"), changed("Dir/b")];
    assert_eq!(taken(&chosen(&listed, &base)), ["Dir/a", "Dir/b"]);
    assert_eq!(taken(&chosen(&listed[1..], &base)), Vec::<&str>::new(), "dir/a is still there");
}

#[test]
fn s_22_files_and_folders_change_places_only_when_the_old_one_goes() {
    let base = base(&["a", "b/c"]);
    let selection = chosen(&[removed("a"), changed("a/x"), removed("b/c"), changed("b")], &base);
    assert_eq!(taken(&selection), ["a/x", "b"]);
    let selection = chosen(&[changed("a/x"), changed("b")], &base);
    assert_eq!(taken(&selection), Vec::<&str>::new());
    insta::assert_snapshot!(told(&selection.left_out), @"
    a/x: a is a file
    b: there is a folder of this name
    ");
}

#[test]
fn s_23_a_git_folder_at_any_depth_is_passed_over() {
    let selection = chosen(&[".git/config", "sub/.git/HEAD", "sub/.gitignore"].map(changed), &[]);
    assert_eq!(taken(&selection), ["sub/.gitignore"]);
    assert_eq!(selection.left_out, []);
}

#[test]
fn s_24_modes_change_symbolic_links_do_not() {
    let base = base(&["run.sh", "link", "was-link"]);
    let listed = [
        of_mode("run.sh", FileMode::Executable),
        of_mode("link", FileMode::Symlink),
        of_mode("new-link", FileMode::Symlink),
        of_mode("was-link", FileMode::Regular),
    ];
    let selection = chosen(&listed, &base);
    assert_eq!(taken(&selection), ["run.sh", "was-link"]);
    assert_eq!(selection.take[0].1, FileMode::Executable);
    insta::assert_snapshot!(told(&selection.left_out), @"
    link: a changed symbolic link
    new-link: a new symbolic link
    ");
}

#[test]
fn s_24_a_folder_that_is_replaced_by_what_is_left_out_stays() {
    let base = base(&["src/calc.py", "src/deep/a.py", "src.txt", "other", "gone/x"]);
    let rest =
        [removed("src/calc.py"), removed("src/deep/a.py"), removed("gone/x"), changed("moved/calc.py")];
    let pipe = Listed { path: b"src".to_vec(), kind: ListedKind::Special };
    for new in [of_mode("src", FileMode::Symlink), pipe, sized("src", 11_000_000)] {
        let listed = [&[new][..], &rest].concat();
        let selection = chosen(&listed, &base);
        assert_eq!(taken(&selection), ["moved/calc.py"]);
        assert_eq!(selection.removed, [b"gone/x".to_vec()]);
        assert!(
            told(&selection.left_out)
                .ends_with("src/ (2 files): removed, but what stands in place of its folder is left out\n")
        );
    }
    let link = [&[of_mode("src", FileMode::Symlink)][..], &rest].concat();
    let by = |ignores: &[(RepoPath, Vec<u8>)], leave_out: &[String]| {
        select(&link, &base, ignores, leave_out, &HarvestLimits::default()).unwrap()
    };
    let (ignored, asked) = (by(&ignores(&[(".gitignore", "/src\n")]), &[]), by(&[], &["src".to_owned()]));
    assert_eq!((ignored.removed, asked.removed), (vec![b"gone/x".to_vec()], vec![b"gone/x".to_vec()]));
    assert_eq!(asked.kept, []);
    // A file in its place is a change like any other, and a link deeper down replaces only what was there.
    let selection = chosen(&[&[changed("src")][..], &rest].concat(), &base);
    assert_eq!((taken(&selection), selection.removed.len()), (vec!["moved/calc.py", "src"], 3));
    let selection = chosen(&[&[of_mode("src/deep", FileMode::Symlink)][..], &rest].concat(), &base);
    assert_eq!(selection.removed, [b"gone/x".to_vec(), b"src/calc.py".to_vec()]);
}

#[test]
fn s_22_what_stays_after_all_has_its_name() {
    let base = base(&["src/a", "x"]);
    let selection = chosen(&[of_mode("src", FileMode::Symlink), removed("src/a"), changed("SRC/b")], &base);
    assert_eq!((taken(&selection), selection.removed.len()), (vec![], 0));
    let selection = chosen(&[changed("src"), removed("src/a"), changed("SRC/b")], &base);
    assert_eq!((taken(&selection), selection.removed.len()), (vec![], 0));
    insta::assert_snapshot!(told(&selection.left_out), @"
    SRC/b: its name differs from src only in case or Unicode form
    src: there is a folder of this name
    src/ (1 file): removed, but what stands in place of its folder is left out
    ");
}

fn ignores(files: &[(&str, &str)]) -> Vec<(RepoPath, Vec<u8>)> {
    files.iter().map(|(path, text)| (RepoPath::parse(path).unwrap(), text.as_bytes().to_vec())).collect()
}

#[test]
fn s_26_new_files_that_the_base_ignores_are_left_out() {
    let ignores = ignores(&[
        (".gitignore", "*.log\n/build/\n!keep.log\n[bad\nnested/*.tmp\n"),
        ("sub/.gitignore", "!deep.log\nlocal.txt\n/only-here\n"),
    ]);
    let listed = [
        "a.log",
        "keep.log",
        "build/x",
        "build/keep.log",
        "sub/build/x",
        "sub/deep.log",
        "sub/other.log",
        "sub/local.txt",
        "local.txt",
        "sub/only-here",
        "sub/x/only-here",
        "nested/a.tmp",
        "tracked.log",
        "notes.txt",
    ]
    .map(changed);
    let selection =
        select(&listed, &base(&["tracked.log"]), &ignores, &[], &HarvestLimits::default()).unwrap();
    assert_eq!(
        taken(&selection),
        [
            "keep.log",
            "local.txt",
            "notes.txt",
            "sub/build/x",
            "sub/deep.log",
            "sub/x/only-here",
            "tracked.log"
        ]
    );
    insta::assert_snapshot!(told(&selection.left_out), @"
    a.log: ignored by the repository's .gitignore
    build/ (2 files): ignored by the repository's .gitignore
    nested/a.tmp: ignored by the repository's .gitignore
    sub/local.txt: ignored by the repository's .gitignore
    sub/only-here: ignored by the repository's .gitignore
    sub/other.log: ignored by the repository's .gitignore
    ");
}

#[test]
fn s_26_caches_are_left_out_and_told_in_one_line_a_folder() {
    let mut listed: Vec<Listed> = (0..214).map(|n| changed(format!("pkg/__pycache__/m{n}.pyc"))).collect();
    listed.extend((0..3_000).map(|n| of_mode(&format!("node_modules/.bin/t{n}"), FileMode::Symlink)));
    listed.extend((0..20).map(|n| changed(format!("pkg/stray{n}.pyc"))));
    listed.extend([".pytest_cache/v/x", "lib.egg-info/PKG-INFO", "pkg/.DS_Store", "pkg/mod.py"].map(changed));
    listed.extend((0..10).map(|n| Listed { path: format!("p{n}").into(), kind: ListedKind::Special }));
    let selection = chosen(&listed, &[]);
    assert_eq!(taken(&selection), ["pkg/mod.py"]);
    insta::assert_snapshot!(told(&selection.left_out), @"
    * (10 files): a pipe, socket or device
    .pytest_cache/ (1 file): a cache or left-over of a tool
    lib.egg-info/ (1 file): a cache or left-over of a tool
    node_modules/ (3,000 files): a cache or left-over of a tool
    pkg/* (21 files): a cache or left-over of a tool
    pkg/__pycache__/ (214 files): a cache or left-over of a tool
    ");
}

#[test]
fn s_26_the_same_cache_all_over_the_tree_is_one_line() {
    let listed: Vec<Listed> = (0..30).map(|n| changed(format!("p{}/__pycache__/m{n}.pyc", n % 5))).collect();
    let told = told(&chosen(&listed, &[]).left_out);
    assert_eq!(told.trim(), "__pycache__/ in 5 folders (30 files): a cache or left-over of a tool");
}

#[test]
fn s_26_a_cache_that_the_base_has_files_in_is_part_of_the_project() {
    let base = base(&["web/node_modules/vendored/index.js"]);
    let selection = chosen(&["web/node_modules/vendored/new.js", "node_modules/x"].map(changed), &base);
    assert_eq!(taken(&selection), ["web/node_modules/vendored/new.js"]);
}

#[test]
fn s_26_the_resolver_can_leave_out_new_files_and_nothing_else() {
    let base = base(&["src/a.py", "src/b.py", "README"]);
    let listed = [
        changed("src/a.py"),
        removed("src/b.py"),
        changed("src/new.py"),
        changed("src2"),
        changed("repro.py"),
    ];
    let leave_out = ["./repro.py", "/workspace/src/", "README", "no-such", "", "."].map(str::to_owned);
    let selection = select(&listed, &base, &[], &leave_out, &HarvestLimits::default()).unwrap();
    assert_eq!(taken(&selection), ["src/a.py", "src2"]);
    assert_eq!(selection.removed, [b"src/b.py".to_vec()]);
    insta::assert_snapshot!(told(&selection.left_out), @"
    repro.py: the agent left it out
    src/new.py: the agent left it out
    ");
    insta::assert_snapshot!(told(&selection.kept), @"src: only new files can be left out; 2 changes in it are part of the patch");
}

#[test]
fn s_26_a_list_without_end_is_cut() {
    let listed: Vec<Listed> = (0..2_000).map(|n| of_mode(&format!("d{n}/link"), FileMode::Symlink)).collect();
    let left_out = chosen(&listed, &[]).left_out;
    assert_eq!(left_out.len(), 100);
    assert_eq!(left_out[99].path, "… and 1,901 more");
}

#[test]
fn removals_of_what_the_base_does_not_have_are_nothing() {
    assert_eq!(chosen(&[removed("never-there")], &base(&["x"])), Selection::default());
}

proptest! {
    #[test]
    fn s_22_what_is_taken_fits_into_any_file_system(
        base_paths in prop::collection::hash_set("[ab]{1,2}(/[aé]{1,2}){0,2}", 0..6),
        paths in prop::collection::vec("[aAbB]{1,2}(/[aAé.]{1,2}){0,2}", 0..12),
        links in prop::collection::vec("[ab]{1,2}(/[aé]{1,2})?", 0..3),
        gone in prop::collection::vec(any::<bool>(), 6),
    ) {
        // A tree: no file is a folder too.
        let is_folder = |path: &String| base_paths.iter().any(|other| other.starts_with(&format!("{path}/")));
        let base_paths: Vec<&str> =
            base_paths.iter().filter(|path| !is_folder(path)).map(String::as_str).collect();
        let mut listed: Vec<Listed> = paths.iter().map(changed).collect();
        let gone = base_paths.iter().zip(gone).filter(|(_, gone)| *gone);
        listed.extend(gone.map(|(path, _)| removed(path)));
        listed.extend(links.iter().map(|path| of_mode(path, FileMode::Symlink)));
        let selection = select(&listed, &base(&base_paths), &[], &[], &HarvestLimits::default());
        let Ok(selection) = selection else { return Ok(()) };
        let mut tree: Vec<&str> =
            base_paths.into_iter().filter(|path| !selection.removed.contains(&path.as_bytes().to_vec())).collect();
        let new: Vec<&str> = taken(&selection).into_iter().filter(|path| !tree.contains(path)).collect();
        tree.extend(new);
        let keys: Vec<String> = tree.iter().map(|path| RepoPath::parse(path).unwrap().folded()).collect();
        for (at, key) in keys.iter().enumerate() {
            for other in &keys[at + 1..] {
                let inside = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.starts_with('/'));
                prop_assert!(key != other && !inside(key, other) && !inside(other, key), "{:?}", tree);
            }
        }
    }
}
