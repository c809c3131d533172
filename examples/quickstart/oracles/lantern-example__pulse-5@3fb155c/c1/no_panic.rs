//! A text that is no duration is an error, never a panic.

#[test]
fn an_empty_text_is_an_error() {
    assert!(pulse::read("").is_err());
}

#[test]
fn a_unit_that_is_not_ascii_is_an_error() {
    assert!(pulse::read("5é").is_err());
}

#[test]
fn one_unit_still_reads() {
    assert_eq!(pulse::read("15m"), Ok(900));
}
