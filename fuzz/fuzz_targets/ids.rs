//! Names: instance ids, comments, digests, arms, paths of a tree, outcomes. One that is read is written as it is read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use redgreen::model::{CommentId, Digest, InstanceId, Outcome};
use redgreen::oracle::Policy;
use redgreen::repo::TreePath;

fuzz_target!(|text: &str| {
    if let Ok(id) = text.parse::<InstanceId>() {
        let again: InstanceId = id.to_string().parse().expect("an id's own form is an id");
        assert_eq!(again, id);
        assert!(id.repo().contains('/') && !id.short_commit().is_empty());
        assert_eq!(id.folded().parse::<InstanceId>().as_ref(), Ok(&id), "compared without case");
    }
    if let Ok(outcome) = text.parse::<Outcome>() {
        assert_eq!(outcome.to_string().parse::<Outcome>().as_ref(), Ok(&outcome));
    }
    if let Ok(digest) = text.parse::<Digest>() {
        assert_eq!(digest.as_str(), text);
    }
    if let Ok(comment) = text.parse::<CommentId>() {
        assert_eq!(comment.as_str().parse::<CommentId>().as_ref(), Ok(&comment));
    }
    let _ = text.parse::<Policy>();
    if let Ok(path) = TreePath::new(text) {
        let below = path.as_path();
        assert!(below.is_relative() && below.components().all(|c| matches!(c, std::path::Component::Normal(_))));
    }
});
