//! Answers of GitHub's API, and the hunks in them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use redgreen::formats::github::{Asked, Hunk, Names, Side, Take, fit, lines_of, suggestions, threads};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let mut take = Take::new(Some("o/r"));
    take.file("f", &text);
    let bag = take.finish();
    for pull in bag.pulls.values() {
        let messages: usize = threads(pull).iter().map(|t| t.messages.len()).sum();
        assert_eq!(messages, pull.comments.len());
    }
    let _ = Names::new(Some("a")).hide(&text);
    let _ = suggestions(&text);
    if let Ok(hunk) = Hunk::parse(&text) {
        for side in [Side::Old, Side::New] {
            let found = fit(&Asked { hunk: &hunk, side, lines: 3, line: Some(2) }, &lines_of(&text));
            assert!(found.is_none_or(|f| f.first >= 1 && f.first <= f.last));
        }
    }
});
