//! The host as a witness: doors that nobody may come through, things that nobody may see, touch or leave.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use fs_err as fs;

use crate::support::Place;

/// What is answered at every door, and what the secret file and variable hold.
pub const OPEN: &str = "open";
/// A variable of whoever calls redgreen.
pub const VARIABLE: &str = "REDGREEN_HOSTILE";

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// The host's side of one run.
pub struct Host {
    pub words: BTreeMap<String, String>,
    folder: PathBuf,
    mark: String,
    abstract_name: String,
    port: u16,
    udp: u16,
    visits: Arc<AtomicUsize>,
    sentinel: Child,
    segment: i32,
}

impl Host {
    /// Opens the doors. The sentinel is a process of the user that the sandbox's commands are to the host.
    pub fn new(place: &Place, (user, group): (u32, u32)) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        // A number of seconds that tells this run's sleeping processes from all others of the machine.
        let mark = format!("{}", 1_000_000_000 + u64::from(std::process::id()) * 100 + number);
        let abstract_name = format!("redgreen-hostile-{mark}");
        let folder = place.join("host");
        fs::create_dir(&folder).unwrap();
        let open: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(&folder, open.clone()).unwrap();
        fs::write(folder.join("secret"), OPEN).unwrap();

        let visits = Arc::new(AtomicUsize::new(0));
        let tcp = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = tcp.local_addr().unwrap().port();
        answer(visits.clone(), move || tcp.accept().map(|(line, _)| line));
        let socket = folder.join("socket");
        let unix = UnixListener::bind(&socket).unwrap();
        fs::set_permissions(&socket, open).unwrap();
        answer(visits.clone(), move || unix.accept().map(|(line, _)| line));
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let hidden = UnixListener::bind_addr(&address).unwrap();
        answer(visits.clone(), move || hidden.accept().map(|(line, _)| line));
        let datagrams = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let udp = datagrams.local_addr().unwrap().port();
        let count = visits.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 64];
            while let Ok((length, from)) = datagrams.recv_from(&mut buffer) {
                if &buffer[..length] == b"stop" {
                    return;
                }
                count.fetch_add(1, Ordering::SeqCst);
                let _ = datagrams.send_to(OPEN.as_bytes(), from);
            }
        });

        let key = 0x5247_0000 + i32::try_from(std::process::id() % 0xff00 + u32::try_from(number).unwrap()).unwrap();
        // SAFETY: plain system call; the segment is removed in `drop`.
        let segment = unsafe { libc::shmget(key, 4096, libc::IPC_CREAT | 0o666) };
        assert!(segment >= 0, "{}", std::io::Error::last_os_error());
        let sentinel = sentinel(user, group);
        let words = BTreeMap::from(
            [
                ("port", port.to_string()),
                ("udp", udp.to_string()),
                ("socket", socket.display().to_string()),
                ("abstract", abstract_name.clone()),
                ("secret", folder.join("secret").display().to_string()),
                ("outside", folder.join("outside").display().to_string()),
                ("variable", VARIABLE.to_owned()),
                ("mark", mark.clone()),
                ("pid", sentinel.id().to_string()),
                ("key", key.to_string()),
                ("place", place.path().display().to_string()),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        Self { words, folder, mark, abstract_name, port, udp, visits, sentinel, segment }
    }

    /// How often somebody came through a door.
    pub fn visits(&self) -> usize {
        self.visits.load(Ordering::SeqCst)
    }

    /// What of a run of process `score` in `place` is still there, or was touched. `may_call`: the network was the host's;
    /// `contained`: it ran in containers.
    pub fn look(&mut self, place: &Place, score: u32, may_call: bool, contained: bool) -> Vec<String> {
        let mut found: Vec<String> =
            processes_with(&self.mark).into_iter().map(|line| format!("a process is left: {line}")).collect();
        if self.visits() > 0 && !may_call {
            found.push(format!("{} came through a door", self.visits()));
        }
        if let Some(status) = self.sentinel.try_wait().unwrap() {
            found.push(format!("the host's own process was ended: {status}"));
        }
        if self.folder.join("outside").symlink_metadata().is_ok() {
            found.push("a file outside of the tree came to be".to_owned());
        }
        if fs::read_to_string(self.folder.join("secret")).ok().as_deref() != Some(OPEN) {
            found.push("the host's file was changed".to_owned());
        }
        let here = place.path().display().to_string();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        found.extend(mounts.lines().filter(|line| line.contains(&here)).map(|line| format!("a mount is left: {line}")));
        if contained {
            use crate::docker::leftovers::{of_process, owners, owners_of_volumes};
            found.extend(of_process(owners(), score).iter().map(|owner| format!("a container is left: {owner}")));
            let volumes = of_process(owners_of_volumes(), score);
            found.extend(volumes.iter().map(|owner| format!("a volume is left: {owner}")));
        }
        found.extend(cgroups_of(score).iter().map(|group| format!("a cgroup is left: {}", group.display())));
        // Every run leaves this lock: without it the look is at a cache that nobody used.
        if !place.join("cache/scratch-v1/door.lock").exists() {
            found.push("the run's temporary files were in another cache".to_owned());
        }
        for folder in ["tmp", "cache/scratch-v1"] {
            for entry in fs::read_dir(place.join(folder)).into_iter().flatten().flatten() {
                // Made once for all runs of this program's version, and the lock that all runs share.
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.starts_with("reporters-") || name == "door.lock" || name == "gate.lock" {
                    continue;
                }
                found.push(format!("a file is left: {}", entry.path().display()));
            }
        }
        let null = fs::metadata("/dev/null").unwrap();
        if !null.file_type().is_char_device() || std::os::unix::fs::MetadataExt::mode(&null) & 0o777 != 0o666 {
            found.push("/dev/null is not what it was".to_owned());
        }
        found
    }

    /// Knocks at all doors: they must be open, or that nobody came through says nothing.
    pub fn prove_the_doors_open(&self) {
        let before = self.visits();
        let mut text = String::new();
        TcpStream::connect(("127.0.0.1", self.port)).unwrap().read_to_string(&mut text).unwrap();
        UnixStream::connect(self.folder.join("socket")).unwrap().read_to_string(&mut text).unwrap();
        let address = SocketAddr::from_abstract_name(&self.abstract_name).unwrap();
        UnixStream::connect_addr(&address).unwrap().read_to_string(&mut text).unwrap();
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        socket.send_to(b"knock", ("127.0.0.1", self.udp)).unwrap();
        let mut buffer = [0; 16];
        let length = socket.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], OPEN.as_bytes());
        assert_eq!(text, OPEN.repeat(3));
        assert_eq!(self.visits() - before, 4);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.sentinel.kill();
        let _ = self.sentinel.wait();
        // SAFETY: plain system call on our own segment.
        unsafe { libc::shmctl(self.segment, libc::IPC_RMID, std::ptr::null_mut()) };
        if let Ok(socket) = UdpSocket::bind(("127.0.0.1", 0)) {
            let _ = socket.send_to(b"stop", ("127.0.0.1", self.udp));
        }
    }
}

