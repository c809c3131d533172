// Stands in an oracle's place in a run of its own: of its two tests one must pass and one must fail.
#![allow(warnings, unused, missing_docs, unused_crate_dependencies, unused_extern_crates)]
{library}
#[test]
fn {first}() {
    assert_eq!(1 + 1, {two}, "{message}");
}

#[test]
fn {second}() {
    assert_eq!(2 + 2, {four}, "{message}");
}
