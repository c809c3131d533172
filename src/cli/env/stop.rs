//! The end of long work that somebody asks for: what was finished is kept, so the first signal ends what runs.

use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Waits for Ctrl-C, or a polite signal to end. For ever, where signals cannot be listened to: then they end the program.
pub(super) async fn asked_to_stop() {
    let signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
    let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = signals else { return std::future::pending().await };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
}

/// A token that is cancelled when somebody asks to stop, for as long as the task beside it is there.
pub(super) fn stoppable(runtime: &Runtime) -> (CancellationToken, JoinHandle<()>) {
    let cancel = CancellationToken::new();
    let listened = cancel.clone();
    let task = runtime.spawn(async move {
        asked_to_stop().await;
        listened.cancel();
    });
    (cancel, task)
}
