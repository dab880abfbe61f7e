//! Finds the settings file, lays variables over it, and turns what the libraries say into our words.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use figment::{
    Figment, Metadata, Profile, Provider,
    providers::{Format, Serialized, Toml},
    value::{Dict, Map, Value},
};

use super::{ConfigError, Settings, check::check, explain::Explainer};

const PREFIX: &str = "ACQUIRE_";

/// A settings file larger than this is none.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Keys whose variables are taken as text even where they look like a number, such as a key of digits.
const TEXT_KEYS: [&str; 11] = [
    "protocol",
    "name",
    "base_url",
    "api_key_env",
    "api_key",
    "tools",
    "kind",
    "image",
    "host",
    "cache",
    "runs",
];

/// What the process was started in, as values.
#[derive(Debug, Clone)]
pub struct Environment {
    pub working_folder: PathBuf,
    variables: BTreeMap<OsString, OsString>,
}

impl Environment {
    pub fn new(
        working_folder: PathBuf,
        variables: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
    ) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { working_folder, variables }
    }

    /// # Errors
    /// When the working folder was removed meanwhile, or may not be read.
    pub fn of_process() -> io::Result<Self> {
        let folder = std::env::current_dir().map_err(|error| {
            let text = format!("the current folder cannot be found: {error}. Change to another one");
            io::Error::new(error.kind(), text)
        })?;
        Ok(Self::new(folder, std::env::vars_os()))
    }

    /// `None` where it is not set or not UTF-8.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(std::ffi::OsStr::new(name))?.to_str()
    }

    /// The folder that an XDG variable names, or its usual place below the home folder. As the XDG
    /// specification asks, relative paths in the variable do not count.
    pub(super) fn home_folder(&self, variable: &str, usual: &str) -> Option<PathBuf> {
        let absolute = |name| self.variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        absolute(variable).or_else(|| Some(absolute("HOME")?.join(usual)))
    }
}

#[derive(Debug)]
pub struct Loaded {
    pub settings: Settings,
    /// The file that was read, if there is one.
    pub file: Option<PathBuf>,
}

/// Reads the settings: `named` is the file that `--config` names, which must be there. Else
/// `acquire.toml` in the working directory counts, or the one in the user's configuration folder; the former
/// is refused where it lies in a git repository.
pub fn load(named: Option<&Path>, environment: &Environment) -> Result<Loaded, ConfigError> {
    let mut figment = Figment::from(Serialized::defaults(Settings::default()));
    let known = known_keys(&figment);
    let file = find_file(named, environment)?;
    if let Some((path, text)) = &file {
        figment = figment.merge(Source { place: path.display().to_string(), values: parse(path, text)? });
    }
    for (name, value) in &environment.variables {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        let value = value.to_str().ok_or_else(|| ConfigError::NotText { name: name.to_owned() })?;
        // Empty is how scripts and compose files write "not set".
        if !value.is_empty() {
            figment = figment.merge(variable_source(name, value));
        }
    }
    let explainer = Explainer { figment: &figment, known: &known };
    let settings: Settings = figment.extract().map_err(|error| explainer.explain(&error))?;
    check(&settings).map_err(|wrong| ConfigError::WrongValue {
        place: explainer.place(&wrong.key),
        key: wrong.key,
        found: wrong.found,
        expected: wrong.expected,
    })?;
    Ok(Loaded { settings, file: file.map(|(path, _)| path) })
}

/// One place that settings come from, so that errors can name it.
struct Source {
    place: String,
    values: Dict,
}

impl Provider for Source {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.place.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Profile::Default.collect(self.values.clone()))
    }
}

fn variable_source(name: &str, value: &str) -> Source {
    let key = name[PREFIX.len()..].to_lowercase().replace("__", ".");
    let is_text = key.rsplit('.').next().is_some_and(|last| TEXT_KEYS.contains(&last));
    let value = if is_text {
        Value::from(value)
    } else {
        match value.parse() {
            Ok(value) => value,
            Err(never) => match never {},
        }
    };
    let parts = key.split('.').rev();
    let values = parts.fold(value, |value, part| Value::from(Dict::from([(part.to_owned(), value)])));
    let values = values.into_dict().unwrap_or_default();
    Source { place: format!("the variable {name}"), values }
}

fn find_file(
    named: Option<&Path>,
    environment: &Environment,
) -> Result<Option<(PathBuf, String)>, ConfigError> {
    if let Some(path) = named {
        let path = environment.working_folder.join(path);
        return match read(&path)? {
            Some(text) => Ok(Some((path, text))),
            None => Err(ConfigError::File { path, reason: "there is no such file".into() }),
        };
    }
    let local = environment.working_folder.join("acquire.toml");
    if let Some(text) = read(&local)? {
        return match repository_around(&local) {
            Some(repository) => Err(ConfigError::OfARepository { path: local, repository }),
            None => Ok(Some((local, text))),
        };
    }
    let users = environment.home_folder("XDG_CONFIG_HOME", ".config");
    let Some(users) = users.map(|base| base.join("acquire/acquire.toml")) else { return Ok(None) };
    Ok(read(&users)?.map(|text| (users, text)))
}

