//! The rules before the model: what can be told of a comment without judgement. Data, in `templates/filter.toml`.

use std::path::{Path, PathBuf};

use regex::{Regex, RegexSet};
use serde::Deserialize;
use serde_json::Value;

use crate::model::{Comment, Digest, DropReason, Instance, digest_bytes};

/// The rules that come with the program.
const EMBEDDED: (&str, &str) = ("templates/filter.toml", include_str!("../../../templates/filter.toml"));

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    schema: u32,
    bot: Names,
    short: Short,
    not_code: Paths,
    declined: Replies,
    withdrawn: Replies,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Names {
    names: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Short {
    words: usize,
    texts: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Paths {
    paths: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Replies {
    replies: Vec<String>,
}

/// A file of rules cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It is not as it must be.
    #[error("`{file}` holds no rules of the filter: {problem}", file = file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// What is wrong, with the line where it is known.
        problem: String,
    },
}

/// The rules, ready to be applied.
#[derive(Debug, Clone)]
pub struct Rules {
    digest: Digest,
    bots: RegexSet,
    least_words: usize,
    short_texts: RegexSet,
    not_code: RegexSet,
    declined: RegexSet,
    withdrawn: RegexSet,
    marked: Regex,
    noise: Regex,
}

impl Rules {
    /// The rules of this file, or those that come with the program.
    ///
    /// # Errors
    /// When the file cannot be read or holds no rules.
    pub fn load(file: Option<&Path>) -> Result<Self, RulesError> {
        match file {
            Some(file) => Self::parse(file, &fs_err::read_to_string(file)?),
            None => Self::parse(Path::new(EMBEDDED.0), EMBEDDED.1),
        }
    }

    fn parse(file: &Path, text: &str) -> Result<Self, RulesError> {
        let malformed = |problem: String| RulesError::Malformed { file: file.to_owned(), problem };
        let read: File = toml::from_str(text).map_err(|error| malformed(error.to_string().trim_end().to_owned()))?;
        if read.schema != 1 {
            return Err(malformed(format!("schema {} is not known here (use 1)", read.schema)));
        }
        let set = |patterns: &[String]| RegexSet::new(patterns).map_err(|error| malformed(error.to_string()));
        let one = |pattern: &str| Regex::new(pattern).map_err(|error| malformed(error.to_string()));
        Ok(Self {
            digest: digest_bytes(text.as_bytes()),
            bots: set(&read.bot.names)?,
            least_words: read.short.words,
            short_texts: set(&read.short.texts)?,
            not_code: set(&read.not_code.paths)?,
            declined: set(&read.declined.replies)?,
            withdrawn: set(&read.withdrawn.replies)?,
            marked: one(r"(?m)^\s*```\s*suggestion")?,
            noise: one(r"(?s)```.*?(```|$)|`[^`\n]*`|https?://\S+|(?m-s:^\s*>.*$)|@[\w-]+")?,
        })
    }

    /// The digest of the file's text: part of what could change a row.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Why a rule drops the comment, and what it saw; `None` where the model must judge.
    pub fn apply(&self, facts: &Facts, comment: &Comment) -> Option<(DropReason, String)> {
        let named = |name: &str| self.bots.is_match(&name.to_lowercase());
        if facts.is_bot || facts.author.as_deref().is_some_and(named) {
            return Some((DropReason::Bot, format!("written by {}", facts.author.as_deref().unwrap_or("a program"))));
        }
        if facts.is_of_own_author() {
            return Some((DropReason::OwnAuthor, "written by the author of the change".to_owned()));
        }
        let text = facts.text.as_deref().unwrap_or(&comment.text).trim().to_lowercase();
        if self.short_texts.is_match(&text) {
            return Some((DropReason::TooShort, "nothing but a phrase".to_owned()));
        }
        let words = self.words(&text);
        if words < self.least_words && !self.marked.is_match(&text) {
            return Some((DropReason::TooShort, format!("{words} words outside of code, quotes and links")));
        }
        if !comment.path.is_empty() && self.not_code.is_match(&comment.path.to_lowercase()) {
            return Some((DropReason::NotCode, format!("on `{}`", comment.path)));
        }
        let settled = |why: &&String| !matches!(why.to_lowercase().as_str(), "resolved" | "outdated");
        if let Some(why) = facts.hidden.as_ref().filter(settled) {
            return Some((DropReason::ResolvedOtherwise, format!("hidden by the host's users: {}", short(why))));
        }
        let last = facts.replies.last()?;
        let said = last.text.to_lowercase();
        if last.is_change_author && self.declined.is_match(&said) {
            return Some((DropReason::Declined, format!("the author's last word: {}", short(&last.text))));
        }
        if last.is_commenter && self.withdrawn.is_match(&said) {
            return Some((DropReason::ResolvedOtherwise, format!("the commenter's last word: {}", short(&last.text))));
        }
        None
    }

    fn words(&self, text: &str) -> usize {
        self.noise
            .replace_all(text, " ")
            .split_whitespace()
            .filter(|word| word.chars().any(char::is_alphanumeric))
            .count()
    }
}

fn short(text: &str) -> String {
    const SHOWN: usize = 120;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= SHOWN { line } else { format!("{}…", line.chars().take(SHOWN).collect::<String>()) }
}

/// What the data tells of a comment's thread. Data without such fields tells nothing, and rules about it don't apply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Who wrote the comment.
    pub author: Option<String>,
    /// Whether that is a program.
    pub is_bot: bool,
    /// Whether it is the change's own author, where the data says so itself.
    pub by_change_author: Option<bool>,
    /// Who wrote the change.
    pub change_author: Option<String>,
    /// The comment's own words, where the data has them apart from the answers.
    pub text: Option<String>,
    /// Why the host hides the comment.
    pub hidden: Option<String>,
    /// What was answered, in order.
    pub replies: Vec<Reply>,
}

