//! What an inventory of a checkout brings home: things that are findings by themselves, and ids that must be judged.

use std::path::Path;

use git2::Oid;

use super::files::{self, Content};
use super::finding::{Finding, Later, LeakKind};

/// Ids that some place names.
#[derive(Debug, Clone)]
pub(super) struct Lead {
    pub kind: LeakKind,
    pub place: String,
    /// What the place is, for the message.
    pub what: String,
    pub ids: Vec<Oid>,
    /// What it is where every id is allowed; `None`: then it is no finding.
    pub otherwise: Option<Later>,
}

/// All that was found so far.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    pub findings: Vec<Finding>,
    pub leads: Vec<Lead>,
    pub notes: Vec<String>,
    /// How many refs there are.
    pub refs: u64,
}

impl Inventory {
    pub(super) fn find(&mut self, kind: LeakKind, place: impl Into<String>, later: Later, what: impl Into<String>) {
        self.findings.push(Finding::new(kind, place, later, what));
    }

    /// Something that cannot be read: nobody knows what it holds.
    pub(super) fn damaged(&mut self, place: impl Into<String>, why: impl Into<String>) {
        self.find(LeakKind::Damaged, place, Later::Possible, why);
    }

    /// Ids that are a finding when one of them is not allowed.
    pub(super) fn lead(&mut self, kind: LeakKind, place: impl Into<String>, what: impl Into<String>, ids: Vec<Oid>) {
        if !ids.is_empty() {
            self.leads.push(Lead { kind, place: place.into(), what: what.into(), ids, otherwise: None });
        }
    }

    /// Ids at a place that is a finding in any case.
    pub(super) fn lead_anyway(
        &mut self,
        kind: LeakKind,
        place: impl Into<String>,
        what: impl Into<String>,
        ids: Vec<Oid>,
    ) {
        let otherwise = Some(Later::Possible);
        self.leads.push(Lead { kind, place: place.into(), what: what.into(), ids, otherwise });
    }

    /// The bytes of a file, where there is one that can be read; one that cannot is a finding.
    pub(super) fn taken(&mut self, content: Content, place: &str) -> Option<Vec<u8>> {
        match content {
            Content::Bytes(bytes) => Some(bytes),
            Content::Absent => None,
            Content::Refused(why) => {
                self.damaged(place, why);
                None
            }
        }
    }

    /// The entries of a folder; a finding where it cannot be listed.
    pub(super) fn listed(&mut self, folder: &Path, place: &str) -> Vec<fs_err::DirEntry> {
        files::list(folder).unwrap_or_else(|why| {
            self.damaged(place, why.to_string());
            Vec::new()
        })
    }

    /// A step of a walk; a finding where it leads nowhere.
    pub(super) fn walked(
        &mut self,
        step: walkdir::Result<walkdir::DirEntry>,
        place: &str,
    ) -> Option<walkdir::DirEntry> {
        step.inspect_err(|why| self.damaged(place, why.to_string())).ok()
    }
}
