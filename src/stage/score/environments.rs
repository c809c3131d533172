//! The environments of many instances, several at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use tokio::task::{self, JoinError, JoinSet};

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
    let mut order = Vec::new();
    for (instance, comments) in instances {
        let instance_id = instance.instance_id.clone();
        let (services, scheduler, tell) = (services.clone(), scheduler.clone(), tell.clone());
        let of_instance = instance_id.clone();
        let task = tasks.spawn(async move {
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
            end
        });
        order.push((task.id(), of_instance));
    }
    in_order(tasks, order, &tell).await
}

/// The ends of all tasks, in the order of `order`. One whose task broke ends, too: what goes in comes out.
async fn in_order(
    mut tasks: JoinSet<EnvironmentEnd>,
    order: Vec<(task::Id, InstanceId)>,
    tell: &TellEnvironments,
) -> Vec<EnvironmentEnd> {
    let began = Instant::now();
    let mut ends: HashMap<task::Id, EnvironmentEnd> = HashMap::new();
    let names: HashMap<task::Id, &InstanceId> = order.iter().map(|(id, name)| (*id, name)).collect();
    let broken = |id: &task::Id, error: &JoinError| {
        let instance_id = (*names.get(id)?).clone();
        let detail = format!("a task of ours broke while it made the environment of {instance_id}: {error}");
        let why = Unavailable::new_without_cause(InfraReason::Sandbox, detail);
        let seconds = began.elapsed().as_secs_f64();
        Some(EnvironmentEnd { instance_id, result: Err(Box::new(why.into())), seconds })
    };
    while let Some(done) = tasks.join_next_with_id().await {
        match done {
            Ok((id, end)) => drop(ends.insert(id, end)),
            Err(error) => {
                if let Some(end) = broken(&error.id(), &error) {
                    tell(&EnvironmentEvent::Ended(&end));
                    ends.insert(error.id(), end);
                }
            }
        }
    }
    order.iter().filter_map(|(id, _)| ends.remove(id)).collect()
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn an_instance_whose_task_breaks_ends_as_infra_in_its_place() {
        let ids = ["o__r-1@0123abc", "o__r-2@0123abc", "o__r-3@0123abc"].map(|id| id.parse::<InstanceId>().unwrap());
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell: TellEnvironments = {
            let told = told.clone();
            Arc::new(move |event| match event {
                EnvironmentEvent::Ended(end) => told.lock().unwrap().push(end.instance_id.clone()),
                _ => panic!("{event:?}"),
            })
        };
        let mut tasks = JoinSet::new();
        let spawned = ids.iter().cloned().enumerate().map(|(place, instance_id)| {
            let id = instance_id.clone();
            let task = tasks.spawn(async move {
                assert_ne!(place, 1, "it breaks");
                EnvironmentEnd { instance_id, result: Err(Box::new(interrupted().into())), seconds: 1.0 }
            });
            (task.id(), id)
        });
        let order: Vec<_> = spawned.collect();
        let ends = in_order(tasks, order, &tell).await;
        assert_eq!(ends.iter().map(|end| end.instance_id.clone()).collect::<Vec<_>>(), ids);
        let why = &ends[1].result.as_ref().unwrap_err().why;
        assert_eq!(why.class, InfraReason::Sandbox);
        assert!(why.detail.contains("o__r-2@0123abc") && why.detail.contains("panicked"), "{}", why.detail);
        assert_eq!(*told.lock().unwrap(), ids[1..2]);
    }
}
