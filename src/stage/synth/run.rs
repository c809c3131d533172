//! The comments, several at once.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::attempt::{Loop, blank};
use super::kit::{Kit, Offered};
use super::material::Material;
use super::question::Asking;
use crate::engine::Scheduler;
use crate::environment::Definitions;
use crate::llm::{FailureClass, Llm, LlmError};
use crate::model::{
    Comment, CommentId, Digest, FilterDecision, FilterRow, Instance, InstanceId, SynthReason, SynthRow, digest_json,
};
use crate::stage::score::{Trials, Unavailable};

/// What the stage stands on.
pub struct Synth<'a> {
    /// Frameworks, rules and patterns.
    pub kit: &'a Kit,
    /// How the model is asked.
    pub asking: &'a Asking,
    /// The model.
    pub llm: &'a Llm,
    /// Where tests are run.
    pub trials: &'a Trials,
    /// Slots, and how the run is asked to stop.
    pub scheduler: &'a Scheduler,
    /// Fires when every further call would meet the same failure.
    pub closing: CancellationToken,
    /// Runs on each commit that an accepted test must have.
    pub repeat: u32,
    /// Comments at once.
    pub jobs: usize,
}

/// A comment that is not decided: the next run goes on with it.
#[derive(Debug, Clone)]
pub struct Open {
    /// The instance.
    pub instance_id: InstanceId,
    /// The comment.
    pub comment: CommentId,
    /// `budget`, `infra(REASON)`, `interrupted`, or `stopped` where another comment met what every call would meet.
    pub why: String,
    /// In words.
    pub detail: String,
    /// The model's failure, where it was one.
    pub error: Option<LlmError>,
}

