//! A word longer than the width is kept, on a line of its own.

#[test]
fn a_long_word_in_the_middle() {
    let lines = wrapline::wrap("see https://example.org/long now", 10);
    assert_eq!(lines, ["see", "https://example.org/long", "now"]);
}

#[test]
fn nothing_but_a_long_word() {
    assert_eq!(wrapline::wrap("incomprehensible", 4), ["incomprehensible"]);
}

#[test]
fn short_words_still_share_lines() {
    assert_eq!(wrapline::wrap("a bc def", 4), ["a bc", "def"]);
}
