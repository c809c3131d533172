//! The data of `templates/synth.toml`: frameworks, static rules, what says that a name is missing, what to scrub.

use std::path::Path;

use regex::Regex;
use serde::Deserialize;

use crate::model::{CheckHit, CommentId, Digest, EnvironmentSpec, Framework, OracleKind, digest_bytes};

const BUILT_IN: &str = include_str!("../../../templates/synth.toml");
const SCHEMA: u32 = 1;

/// Why the data cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KitError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It is not of the form.
    #[error("`{place}` cannot be used: {problem}")]
    Malformed {
        /// The file.
        place: String,
        /// What is wrong, with the line where one is to blame.
        problem: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    schema: u32,
    framework: Vec<Offered>,
    #[serde(default)]
    rule: Vec<WireRule>,
    #[serde(default)]
    missing: WireMissing,
    #[serde(default)]
    scrub: Vec<WireScrub>,
}

/// A framework that a model may write for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offered {
    /// The framework.
    pub name: Framework,
    /// The environment definition that it belongs to.
    pub language: String,
    /// What must be among the environment's packages.
    #[serde(default)]
    pub package: Option<String>,
    /// The test file's name, with `{name}` in it.
    pub file: String,
    /// The command that tells whether a test parses; empty: its run tells.
    #[serde(default)]
    pub parse: Vec<String>,
    /// How such a test is written and run.
    pub guide: String,
}