/// What became of a comment.
#[derive(Debug, Clone)]
pub enum CommentEnd {
    /// It is not for this stage: `filtered`, or it has an oracle already (`has-oracle`).
    Left(&'static str),
    /// A test was accepted.
    Accepted,
    /// None was.
    Rejected(SynthReason),
    /// Not decided yet.
    Open(Box<Open>),
}

/// What came of it. Every comment is in `comments`, once, in the order of the dataset.
#[derive(Debug)]
pub struct Done {
    /// Each comment's end.
    pub comments: Vec<(InstanceId, CommentId, CommentEnd)>,
    /// All attempts.
    pub rows: Vec<SynthRow>,
    /// How many of them an earlier run had made.
    pub served: usize,
    /// What every further call would have met, if anything.
    pub stopped: Option<LlmError>,
    /// Whether the run was asked to stop.
    pub interrupted: bool,
}

/// One thing that happened.
pub enum Told<'a> {
    /// An attempt has its row.
    Row(&'a SynthRow),
    /// A comment came to no end.
    Open(&'a Open),
}

struct Work<'a> {
    at: usize,
    instance: &'a Instance,
    comment: &'a Comment,
}

/// One comment's attempts.
struct Ended {
    rows: Vec<SynthRow>,
    served: usize,
    end: CommentEnd,
}

impl Synth<'_> {
    /// Works through all comments of these instances. Rows of `earlier` whose key is the same are taken over. `save` is
    /// given each new row before it counts. `labels` are the filter's: what it did not keep is left.
    ///
    /// # Errors
    /// What `save` says.
    pub async fn run<E: Send>(
        &self,
        instances: &[&Instance],
        labels: &[FilterRow],
        earlier: &[SynthRow],
        save: &(impl Fn(&SynthRow) -> Result<(), E> + Sync),
        tell: &(impl Fn(Told<'_>) + Sync),
    ) -> Result<Done, E> {
        let earlier: BTreeMap<Digest, SynthRow> = earlier.iter().map(|row| (row.key.clone(), row.clone())).collect();
        let dropped: BTreeSet<(&InstanceId, &CommentId)> = labels
            .iter()
            .filter(|row| row.decision != FilterDecision::Kept)
            .map(|row| (&row.instance_id, &row.comment))
            .collect();
        let all = instances
            .iter()
            .flat_map(|instance| instance.reference_review_comments.iter().map(move |comment| (*instance, comment)));
        let all: Vec<Work<'_>> =
            all.enumerate().map(|(at, (instance, comment))| Work { at, instance, comment }).collect();
        let mut ends: Vec<Option<Ended>> = all.iter().map(|_| None).collect();
        let mut work = Vec::new();
        for one in &all {
            let left = if dropped.contains(&(&one.instance.instance_id, &one.comment.id)) {
                Some("filtered")
            } else if one.instance.oracle(&one.comment.id).is_some_and(|oracle| !super::compose::is_ours(oracle)) {
                Some("has-oracle")
            } else {
                None
            };
            match left {
                Some(why) => {
                    ends[one.at] = Some(Ended { rows: Vec::new(), served: 0, end: CommentEnd::Left(why) });
                }
                None => work.push(one),
            }
        }
        let save = |row: &SynthRow| {
            save(row)?;
            tell(Told::Row(row));
            Ok(())
        };
        let mut under_way = stream::iter(work)
            .map(|work| {
                let (earlier, save) = (&earlier, &save);
                async move { (work.at, self.one(work, earlier, save).await) }
            })
            .buffer_unordered(self.jobs.max(1));
        let mut stopped: Option<LlmError> = None;
        while let Some((at, ended)) = under_way.next().await {
            let ended: Ended = ended?;
            if let CommentEnd::Open(open) = &ended.end {
                if let Some(error) = open.error.as_ref().filter(|error| error.class() == FailureClass::Stop) {
                    // The first one says why; the others were only under way with it.
                    stopped.get_or_insert_with(|| error.clone());
                    self.closing.cancel();
                }
                tell(Told::Open(open));
            }
            ends[at] = Some(ended);
        }
        drop(under_way);
        let mut done = Done {
            comments: Vec::new(),
            rows: Vec::new(),
            served: 0,
            stopped,
            interrupted: self.scheduler.is_interrupted(),
        };
        for (work, ended) in all.iter().zip(ends) {
            let (instance, comment) = (&work.instance.instance_id, &work.comment.id);
            let ended = ended.unwrap_or_else(|| Ended {
                rows: Vec::new(),
                served: 0,
                end: CommentEnd::Open(Box::new(Open {
                    instance_id: instance.clone(),
                    comment: comment.clone(),
                    why: "interrupted".to_owned(),
                    detail: String::new(),
                    error: None,
                })),
            });
            done.rows.extend(ended.rows);
            done.served += ended.served;
            done.comments.push((instance.clone(), comment.clone(), ended.end));
        }
        Ok(done)
    }

    async fn one<E>(
        &self,
        work: &Work<'_>,
        earlier: &BTreeMap<Digest, SynthRow>,
        save: &(impl Fn(&SynthRow) -> Result<(), E> + Sync),
    ) -> Result<Ended, E> {
        let (instance, comment) = (work.instance, work.comment);
        let (language, offered) = self.offered(instance);
        let unfit = if instance.merged_commit.is_none() {
            Some("no merged commit is known, so nothing shows what passes".to_owned())
        } else if offered.is_empty() {
            Some(format!("there is no framework for `{language}`"))
        } else {
            None
        };
        if let Some(detail) = unfit {
            return self.unasked(work, earlier, save, detail);
        }
        let open = |why: String, detail: String| {
            let (instance_id, comment) = (instance.instance_id.clone(), comment.id.clone());
            let end = CommentEnd::Open(Box::new(Open { instance_id, comment, why, detail, error: None }));
            Ok(Ended { rows: Vec::new(), served: 0, end })
        };
        if self.scheduler.is_stopping() {
            return open("interrupted".to_owned(), String::new());
        }
        if self.closing.is_cancelled() {
            return open("stopped".to_owned(), String::new());
        }
        let material = match self.material(instance, comment, &language, offered).await {
            Ok(material) => material,
            Err(why) => return open(format!("infra({})", why.class.as_str()), why.detail),
        };
        let attempts = Loop { synth: self, instance, comment, language, material, earlier, grounds: HashMap::new() };
        let attempts = attempts.run(save).await?;
        let end = match (attempts.open, attempts.rows.last()) {
            (Some(open), _) => CommentEnd::Open(Box::new(open)),
            (None, Some(row)) if row.accepted => CommentEnd::Accepted,
            (None, last) => CommentEnd::Rejected(last.and_then(|row| row.reason).unwrap_or(SynthReason::NoTests)),
        };
        Ok(Ended { rows: attempts.rows, served: attempts.served, end })
    }

    /// A comment that no model need be asked about.
    fn unasked<E>(
        &self,
        work: &Work<'_>,
        earlier: &BTreeMap<Digest, SynthRow>,
        save: &(impl Fn(&SynthRow) -> Result<(), E> + Sync),
        detail: String,
    ) -> Result<Ended, E> {
        let (instance, comment) = (work.instance, work.comment);
        let key = digest_json(&json!(["redgreen-synth-none-1", instance.instance_id.folded(), comment.id, detail]));
        let reason = Some(SynthReason::NotTestable);
        let row = SynthRow { reason, detail, ..blank(instance, comment, key) };
        let served = usize::from(earlier.contains_key(&row.key));
        if served == 0 {
            save(&row)?;
        }
        Ok(Ended { rows: vec![row], served, end: CommentEnd::Rejected(SynthReason::NotTestable) })
    }

    /// The language as environments call it, and the frameworks that a model may write for.
    fn offered(&self, instance: &Instance) -> (String, Vec<Offered>) {
        offered(self.kit, self.trials.services().environments.definitions(), instance)
    }

    async fn material(
        &self,
        instance: &Instance,
        comment: &Comment,
        language: &str,
        offered: Vec<Offered>,
    ) -> Result<Material, Unavailable> {
        let repository = self.trials.repository(&instance.repo).await?;
        let (instance, comment, language) = (instance.clone(), comment.clone(), language.to_owned());
        let gathered =
            tokio::task::spawn_blocking(move || Material::gather(&repository, &instance, &comment, &language, offered));
        match gathered.await {
            Ok(material) => material.map_err(|error| Unavailable::of_repo(&error)),
            Err(error) => {
                let detail = format!("a task of ours broke: {error}");
                Err(Unavailable::new(crate::model::InfraReason::Sandbox, detail))
            }
        }
    }
}

/// An instance's language as environments call it, and the frameworks that a model may write for.
pub fn offered(kit: &Kit, definitions: &Definitions, instance: &Instance) -> (String, Vec<Offered>) {
    let named = instance.environment.as_ref().map_or(instance.language.as_str(), |spec| spec.language.as_str());
    let language = definitions.get(named).map_or_else(|_| named.to_lowercase(), |found| found.name.clone());
    let offered = kit.offered(&language, instance.environment.as_ref());
    (language, offered.into_iter().cloned().collect())
}
