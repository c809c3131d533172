//! Waiting for something asynchronous where the caller is not.

use std::future::Future;

use tokio::runtime::{Builder, Handle, RuntimeFlavor};

/// Runs a future to its end on the caller's runtime, or on one of its own where there is none that runs beside us.
/// Blocks; may be called from anywhere, as the work is waited for by a thread of its own.
///
/// # Errors
/// When there can be no runtime or thread.
pub(super) fn wait<T: Send>(work: impl Future<Output = T> + Send) -> std::io::Result<T> {
    let handle = Handle::try_current().ok().filter(|h| h.runtime_flavor() == RuntimeFlavor::MultiThread);
    let is_shared = handle.is_some();
    let run = move || match handle {
        Some(handle) => Ok(handle.block_on(work)),
        None => Builder::new_current_thread().enable_all().build().map(|runtime| runtime.block_on(work)),
    };
    let in_a_thread = || {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, run)?;
            thread.join().unwrap_or_else(|_| Err(std::io::Error::other("a task of ours broke")))
        })
    };
    // The runtime's other work, which this may be waiting for, goes on even when all of its threads come here.
    if is_shared { tokio::task::block_in_place(in_a_thread) } else { in_a_thread() }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn work() -> u32 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        tokio::task::spawn_blocking(|| 42).await.unwrap()
    }

    #[test]
    fn without_a_runtime() {
        assert_eq!(wait(work()).unwrap(), 42);
    }

    #[tokio::test]
    async fn inside_of_one_with_one_thread() {
        assert_eq!(wait(work()).unwrap(), 42);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn on_the_only_thread_of_a_runtime() {
        assert_eq!(wait(work()).unwrap(), 42);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn inside_of_one_with_several() {
        assert_eq!(tokio::task::spawn_blocking(|| wait(work()).unwrap()).await.unwrap(), 42);
    }
}
