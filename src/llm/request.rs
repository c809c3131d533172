//! What is asked of a model: one shape for every vendor.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::model::{Digest, digest_json};

/// Who said a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// We.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// The one string form, which is also both vendors'.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One message of the conversation. There are no tools and no images.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who said it.
    pub role: Role,
    /// What.
    pub text: String,
}

impl Message {
    /// A message of ours.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, text: text.into() }
    }

    /// A message of the model's.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { role: Role::Assistant, text: text.into() }
    }
}

/// The JSON Schema that an answer must fit (draft 2020-12).
///
/// Servers that are bound to a schema know only a part of the language. `type`, `properties`, `required`,
/// `additionalProperties: false`, `items` and `enum` work everywhere; every object should list all of its properties as
/// required and close itself with `additionalProperties: false`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerSchema {
    /// Its name: letters, digits and `_`, at most 64.
    pub name: String,
    /// The schema.
    pub schema: Value,
}

/// Which prompt template a request was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptId {
    /// The template's name.
    pub name: String,
    /// The digest of its text.
    pub digest: Digest,
}

/// One question to a model. Everything but `subject` and `prompt` is part of its [key](Self::key).
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// The stage that asks (`filter`, `synth`): budgets are kept by it.
    pub stage: String,
    /// What for, inside the stage (`classify`, `write-test`): for the ledger, and to find the nearest recorded request.
    pub purpose: String,
    /// What it is about (instance and comment), for the ledger and for messages.
    pub subject: String,
    /// The template that it was made from, for the ledger.
    pub prompt: Option<PromptId>,
    /// The system text; may be empty.
    pub system: String,
    /// The conversation, ending with a message of ours.
    pub messages: Vec<Message>,
    /// The most tokens that the answer may have, reasoning included.
    pub max_tokens: u32,
    /// Sampling temperature; `None`: the server's default.
    pub temperature: Option<f64>,
    /// The sampler's seed, where the server has one.
    pub seed: Option<u64>,
    /// Which of several equal questions this is, from 0 (majority of k). It is not sent, but tells their answers apart.
    pub sample: u32,
    /// What the answer must look like; `None`: any text.
    pub schema: Option<AnswerSchema>,
}

impl ChatRequest {
    /// A request of one message with the usual settings: temperature 0, at most 2,048 tokens, any text.
    pub fn new(
        stage: impl Into<String>,
        purpose: impl Into<String>,
        system: impl Into<String>,
        user: impl Into<String>,
    ) -> Self {
        Self {
            stage: stage.into(),
            purpose: purpose.into(),
            subject: String::new(),
            prompt: None,
            system: system.into(),
            messages: vec![Message::user(user)],
            max_tokens: 2048,
            temperature: Some(0.0),
            seed: None,
            sample: 0,
            schema: None,
        }
    }

    /// The request as one JSON value, with the model that is asked and without anything that names a server or a key.
    pub fn canonical(&self, model: &str) -> Value {
        json!({
            "model": model,
            "stage": self.stage,
            "purpose": self.purpose,
            "system": self.system,
            "messages": self.messages,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "seed": self.seed,
            "sample": self.sample,
            "schema": self.schema,
        })
    }

    /// The digest under which an answer is recorded.
    pub fn key(&self, model: &str) -> Digest {
        digest_json(&self.canonical(model))
    }

    /// An upper bound of the prompt's tokens, from its bytes: no tokenizer that works on bytes makes more tokens than
    /// there are bytes, and a surplus stands for roles, the chat template and the schema's wrapping. Three to four times
    /// what it will be.
    pub fn most_prompt_tokens(&self) -> u64 {
        self.bytes() + 16 * (self.messages.len() as u64 + 2) + if self.schema.is_some() { 512 } else { 0 }
    }

    /// About how many tokens the prompt has: three bytes each, which is more tokens than prose and most code have. An
    /// estimate, and said to be one wherever it is shown.
    pub fn likely_prompt_tokens(&self) -> u64 {
        self.bytes().div_ceil(3)
    }

    fn bytes(&self) -> u64 {
        let schema = self.schema.as_ref().map_or(0, |schema| schema.schema.to_string().len());
        let messages: usize = self.messages.iter().map(|message| message.text.len()).sum();
        (self.system.len() + messages + schema) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::digest_bytes;

    #[test]
    fn the_key_is_of_what_could_change_the_answer() {
        let request = ChatRequest::new("filter", "classify", "be brief", "hello");
        let key = request.key("m");
        let mut same = request.clone();
        same.subject = "o__r-1@0123abc c1".to_owned();
        same.prompt = Some(PromptId { name: "filter".to_owned(), digest: digest_bytes(b"x") });
        assert_eq!(same.key("m"), key);
        assert_ne!(request.key("other"), key);
        for change in [
            |r: &mut ChatRequest| r.sample = 1,
            |r: &mut ChatRequest| r.temperature = None,
            |r: &mut ChatRequest| r.max_tokens += 1,
            |r: &mut ChatRequest| r.messages.push(Message::assistant("hi")),
            |r: &mut ChatRequest| r.seed = Some(0),
            |r: &mut ChatRequest| r.schema = Some(AnswerSchema { name: "a".to_owned(), schema: json!({}) }),
        ] {
            let mut other = request.clone();
            change(&mut other);
            assert_ne!(other.key("m"), key);
        }
    }

    #[test]
    fn the_upper_bound_is_above_the_bytes() {
        let request = ChatRequest::new("s", "p", "", "é".repeat(300));
        assert!(request.most_prompt_tokens() >= 600);
        assert_eq!(request.likely_prompt_tokens(), 200);
    }
}
