#!/usr/bin/env python3
"""Makes `repos/*.bundle` from `sources/*.fast-import`, and checks the data set against them.

    python3 examples/quickstart/make.py [--check]

A source is a stream for `git fast-import`: whole files, and every author, date and message, so the commits have the
same ids on every machine. `--check` builds in a temporary folder only and leaves `repos/` as it is.
Needs git and Python 3.8 or newer, nothing else.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def git(directory, *args, stdin=b"", **variables):
    """Run git with none of the user's configuration; give what it prints."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    env.update(GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1", TZ="UTC", LC_ALL="C", **variables)
    done = subprocess.run(["git", "-C", str(directory), *args], input=stdin, env=env, check=True,
                          stdout=subprocess.PIPE)
    return done.stdout.decode()


def build(source, folder):
    """Make the repository of one stream as a bare repository, and its bundle beside it."""
    repo = folder / (source.stem + ".git")
    repo.mkdir()
    git(repo, "init", "--quiet", "--bare", "--object-format=sha1", "--initial-branch=main")
    git(repo, "fast-import", "--quiet", stdin=source.read_bytes())
    git(repo, "fsck", "--strict")
    bundle = folder / (source.stem + ".bundle")
    git(repo, "-c", "pack.threads=1", "bundle", "create", "--quiet", str(bundle), "--all")
    return repo, bundle


def tree_after(repo, commit, patch):
    """The tree that a patch makes of a commit's tree."""
    with tempfile.TemporaryDirectory() as scratch:
        index = {"GIT_INDEX_FILE": os.path.join(scratch, "index")}
        git(repo, "read-tree", commit, **index)
        git(repo, "apply", "--cached", stdin=patch.encode(), **index)
        return git(repo, "write-tree", **index).strip()


def check(instance, repo):
    """Complain where a line of the data set does not fit its repository."""
    name = instance["instance_id"]
    base = instance["base_commit"]
    head = instance["commit_to_review"]["head_commit"]
    merged = instance["merged_commit"]
    known = git(repo, "rev-list", "--all").split()
    wrong = []
    for commit in filter(None, (base, head, merged)):
        if commit not in known:
            wrong.append("%s: commit %s is not in the bundle" % (name, commit))
    if wrong:
        return wrong
    if not head.startswith(name.split("@")[1]):
        wrong.append("%s: the id names another commit than %s" % (name, head))
    patches = [(head, instance["commit_to_review"]["patch_to_review"])]
    if merged:
        patches.append((merged, instance["merged_patch"]))
    for commit, patch in patches:
        if tree_after(repo, base, patch) != git(repo, "rev-parse", commit + "^{tree}").strip():
            wrong.append("%s: the patch does not lead from %s to %s" % (name, base, commit))
    return wrong


def main():
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        repos = {}
        for source in sorted((HERE / "sources").glob("*.fast-import")):
            repos[source.stem], bundle = build(source, scratch)
            if "--check" not in sys.argv:
                (HERE / "repos").mkdir(exist_ok=True)
                (HERE / "repos" / bundle.name).write_bytes(bundle.read_bytes())
        for line in (HERE / "dataset.jsonl").read_text(encoding="utf-8").splitlines():
            instance = json.loads(line)
            wrong += check(instance, repos[instance["repo"].replace("/", "__")])
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