/// The git repository that a file lies in, as a link or as itself. Settings name the endpoint that gets the
/// key, and a file that came with a repository is a stranger's: it counts only when it is named. Which
/// repository is worked on does not matter, since it has many names (a folder, its `.git`, another work tree,
/// a URL) and a resumed run takes its own from elsewhere.
fn repository_around(file: &Path) -> Option<PathBuf> {
    let is_there = |path: PathBuf| path.symlink_metadata().is_ok();
    let is_repository = |folder: &Path| {
        let bare = || ["HEAD", "objects", "refs"].iter().all(|name| is_there(folder.join(name)));
        is_there(folder.join(".git")) || bare()
    };
    [Some(file.to_owned()), file.canonicalize().ok()]
        .iter()
        .flatten()
        .flat_map(|file| file.ancestors().skip(1))
        .find(|folder| is_repository(folder))
        .map(Path::to_owned)
}

/// `None` where there is no such file.
fn read(path: &Path) -> Result<Option<String>, ConfigError> {
    let failed = |reason: String| ConfigError::File { path: path.to_owned(), reason };
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error.to_string())),
        Ok(metadata) if !metadata.is_file() => return Err(failed("it is no regular file".into())),
        Ok(metadata) if metadata.len() > MAX_FILE_BYTES => {
            return Err(failed("it is larger than 1 MiB".into()));
        }
        Ok(_) => {}
    }
    fs::read_to_string(path).map(Some).map_err(|error| failed(error.to_string()))
}

/// The parser's own message would quote the line, and the line may hold a key.
fn parse(path: &Path, text: &str) -> Result<Dict, ConfigError> {
    Toml::from_str::<Dict>(text).map_err(|error| {
        let before = &text[..error.span().map_or(0, |span| span.start.min(text.len()))];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        ConfigError::Syntax {
            path: path.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            what: error.message().trim().replace('\n', "; "),
        }
    })
}

