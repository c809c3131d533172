//! A benchmark in shell on a base that no engine has seen, in a cache of its own: what others never do again is done here.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use redgreen::sandbox::docker::own_name;
use serde_json::{Value, json};

use super::leftovers::{of_process, owners, owners_of_volumes};
use super::score;
use crate::base::tiny::Room;
use crate::support::{Place, Ran};
use crate::truth::fixture::{Fixture, commits, difference, git, instance};

static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// A room with the benchmark, and the name of the base's image. That is taken away in the end.
pub struct Fresh {
    room: Room,
    image: String,
    /// The instances, in their order.
    pub ids: Vec<String>,
}

impl Fresh {
    /// So many instances of one project. `test` is their oracle in shell, with `clamp.sh` beside it in the tree; `definition`
    /// changes the tiny definition.
    pub fn new(count: usize, test: &str, definition: impl Fn(String) -> String) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let room = Room::marked(&format!("{}-{number}", std::process::id()));
        room.place.edit("definitions/tiny.toml", |text| definition(text) + "# of this test\n");
        let made = room.tiny();
        let image = own_name(made["record"]["content"].as_str().unwrap());
        let mut fixture = Fixture::new(&room.place);
        let repository = fixture.repository("tiny");
        let tree = |number: usize, value: u32| -> BTreeMap<String, String> {
            let files = [("clamp.sh", format!("value={value}\n")), ("number", format!("{number}\n"))];
            files.map(|(path, text)| (path.to_owned(), text)).into()
        };
        let mut ids = Vec::new();
        for number in 1..=count {
            let (head, merged) = commits(&repository, &tree(number, 9), &tree(number, 5));
            let mut one = instance("tiny", number as u64, &head, Some(&merged));
            one["environment"] = json!({"language": "tiny", "base": "tiny"});
            one["comments"] = json!([{"id": "c1", "text": "Too much.", "test": "c1.sh", "framework": "exit"}]);
            let id = fixture.add(one, &[("c1.sh", test)]);
            fixture.revise(&id, "fox", &difference(&repository, &head, &tree(number, 6)));
            fixture.revise(&id, "owl", &difference(&repository, &head, &tree(number, 5)));
            ids.push(id);
            // The next one's branch gets the same name.
            git(&repository, &["branch", "-m", "landed", &format!("landed-{number}")]);
        }
        fixture.import();
        Self { room, image, ids }
    }

    pub fn place(&self) -> &Place {
        &self.room.place
    }

    /// `redgreen` in the room, with the engine, one task after another.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let fixed = ["--sandbox", "docker", "--jobs", "1", "--json"];
        let mut command = score::command(&self.room.place, &[arguments, &fixed].concat());
        for (name, folder) in [("CACHE", "cache"), ("DEFINITIONS", "definitions"), ("MIRRORS", "mirrors")] {
            command.env(format!("REDGREEN_{name}"), self.room.place.join(folder));
        }
        command
    }

    /// Half-made entries of the cache and folders of processes, without those of live ones.
    pub fn left(&self) -> Vec<String> {
        let cache = self.room.place.join("cache");
        let entries = walkdir::WalkDir::new(&cache).max_depth(4).into_iter().flatten();
        let half = entries.filter(|entry| {
            let name = entry.file_name().to_string_lossy();
            let is_process = name.starts_with("process-") && !is_owned(entry.path());
            let is_draft = name.starts_with('.') && entry.depth() < 4 && name != ".git";
            is_process || is_draft || name.ends_with(".tmp") || name.ends_with(".overlay-work")
        });
        half.map(|entry| entry.path().display().to_string()).collect()
    }

    /// What is mounted below the room.
    pub fn mounts(&self) -> Vec<String> {
        let here = self.room.place.path().display().to_string();
        let mounts = fs_err::read_to_string("/proc/self/mountinfo").unwrap();
        mounts.lines().filter(|line| line.contains(&here)).map(str::to_owned).collect()
    }

    /// Nothing of a process is left, in the cache or with the engine.
    #[track_caller]
    pub fn assert_clean_of(&self, pid: u32) {
        assert_eq!(containers_of(pid), Vec::<String>::new());
        let volumes = of_process(owners_of_volumes(), pid);
        assert_eq!((volumes, self.left()), (Vec::new(), Vec::new()));
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // Not there where the test ended before the first run.
        let _ = Command::new("docker").args(["image", "rm", &self.image]).output();
    }
}

/// Whether a live process has locked its scratch folder.
pub fn is_owned(process: &Path) -> bool {
    fs_err::File::open(process.join("owner.lock")).is_ok_and(|file| file.try_lock().is_err())
}

/// Containers, in all states, of a process.
pub fn containers_of(pid: u32) -> Vec<String> {
    of_process(owners(), pid)
}

/// A command to its good end, and what it says.
#[track_caller]
pub fn ended(mut command: Command) -> Value {
    Ran::of(command.output().unwrap()).exits(0).json()
}
