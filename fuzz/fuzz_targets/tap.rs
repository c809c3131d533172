//! TAP: any text is a stream, and no test point comes from nowhere.

#![no_main]

use libfuzzer_sys::fuzz_target;
use redgreen::formats::tap;

fuzz_target!(|text: &str| {
    let stream = tap::parse(text);
    assert!(stream.tests.len() <= text.lines().count(), "more test points than lines");
    for test in &stream.tests {
        let _ = (test.passes(), test.message(), test.code());
    }
});
