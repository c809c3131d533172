//! The documented `1h30m` reads.

#[test]
fn hours_and_minutes_add_up() {
    assert_eq!(pulse::read("1h30m"), Ok(5400));
}

#[test]
fn three_units_add_up() {
    assert_eq!(pulse::read("2h3m4s"), Ok(7384));
}
