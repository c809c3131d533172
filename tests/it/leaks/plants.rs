//! Hiding places, each planted into a clean checkout.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::{FIXED, FULL, git};

/// All that the full repository has in one pack, and a multi-pack index over it.
static MIRROR: LazyLock<PathBuf> = LazyLock::new(|| {
    let mirror = FULL.dir.parent().unwrap().join("full.git");
    git(&FULL.dir, &["clone", "-q", "--mirror", ".", mirror.to_str().unwrap()]);
    git(&mirror, &["repack", "-adq"]);
    git(&mirror, &["multi-pack-index", "write"]);
    mirror
});

/// A checkout to plant something in.
pub(super) struct Garden<'a> {
    pub dir: &'a Path,
}

impl Garden<'_> {
    pub(super) fn git_dir(&self) -> PathBuf {
        self.dir.join(".git")
    }

    /// Writes a file, relative to the checkout, and the folders that it lies in.
    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.dir.join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, content).unwrap();
    }

    fn append(&self, name: &str, content: &str) {
        let old = fs_err::read_to_string(self.dir.join(name)).unwrap_or_default();
        self.write(name, old + content);
    }

    fn git(&self, arguments: &[&str]) -> String {
        git(self.dir, arguments)
    }

    /// Writes an object of one file's content, loose.
    fn blob(&self, content: &str) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs_err::write(file.path(), content).unwrap();
        self.git(&["hash-object", "-w", "--no-filters", file.path().to_str().unwrap()])
    }

    /// Brings the objects of a commit, and no ref.
    fn fetch(&self, commit: &str) {
        let full = FULL.dir.display().to_string();
        self.git(&["fetch", "-q", "--no-write-fetch-head", "--no-tags", &full, commit]);
    }

    fn bundle(&self, to: &str) {
        let path = self.dir.join(to);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        git(&FULL.dir, &["bundle", "create", "-q", path.to_str().unwrap(), "main"]);
    }

    /// The pack of all that the full repository has, at a stem.
    fn pack(&self, stem: &str) -> String {
        let path = self.dir.join(stem);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        let packs = fs_err::read_dir(MIRROR.join("objects/pack")).unwrap().map(|e| e.unwrap().path());
        let pack = packs.into_iter().find(|p| p.extension().is_some_and(|end| end == "pack")).unwrap();
        let target = format!("{}-{}", path.display(), pack.file_stem().unwrap().to_str().unwrap());
        for end in ["pack", "idx"] {
            fs_err::copy(pack.with_extension(end), format!("{target}.{end}")).unwrap();
        }
        target
    }
}

