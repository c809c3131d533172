//! Digests: BLAKE3 over bytes, or over JSON in one canonical form.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

/// A BLAKE3 digest as 64 lower-case hex digits.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Digest(String);

/// A text that is not 64 lower-case hex digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a digest (64 lower-case hex digits)")]
pub struct DigestError(String);

impl Digest {
    /// The 64 hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first 12 digits, for people.
    pub fn short(&self) -> &str {
        &self.0[..12]
    }

    /// The first two digits, which name the folder a digest's file lies in.
    pub fn shard(&self) -> &str {
        &self.0[..2]
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() == 64 && text.bytes().all(hex) {
            Ok(Self(text.to_owned()))
        } else {
            Err(DigestError(text.to_owned()))
        }
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.short())
    }
}

/// The digest of raw bytes.
pub fn digest_bytes(bytes: &[u8]) -> Digest {
    Digest(blake3::hash(bytes).to_hex().to_string())
}

/// The digest of a JSON value in canonical form, so that neither key order nor white space counts.
pub fn digest_json(value: &Value) -> Digest {
    digest_bytes(&canonical_bytes(value))
}

/// The canonical text of a JSON value: keys sorted by their bytes, no white space, numbers as serde_json writes them.
pub fn canonical_json(value: &Value) -> String {
    String::from_utf8(canonical_bytes(value)).unwrap_or_default()
}

fn canonical_bytes(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_canonical(item, out);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            out.push(b'{');
            for (i, (key, item)) in entries.into_iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_scalar(key, out);
                out.push(b':');
                write_canonical(item, out);
            }
            out.push(b'}');
        }
        scalar => write_scalar(scalar, out),
    }
}

/// As serde_json has it. Writing one to memory does not fail.
fn write_scalar<T: Serialize + ?Sized>(scalar: &T, out: &mut Vec<u8>) {
    let _ = serde_json::to_writer(out, scalar);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn key_order_and_space_do_not_count_but_values_do() {
        let a: Value = serde_json::from_str(r#"{"b": [1, {"y": null, "x": "é"}], "a": 1.5}"#).unwrap();
        let b: Value = serde_json::from_str(r#"{"a":1.5,"b":[1,{"x":"é","y":null}]}"#).unwrap();
        assert_eq!(canonical_json(&a), r#"{"a":1.5,"b":[1,{"x":"é","y":null}]}"#);
        assert_eq!(digest_json(&a), digest_json(&b));
        assert_ne!(digest_json(&a), digest_json(&json!({"a": 1.5, "b": [1, {"x": "e", "y": null}]})));
    }

    #[test]
    fn digests_are_blake3() {
        // The empty input's value from the BLAKE3 paper's test vectors.
        assert_eq!(digest_bytes(b"").as_str(), "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
    }

    #[test]
    fn only_full_lower_case_hex_parses() {
        assert!("AB".parse::<Digest>().is_err());
        let text = digest_bytes(b"x").to_string();
        assert_eq!(text.parse::<Digest>().unwrap().as_str(), text);
        assert!(text.to_uppercase().parse::<Digest>().is_err());
    }
}
