//! Deaths at the fault points that a run on a known base, with mounted workspaces, does not come by.

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use super::is_here;
use super::tiny::{Fresh, ended};
use crate::support::{cells, host};

/// Those points.
pub const ELSEWHERE: [&str; 3] = ["docker.image.imported", "docker.workspace.uploaded", "docker.workdir.made"];

/// An address in the network behind which this machine's engine is, as long as the tests run. An engine that is not
/// behind a socket sees none of our files.
fn far_engine() -> String {
    let named = host("DOCKER_HOST").unwrap_or_else(|| "unix:///var/run/docker.sock".to_owned());
    let socket = named.strip_prefix("unix://").expect("these tests need an engine behind a socket").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let Ok(far) = UnixStream::connect(&socket) else { continue };
            let (near_too, far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            std::thread::spawn(move || to_the_far_end(near, far));
            std::thread::spawn(move || to_the_near_end(far_too, near_too));
        }
    });
    address
}

fn to_the_far_end(mut near: TcpStream, mut far: UnixStream) {
    let _ = std::io::copy(&mut near, &mut far);
    let _ = far.shutdown(std::net::Shutdown::Write);
}

fn to_the_near_end(mut far: UnixStream, mut near: TcpStream) {
    let _ = std::io::copy(&mut far, &mut near);
    let _ = near.shutdown(std::net::Shutdown::Write);
}

#[test]
fn a_death_where_others_never_come_by_ends_in_the_same_report_and_leaves_nothing() {
    if !is_here() {
        return;
    }
    let far = far_engine();
    let test = ". ./clamp.sh; [ \"$value\" = 5 ]\n";
    let fresh = || Fresh::new(1, test, |text| text);
    let score = |fresh: &Fresh, is_far: bool| -> Command {
        let mut command = fresh.command(&["score", "bench", "--out", "run", "--denominator", "all"]);
        if is_far {
            command.env("DOCKER_HOST", &far);
        }
        command
    };
    let undisturbed = fresh();
    let expected = ended(score(&undisturbed, false));
    let verdicts: Vec<_> = cells(&expected).into_values().map(|(verdict, _)| verdict).collect();
    assert_eq!(verdicts, ["fail", "fail", "pass", "pass"], "{expected:#}");
    for (point, nth) in ELSEWHERE.into_iter().zip([1, 3, 2]) {
        let fresh = fresh();
        let is_far = point == "docker.workspace.uploaded";
        let mut dying = score(&fresh, is_far);
        let faults = fresh.place().join("faults");
        fs_err::create_dir(&faults).unwrap();
        dying.env("REDGREEN_FAULT_FOLDER", &faults).env("REDGREEN_FAULT", format!("{point}:{nth}"));
        let mut child = dying.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        let status = child.wait().unwrap();
        let reached = fs_err::metadata(faults.join(point)).map_or(0, |data| data.len());
        assert_eq!((status.signal(), reached), (Some(9), nth), "{point}");
        if point == "docker.workdir.made" {
            // The first one is the sandbox's own trial; this is a build's.
            let is_builds = |path: &String| path.contains("/layers-v1/") && path.ends_with(".overlay-work");
            assert!(fresh.left().iter().any(is_builds), "{:?}", fresh.left());
        }
        let again = ended(score(&fresh, is_far));
        assert_eq!(cells(&again), cells(&expected), "{point}");
        let how = if is_far { "copy" } else { "overlayfs" };
        assert!(
            again["verdicts"].as_array().unwrap().iter().all(|row| row["isolation"]["workspace"] == how),
            "{again:#}"
        );
        fresh.assert_clean_of(pid);
        assert_eq!(fresh.mounts(), Vec::<String>::new(), "{point}");
    }
}