/// Says "open" to whoever comes, and counts them.
fn answer<T: Write>(visits: Arc<AtomicUsize>, accept: impl Fn() -> std::io::Result<T> + Send + 'static) {
    std::thread::spawn(move || {
        while let Ok(mut line) = accept() {
            visits.fetch_add(1, Ordering::SeqCst);
            let _ = line.write_all(OPEN.as_bytes());
        }
    });
}

/// A sleeping process of a user; what it knows is in its environment.
pub fn sentinel(user: u32, group: u32) -> Child {
    let mut command = Command::new("/bin/sleep");
    command.arg("100000").env_clear().env(VARIABLE, OPEN).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if rustix::process::geteuid().is_root() {
        command.uid(user).gid(group);
    }
    command.spawn().unwrap()
}

/// The command lines of all processes that have this argument.
pub fn processes_with(argument: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(Path::new("/proc")).unwrap().flatten() {
        let Ok(line) = fs::read(entry.path().join("cmdline")) else { continue };
        if line.split(|b| *b == 0).any(|part| part == argument.as_bytes()) {
            found.push(String::from_utf8_lossy(&line).into_owned());
        }
    }
    found
}

/// The cgroups that belong to runs of a process.
fn cgroups_of(pid: u32) -> Vec<PathBuf> {
    walkdir::WalkDir::new("/sys/fs/cgroup")
        .into_iter()
        .flatten()
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.starts_with("redgreen-") && name.split('-').nth(3) == Some(&pid.to_string())
        })
        .map(walkdir::DirEntry::into_path)
        .collect()
}
