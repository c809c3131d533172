//! The tests of the built binary and of the rooms' joints, in one program.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod again;
mod audit;
mod base;
mod channel;
mod cli;
mod configuration;
mod crash;
mod detect;
mod disk_env;
mod docker;
mod docs;
mod environment;
mod github;
mod hostile;
mod import;
mod leaks;
mod llm;
mod load;
mod oracle;
mod pages;
mod proof;
mod quickstart;
mod repo;
mod resume;
mod sandbox;
mod support;
mod truth;
mod validate;

/// A file of tests that nobody declared would never run.
#[test]
fn no_test_file_is_forgotten() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let main = fs_err::read_to_string(folder.join("main.rs")).unwrap();
    for entry in fs_err::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        assert!(
            module == "main" || main.contains(&format!("mod {module};")),
            "tests/it/{name} is not declared in main.rs"
        );
    }
}
