//! The whole audit: instance by instance, oracle by oracle.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::card::Card;
use super::one::{audit_one, unavailable};
use super::thresholds::Thresholds;
use crate::engine::Event;
use crate::model::{CommentId, FrozenRow, Instance};
use crate::oracle::Policy;
use crate::stage::score::{Plan, ScoreError, Workbench};
use crate::variants::{DefinitionError, Languages};

/// How much is tried.
#[derive(Debug, Clone, Copy)]
pub struct Budgets {
    /// Mutants and dropped hunks of one oracle, at most.
    pub per_oracle: usize,
    /// Draws the mutants, and the order of tests.
    pub seed: u64,
    /// How often the controls run; with 1 nothing is said of flakiness.
    pub repeats: u32,
}

/// Why an audit could not go on at all.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The run folder or the program.
    #[error(transparent)]
    Score(#[from] ScoreError),
    /// A definition of a language.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
}

/// What all audits of a run share.
#[derive(Clone)]
pub(super) struct Shop {
    pub(super) bench: Workbench,
    pub(super) languages: Arc<Languages>,
    pub(super) thresholds: Arc<Thresholds>,
    pub(super) budgets: Budgets,
    pub(super) policy: Policy,
    pub(super) jobs: usize,
    frozen: Option<Arc<HashSet<(String, CommentId)>>>,
}

impl Shop {
    pub(super) fn is_frozen(&self, instance: &Instance, comment: &CommentId) -> Option<bool> {
        let frozen = self.frozen.as_ref()?;
        Some(frozen.contains(&(instance.instance_id.folded().to_owned(), comment.clone())))
    }
}

/// Audits the oracles of a plan's comments; comments without one are left out. The cards come in the plan's order,
/// whatever was done first.
///
/// # Errors
/// When the run folder cannot be written, or a definition is broken. Everything else is on a card.
pub async fn audit(
    plan: &Plan<'_>,
    frozen: Option<&[FrozenRow]>,
    bench: Workbench,
    (thresholds, budgets, policy, jobs): (Thresholds, Budgets, Policy, usize),
) -> Result<Vec<Card>, AuditError> {
    let shop = Shop {
        bench,
        languages: Arc::new(Languages::built_in()?),
        thresholds: Arc::new(thresholds),
        budgets,
        policy,
        jobs,
        frozen: frozen.map(|rows| {
            let key = |row: &FrozenRow| (row.instance_id.folded().to_owned(), row.comment.clone());
            Arc::new(rows.iter().map(key).collect())
        }),
    };
    let jobs_of: Vec<(Instance, Vec<CommentId>)> = plan
        .instances
        .iter()
        .map(|plan| {
            let with_oracle = |comment: &&CommentId| plan.instance.oracle(comment).is_some();
            (plan.instance.clone(), plan.comments.iter().filter(with_oracle).cloned().collect::<Vec<_>>())
        })
        .filter(|(_, comments)| !comments.is_empty())
        .collect();
    let oracles: usize = jobs_of.iter().map(|(_, comments)| comments.len()).sum();
    shop.bench.send(Event::RunStarted { tasks: oracles as u64 * 3, instances: jobs_of.len() as u64 });
    let budget = shop.bench.begin();
    let ahead = Arc::new(Semaphore::new(jobs + 1));
    let mut tasks = JoinSet::new();
    for (index, (instance, comments)) in jobs_of.into_iter().enumerate() {
        let (shop, ahead) = (shop.clone(), ahead.clone());
        tasks.spawn(async move {
            let _permit = ahead.acquire_owned().await;
            (index, audit_instance(&shop, instance, comments).await)
        });
    }
    let mut done = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        let (index, cards) = ended.map_err(|error| ScoreError::Broken(error.to_string()))?;
        done.push((index, cards?));
    }
    if let Some(budget) = budget {
        budget.abort();
    }
    done.sort_by_key(|(index, _)| *index);
    Ok(done.into_iter().flat_map(|(_, cards)| cards).collect())
}

async fn audit_instance(shop: &Shop, instance: Instance, comments: Vec<CommentId>) -> Result<Vec<Card>, ScoreError> {
    let began = std::time::Instant::now();
    let opened = match shop.bench.open(&instance, &comments).await {
        Ok(opened) => Arc::new(opened),
        Err(why) => {
            for _ in &comments {
                shop.bench.note_infra(&why);
            }
            return Ok(comments.iter().map(|comment| unavailable(shop, &instance, comment, &why)).collect());
        }
    };
    let (instance_id, seconds) = (instance.instance_id.clone(), began.elapsed().as_secs_f64());
    shop.bench.send(Event::Prepared { instance_id, seconds });
    let instance = Arc::new(instance);
    let mut tasks = JoinSet::new();
    for (index, comment) in comments.into_iter().enumerate() {
        let (shop, opened, instance) = (shop.clone(), opened.clone(), instance.clone());
        tasks.spawn(async move { (index, audit_one(&shop, &opened, &instance, &comment).await) });
    }
    let mut done = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        let (index, card) = ended.map_err(|error| ScoreError::Broken(error.to_string()))?;
        done.push((index, card?));
    }
    done.sort_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, card)| card).collect())
}
