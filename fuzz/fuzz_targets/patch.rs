//! Patches: reading, normalising and applying them. Whatever comes out stays in the tree and is the same twice.
//!
//! The input is the patch; the tree that it is applied to is fixed, and has what a patch can meet: text with and without
//! a last line end, CRLF, an executable, a symlink, a folder, bytes that are no text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use redgreen::repo::{Change, FileContent, FileMode, MemoryTree, TreePath, apply_patch, normalise_patch};

fn tree() -> MemoryTree {
    let file = |mode, content: &[u8]| FileContent { mode, content: content.to_vec() };
    let files = [
        ("a.txt", file(FileMode::Regular, b"one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n")),
        ("b/open.txt", file(FileMode::Regular, b"alpha\nbeta\ngamma")),
        ("b/crlf.txt", file(FileMode::Regular, b"one\r\ntwo\r\nthree\r\n")),
        ("c/run.sh", file(FileMode::Executable, b"#!/bin/sh\nexit 0\n")),
        ("c/link", file(FileMode::Symlink, b"../a.txt")),
        ("d.bin", file(FileMode::Regular, b"\x00\x01\x02\xff\xfe")),
        ("empty", file(FileMode::Regular, b"")),
    ];
    MemoryTree { files: files.into_iter().filter_map(|(path, file)| Some((TreePath::new(path).ok()?, file))).collect() }
}

fuzz_target!(|patch: &[u8]| {
    let Ok(once) = normalise_patch(patch) else { return };
    let twice = normalise_patch(&once.text).expect("a normalised patch can be read");
    assert_eq!(once.text, twice.text, "normalising again changes something");
    let tree = tree();
    let Ok(applied) = apply_patch(&tree, patch) else { return };
    for (path, change) in &applied.changes.changes {
        assert_eq!(TreePath::new(path.as_bytes()).as_ref(), Ok(path), "a path that is none came out");
        match change {
            Change::Remove => assert!(tree.files.contains_key(path), "a file that is not there was removed"),
            Change::Write(file) => assert_ne!(tree.files.get(path), Some(file), "a change that changes nothing"),
        }
    }
    let again = apply_patch(&tree, patch).expect("it applied before");
    assert_eq!(applied.changes.digest(), again.changes.digest());
});
