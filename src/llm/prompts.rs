//! Prompt templates: those that come with the program, and the user's own, which go before them.

use std::path::{Path, PathBuf};

use handlebars::Handlebars;
use serde::Serialize;
use serde_json::Value;

use super::PromptId;
use crate::model::digest_bytes;

/// The templates that come with the program.
const EMBEDDED: [(&str, &str); 4] = [
    ("filter", include_str!("../../templates/prompts/filter.hbs")),
    ("solve", include_str!("../../templates/prompts/solve.hbs")),
    ("synth", include_str!("../../templates/prompts/synth.hbs")),
    ("synth_again", include_str!("../../templates/prompts/synth_again.hbs")),
];

/// The line between the system text and the first message.
const BREAK: &str = "--- user ---";

/// A template cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// A file or folder cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// There is none of this name.
    #[error("there is no prompt `{name}`; there are: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// All names.
        known: String,
    },
    /// It has no line that parts the system text from the message.
    #[error("`{place}` has no line `{BREAK}` between the system text and the message, or more than one")]
    Parts {
        /// The file.
        place: String,
    },
    /// It is no template, or wants a value that it is not given.
    #[error("`{place}` cannot be rendered: {problem}")]
    Render {
        /// The file.
        place: String,
        /// What is wrong, with line and column.
        problem: String,
    },
}

/// One template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Its name and the digest of its text.
    pub id: PromptId,
    /// Where it came from, for people: a file, or `built in`.
    pub place: String,
    system: Part,
    user: Part,
}

/// One part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    text: String,
    /// How many lines of the file are before it.
    before: usize,
}

/// What a template makes of some values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rendered {
    /// The system text.
    pub system: String,
    /// The first message.
    pub user: String,
}

impl Prompt {
    fn parse(name: &str, place: String, text: &str) -> Result<Self, PromptError> {
        let mut parts = vec![Part { text: String::new(), before: 0 }];
        for (number, line) in text.lines().enumerate() {
            if line.trim() == BREAK {
                parts.push(Part { text: String::new(), before: number + 1 });
            } else if let Some(part) = parts.last_mut() {
                part.text.push_str(line);
                part.text.push('\n');
            }
        }
        let Ok([system, user]) = <[Part; 2]>::try_from(parts) else { return Err(PromptError::Parts { place }) };
        let id = PromptId { name: name.to_owned(), digest: digest_bytes(text.as_bytes()) };
        Ok(Self { id, place, system, user })
    }

    /// Fills in values. One that the template names and that is not there is an error; nothing is escaped.
    ///
    /// # Errors
    /// [`PromptError::Render`].
    pub fn render(&self, values: &impl Serialize) -> Result<Rendered, PromptError> {
        let wrong = |problem: String| PromptError::Render { place: self.place.clone(), problem };
        let values = serde_json::to_value(values).map_err(|error| wrong(error.to_string()))?;
        let mut engine = Handlebars::new();
        engine.set_strict_mode(true);
        engine.register_escape_fn(handlebars::no_escape);
        let render = |part: &Part| {
            if let Some((line, name)) = missing_condition(&part.text, &values) {
                return Err(wrong(format!("line {}: there is no value `{name}`", part.before + line)));
            }
            let text = engine.render_template(&part.text, &values).map_err(|error| {
                let line = error.line_no.map(|line| format!("line {}: ", part.before + line)).unwrap_or_default();
                wrong(format!("{line}{}", error.reason()))
            })?;
            Ok(text.trim().to_owned())
        };
        Ok(Rendered { system: render(&self.system)?, user: render(&self.user)? })
    }
}

/// The first value that a condition names and that is not there, with its line: the engine takes such a one for false.
/// Inside of loops names mean other things; templates with loops are not looked at.
fn missing_condition(text: &str, values: &Value) -> Option<(usize, String)> {
    if text.contains("{{#each") || text.contains("{{#with") {
        return None;
    }
    text.lines().enumerate().find_map(|(number, line)| {
        let conditions = ["{{#if ", "{{#unless ", "{{else if "].iter().flat_map(|opening| line.split(opening).skip(1));
        let names = conditions.filter_map(|rest| rest.split("}}").next()).map(str::trim);
        let missing = names.into_iter().find(|name| {
            let first = name.split('.').next().unwrap_or_default();
            first.chars().all(|c| c.is_alphanumeric() || c == '_') && values.get(first).is_none()
        });
        missing.map(|name| (number + 1, name.to_owned()))
    })
}

