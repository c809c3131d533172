//! Answers on record: a JSON Lines file that is filled by a live model and answers later without one.
//!
//! A row is found by its request's key, the digest of the canonical request: what could change the answer and nothing
//! that names a server or a key.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::nearest::nearest;
use super::{Answer, AnswerFuture, ChatRequest, FailureKind, LlmError, Model, locked};
use crate::model::{Digest, Extra, parse_jsonl};
use crate::store::LineFile;

/// One line of a cassette.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Row {
    /// The digest of `request`.
    key: Digest,
    /// The canonical request.
    request: Value,
    answer: Answer,
    #[serde(flatten)]
    extra: Extra,
}

#[derive(Debug, Default)]
struct Rows {
    answers: HashMap<Digest, Answer>,
    requests: Vec<Value>,
}

impl Rows {
    /// Reads the lines; of two with one key the first counts.
    fn read(path: &Path, text: &str) -> Result<Self, LlmError> {
        let parsed = parse_jsonl::<Row>(text);
        if let Some(error) = parsed.errors.first() {
            let said = format!("`{}`, {error}; remove the line, or record again", path.display());
            return Err(LlmError::new(FailureKind::File, said));
        }
        let mut rows = Self::default();
        for row in parsed.into_rows() {
            rows.put(row);
        }
        Ok(rows)
    }

    fn put(&mut self, row: Row) {
        if !self.answers.contains_key(&row.key) {
            self.requests.push(row.request);
            self.answers.insert(row.key, row.answer);
        }
    }
}

/// A file of answers, alone or in front of the model that fills it.
pub struct Cassette {
    path: PathBuf,
    name: String,
    rows: Mutex<Rows>,
    /// Where new answers come from and go to.
    source: Option<(Arc<dyn Model>, LineFile)>,
    /// Requests that are being answered: an equal one waits and takes that answer, as it will when it is replayed.
    busy: Mutex<HashMap<Digest, Arc<tokio::sync::Mutex<()>>>>,
}

impl Cassette {
    /// Answers from the file alone. Without `model`, the one that all its rows are of is asked. A torn last line counts
    /// for nothing.
    ///
    /// # Errors
    /// [`FailureKind::File`]: it cannot be read, a line is no row, or it has rows of several models and none was named.
    pub fn replay(path: &Path, model: Option<&str>) -> Result<Self, LlmError> {
        let fail = |said: String| LlmError::new(FailureKind::File, said);
        let text = fs_err::read_to_string(path).map_err(|error| fail(error.to_string()))?;
        let whole = text.rfind('\n').map_or("", |at| &text[..=at]);
        let rows = Rows::read(path, whole)?;
        let name = match model {
            Some(model) => model.to_owned(),
            None => {
                let mut models: Vec<&str> = rows.requests.iter().filter_map(|row| row["model"].as_str()).collect();
                models.sort_unstable();
                models.dedup();
                match models.as_slice() {
                    [one] => (*one).to_owned(),
                    [] => return Err(fail(format!("the cassette `{}` has no answers", path.display()))),
                    several => {
                        let several = several.join("`, `");
                        let said = format!(
                            "the cassette `{}` has answers of `{several}`; name one with `--model`",
                            path.display()
                        );
                        return Err(fail(said));
                    }
                }
            }
        };
        Ok(Self { path: path.to_owned(), name, rows: Mutex::new(rows), source: None, busy: Mutex::default() })
    }

    /// Answers from the file where it can, and else lets the model answer and records that. What is on record is not
    /// asked again, so the same command goes on after an interruption.
    ///
    /// # Errors
    /// [`FailureKind::File`]: it cannot be written, or a line is no row.
    pub fn record(path: &Path, model: Arc<dyn Model>) -> Result<Self, LlmError> {
        let (file, text) = LineFile::open(path).map_err(|error| LlmError::new(FailureKind::File, error.to_string()))?;
        let rows = Mutex::new(Rows::read(path, &text)?);
        Ok(Self {
            path: path.to_owned(),
            name: model.name().to_owned(),
            rows,
            source: Some((model, file)),
            busy: Mutex::default(),
        })
    }

    fn recorded(&self, key: &Digest) -> Option<Answer> {
        locked(&self.rows).answers.get(key).map(|answer| Answer { replayed: true, ..answer.clone() })
    }

