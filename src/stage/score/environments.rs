//! The environments of many instances, several at once.

use std::sync::Arc;
use std::time::Instant;

use tokio::task::JoinSet;

use super::environment::{BuiltEnvironment, NotBuilt, build_environment};
use super::prepare::{Unavailable, interrupted};
use super::run::Services;
use crate::engine::Scheduler;
use crate::model::{CommentId, InfraReason, Instance, InstanceId};

/// What happens while environments are made. Whoever shows it may come from several tasks at once.
#[derive(Debug)]
pub enum EnvironmentEvent<'a> {
    /// One was begun.
    Started(&'a InstanceId),
    /// It does this now.
    Step(&'a InstanceId, &'a str),
    /// It ended.
    Ended(&'a EnvironmentEnd),
}

/// How one ended.
#[derive(Debug)]
pub struct EnvironmentEnd {
    /// The instance.
    pub instance_id: InstanceId,
    /// The environment, or why there is none.
    pub result: Result<Box<BuiltEnvironment>, Box<NotBuilt>>,
    /// How long it took.
    pub seconds: f64,
}

/// Who is told.
pub type TellEnvironments = Arc<dyn Fn(&EnvironmentEvent<'_>) + Send + Sync>;

/// Makes the environments of instances, as many at once as the scheduler has slots; equal ones are made once. What is
/// finished stays when the scheduler stops. The ends come in the instances' order.
pub async fn build_environments(
    services: &Services,
    instances: Vec<(Instance, Vec<CommentId>)>,
    scheduler: &Scheduler,
    redo: bool,
    tell: TellEnvironments,
) -> Vec<EnvironmentEnd> {
    let mut tasks = JoinSet::new();
    let count = instances.len();
    for (place, (instance, comments)) in instances.into_iter().enumerate() {
        let (services, scheduler, tell) = (services.clone(), scheduler.clone(), tell.clone());
        tasks.spawn(async move {
            let instance_id = instance.instance_id.clone();
            let slot = scheduler.slot().await;
            let began = Instant::now();
            let result = if slot.is_some() {
                tell(&EnvironmentEvent::Started(&instance_id));
                let step = |text: &str| tell(&EnvironmentEvent::Step(&instance_id, text));
                let built = build_environment(&services, &instance, &comments, redo, &step, &scheduler.stop).await;
                built.map(Box::new).map_err(|not| {
                    let why = not.why.or_disk(&services.cache);
                    let why = if scheduler.stop.is_cancelled() { interrupted() } else { why };
                    Box::new(NotBuilt { why, ..not })
                })
            } else {
                Err(Box::new(NotBuilt::from(not_started(&scheduler))))
            };
            let end = EnvironmentEnd { instance_id, result, seconds: began.elapsed().as_secs_f64() };
            tell(&EnvironmentEvent::Ended(&end));
            (place, end)
        });
    }
    let mut ends: Vec<Option<EnvironmentEnd>> = (0..count).map(|_| None).collect();
    while let Some(done) = tasks.join_next().await {
        // A task of ours that broke has no end; the others do.
        if let Ok((place, end)) = done {
            ends[place] = Some(end);
        }
    }
    ends.into_iter().flatten().collect()
}

fn not_started(scheduler: &Scheduler) -> Unavailable {
    match scheduler.closed() {
        Some(closed) if !scheduler.is_interrupted() => Unavailable::new(closed.class, closed.detail.clone()),
        _ => interrupted(),
    }
}

impl EnvironmentEnd {
    /// Whether it was broken off, or never begun, as somebody asked to stop.
    pub fn is_interrupted(&self) -> bool {
        self.result.as_ref().is_err_and(|not| not.why.class == InfraReason::Interrupted)
    }
}