/// All templates.
#[derive(Debug, Clone)]
pub struct Prompts(Vec<Prompt>);

impl Prompts {
    /// Each `*.hbs` in `folders`, then those that come with the program. A template hides later ones of the same name.
    ///
    /// # Errors
    /// When a folder or file cannot be read, or is no template.
    pub fn load(folders: &[PathBuf]) -> Result<Self, PromptError> {
        let mut all = Self(Vec::new());
        for folder in folders {
            let mut files = Vec::new();
            for entry in fs_err::read_dir(folder)? {
                files.push(entry?.path());
            }
            files.sort();
            for file in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "hbs")) {
                let name = file.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                let text = fs_err::read_to_string(file)?;
                all.add(Prompt::parse(&name, shown(file), &text)?);
            }
        }
        for (name, text) in EMBEDDED {
            all.add(Prompt::parse(name, "built in".to_owned(), text)?);
        }
        Ok(all)
    }

    fn add(&mut self, prompt: Prompt) {
        if !self.0.iter().any(|known| known.id.name == prompt.id.name) {
            self.0.push(prompt);
        }
    }

    /// The template of this name.
    ///
    /// # Errors
    /// [`PromptError::Unknown`].
    pub fn get(&self, name: &str) -> Result<&Prompt, PromptError> {
        self.0.iter().find(|prompt| prompt.id.name == name).ok_or_else(|| {
            let mut known: Vec<&str> = self.0.iter().map(|prompt| prompt.id.name.as_str()).collect();
            known.sort_unstable();
            PromptError::Unknown { name: name.to_owned(), known: known.join(", ") }
        })
    }

    /// All of them, the user's first.
    pub fn iter(&self) -> impl Iterator<Item = &Prompt> {
        self.0.iter()
    }
}

fn shown(file: &Path) -> String {
    file.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_put_in_as_they_are_and_a_missing_one_is_an_error() {
        let text = "You are {{who}}.\n\n--- user ---\n{{#if more}}More: {{more}}\n{{/if}}Say {{what}}.\n";
        let prompt = Prompt::parse("greet", "greet.hbs".to_owned(), text).unwrap();
        let values = json!({"who": "<b>", "what": "--- user ---\n{{who}}", "more": null});
        let rendered = prompt.render(&values).unwrap();
        assert_eq!(
            rendered,
            Rendered { system: "You are <b>.".to_owned(), user: "Say --- user ---\n{{who}}.".to_owned() }
        );
        for (values, said) in [
            (json!({"who": 1, "what": 2}), "line 4: there is no value `more`"),
            (json!({"who": 1, "more": 2}), "line 5: "),
            (json!({"more": 2, "what": 1}), "line 1: "),
        ] {
            let error = prompt.render(&values).unwrap_err().to_string();
            assert!(error.contains("greet.hbs") && error.contains(said), "{said}: {error}");
        }
    }

    #[test]
    fn a_users_template_hides_ours() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("filter.hbs");
        fs_err::write(&file, "sys\n--- user ---\nuser").unwrap();
        let folders = [folder.path().to_owned()];
        let mine = Prompts::load(&folders).unwrap();
        let ours = Prompts::load(&[]).unwrap();
        assert_ne!(mine.get("filter").unwrap().id.digest, ours.get("filter").unwrap().id.digest);
        assert_eq!(mine.iter().count(), ours.iter().count());
        assert!(ours.get("sing").unwrap_err().to_string().contains("there are: filter"));
        fs_err::write(&file, "no parts").unwrap();
        assert!(Prompts::load(&folders).unwrap_err().to_string().contains("filter.hbs"));
    }
}
