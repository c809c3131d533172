#!/usr/bin/env python3
"""Works out every verdict of this example with plain tools, as a second opinion on the program's own.

    python3 examples/quickstart/verify.py [--write] [--python PROGRAM] [--sh PROGRAM] [--model FILE]

For each instance and arm it checks the tree out, applies the patch with git, puts the test in its place and runs it
with `python3 -m unittest`, `cargo test` or `sh`. The result is compared with `tests/model/quickstart.json`, or
written there with `--write`. It runs the code without a sandbox: only our own code is in this example.
Needs git, Python 3.8 or newer, and cargo.
"""

import argparse
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE.parent.parent / "tests" / "model" / "quickstart.json"
STATES = ["head", "merged"]
CONTROLS = STATES + ["human", "none"]


def rows(name):
    return [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


def run(command, cwd, stdin=None, **variables):
    """Run a command; give its exit code and all it printed."""
    keep = ("PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME", "PYENV_ROOT", "PYENV_VERSION")
    env = {k: os.environ[k] for k in keep if k in os.environ}
    env.update(LC_ALL="C.UTF-8", TZ="UTC", GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1", **variables)
    done = subprocess.run(command, cwd=str(cwd), env=env, input=stdin, timeout=300,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def git(cwd, *args, stdin=None):
    code, text = run(["git", *args], cwd, stdin)
    if code != 0:
        raise SystemExit("git %s failed: %s" % (" ".join(args), text))


def checkout(instance, commit, patch, tree):
    """Put a commit's files into `tree`, with the patch on them; false when the patch does not apply."""
    tree.mkdir()
    git(tree, "init", "--quiet")
    bundle = HERE / "repos" / (instance["repo"].replace("/", "__") + ".bundle")
    git(tree, "fetch", "--quiet", str(bundle), "+refs/*:refs/bundle/*")
    git(tree, "checkout", "--quiet", commit)
    if not patch:
        return True
    patch = patch.replace("\r\n", "\n")
    if not patch.endswith("\n"):
        patch += "\n"
    return run(["git", "apply", "-"], tree, patch.encode())[0] == 0


def unittest_outcome(tree, test, options):
    code, text = run([options.python, "-B", "-m", "unittest", test.stem], tree,
                     PYTHONPATH="%s%s%s" % (tree, os.pathsep, test.parent))
    # unittest's loader reports an ImportError as a test that errored, but stops at a SyntaxError.
    if re.search(r"^(Syntax|Indentation)Error: ", text, re.M):
        return "errored(syntax)"
    if re.search(r"^ERROR: ", text, re.M):
        if re.search(r"^(Import|ModuleNotFound)Error: ", text, re.M):
            return "errored(import)"
        return "errored(exception)"
    if re.search(r"^FAIL: ", text, re.M):
        return "failed"
    assert code == 0 and re.search(r"^Ran [1-9]", text, re.M) and text.endswith("OK\n"), text
    return "passed"


def cargo_outcome(tree, test, oracle):
    place = tree / oracle["install_as"]
    place.parent.mkdir(exist_ok=True)
    shutil.copyfile(str(test), str(place))
    code, text = run(["cargo", "test", "--offline", "--locked", "--test", place.stem], tree)
    if "could not compile" in text:
        return "errored(compile)"
    panics = re.findall(r"panicked at (?:'.*', )?([^\s:]+):\d+", text)
    if panics:
        own = all(where == oracle["install_as"] for where in panics)
        return "failed" if own else "errored(exception)"
    assert code == 0 and re.search(r"test result: ok\. [1-9]", text), text
    return "passed"


def tap_outcome(tree, test, options):
    code, text = run([options.sh, str(test)], tree)
    lines = text.splitlines()
    points = [line for line in lines if re.match(r"(not )?ok \d+", line)]
    assert "1..%d" % len(points) in lines, text
    if any(line.startswith("not ok") for line in points):
        return "failed"
    assert code == 0, text
    return "passed"


def outcome(tree, oracle, options):
    test = HERE / oracle["test"]
    if oracle["framework"] == "unittest":
        return unittest_outcome(tree, test, options)
    if oracle["framework"] == "cargo":
        return cargo_outcome(tree, test, oracle)
    return tap_outcome(tree, test, options)


def shown(instance, revisions, arm, scratch, options):
    """What each comment's oracle shows for one arm: outcome by comment, or a word for the whole instance."""
    commit, patch = instance["commit_to_review"]["head_commit"], ""
    if arm == "merged":
        commit = instance["merged_commit"]
    elif arm != "head":
        revision = revisions.get((instance["instance_id"], arm))
        if revision is None:
            return "missing"
        if revision["status"] == "no-changes":
            return "no changes"
        patch = revision["patch"]
    if commit is None:
        return "missing"
    tree = scratch / ("%s-%s" % (instance["instance_id"].replace("@", "-"), arm))
    if not checkout(instance, commit, patch, tree):
        return "patch"
    return {oracle["comment"]: outcome(tree, oracle, options) for oracle in instance["oracles"]}


def verdict(oracle, found, controls):
    """(verdict, first words of the reason, outcome) of one comment, by the table of the strict policy."""
    if oracle is None:
        return "invalid", "no-oracle", None
    if found == "missing":
        return "missing", "no revision", None
    head, merged = controls
    before = head[oracle["comment"]].split("(")[0]
    good = before == "failed" or before in oracle.get("before", [])
    if not good or (merged != "missing" and merged[oracle["comment"]] != "passed"):
        return "invalid", "control", None
    if isinstance(found, str):
        return "fail", found, None
    seen = found[oracle["comment"]]
    return ("pass", None, seen) if seen == "passed" else ("fail", seen, seen)


def table(verdicts, arms, chosen):
    """The counts of each arm over the chosen comments."""
    lines = []
    for arm in arms:
        of_arm = [v for v in verdicts if v["arm"] == arm and (v["instance_id"], v["comment"]) in chosen]
        count = {w: sum(v["verdict"] == w for v in of_arm) for w in ("pass", "fail", "invalid", "missing")}
        gone = {v["instance_id"] for v in of_arm if v["verdict"] == "missing"}
        decided = count["pass"] + count["fail"]
        lines.append({
            "arm": arm, "control": arm in CONTROLS, "passed": count["pass"], "failed": count["fail"],
            "invalid": count["invalid"], "missing": count["missing"], "missing_instances": len(gone),
            "total": len(of_arm), "rate": count["pass"] / len(of_arm),
            "rate_scored": count["pass"] / decided if decided else None,
        })
    return lines


def overlap(verdicts, arms, chosen):
    """Union, exclusive and pairwise passes of the tool arms."""
    passed = {arm: {(v["instance_id"], v["comment"]) for v in verdicts if v["arm"] == arm and v["verdict"] == "pass"}
              & chosen for arm in arms if arm not in CONTROLS}
    others = {arm: set().union(*(passed[o] for o in passed if o != arm)) for arm in passed}
    return {
        "union": len(set().union(*passed.values())),
        "exclusive": {arm: len(passed[arm] - others[arm]) for arm in sorted(passed)},
        "pairs": [[a, b, len(passed[a] & passed[b])] for a, b in itertools.combinations(sorted(passed), 2)],
    }


def work_out(options):
    bench = json.loads((HERE / "bench.json").read_text(encoding="utf-8"))
    arms = sorted(bench["arms"] + STATES)
    revisions = {(r["instance_id"], r["arm"]): r for r in rows("revisions.jsonl")}
    verdicts = []
    every, valid = set(), set()
    with tempfile.TemporaryDirectory() as scratch:
        for instance in rows("dataset.jsonl"):
            name = instance["instance_id"]
            found = {arm: shown(instance, revisions, arm, pathlib.Path(scratch), options) for arm in arms}
            oracles = {oracle["comment"]: oracle for oracle in instance["oracles"]}
            for comment in (c["id"] for c in instance["reference_review_comments"]):
                every.add((name, comment))
                valid.update([(name, comment)] if comment in oracles else [])
                for arm in arms:
                    word, reason, seen = verdict(oracles.get(comment), found[arm], (found["head"], found["merged"]))
                    marked = instance["merged_commit"] is None and word in ("pass", "fail")
                    verdicts.append({
                        "instance_id": name, "comment": comment, "arm": arm, "verdict": word,
                        "reason_prefix": reason, "outcome": seen, "marks": ["uncontrolled"] if marked else [],
                    })
    frozen = {(row["instance_id"], row["comment"]) for row in bench["frozen"]}
    chosen = {"all": every, "valid": valid, "final": frozen}
    return {
        "tables": {name: table(verdicts, arms, chosen[name]) for name in chosen},
        "overlap": {name: overlap(verdicts, arms, chosen[name]) for name in chosen},
        "verdicts": sorted(verdicts, key=lambda v: (v["instance_id"], v["comment"], v["arm"])),
    }


def to_text(model):
    """JSON with one table row or verdict a line, so that changes read well in a diff."""
    def block(items, indent):
        return ",\n".join(" " * indent + json.dumps(item) for item in items)
    tables = ",\n".join('    "%s": [\n%s\n    ]' % (k, block(v, 6)) for k, v in model["tables"].items())
    overlaps = ",\n".join('    "%s": %s' % (k, json.dumps(v)) for k, v in model["overlap"].items())
    return '{\n  "tables": {\n%s\n  },\n  "overlap": {\n%s\n  },\n  "verdicts": [\n%s\n  ]\n}\n' % (
        tables, overlaps, block(model["verdicts"], 4))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the model instead of comparing with it")
    parser.add_argument("--python", default=sys.executable, help="the Python that runs the tests")
    parser.add_argument("--sh", default="sh", help="the shell that runs the tests")
    parser.add_argument("--model", type=pathlib.Path, default=MODEL)
    options = parser.parse_args()
    model = work_out(options)
    for row in model["tables"]["final"]:
        print("%-14s %d passed, %d failed, %d invalid, %d missing of %d" % tuple(
            row[k] for k in ("arm", "passed", "failed", "invalid", "missing", "total")))
    if options.write:
        options.model.parent.mkdir(parents=True, exist_ok=True)
        options.model.write_text(to_text(model), encoding="utf-8")
        return 0
    expected = json.loads(options.model.read_text(encoding="utf-8"))
    for ours, theirs in zip(model["verdicts"], expected["verdicts"]):
        if ours != theirs:
            print("differs: %s, expected %s" % (ours, theirs), file=sys.stderr)
    return 0 if model == expected else 1


if __name__ == "__main__":
    sys.exit(main())