/// One answer in a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// What was said.
    pub text: String,
    /// Whether the change's author said it.
    pub is_change_author: bool,
    /// Whether the comment's author said it.
    pub is_commenter: bool,
}

impl Facts {
    /// Reads the fields that an import leaves beside those of SWE-CARE: `messages` of the comment, each with `author`,
    /// `bot`, `pull_author`, `minimized` and `text`, the first being the comment itself; or `author` of comment and
    /// instance alone.
    pub fn of(instance: &Instance, comment: &Comment) -> Self {
        let messages = comment.extra.get("messages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let (first, answers) = messages.split_first().map_or((None, messages), |(first, rest)| (Some(first), rest));
        let change_author = instance.extra.get("author").and_then(name);
        let said_author = comment.extra.get("author").or_else(|| first?.get("author"));
        let author = said_author.and_then(name);
        let flag = |value: &Value, field: &str| value.get(field).and_then(Value::as_bool);
        let replies = answers.iter().filter_map(|message| {
            let who = message.get("author").and_then(name);
            let is_change_author =
                flag(message, "pull_author").unwrap_or_else(|| same(who.as_deref(), change_author.as_deref()));
            Some(Reply {
                text: text(message)?.to_owned(),
                is_change_author,
                is_commenter: same(who.as_deref(), author.as_deref()),
            })
        });
        Self {
            replies: replies.collect(),
            is_bot: said_author.is_some_and(is_bot)
                || first.and_then(|first| flag(first, "bot")).unwrap_or(false)
                || comment.extra.get("bot") == Some(&Value::Bool(true)),
            by_change_author: first.and_then(|first| flag(first, "pull_author")),
            text: first.and_then(text).map(str::to_owned),
            hidden: first.and_then(|first| first.get("minimized")?.as_str()).map(str::to_owned),
            author,
            change_author,
        }
    }

    fn is_of_own_author(&self) -> bool {
        self.by_change_author.unwrap_or_else(|| same(self.author.as_deref(), self.change_author.as_deref()))
    }
}

/// A login, plain or in an object as the host writes it.
fn name(value: &Value) -> Option<String> {
    value.as_str().or_else(|| value.get("login")?.as_str()).filter(|name| !name.is_empty()).map(str::to_owned)
}

fn is_bot(author: &Value) -> bool {
    let says =
        |field: &str| author.get(field).and_then(Value::as_str).is_some_and(|kind| kind.eq_ignore_ascii_case("bot"));
    says("type") || says("__typename") || says("kind") || author.get("is_bot") == Some(&Value::Bool(true))
}

fn text(message: &Value) -> Option<&str> {
    ["text", "body"].iter().find_map(|field| message.get(*field)?.as_str())
}

fn same(a: Option<&str>, b: Option<&str>) -> bool {
    matches!((a, b), (Some(a), Some(b)) if a.eq_ignore_ascii_case(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn comment(value: Value) -> (Instance, Comment) {
        let row = json!({
            "instance_id": "o__r-1@0123abc", "repo": "o/r", "commit_to_review": {"head_commit": "0123abc"}, "author": "ada",
            "reference_review_comments": [value],
        });
        let instance: Instance = serde_json::from_value(row).unwrap();
        let comment = instance.reference_review_comments[0].clone();
        (instance, comment)
    }

    fn verdict(value: Value) -> Option<DropReason> {
        let (instance, comment) = comment(value);
        let rules = Rules::load(None).unwrap();
        rules.apply(&Facts::of(&instance, &comment), &comment).map(|(reason, _)| reason)
    }

    #[test]
    fn comments_that_nobody_needs_to_judge() {
        let long = "This returns None for an empty list, please raise instead.";
        let thread = |who: &str, said: &str| {
            json!({"text": long, "path": "a.py", "author": "bob",
                   "messages": [{"author": "bob", "text": long}, {"author": who, "text": said}]})
        };
        for (value, wanted) in [
            (json!({"text": long, "path": "a.py"}), None),
            (json!({"text": long, "path": "a.py", "author": "bob"}), None),
            (json!({"text": long, "author": "renovate[bot]"}), Some(DropReason::Bot)),
            (json!({"text": long, "author": {"login": "x", "type": "Bot"}}), Some(DropReason::Bot)),
            (json!({"text": long, "messages": [{"author": "@x", "bot": true, "text": long}]}), Some(DropReason::Bot)),
            (
                json!({"text": long, "messages": [{"author": "@author", "pull_author": true}]}),
                Some(DropReason::OwnAuthor),
            ),
            (
                json!({"text": "@reviewer1:\nnit\n\n@author:\nI don't see what you mean.",
                    "messages": [{"author": "@reviewer1", "text": "nit"}, {"author": "@author", "text": "I don't see what you mean."}]}),
                Some(DropReason::TooShort),
            ),
            (
                json!({"text": long, "messages": [{"author": "@r", "minimized": "OFF_TOPIC"}]}),
                Some(DropReason::ResolvedOtherwise),
            ),
            (json!({"text": long, "messages": [{"author": "@r", "minimized": "outdated"}]}), None),
            (
                json!({"text": long, "messages": [{"author": "@r"}, {"author": "@author", "pull_author": true, "text": "Works as intended."}]}),
                Some(DropReason::Declined),
            ),
            (json!({"text": long, "author": "abbot"}), None),
            (json!({"text": long, "author": "Ada"}), Some(DropReason::OwnAuthor)),
            (json!({"text": "LGTM!", "path": "a.py"}), Some(DropReason::TooShort)),
            (json!({"text": "See `x` https://a.example/b", "path": "a.py"}), Some(DropReason::TooShort)),
            (json!({"text": "Check bounds here", "path": "a.py"}), None),
            (json!({"text": "```suggestion\nreturn 1\n```", "path": "a.py"}), None),
            (json!({"text": long, "path": "docs/index.md"}), Some(DropReason::NotCode)),
            (json!({"text": long, "path": "a/CHANGELOG"}), Some(DropReason::NotCode)),
            (json!({"text": long, "path": "changelog_reader.py"}), None),
            (thread("ada", "I'd rather not change this here"), Some(DropReason::Declined)),
            (thread("ada", "Good catch, fixed"), None),
            (thread("eve", "This is out of scope"), None),
            (thread("bob", "Never mind, I misread"), Some(DropReason::ResolvedOtherwise)),
            (thread("ada", "never mind"), None),
        ] {
            assert_eq!(verdict(value.clone()), wanted, "{value}");
        }
    }

    #[test]
    fn an_insisting_commenter_is_heard() {
        let value = json!({"text": "This leaks the handle on errors.", "author": "bob", "messages": [
            {"author": "bob", "text": "This leaks the handle on errors."}, {"author": "ada", "text": "out of scope"}, {"author": "bob", "text": "Please do it here."},
        ]});
        assert_eq!(verdict(value), None);
    }

    #[test]
    fn faults_of_a_file_are_named() {
        let wrong = EMBEDDED.1.replace("words = 3", "words = \"three\"");
        let error = Rules::parse(Path::new("mine.toml"), &wrong).unwrap_err().to_string();
        assert!(error.contains("mine.toml") && error.contains("line"), "{error}");
        let wrong = EMBEDDED.1.replace("'-bot$'", "'(('");
        assert!(Rules::parse(Path::new("mine.toml"), &wrong).unwrap_err().to_string().contains("(("));
    }
}
