//! Zip archives of a release: whatever the bytes claim, members are bounded, and reading what they hold ends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use redgreen::formats::ccrab::{Release, join, place};
use redgreen::stage::import::{Source, SourceFile, read_source};

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("testgen_combined.zip");
    std::fs::write(&path, bytes).expect("a file");
    let mut release = Release::default();
    let read = read_source(&Source::Path(path), &|_| true, &mut |name, file| {
        if let (Some(place), SourceFile::Bytes(bytes)) = (place(&name), file) {
            release.add(place, bytes);
        }
    });
    read.expect("a file that is there can be listed");
    join(&release);
});
