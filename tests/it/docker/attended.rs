//! Somebody sits at a container's command.

use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use redgreen::sandbox::{Sandbox, Seat, Task};
use tokio_util::sync::CancellationToken;

use super::{shell, task, ways};

/// Both ends of a new terminal: the person's and the command's.
fn terminal() -> (OwnedFd, OwnedFd) {
    let (mut ours, mut theirs) = (0, 0);
    let null = std::ptr::null_mut();
    // SAFETY: a plain call that writes two descriptors, which are nobody else's.
    unsafe {
        assert_eq!(libc::openpty(&mut ours, &mut theirs, null, null.cast(), null.cast()), 0);
        let (ours, theirs) = (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs));
        // What is typed before anybody sits is kept as it is.
        let mut settings = rustix::termios::tcgetattr(&theirs).unwrap();
        settings.make_raw();
        rustix::termios::tcsetattr(&theirs, rustix::termios::OptionalActions::Now, &settings).unwrap();
        (ours, theirs)
    }
}

/// Types a text and gives what is shown.
fn sit(sandbox: &dyn Sandbox, task: &Task, typed: &str, is_terminal: bool) -> String {
    let (ours, theirs) = if is_terminal {
        terminal()
    } else {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        (ours.into(), theirs.into())
    };
    let mut ours = std::fs::File::from(ours);
    ours.write_all(typed.as_bytes()).unwrap();
    if !is_terminal {
        rustix::net::shutdown(&ours, rustix::net::Shutdown::Write).unwrap();
    }
    let seat = Seat { stream: theirs, terminal: is_terminal };
    let begin = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cancel = CancellationToken::new();
    runtime.block_on(sandbox.attend(task, seat, &cancel)).unwrap();
    // Nothing waits for the end of something that does not come.
    let took = begin.elapsed();
    let mut shown = Vec::new();
    // The end of a terminal is an error.
    let _ = ours.read_to_end(&mut shown);
    let shown = String::from_utf8(shown).unwrap();
    assert!(took < Duration::from_secs(30), "{took:?} {is_terminal} {}: {shown:?}", task.result_channel);
    shown
}

#[test]
fn what_is_typed_gets_there_and_what_is_written_is_shown() {
    for sandbox in ways() {
        let mut asks = shell("read line; echo out $line; echo err $line >&2; cat <&${REDGREEN_TOKEN_FD:-0}");
        for result_channel in [false, true] {
            asks.result_channel = result_channel;
            asks.limits.wall = Duration::from_secs(40);
            for is_terminal in [false, true] {
                // The end of what is typed, as a terminal has it.
                let shown = sit(sandbox, &asks, "hello\n\u{4}", is_terminal);
                assert!(shown.contains("out hello") && shown.contains("err hello"), "{is_terminal} {shown:?}");
                assert_eq!(shown.contains("attended"), result_channel, "{shown:?}");
                assert!(!shown.contains(['\u{6}', '\u{15}']), "{shown:?}");
            }
        }
        let shown = sit(sandbox, &task(&["no-such-program"]), "", true);
        assert_eq!(shown, "no-such-program: not found\r\n");
    }
}
