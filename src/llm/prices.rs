//! What models cost and how much they take in: a table that a user's file goes before.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Usage;

/// The table that comes with the program.
const EMBEDDED: (&str, &str) = ("templates/prices.toml", include_str!("../../templates/prices.toml"));

/// Prices per so many tokens.
const MILLION: f64 = 1e6;

/// One model, or a family of them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The model's id, which stands for its dated ids too (`…-2024-07-18`); with a `*` at its end, for every id that
    /// begins so.
    pub name: String,
    /// How many tokens prompt and answer may have together.
    #[serde(default)]
    pub window: Option<u64>,
    /// US dollars for a million prompt tokens.
    pub input: f64,
    /// For a million tokens of the answer.
    pub output: f64,
    /// For a million prompt tokens that the server's cache had; as `input` where left out.
    #[serde(default)]
    pub cache_read: Option<f64>,
    /// For a million prompt tokens that were written to it; as `input` where left out.
    #[serde(default)]
    pub cache_write: Option<f64>,
}

impl Price {
    /// What a call cost, in US dollars.
    pub fn cost(&self, usage: Usage) -> f64 {
        let read = self.cache_read.unwrap_or(self.input);
        let write = self.cache_write.unwrap_or(self.input);
        (usage.input as f64 * self.input
            + usage.cache_read as f64 * read
            + usage.cache_write as f64 * write
            + usage.output as f64 * self.output)
            / MILLION
    }

    /// The most that a call of so many tokens can cost, in US dollars.
    pub fn most(&self, prompt: u64, answer: u64) -> f64 {
        let input = self.input.max(self.cache_write.unwrap_or(0.0)).max(self.cache_read.unwrap_or(0.0));
        (prompt as f64 * input + answer as f64 * self.output) / MILLION
    }

    fn is_sane(&self) -> bool {
        let prices = [Some(self.input), Some(self.output), self.cache_read, self.cache_write];
        prices.into_iter().flatten().all(|price| price.is_finite() && price >= 0.0)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: u32,
    #[serde(default, rename = "model")]
    models: Vec<Price>,
}

/// A table of prices cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PriceError {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It is not as it must be.
    #[error("`{file}` is no table of prices: {problem}", file = file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// What is wrong, with the line.
        problem: String,
    },
}

/// Prices and windows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PriceTable {
    /// Tables in the order in which they are asked.
    tables: Vec<Vec<Price>>,
}

impl PriceTable {
    /// The table that comes with the program, behind those of these files.
    ///
    /// # Errors
    /// When a file cannot be read, or is no table; the line is named.
    pub fn load(files: &[PathBuf]) -> Result<Self, PriceError> {
        let mut tables = Vec::new();
        for file in files {
            tables.push(parse(file, &fs_err::read_to_string(file)?)?);
        }
        tables.push(parse(Path::new(EMBEDDED.0), EMBEDDED.1)?);
        Ok(Self { tables })
    }

    /// The model's row: of the first table that has one; in it its very name, else the longest beginning.
    pub fn get(&self, model: &str) -> Option<&Price> {
        self.tables.iter().find_map(|table| {
            let fits = |price: &&Price| match price.name.strip_suffix('*') {
                Some(beginning) => model.starts_with(beginning),
                None => model.strip_prefix(price.name.as_str()).is_some_and(|rest| rest.is_empty() || is_date(rest)),
            };
            table.iter().filter(fits).max_by_key(|price| (!price.name.ends_with('*'), price.name.len()))
        })
    }
}

/// Whether this is what vendors put behind a model's name: `-20250929`, `-2024-07-18`.
fn is_date(rest: &str) -> bool {
    let digits = rest.bytes().filter(u8::is_ascii_digit).count();
    rest.starts_with('-') && digits == 8 && rest.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit())
}

fn parse(file: &Path, text: &str) -> Result<Vec<Price>, PriceError> {
    let malformed = |problem: String| PriceError::Malformed { file: file.to_owned(), problem };
    let read: File = toml::from_str(text).map_err(|error| malformed(error.to_string().trim_end().to_owned()))?;
    if read.schema != 1 {
        return Err(malformed(format!("schema {} is not known here (use 1)", read.schema)));
    }
    match read.models.iter().find(|price| !price.is_sane()) {
        Some(price) => Err(malformed(format!("a price of `{}` is no sum of money", price.name))),
        None => Ok(read.models),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_that_comes_along_is_sound() {
        let table = PriceTable::load(&[]).unwrap();
        assert!(table.get("gpt-4o-mini").unwrap().window.is_some());
        assert_eq!(table.get("gpt-4o-mini-2024-07-18"), table.get("gpt-4o-mini"));
        assert_eq!(table.get("claude-haiku-4-5-20251001").unwrap().output, 5.0);
        assert_ne!(table.get("gpt-4o-mini"), table.get("gpt-4o"));
        assert!(table.get("gpt-4o-audio-preview").is_none(), "another model, with other prices");
        assert!(table.get("nobody-knows-this").is_none());
    }

    #[test]
    fn a_users_table_goes_first_and_its_faults_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mine.toml");
        let good = "schema = 1\n[[model]]\nname = \"gpt-4o*\"\ninput = 1\noutput = 2\n[[model]]\nname = \"here\"\ninput = 0\noutput = 0\nwindow = 10";
        fs_err::write(&file, good).unwrap();
        let table = PriceTable::load(std::slice::from_ref(&file)).unwrap();
        assert_eq!(table.get("gpt-4o").unwrap().input, 1.0);
        assert_eq!(table.get("here").unwrap().window, Some(10));
        for (text, said) in [
            ("schema = 1\n[[model]]\nname = \"x\"\ninput = -1\noutput = 0", "`x`"),
            ("schema = 1\n[[model]]\nname = \"x\"\ninptu = 1", "line 4"),
            ("schema = 2", "schema 2"),
        ] {
            fs_err::write(&file, text).unwrap();
            let error = PriceTable::load(std::slice::from_ref(&file)).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("mine.toml"), "{error}");
        }
    }

    #[test]
    fn cache_tokens_have_prices_of_their_own() {
        let price = Price {
            name: "m".to_owned(),
            window: None,
            input: 3.0,
            output: 15.0,
            cache_read: Some(0.3),
            cache_write: Some(3.75),
        };
        let usage = Usage { input: 1000, cache_read: 10_000, cache_write: 2000, output: 100, reasoning: 50 };
        // 0.003 + 0.003 + 0.0075 + 0.0015
        assert!((price.cost(usage) - 0.015).abs() < 1e-12);
        assert!((price.most(1_000_000, 0) - 3.75).abs() < 1e-12);
    }
}