/// One hiding place: its name, how it is planted, and what must be found: kind, a part of the place, how certain.
pub(super) struct Plant {
    pub name: &'static str,
    pub plant: fn(&Garden<'_>),
    pub kind: &'static str,
    pub place: &'static str,
    pub later: &'static str,
}

const fn plant(
    name: &'static str,
    kind: &'static str,
    place: &'static str,
    later: &'static str,
    plant: fn(&Garden<'_>),
) -> Plant {
    Plant { name, plant, kind, place, later }
}

/// All hiding places that can be in one checkout together.
pub(super) const PLANTS: &[Plant] = &[
    plant("a branch", "branch", ".git/refs/heads/next", "certain", |g| {
        g.fetch(&FULL.last);
        g.write(".git/refs/heads/next", &FULL.last);
    }),
    plant("a remote-tracking branch", "remote-branch", ".git/refs/remotes/origin/main", "certain", |g| {
        g.write(".git/refs/remotes/origin/main", &FULL.merged);
    }),
    plant("a pull request's ref", "pull-ref", ".git/refs/pull/2/head", "certain", |g| {
        g.write(".git/refs/pull/2/head", &FULL.merged);
    }),
    plant("what a rewrite kept", "original-ref", ".git/refs/original/refs/heads/main", "certain", |g| {
        g.write(".git/refs/original/refs/heads/main", &FULL.merged);
    }),
    plant("a bisection's ref", "worktree-ref", ".git/refs/bisect/bad", "certain", |g| {
        g.write(".git/refs/bisect/bad", &FULL.merged);
    }),
    plant("a hidden ref to an unknown id", "other-ref", ".git/refs/hidden/deep/x", "possible", |g| {
        g.write(".git/refs/hidden/deep/x", "1".repeat(40));
    }),
    plant("a light tag", "tag", ".git/refs/tags/v2", "certain", |g| g.write(".git/refs/tags/v2", &FULL.merged)),
    plant("an annotated tag", "tag-object", ".git/objects", "certain", |g| {
        let full = FULL.dir.display().to_string();
        g.git(&["fetch", "-q", "--no-write-fetch-head", &full, "refs/tags/v2.0:refs/tags/v2.0"]);
    }),
    plant("a tag on a file's content", "tag", ".git/refs/tags/key", "certain", |g| {
        let id = g.blob(FIXED);
        g.write(".git/refs/tags/key", id);
    }),
    plant("a tag on a folder", "tag", ".git/refs/tags/folder", "certain", |g| {
        g.fetch(&FULL.last);
        let tree = g.git(&["rev-parse", &format!("{}:lantern", FULL.merged)]);
        g.write(".git/refs/tags/folder", tree);
    }),
    plant("packed refs", "branch", ".git/packed-refs line 2", "certain", |g| {
        g.write(
            ".git/packed-refs",
            format!("# pack-refs with: peeled fully-peeled sorted\n{} refs/heads/x\n", FULL.merged),
        );
    }),
    plant("notes", "notes", ".git/refs/notes/commits", "possible", |g| {
        let id = g.blob("a note: this was wrong");
        g.git(&["update-ref", "refs/notes/commits", &id]);
    }),
    plant("a stash", "stash", ".git/refs/stash", "certain", |g| g.write(".git/refs/stash", &FULL.last)),
    plant("a replacement", "replace", ".git/refs/replace/", "certain", |g| {
        g.write(&format!(".git/refs/replace/{}", FULL.base), &FULL.merged);
    }),
    plant("a reflog", "reflog", ".git/logs/HEAD", "certain", |g| {
        let (zero, id) = ("0".repeat(40), &FULL.merged);
        g.write(".git/logs/HEAD", format!("{zero} {id} A <a@b> 1588680000 +0000\tclone: from x\n"));
    }),
    plant("the reflog of a branch that is gone", "reflog", ".git/logs/refs/heads/gone", "certain", |g| {
        let (old, id) = (&FULL.head, &FULL.merged);
        g.write(".git/logs/refs/heads/gone", format!("{old} {id} A <a@b> 1588680000 +0000\tcommit: fix\n"));
    }),
    plant("FETCH_HEAD", "pseudo-ref", ".git/FETCH_HEAD", "certain", |g| {
        g.write(".git/FETCH_HEAD", format!("{}\t\tbranch 'main' of example.org:x\n", FULL.merged));
    }),
    plant("ORIG_HEAD", "pseudo-ref", ".git/ORIG_HEAD", "certain", |g| g.write(".git/ORIG_HEAD", &FULL.merged)),
    plant("MERGE_HEAD", "pseudo-ref", ".git/MERGE_HEAD", "certain", |g| g.write(".git/MERGE_HEAD", &FULL.merged)),
    plant("CHERRY_PICK_HEAD", "pseudo-ref", ".git/CHERRY_PICK_HEAD", "certain", |g| {
        g.write(".git/CHERRY_PICK_HEAD", &FULL.merged);
    }),
    plant("REBASE_HEAD", "pseudo-ref", ".git/REBASE_HEAD", "certain", |g| g.write(".git/REBASE_HEAD", &FULL.merged)),
    plant("AUTO_MERGE", "pseudo-ref", ".git/AUTO_MERGE", "certain", |g| {
        g.write(".git/AUTO_MERGE", git(&FULL.dir, &["rev-parse", &format!("{}^{{tree}}", FULL.merged)]));
    }),
    plant("an unfinished rebase", "operation", ".git/rebase-merge", "certain", |g| {
        g.write(".git/rebase-merge/onto", &FULL.merged);
        g.write(".git/rebase-merge/git-rebase-todo", "pick 1234567 fix\n");
    }),
    plant("an unfinished sequence", "operation", ".git/sequencer", "possible", |g| {
        g.write(".git/sequencer/todo", "pick 1234567 fix the thing\n");
    }),
    plant("packed commits that nothing leads to", "commit", ".git/objects/pack/", "certain", |g| {
        // A pack of its own, as a fetch of more objects leaves it.
        g.pack(".git/objects/pack/pack");
    }),
    plant("loose commits that nothing leads to", "commit", ".git/objects (loose objects)", "certain", |g| {
        let tree = g.git(&["rev-parse", "HEAD^{tree}"]);
        let after = g.git(&["commit-tree", "-m", "later", "-p", "HEAD", &tree]);
        // A commit on the one under review, made by hand: the fix without the rest.
        let text =
            format!("tree {tree}\nparent {}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n", FULL.head);
        let file = tempfile::NamedTempFile::new().unwrap();
        fs_err::write(file.path(), text).unwrap();
        let id = g.git(&["hash-object", "-w", "-t", "commit", "--literally", file.path().to_str().unwrap()]);
        assert_ne!(after, id);
    }),
    plant("the fixed file, loose", "blob", ".git/objects (loose objects)", "certain", |g| {
        g.blob(FIXED);
    }),
    plant("another file, loose", "blob", ".git/objects (loose objects)", "possible", |g| {
        g.blob("def light(on):\n    return 'something else'\n");
    }),
    plant("alternates", "alternates", ".git/objects/info/alternates", "possible", |g| {
        g.write(".git/objects/info/alternates", format!("{}\n", FULL.dir.join(".git/objects").display()));
    }),
    plant("alternates on the web", "alternates", ".git/objects/info/http-alternates", "possible", |g| {
        g.write(".git/objects/info/http-alternates", "https://example.org/x/objects\n");
    }),
    plant("grafts", "grafts", ".git/info/grafts", "certain", |g| {
        g.write(".git/info/grafts", format!("{} {}\n", FULL.base, FULL.merged));
    }),
    plant("the end of a cut-off history", "shallow", ".git/shallow", "certain", |g| {
        g.write(".git/shallow", &FULL.merged);
    }),
    plant("a submodule's repository", "submodule", ".git/modules/deep/lib", "possible", |g| {
        let module = g.git_dir().join("modules/deep/lib");
        fs_err::create_dir_all(&module).unwrap();
        git(&module, &["init", "-q", "--bare"]);
    }),
    plant("a repository in the work tree", "nested-repository", "vendor/x/.git", "possible", |g| {
        let nested = g.dir.join("vendor/x");
        fs_err::create_dir_all(&nested).unwrap();
        git(&nested, &["init", "-q"]);
    }),
    plant("a bare repository in the work tree", "nested-repository", "cache/bare.git", "possible", |g| {
        let nested = g.dir.join("cache/bare.git");
        fs_err::create_dir_all(&nested).unwrap();
        git(&nested, &["init", "-q", "--bare"]);
    }),
    plant("a bundle in the work tree", "bundle", "docs/all.bin", "possible", |g| g.bundle("docs/all.bin")),
    plant("a bundle in `.git`", "bundle", ".git/backup", "possible", |g| g.bundle(".git/backup")),
    plant("a pack in the work tree", "stray-pack", "old/p-pack-", "possible", |g| {
        g.pack("old/p");
    }),
    plant("a pack without an index", "stray-pack", ".git/objects/pack/tmp_pack_a", "possible", |g| {
        let stem = g.pack("old/q");
        fs_err::rename(format!("{stem}.pack"), g.git_dir().join("objects/pack/tmp_pack_a")).unwrap();
        fs_err::remove_file(format!("{stem}.idx")).unwrap();
    }),
    plant("an index of a pack that is gone", "pack-index", ".git/objects/pack/pack-0.idx", "certain", |g| {
        let stem = g.pack("old/r");
        fs_err::rename(format!("{stem}.idx"), g.git_dir().join("objects/pack/pack-0.idx")).unwrap();
        fs_err::remove_file(format!("{stem}.pack")).unwrap();
    }),
    plant("a note beside a pack", "pack-index", ".git/objects/pack/pack-1.promisor", "certain", |g| {
        g.write(".git/objects/pack/pack-1.promisor", format!("{} refs/heads/main\n", FULL.merged));
    }),
    plant("a commit graph", "commit-graph", ".git/objects/info/commit-graph", "certain", |g| {
        let graph = fs_err::read(FULL.dir.join(".git/objects/info/commit-graph")).unwrap();
        g.write(".git/objects/info/commit-graph", graph);
    }),
    plant("a multi-pack index", "multi-pack-index", ".git/objects/pack/multi-pack-index", "certain", |g| {
        let index = fs_err::read(MIRROR.join("objects/pack/multi-pack-index")).unwrap();
        g.write(".git/objects/pack/multi-pack-index", index);
    }),
    plant("a content of Git LFS", "lfs-object", ".git/lfs/objects/ab/cd/", "possible", |g| {
        g.write(&format!(".git/lfs/objects/ab/cd/{}", "abcd".repeat(16)), "large");
    }),
    plant("a staged file", "index", ".git/index", "certain", |g| {
        let id = g.blob(FIXED);
        g.git(&["update-index", "--cacheinfo", &format!("100644,{id},lantern/core.py")]);
    }),
    plant("the fixed file in the work tree", "work-tree", "lantern/core.py", "certain", |g| {
        g.write("lantern/core.py", FIXED);
    }),
    plant("a file that is gone", "work-tree", "lantern/new.py", "possible", |g| {
        fs_err::remove_file(g.dir.join("lantern/new.py")).unwrap();
    }),
    plant("another mode", "work-tree", "setup.py", "possible", |g| {
        let path = g.dir.join("setup.py");
        fs_err::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }),
    plant("build output of the fix", "untracked", "build", "certain", |g| {
        g.write("build/lib/lantern/core.py", FIXED);
        g.write("build/lib/lantern/other.py", "OTHER = 1\n");
    }),
    plant("a file of somebody", "untracked", "NOTES.txt", "possible", |g| g.write("NOTES.txt", "look at line 2\n")),
    plant(
        "compiled Python of another source",
        "bytecode",
        "lantern/__pycache__/core.cpython-311.pyc",
        "possible",
        |g| {
            g.write("lantern/__pycache__/core.cpython-311.pyc", pyc(1, FIXED.len() as u32));
        },
    ),
    plant("a linked work tree", "linked-worktree", ".git/worktrees/w", "certain", |g| {
        g.write(".git/worktrees/w/HEAD", &FULL.merged);
        g.write(".git/worktrees/w/gitdir", "/elsewhere/.git\n");
        g.write(".git/worktrees/w/commondir", "../..\n");
    }),
    plant("a linked work tree's own trace", "pseudo-ref", ".git/worktrees/v/ORIG_HEAD", "certain", |g| {
        g.write(".git/worktrees/v/ORIG_HEAD", &FULL.merged);
    }),
    plant("a remote", "remote", ".git/config line ", "possible", |g| {
        g.append(".git/config", "[remote \"origin\"]\n\turl = https://example.org/x.git\n");
    }),
    plant("a token in an address", "credential", ".git/config line ", "possible", |g| {
        g.append(".git/config", "[remote \"up\"]\n\tpushurl = https://me:s3cr3t@example.org/x.git\n");
    }),
    plant("a token in a header", "credential", ".git/config line ", "possible", |g| {
        g.append(".git/config", "[http \"https://example.org/\"]\n\textraheader = AUTHORIZATION: basic s3cr3t\n");
    }),
    plant("a rewritten address", "address-rewrite", ".git/config line ", "possible", |g| {
        g.append(".git/config", "[url \"https://mirror.example.org/\"]\n\tinsteadOf = https://example.org/\n");
    }),
    plant("a remote in the old form", "remote", ".git/branches/up", "possible", |g| {
        g.write(".git/branches/up", "https://example.org/x.git\n");
    }),
    plant("a hook", "hook", ".git/hooks/post-checkout", "possible", |g| {
        g.write(".git/hooks/post-checkout", "#!/bin/sh\n")
    }),
    plant("a commit's message", "message", ".git/COMMIT_EDITMSG", "possible", |g| {
        g.write(".git/COMMIT_EDITMSG", "Fix the truth of lanterns\n");
    }),
    plant("a log of a clean-up", "message", ".git/gc.log", "possible", |g| g.write(".git/gc.log", "warning: x\n")),
    plant("a description", "message", ".git/description", "possible", |g| {
        g.write(".git/description", "after the fix\n")
    }),
    plant("a patch", "patch-file", "fix.patch", "possible", |g| {
        let patch = git(&FULL.dir, &["format-patch", "-1", "--stdout", &FULL.merged]);
        g.write("fix.patch", patch);
    }),
    plant("the rest of a patch", "patch-file", "lantern/core.py.rej", "possible", |g| {
        g.write("lantern/core.py.rej", "@@ -1 +1 @@\n-a\n+b\n");
    }),
    plant("the original of a patched file", "patch-file", "lantern/core.py.orig", "certain", |g| {
        g.write("lantern/core.py.orig", FIXED);
    }),
    plant(
        "an installed release",
        "package",
        ".venv/lib/python3.11/site-packages/lantern_kit-2.0.dist-info",
        "certain",
        |g| {
            g.write(".venv/lib/python3.11/site-packages/lantern_kit-2.0.dist-info/METADATA", "Version: 2.0\n");
        },
    ),
    plant("an egg of a release", "package", "lantern_kit.egg-info", "certain", |g| {
        g.write("lantern_kit.egg-info/PKG-INFO", "Metadata-Version: 2.1\nName: lantern-kit\nVersion: 2.0\n");
    }),
    plant("a wheel", "package-cache", "dist/lantern_kit-2.0-py3-none-any.whl", "certain", |g| {
        g.write("dist/lantern_kit-2.0-py3-none-any.whl", "PK");
    }),
    plant("a folder that git does not make", "unknown-file", ".git/filter-repo", "certain", |g| {
        g.write(".git/filter-repo/commit-map", format!("old new\n{} {}\n", FULL.base, FULL.merged));
        g.write(".git/filter-repo/ref-map", "x");
    }),
    plant("what an interrupted fetch left", "unknown-file", ".git/objects/incoming-x", "possible", |g| {
        g.write(".git/objects/incoming-x/pack/p", "x");
    }),
    plant("a list of refs for web servers", "other-ref", ".git/info/refs", "certain", |g| {
        g.write(".git/info/refs", format!("{}\trefs/heads/main\n", FULL.merged));
    }),
];

/// Compiled Python that says that its source had this time and size.
pub(super) fn pyc(time: u32, size: u32) -> Vec<u8> {
    [&[0xa7, 0x0d, 0x0d, 0x0a, 0, 0, 0, 0], &time.to_le_bytes()[..], &size.to_le_bytes()[..], b"code"].concat()
}