/// All keys and sections of the defaults, such as `limits.run` and `limits.run.usd`.
fn known_keys(defaults: &Figment) -> Vec<String> {
    fn collect(prefix: &str, value: &Value, into: &mut Vec<String>) {
        for (name, value) in value.as_dict().into_iter().flatten() {
            let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            collect(&key, value, into);
            into.push(key);
        }
    }
    let mut keys = Vec::new();
    for values in defaults.data().unwrap_or_default().values() {
        collect("", &Value::from(values.clone()), &mut keys);
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loads this text as `acquire.toml`, with these variables.
    fn loaded(text: &str, variables: &[(&str, &str)]) -> Result<Settings, String> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("acquire.toml"), text).unwrap();
        let environment = Environment::new(folder.path().to_owned(), variables.iter().copied());
        let path = folder.path().to_str().unwrap();
        load(None, &environment)
            .map(|loaded| loaded.settings)
            .map_err(|error| error.to_string().replace(path, "DIR"))
    }

    fn error(text: &str, variables: &[(&str, &str)]) -> String {
        loaded(text, variables).expect_err("this was taken")
    }

    #[test]
    fn a_variable_goes_before_the_file_and_the_file_before_the_defaults() {
        let file = "[method]\nquestions = 3\n[limits.answerer]\nusd = 1\n[model]\nname = 'a'";
        let settings = loaded(
            file,
            &[
                ("ACQUIRE_METHOD__QUESTIONS", "4"),
                ("ACQUIRE_LIMITS__ANSWERER__STEPS", "7"),
                ("ACQUIRE_MODEL__NAME", ""),
                ("UNRELATED", "x"),
            ],
        )
        .unwrap();
        assert_eq!(settings.method.questions, 4);
        let limits = &settings.limits;
        assert_eq!((limits.answerer.usd, limits.answerer.steps, limits.answerer.seconds), (1.0, 7, 1_800));
        assert_eq!(limits.resolver.steps, 250);
        assert_eq!(settings.model.name, "a");
    }

    #[test]
    fn text_that_looks_like_a_number_stays_text_in_a_variable() {
        let settings =
            loaded("", &[("ACQUIRE_MODEL__NAME", "0123"), ("ACQUIRE_SANDBOX__IMAGE", "1e3")]).unwrap();
        assert_eq!((settings.model.name.as_str(), settings.sandbox.image.as_str()), ("0123", "1e3"));
    }

    #[test]
    fn an_unknown_key_is_told_with_its_place_and_the_nearest_known_one() {
        insta::assert_snapshot!(error("[limits.answerer]\nstep = 1", &[]), @"settings: unknown key `limits.answerer.step` in DIR/acquire.toml; the nearest known one is `limits.answerer.steps`");
        insta::assert_snapshot!(error("[limits]\nsteps = 1", &[]), @"settings: unknown key `limits.steps` in DIR/acquire.toml; the nearest known one is `limits.resolver.steps`");
        insta::assert_snapshot!(error("[model]\nmodel = 'x'", &[]), @"settings: unknown key `model.model` in DIR/acquire.toml; the nearest known one is `model`");
        insta::assert_snapshot!(error("[modle]\nname = 'x'", &[]), @"settings: unknown key `modle` in DIR/acquire.toml; the nearest known one is `model`");
        insta::assert_snapshot!(error("[model.price]\ninput=1\ncached=1\nouput=1", &[]), @"settings: unknown key `model.price.ouput` in DIR/acquire.toml; the nearest known one is `model.price.output`");
        insta::assert_snapshot!(error("", &[("ACQUIRE_LIMITS__RUN__USB", "1")]), @"settings: unknown key `limits.run.usb` in the variable ACQUIRE_LIMITS__RUN__USB; the nearest known one is `limits.run.usd`, as a variable ACQUIRE_LIMITS__RUN__USD");
        insta::assert_snapshot!(error("", &[("ACQUIRE_MODEL_NAME", "m")]), @"settings: unknown key `model_name` in the variable ACQUIRE_MODEL_NAME; the nearest known one is `model.name`, as a variable ACQUIRE_MODEL__NAME");
    }

    #[test]
    fn a_wrong_value_is_told_with_what_would_be_right() {
        insta::assert_snapshot!(error("[limits.run]\nseconds = 'long'", &[]), @r#"settings: `limits.run.seconds` in DIR/acquire.toml is "long", but must be a whole number from 0 up"#);
        insta::assert_snapshot!(error("[limits.run]\nseconds = -1", &[]), @"settings: `limits.run.seconds` in DIR/acquire.toml is -1, but must be a whole number from 0 up");
        insta::assert_snapshot!(error("[limits.run]\nseconds = 1.5", &[]), @"settings: `limits.run.seconds` in DIR/acquire.toml is 1.5, but must be a whole number from 0 up");
        insta::assert_snapshot!(error("[method]\nquestions = 300", &[]), @"settings: `method.questions` in DIR/acquire.toml is 300, but must be from 0 to 8");
        insta::assert_snapshot!(error("[method]\ntemperature = 0.5", &[]), @"settings: `method.temperature` in DIR/acquire.toml is 0.5, but must be a table");
        insta::assert_snapshot!(error("[sandbox]\nkind = 'podman'", &[]), @r#"settings: `sandbox.kind` in DIR/acquire.toml is "podman", but must be "auto" or "docker" or "namespaces""#);
        insta::assert_snapshot!(error("[model]\nname = 7", &[]), @"settings: `model.name` in DIR/acquire.toml is 7, but must be text");
        insta::assert_snapshot!(error("[model.price]\ninput = 1", &[]), @"settings: `model.price` in DIR/acquire.toml is incomplete, but must be a table that has `cached` too");
        insta::assert_snapshot!(error("model = 'gpt'", &[]), @r#"settings: `model` in DIR/acquire.toml is "gpt", but must be a table"#);
        insta::assert_snapshot!(error("", &[("ACQUIRE_MODEL", "gpt")]), @r#"settings: `model` in the variable ACQUIRE_MODEL is "gpt", but must be a table"#);
    }

    #[test]
    fn a_number_out_of_range_is_told_with_the_range() {
        insta::assert_snapshot!(error("[method]\nquestions = 9", &[]), @"settings: `method.questions` in DIR/acquire.toml is 9, but must be from 0 to 8");
        insta::assert_snapshot!(error("[limits.resolver]\nusd = nan", &[]), @"settings: `limits.resolver.usd` in DIR/acquire.toml is NaN, but must be from 0.01 to 10000");
        insta::assert_snapshot!(error("[model.answerer]\ntemperature = 3", &[]), @"settings: `model.answerer.temperature` in DIR/acquire.toml is 3, but must be from 0 to 2");
        insta::assert_snapshot!(error("", &[("ACQUIRE_LIMITS__ANSWERER__STEPS", "0")]), @"settings: `limits.answerer.steps` in the variable ACQUIRE_LIMITS__ANSWERER__STEPS is 0, but must be from 1 to 100000");
    }

    #[test]
    fn a_broken_file_is_told_with_line_and_column_and_without_its_text() {
        insta::assert_snapshot!(error("[model]\nname = 'm'\n  api_key = \"sk-secret\n", &[]), @"settings: DIR/acquire.toml line 3, column 23 is no valid TOML: invalid basic string");
        insta::assert_snapshot!(error("[model]\napi_key = sk-secret", &[]), @r#"settings: DIR/acquire.toml line 2, column 11 is no valid TOML: invalid string; expected `"`, `'`"#);
        insta::assert_snapshot!(error("[model]\nname = 'a'\nname = 'sk-secret'", &[]), @"settings: DIR/acquire.toml line 3, column 1 is no valid TOML: duplicate key `name` in table `model`");
    }

    #[test]
    fn no_error_and_no_debug_output_shows_a_key() {
        let settings = loaded("[model.resolver]\napi_key = 'sk-1'", &[("ACQUIRE_MODEL__API_KEY", "1234")]);
        let settings = settings.unwrap();
        assert!(settings.model.api_key.is_some() && settings.model.resolver.api_key.is_some());
        let shown = format!("{settings:?}{}", serde_json::to_string(&settings).unwrap());
        assert!(!shown.contains("sk-1") && !shown.contains("1234"), "{shown}");
        insta::assert_snapshot!(error("[model]\napi_key = 12345", &[]), @"settings: `model.api_key` in DIR/acquire.toml is of another type, but must be text");
    }

    #[test]
    fn a_file_that_came_with_a_repository_counts_only_when_it_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let told = |work: &Path| {
            let environment = Environment::new(work.to_owned(), [] as [(&str, &str); 0]);
            load(Some(Path::new("acquire.toml")), &environment).unwrap();
            let error = load(None, &environment).expect_err("a stranger's file was taken").to_string();
            error.replace(folder.path().to_str().unwrap(), "DIR")
        };
        let file = "[model]\nbase_url = 'http://stranger.example/v1'";
        let clone = folder.path().join("clone");
        fs::create_dir_all(clone.join("deep/er")).unwrap();
        fs::create_dir(clone.join(".git")).unwrap();
        fs::write(clone.join("acquire.toml"), file).unwrap();
        insta::assert_snapshot!(told(&clone), @"settings: DIR/clone/acquire.toml lies in the git repository DIR/clone, and whoever wrote it there could have your key sent to themselves. If it is yours, name it: --config DIR/clone/acquire.toml");
        fs::write(clone.join("deep/er/acquire.toml"), file).unwrap();
        assert!(told(&clone.join("deep/er")).contains("in the git repository DIR/clone,"));

        // A linked work tree, or a submodule: its `.git` is a file.
        let linked = folder.path().join("linked");
        fs::create_dir(&linked).unwrap();
        fs::write(linked.join(".git"), "gitdir: ../clone/.git/worktrees/linked").unwrap();
        fs::write(linked.join("acquire.toml"), file).unwrap();
        told(&linked);

        // A link into a repository, and one out of it.
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(clone.join("acquire.toml"), outside.join("acquire.toml")).unwrap();
        told(&outside);
        fs::write(folder.path().join("other.toml"), file).unwrap();
        fs::remove_file(clone.join("acquire.toml")).unwrap();
        std::os::unix::fs::symlink("../other.toml", clone.join("acquire.toml")).unwrap();
        told(&clone);
    }

    #[test]
    fn the_file_is_the_named_one_or_the_local_one_or_the_users() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let work = folder.path().join("work");
        fs::create_dir_all(home.join(".config/acquire")).unwrap();
        fs::create_dir_all(&work).unwrap();
        let environment = Environment::new(work.clone(), [("HOME", &home)]);
        let read = |named: Option<&str>| load(named.map(Path::new), &environment).map(|loaded| loaded.file);
        assert_eq!(read(None).unwrap(), None);
        let users = home.join(".config/acquire/acquire.toml");
        fs::write(&users, "").unwrap();
        assert_eq!(read(None).unwrap(), Some(users));
        let local = work.join("acquire.toml");
        fs::write(&local, "").unwrap();
        assert_eq!(read(None).unwrap(), Some(local));
        fs::write(work.join("other.toml"), "").unwrap();
        assert_eq!(read(Some("other.toml")).unwrap(), Some(work.join("other.toml")));

        let told = |named| read(Some(named)).unwrap_err().to_string().replace(work.to_str().unwrap(), "DIR");
        insta::assert_snapshot!(told("missing.toml"), @"settings: DIR/missing.toml cannot be read: there is no such file");
        insta::assert_snapshot!(told("."), @"settings: DIR/. cannot be read: it is no regular file");
        fs::write(work.join("latin.toml"), b"[model]\nname = '\xe9'").unwrap();
        insta::assert_snapshot!(told("latin.toml"), @"settings: DIR/latin.toml cannot be read: stream did not contain valid UTF-8");
    }
}
