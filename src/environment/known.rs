//! What is known of a tree's environment, without building anything.

use super::accept::Request;
use super::detect::{Detected, detect};
use super::prepare::Environments;
use super::record::EnvironmentRecord;
use super::resolved::Resolved;
use crate::model::digest_json;

/// What is known of a tree for which nobody describes an environment.
#[derive(Debug, Clone)]
pub enum Known {
    /// One was accepted, and is the one that would be taken now.
    Accepted(Box<Resolved>),
    /// One was accepted, and stands on the base of this name, which is to be made first.
    BaseFirst(String),
    /// One was accepted, and would be looked for again: its toolchain or definition changed.
    Outdated(Box<EnvironmentRecord>),
    /// None could be had, by the repository's own making, and nothing has changed since.
    Rejected(Box<EnvironmentRecord>),
    /// Nothing is on record: these ways would be tried.
    Search(Box<Detected>),
    /// Nothing installable is in the tree: it would be taken as it is.
    Bare,
}

impl Environments {
    /// Looks at the records and at the tree. Blocks for as long as that takes, and a toolchain to answer (once).
    pub fn known(&self, request: &Request) -> Known {
        if let Some(record) = self.records.get(&digest_json(&self.inputs(request))) {
            let has_come = self.has_come(&record.missing);
            if record.environment.is_none() {
                if record.grounds == self.grounds() && !has_come {
                    return Known::Rejected(Box::new(record));
                }
            } else {
                let resolved = record.spec.as_ref().map(|spec| self.resolve_there(spec));
                return match resolved {
                    _ if has_come => Known::Outdated(Box::new(record)),
                    Some(Ok(resolved)) if record.resolved.as_ref() == Some(&resolved.key()) => {
                        Known::Accepted(Box::new(resolved))
                    }
                    Some(Err(ref error)) if let Some(base) = record.base_to_make(error) => {
                        Known::BaseFirst(base.to_owned())
                    }
                    _ => Known::Outdated(Box::new(record)),
                };
            }
        }
        let tree = &request.subject.snapshot;
        let detected = detect(&self.definitions, tree, request.date, request.language.as_deref());
        match detected.filter(Detected::is_installable) {
            Some(detected) => Known::Search(Box::new(detected)),
            None => Known::Bare,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::accept::plain_spec;
    use crate::environment::record::{Missing, SpecSource};
    use crate::environment::recorder::{Recorder, Room, broken};
    use crate::model::{EnvironmentSpec, digest_bytes};

    /// A record that an environment was accepted, with that spec.
    fn record(room: &Room, request: &Request, spec: EnvironmentSpec) -> EnvironmentRecord {
        let (inputs, grounds) = (room.environments.inputs(request), room.environments.grounds());
        let mut record = EnvironmentRecord::new(digest_json(&inputs), inputs, grounds, SpecSource::Detected, "shell");
        record.resolved = room.environments.resolve_there(&spec).ok().map(|resolved| resolved.key());
        record.spec = Some(spec);
        record.environment = Some(digest_bytes(b"e"));
        record
    }

    #[test]
    fn a_base_that_is_to_be_made_is_told_apart_from_what_is_outdated() {
        let room = Room::of(Recorder::answering(broken));
        let request = Request { subject: room.subject.clone(), date: None, language: None, needs: Vec::new() };
        let known = |record: &EnvironmentRecord| {
            room.environments.records.put(record).unwrap();
            room.environments.known(&request)
        };
        // Version 77 of a shell: no machine has it, and the base that would is not there.
        let mut on_base = record(&room, &request, plain_spec("shell", Some("77")));
        assert!(matches!(known(&on_base), Known::Outdated(_)));
        on_base.base = Some("content".to_owned());
        assert!(matches!(known(&on_base), Known::BaseFirst(base) if base == "debian-12"));
        let mut plain = record(&room, &request, plain_spec("shell", None));
        assert!(matches!(known(&plain), Known::Accepted(_)));
        plain.resolved = Some(digest_bytes(b"another"));
        assert!(matches!(known(&plain), Known::Outdated(_)));
    }

    #[test]
    fn what_came_since_is_looked_for_again() {
        let room = Room::of(Recorder::answering(broken));
        let request = Request { subject: room.subject.clone(), date: None, language: None, needs: Vec::new() };
        let mut record = record(&room, &request, plain_spec("shell", None));
        for (version, has_come) in [(Some("99"), false), (None, true)] {
            record.missing = vec![Missing { spec: plain_spec("shell", version), unmade: false }];
            room.environments.records.put(&record).unwrap();
            let known = room.environments.known(&request);
            assert_eq!(matches!(known, Known::Outdated(_)), has_come, "{known:?}");
            assert_eq!(matches!(known, Known::Accepted(_)), !has_come, "{known:?}");
        }
    }
}