impl Offered {
    /// The test file's name for a comment.
    pub fn file_name(&self, comment: &CommentId) -> String {
        self.file.replace("{name}", &word(comment.as_str()))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRule {
    name: String,
    languages: Vec<String>,
    pattern: String,
    say: String,
    #[serde(default)]
    text: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireMissing {
    says: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireScrub {
    pattern: String,
    by: String,
}

#[derive(Debug)]
struct Rule {
    name: String,
    languages: Vec<String>,
    pattern: Regex,
    say: String,
    text: bool,
}

/// All of it.
#[derive(Debug)]
pub struct Kit {
    frameworks: Vec<Offered>,
    rules: Vec<Rule>,
    missing: Vec<String>,
    scrub: Vec<(Regex, String)>,
    digest: Digest,
}

/// The rule of a hit that is about reading text.
pub(super) const TEXT: &str = "text";

impl Kit {
    /// The data of this file, else those that come with the program.
    ///
    /// # Errors
    /// When it cannot be read, or is not of the form.
    pub fn load(file: Option<&Path>) -> Result<Self, KitError> {
        match file {
            Some(file) => Self::parse(&fs_err::read_to_string(file)?, &file.display().to_string()),
            None => Self::parse(BUILT_IN, "built in"),
        }
    }

    fn parse(text: &str, place: &str) -> Result<Self, KitError> {
        let bad = |problem: String| KitError::Malformed { place: place.to_owned(), problem };
        let wire: Wire = toml::from_str(text).map_err(|error| bad(error.to_string()))?;
        if wire.schema != SCHEMA {
            return Err(bad(format!("schema {} is not known, only {SCHEMA}", wire.schema)));
        }
        let regex = |what: &str, pattern: &str| {
            Regex::new(pattern).map_err(|error| bad(format!("the pattern of {what} is none: {error}")))
        };
        let mut rules = Vec::new();
        for rule in wire.rule {
            if rule.text != (rule.name == TEXT) {
                return Err(bad(format!(
                    "the rule `{}`: exactly rules of the name `{TEXT}` have `text = true`",
                    rule.name
                )));
            }
            let pattern = regex(&format!("the rule `{}`", rule.name), &rule.pattern)?;
            rules.push(Rule { name: rule.name, languages: rule.languages, pattern, say: rule.say, text: rule.text });
        }
        for says in &wire.missing.says {
            regex("a missing name", &says.replace("{symbol}", "x"))?;
        }
        let scrub = wire.scrub.into_iter().map(|scrub| Ok((regex("a scrub", &scrub.pattern)?, scrub.by)));
        let scrub = scrub.collect::<Result<_, KitError>>()?;
        let digest = digest_bytes(text.as_bytes());
        Ok(Self { frameworks: wire.framework, rules, missing: wire.missing.says, scrub, digest })
    }

    /// The digest of the data.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The frameworks of a language that an environment can run. `described`: its spec, where there is one; of an
    /// environment that is still to be found, packages are put in as they are needed.
    pub fn offered(&self, language: &str, described: Option<&EnvironmentSpec>) -> Vec<&Offered> {
        let has = |package: &str| {
            described.is_none_or(|spec| {
                let named = spec.packages.iter().chain(&spec.steps);
                named.into_iter().any(|text| text.to_ascii_lowercase().contains(package))
            })
        };
        let fits = |offered: &&Offered| offered.language == language && offered.package.as_deref().is_none_or(has);
        self.frameworks.iter().filter(fits).collect()
    }

    /// The name of the test file of a comment in a framework.
    pub fn file_name(&self, framework: Framework, comment: &CommentId) -> String {
        let known = self.frameworks.iter().find(|one| one.name == framework);
        known.map_or_else(|| format!("test_{}", word(comment.as_str())), |one| one.file_name(comment))
    }

    /// What a test may not do, hit by hit. Reading text is no hit for a structural test.
    pub fn check(&self, language: &str, kind: OracleKind, test: &str) -> Vec<CheckHit> {
        let applies = |rule: &&Rule| {
            rule.languages.iter().any(|one| one == language) && !(rule.text && kind == OracleKind::Structural)
        };
        let hit = |rule: &Rule| {
            let found = rule.pattern.find(test)?;
            // A pattern may begin with the line's end before it.
            let start = found.start() + found.as_str().len() - found.as_str().trim_start().len();
            let line = test[..start].matches('\n').count() + 1;
            Some(CheckHit { rule: rule.name.clone(), line: Some(line), text: rule.say.clone() })
        };
        self.rules.iter().filter(applies).filter_map(hit).collect()
    }

    /// Whether a runner's words say that this name is missing.
    pub fn says_missing(&self, symbol: &str, said: &str) -> bool {
        let symbol = regex::escape(symbol);
        self.missing
            .iter()
            .any(|says| Regex::new(&says.replace("{symbol}", &symbol)).is_ok_and(|pattern| pattern.is_match(said)))
    }

    /// A text without what differs from run to run, and of a long one the end.
    pub fn scrub(&self, text: &str, most: usize) -> String {
        let mut text = text.to_owned();
        for (pattern, by) in &self.scrub {
            text = pattern.replace_all(&text, by.as_str()).into_owned();
        }
        let text = text.trim_end();
        match text.char_indices().rev().nth(most) {
            None => text.to_owned(),
            Some((at, first)) => format!("[cut …]{}", &text[at + first.len_utf8()..]),
        }
    }
}

/// A text as a word that every language takes in a file's name.
pub(super) fn word(text: &str) -> String {
    let word: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect();
    if word.is_empty() { "comment".to_owned() } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(language: &str, kind: OracleKind, test: &str) -> Vec<String> {
        Kit::load(None).unwrap().check(language, kind, test).into_iter().map(|hit| hit.rule).collect()
    }

    #[test]
    fn what_tests_may_not_do_is_found_and_what_they_may_is_not() {
        use OracleKind::{Behavioral, Structural};
        for (language, test, wanted) in [
            ("python", "import socket\n", "network"),
            ("python", "import time\ntime.sleep(1)\n", "sleep"),
            ("python", "from time import monotonic, sleep\n", "sleep"),
            ("python", "x = open(__file__).read()\n", "own-file"),
            ("python", "import inspect\nsrc = inspect.getsource(f)\n", "text"),
            ("python", "text = open('shelf/store.py').read()\n", "text"),
            ("python", "text = Path(\"shelf\", \"store.py\").read_text()\n", "text"),
            ("python", "import m\nopen(m.__file__)\n", "text"),
            ("python", "@pytest.mark.xfail\ndef test_a(): ...\n", "skip"),
            ("rust", "std::thread::sleep(d);", "sleep"),
            ("rust", "use std::net::TcpStream;", "network"),
            ("rust", "let s = include_str!(\"../src/lib.rs\");", "text"),
            ("shell", "echo 1..1\nsleep 2\n", "sleep"),
            ("shell", "if curl -s x; then :; fi\n", "network"),
            ("shell", "grep -q trap bin/rotate.sh\n", "text"),
            ("node", "import http from 'node:http'\n", "network"),
            ("node", "const s = readFileSync('lib/a.js', 'utf8')\n", "text"),
        ] {
            assert_eq!(rules(language, Behavioral, test), [wanted], "{test}");
        }
        for (language, test) in [
            ("python", "import urllib.parse, os\nopen(os.path.join(folder, 'secret'), 'wb')\nassert sleepy(store)\n"),
            ("python", "with open('data.bin') as f:\n    pass\n"),
            ("python", "if __name__ == '__main__':\n    unittest.main()\n"),
            ("rust", "assert_eq!(parse(\"5 m\"), Ok(300));"),
            ("shell", "dir=$(mktemp -d)\n\"./rotate.sh\" \"$dir/a b\"\n[ -f \"$dir/x\" ] || cat \"$dir/log\"\n"),
            (
                "node",
                "import { pathToFileURL } from 'node:url'\nawait import(pathToFileURL(process.cwd() + '/a.js'))\n",
            ),
        ] {
            assert!(rules(language, Behavioral, test).is_empty(), "{test}: {:?}", rules(language, Behavioral, test));
        }
        assert!(rules("python", Structural, "import ast\nast.parse(open('a.py').read())\n").is_empty());
        let hit = &Kit::load(None).unwrap().check("python", Behavioral, "\n\nimport time\ntime.sleep(3)\n")[0];
        assert_eq!(hit.line, Some(4));
        let hit = &Kit::load(None).unwrap().check("python", Behavioral, "\n\nimport socket\n")[0];
        assert_eq!(hit.line, Some(3));
    }

    #[test]
    fn a_missing_name_is_the_very_name() {
        let kit = Kit::load(None).unwrap();
        for said in [
            "ImportError: cannot import name 'total_cents' from 'tally' (/workspace/tally/__init__.py)",
            "AttributeError: module 'tally' has no attribute 'total_cents'",
            "error[E0425]: cannot find function `total_cents` in crate `tally`",
            "error[E0432]: unresolved import `tally::total_cents`",
            "TypeError: f() got an unexpected keyword argument 'total_cents'",
        ] {
            assert!(kit.says_missing("total_cents", said), "{said}");
            assert!(!kit.says_missing("total", said), "{said}");
            assert!(!kit.says_missing("cents", said), "{said}");
        }
        assert!(!kit.says_missing("total_cents", "ZeroDivisionError: total_cents"));
        assert!(!kit.says_missing(".*", "has no attribute 'x'"));
    }

    #[test]
    fn outputs_of_two_runs_are_equal_when_scrubbed() {
        let kit = Kit::load(None).unwrap();
        let run = |time: &str, folder: &str, address: &str| {
            format!(
                "Ran 2 tests in {time}s\n<Store at {address}> in '/tmp/{folder}/store'\nfinished in {time} s; 3 files\n"
            )
        };
        let scrubbed = kit.scrub(&run("0.003", "tmpab3_", "0x7f33aa21"), 400);
        assert_eq!(scrubbed, kit.scrub(&run("12.1", "tmpzz91", "0x7f00bb22cc"), 400));
        assert!(scrubbed.contains("Ran 2 tests") && scrubbed.contains("3 files"), "{scrubbed}");
        assert_eq!(kit.scrub("añbcd", 3), "[cut …]bcd");
        assert_eq!(kit.scrub("abc", 3), "abc");
    }

    #[test]
    fn frameworks_are_those_that_the_environment_can_run() {
        let kit = Kit::load(None).unwrap();
        let names = |spec: Option<&EnvironmentSpec>| -> Vec<&str> {
            kit.offered("python", spec).iter().map(|one| one.name.as_str()).collect()
        };
        let mut spec = EnvironmentSpec::plain("python");
        assert_eq!(names(Some(&spec)), ["unittest"]);
        spec.packages.push("pytest>=7".to_owned());
        assert_eq!(names(Some(&spec)), ["pytest", "unittest"]);
        assert_eq!(names(None), ["pytest", "unittest"]);
        assert!(kit.offered("cobol", None).is_empty());
        let cargo = kit.offered("rust", None)[0];
        assert_eq!(cargo.file_name(&"c-1.b".parse().unwrap()), "review_c_1_b.rs");
    }

    #[test]
    fn broken_data_is_named() {
        for (text, said) in [
            ("schema = 2\nframework = []\n", "schema 2"),
            (
                "schema = 1\nframework = []\n[[rule]]\nname = \"x\"\nlanguages = []\npattern = \"(\"\nsay = \"\"\n",
                "rule `x`",
            ),
            ("schema = 1\nframework = []\nodd = 1\n", "odd"),
            (
                "schema = 1\nframework = []\n[[rule]]\nname = \"x\"\ntext = true\nlanguages = []\npattern = \"\"\nsay = \"\"\n",
                "text",
            ),
        ] {
            let error = Kit::parse(text, "my.toml").unwrap_err().to_string();
            assert!(error.contains("my.toml") && error.contains(said), "{error}");
        }
    }
}
