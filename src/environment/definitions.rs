//! All definitions: those that come with the program, and the user's own, which win.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::definition::Definition;
use super::error::EnvironmentError;
use super::scripts::insert_scripts;
use super::trouble::CommonTrouble;

/// The definitions that come with the program.
const EMBEDDED: [(&str, &str); 7] = [
    ("environments/c.toml", include_str!("../../environments/c.toml")),
    ("environments/go.toml", include_str!("../../environments/go.toml")),
    ("environments/java.toml", include_str!("../../environments/java.toml")),
    ("environments/node.toml", include_str!("../../environments/node.toml")),
    ("environments/python.toml", include_str!("../../environments/python.toml")),
    ("environments/rust.toml", include_str!("../../environments/rust.toml")),
    ("environments/shell.toml", include_str!("../../environments/shell.toml")),
];

/// Failures and repairs of all languages, as they come with the program.
const EMBEDDED_FAILURES: (&str, &str) =
    ("environments/failures.toml", include_str!("../../environments/failures.toml"));

/// Files of a user's folder that are no environment definitions.
const OTHERS: [&str; 2] = ["frameworks.toml", FAILURES];

/// The file with failures and repairs of all languages.
const FAILURES: &str = "failures.toml";

/// A set of definitions.
#[derive(Debug, Clone)]
pub struct Definitions(Vec<Arc<Definition>>);

impl Definitions {
    /// The definitions in `folders` (each `*.toml` in them), then those that come with the program. A definition hides
    /// later ones of the same name. A folder that is not there is an error: it was asked for.
    pub fn load(folders: &[PathBuf]) -> Result<Self, EnvironmentError> {
        let mut all: Vec<Arc<Definition>> = Vec::new();
        let own = folders.iter().map(|folder| folder.join(FAILURES)).find(|file| file.is_file());
        let common = match own {
            Some(file) => CommonTrouble::parse(&file, &fs_err::read_to_string(&file)?)?,
            None => parse_toml(Path::new(EMBEDDED_FAILURES.0), EMBEDDED_FAILURES.1)?,
        };
        for folder in folders {
            let mut files = Vec::new();
            for entry in fs_err::read_dir(folder)? {
                let path = entry?.path();
                let other = path.file_name().is_some_and(|name| OTHERS.iter().any(|other| name == *other));
                if path.extension().is_some_and(|ending| ending == "toml") && !other {
                    files.push(path);
                }
            }
            files.sort();
            for file in files {
                let text = fs_err::read_to_string(&file)?;
                add(&mut all, common.around(parse(&file, &text, Some(&folder.join("scripts")))?));
            }
        }
        for definition in ours()? {
            add(&mut all, common.around(definition.clone()));
        }
        Ok(Self(all))
    }

    /// The definition of a language, by name or alias, without case.
    pub fn get(&self, language: &str) -> Result<Arc<Definition>, EnvironmentError> {
        self.0.iter().find(|definition| definition.answers_to(language)).cloned().ok_or_else(|| {
            EnvironmentError::UnknownLanguage {
                language: language.to_owned(),
                known: self.0.iter().map(|definition| definition.name.clone()).collect(),
            }
        })
    }

    /// All of them, the user's first.
    pub fn iter(&self) -> impl Iterator<Item = &Definition> {
        self.0.iter().map(AsRef::as_ref)
    }
}

/// The definitions that come with the program, read once. Their patterns are not compiled here to see whether they can
/// be: there are hundreds, and they are the program's own (a test does it).
fn ours() -> Result<&'static [Definition], EnvironmentError> {
    static OURS: OnceLock<Vec<Definition>> = OnceLock::new();
    if let Some(known) = OURS.get() {
        return Ok(known);
    }
    let mut read = Vec::new();
    for (file, text) in EMBEDDED {
        let mut definition: Definition = parse_toml(Path::new(file), text)?;
        insert_scripts(&mut definition, None).map_err(|fault| EnvironmentError::Definition {
            file: file.into(),
            line: fault.line(text),
            message: fault.message,
        })?;
        read.push(definition);
    }
    Ok(OURS.get_or_init(|| read))
}

fn add(all: &mut Vec<Arc<Definition>>, definition: Definition) {
    if !all.iter().any(|known| known.name.eq_ignore_ascii_case(&definition.name)) {
        all.push(Arc::new(definition));
    }
}

