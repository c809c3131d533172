//! JSON Lines of every kind that is read: rows of a benchmark, SWE-CARE's files, predictions, instance folders, verdicts.
//! What was read can be written, and reads as the same again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use redgreen::formats::{folder, predictions, swe_care};
use redgreen::model::{Attrition, Instance, RecordedVerdict, Review, Revision, Verdict, parse_jsonl, to_jsonl};

fn round_trip<T>(text: &str)
where
    T: serde::de::DeserializeOwned + serde::Serialize + PartialEq + std::fmt::Debug,
{
    let rows = parse_jsonl::<T>(text).into_rows();
    let written = to_jsonl(&rows).expect("what was read can be written");
    let again = parse_jsonl::<T>(&written);
    assert!(again.errors.is_empty(), "what was written cannot be read: {:?}", again.errors);
    assert_eq!(again.into_rows(), rows);
}

fuzz_target!(|text: &str| {
    round_trip::<Instance>(text);
    round_trip::<Revision>(text);
    round_trip::<Review>(text);
    round_trip::<RecordedVerdict>(text);
    round_trip::<Attrition>(text);
    round_trip::<Verdict>(text);
    let _ = (swe_care::parse(text), predictions::parse(text), folder::parse(text));
});
