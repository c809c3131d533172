//! JUnit XML: any text is a report or an error, and what is read comes from the text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use redgreen::formats::junit;

fuzz_target!(|text: &str| {
    if let Ok(cases) = junit::parse(text) {
        assert!(cases.len() <= text.matches("testcase").count(), "more cases than elements");
        assert!(cases.iter().all(|case| case.seconds.is_none_or(|seconds| !seconds.is_nan())));
    }
});