/// Reads a TOML file of one shape; an error names the file and the line.
pub(super) fn parse_toml<T: serde::de::DeserializeOwned>(file: &Path, text: &str) -> Result<T, EnvironmentError> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count() + 1);
        EnvironmentError::Definition { file: file.to_owned(), line, message: error.message().to_owned() }
    })
}

/// Reads one definition; an error names the file and the line. `{{script.NAME}}` is read from `scripts`, or else from
/// those that come with the program.
pub(super) fn parse(file: &Path, text: &str, scripts: Option<&Path>) -> Result<Definition, EnvironmentError> {
    let fail = |line, message| EnvironmentError::Definition { file: file.to_owned(), line, message };
    let mut definition: Definition = parse_toml(file, text)?;
    if let Err(fault) = insert_scripts(&mut definition, scripts) {
        return Err(fail(fault.line(text), fault.message));
    }
    match definition.fault() {
        Some(fault) => Err(fail(fault.line(text), fault.message)),
        None => Ok(definition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
schema = 1
name = "tiny"
aliases = ["Tin"]

[toolchain]
programs = ["tiny"]
probe = ["{{program}}", "--json"]

[[layer]]
name = "deps"
path = "/env/deps"

[[layer.step]]
name = "install"
argv = ["{{tool.tiny}}", "get", "{{layer.deps}}", "{{packages...}}"]
"#;

    fn fault(text: &str) -> String {
        parse(Path::new("tiny.toml"), text, None).unwrap_err().to_string()
    }

    #[test]
    fn the_definitions_that_come_along_are_sound_and_have_the_names_of_the_field() {
        let all = Definitions::load(&[]).unwrap();
        for (language, name) in [
            ("Python", "python"),
            ("rust", "rust"),
            ("JavaScript", "node"),
            ("typescript", "node"),
            ("js", "node"),
            ("ts", "node"),
            ("posix-sh", "shell"),
            ("bash", "shell"),
            ("golang", "go"),
            ("Java", "java"),
            ("C++", "c"),
        ] {
            assert_eq!(all.get(language).unwrap().name, name, "{language}");
        }
        let error = all.get("cobol").unwrap_err().to_string();
        assert!(error.contains("cobol") && error.contains("python"), "{error}");
        CommonTrouble::parse(Path::new(EMBEDDED_FAILURES.0), EMBEDDED_FAILURES.1).unwrap();
        for (file, text) in EMBEDDED {
            parse(Path::new(file), text, None).unwrap();
        }
        for definition in all.iter() {
            assert!(definition.tools.contains_key("sh"), "{}", definition.name);
        }
    }

    #[test]
    fn unknown_keys_are_refused_with_file_and_line() {
        assert!(parse(Path::new("tiny.toml"), SMALL, None).is_ok());
        let text = SMALL.replace("argv =", "command = [\"x\"]\nargv =");
        let error = fault(&text);
        let line = text.lines().position(|l| l.starts_with("command")).unwrap() + 1;
        assert!(error.contains(&format!("tiny.toml:{line}")) && error.contains("command"), "{error}");
    }

    #[test]
    fn names_that_stand_for_nothing_and_odd_paths_are_refused() {
        let unknown = fault(&SMALL.replace("{{layer.deps}}", "{{layer.dep}}"));
        let line = SMALL.lines().position(|line| line.contains("[[layer.step]]")).unwrap() + 2;
        assert!(unknown.contains("layer.dep") && unknown.contains(&format!("tiny.toml:{line}: ")), "{unknown}");
        assert!(fault(&SMALL.replace("{{packages...}}", "{{packages}}")).contains("packages"));
        assert!(fault(&SMALL.replace("/env/deps", "/usr")).contains("/env/"));
        assert!(fault(&SMALL.replace("schema = 1", "schema = 9")).contains('9'));
        assert!(fault(&SMALL.replace("name = \"deps\"", "name = \"build\"")).contains("build"));
    }

    #[test]
    fn faults_of_the_search_are_named_with_file_and_line() {
        let with = |more: &str| format!("{SMALL}\n[packages]\nname = '(x)'\n{more}");
        for (more, said) in [
            ("[[version.release]]\nversion = '3.1'\ndate = '2022-13-40'", "2022-13-40"),
            ("[[version.release]]\nversion = 'three'\ndate = '2022-01-01'", "three"),
            ("[[version.source]]\nname = 's'\nfile = 'a'\nkind = 'exact'\npattern = '(('", "(("),
            ("[[version.source]]\nname = 's'\nfile = 'a'\nkind = 'exact'\npattern = 'no group'", "one group"),
            ("[[version.source]]\nname = 'srcname'\nfile = 'a'\nkind = 'exact'", "srcname"),
            ("[[version.source]]\nname = 's'\nfile = '../up'\nkind = 'exact'\npattern = '(a)'", "../up"),
            ("[[strategy]]\nname = 's'\nrequirements = ['nobody']", "nobody"),
            ("[[strategy]]\nname = 's'\nwhen = ['sometimes']", "sometimes"),
            ("[[strategy]]\nname = 'twice'\n[[strategy]]\nname = 'twice'", "twice"),
            ("[[requirements]]\nname = 'r'\nargv = ['{{script.gone.py}}']", "gone.py"),
            ("[[requirements]]\nname = 'r'\nargv = ['{{script...x}}']", "no name of a script"),
            ("[[proof]]\nkind = 'import'\nname = 'p'\nargv = ['{{layer.gone}}']", "layer.gone"),
            ("[[failure]]\nkind = 'compiler'\npattern = '(oops'", "(oops"),
            ("[[repair]]\nname = 'nothing'\npattern = 'x'\nchange = {}", "changes nothing"),
            ("[[repair]]\nname = 'r'\npattern = 'x'\nchange = { packages = ['$1'] }", "$1"),
            ("[detect]\nfiles = ['a/b']", "a/b"),
            ("[detect]\nextensions = ['.py']", ".py"),
        ] {
            let text = with(more);
            let error = fault(&text);
            assert!(error.contains(said), "{more}: {error}");
            let line: usize = error.split(':').nth(1).and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{error}"));
            assert!(line > SMALL.lines().count(), "{error}");
        }
    }

    #[test]
    fn a_users_scripts_and_failures_go_before_ours() {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "{SMALL}\n[[proof]]\nkind = 'import'\nname = 'p'\nargv = ['sh', '-c', '{{{{script.own.sh}}}}', '{{{{script.c_proof.sh}}}}']"
        );
        fs_err::write(folder.path().join("tiny.toml"), &text).unwrap();
        assert!(Definitions::load(&[folder.path().to_owned()]).unwrap_err().to_string().contains("own.sh"));
        fs_err::create_dir(folder.path().join("scripts")).unwrap();
        fs_err::write(folder.path().join("scripts/own.sh"), "echo {{workspace}}").unwrap();
        let tiny = Definitions::load(&[folder.path().to_owned()]).unwrap().get("tiny").unwrap();
        assert_eq!(tiny.proofs[0].argv[2], "echo {{workspace}}");
        assert!(tiny.proofs[0].argv[3].starts_with("# Whether a C"));
        let (failures, repairs) = (tiny.failures.len(), tiny.repairs.len());
        assert!(failures > 5 && repairs > 100);
        fs_err::write(folder.path().join("failures.toml"), "schema = 1\n[[first]]\nkind = 'disk'\npattern = 'full'")
            .unwrap();
        let tiny = Definitions::load(&[folder.path().to_owned()]).unwrap().get("tiny").unwrap();
        assert_eq!((tiny.failures.len(), tiny.repairs.len()), (1, 0));
        fs_err::write(folder.path().join("failures.toml"), "schema = 1\n[[first]]\nkind = 'disk'\npattern = '(('")
            .unwrap();
        let error = Definitions::load(&[folder.path().to_owned()]).unwrap_err().to_string();
        assert!(error.contains("failures.toml:4"), "{error}");
    }

    #[test]
    fn a_users_definition_hides_ours_and_other_files_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join("py.toml"), SMALL.replace("\"tiny\"\na", "\"python\"\na")).unwrap();
        fs_err::write(folder.path().join("frameworks.toml"), "whatever = true").unwrap();
        fs_err::write(folder.path().join("README.md"), "not toml").unwrap();
        let all = Definitions::load(&[folder.path().to_owned()]).unwrap();
        assert_eq!(all.get("python").unwrap().toolchain.programs, ["tiny"]);
        assert_eq!(all.get("tin").unwrap().name, "python");
        assert!(Definitions::load(&[folder.path().join("gone")]).is_err());
    }

    #[test]
    fn comments_do_not_change_the_digest_but_values_do() {
        let digest = |text: &str| parse(Path::new("x"), text, None).unwrap().digest();
        assert_eq!(digest(SMALL), digest(&format!("# a comment\n{SMALL}")));
        assert_ne!(digest(SMALL), digest(&SMALL.replace("\"get\"", "\"fetch\"")));
    }
}