    async fn answer(&self, request: &ChatRequest) -> Result<Answer, LlmError> {
        let key = request.key(&self.name);
        if let Some(answer) = self.recorded(&key) {
            return Ok(answer);
        }
        let canonical = request.canonical(&self.name);
        let Some((model, file)) = &self.source else {
            let told = nearest(&canonical, &locked(&self.rows).requests);
            let said = format!("the cassette `{}` has no answer to this request; {told}", self.path.display());
            return Err(LlmError::new(FailureKind::CassetteMiss, said));
        };
        let turn = locked(&self.busy).entry(key.clone()).or_default().clone();
        let _turn = turn.lock().await;
        if let Some(answer) = self.recorded(&key) {
            return Ok(answer);
        }
        let answer = model.complete(request).await?;
        let row = Row { key, request: canonical, answer: answer.clone(), extra: Extra::new() };
        file.append(&row).map_err(|error| LlmError::new(FailureKind::File, error.to_string()))?;
        locked(&self.rows).put(row);
        Ok(answer)
    }
}

impl Model for Cassette {
    fn name(&self) -> &str {
        &self.name
    }

    fn complete<'a>(&'a self, request: &'a ChatRequest) -> AnswerFuture<'a> {
        Box::pin(self.answer(request))
    }

    fn has_recorded(&self, request: &ChatRequest) -> bool {
        self.source.is_none() || locked(&self.rows).answers.contains_key(&request.key(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::ScriptedModel;

    fn request(text: &str) -> ChatRequest {
        ChatRequest::new("filter", "classify", "system", text)
    }

    #[tokio::test]
    async fn what_was_recorded_comes_back_and_is_not_asked_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tape.jsonl");
        let model = Arc::new(ScriptedModel::texts(["one", "two"]));
        let cassette = Cassette::record(&path, model.clone()).unwrap();
        let first = cassette.complete(&request("a")).await.unwrap();
        assert!(!first.replayed && !cassette.has_recorded(&request("b")));
        assert!(cassette.complete(&request("a")).await.unwrap().replayed);
        assert_eq!(model.asked().len(), 1);
        let b = request("b");
        let (one, other) = tokio::join!(cassette.complete(&b), cassette.complete(&b));
        assert_eq!((one.unwrap().content, model.asked().len()), (other.unwrap().content, 2));
        let text = fs_err::read_to_string(&path).unwrap();
        // Killed while it wrote a third line.
        fs_err::write(&path, format!("{text}{{\"key\": \"12")).unwrap();
        let replay = Cassette::replay(&path, None).unwrap();
        assert_eq!(replay.name(), "scripted");
        let again = replay.complete(&request("a")).await.unwrap();
        assert_eq!(Answer { replayed: false, ..again }, first);
        Cassette::record(&path, model).unwrap();
        assert_eq!(fs_err::read_to_string(&path).unwrap(), text);
    }

    #[tokio::test]
    async fn a_miss_says_what_differed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tape.jsonl");
        let model = Arc::new(ScriptedModel::texts(["one", "two"]));
        let cassette = Cassette::record(&path, model).unwrap();
        cassette.complete(&request("line one\nline two")).await.unwrap();
        let replay = Cassette::replay(&path, Some("scripted")).unwrap();
        let mut asked = request("line one\nline 2");
        asked.max_tokens = 7;
        let error = replay.complete(&asked).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::CassetteMiss);
        for said in ["`max_tokens` is 7 and was 2048", "line 2", "line two"] {
            assert!(error.message.contains(said), "{error}");
        }
        asked.purpose = "other".to_owned();
        assert!(replay.complete(&asked).await.unwrap_err().message.contains("no request for `other`"));
    }

    #[test]
    fn broken_files_are_named_with_their_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tape.jsonl");
        assert_eq!(Cassette::replay(&path, None).err().unwrap().kind, FailureKind::File);
        fs_err::write(&path, "").unwrap();
        assert!(Cassette::replay(&path, None).err().unwrap().message.contains("no answers"));
        fs_err::write(&path, "{\"key\": 1}\n").unwrap();
        assert!(Cassette::replay(&path, None).err().unwrap().message.contains("line 1, field `key`"));
    }
}
