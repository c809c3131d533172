"""pip, and why it found no version: `python_install.py PIP ARGUMENT…`.

Where versions are there that fit and pip does not take them, it may be as they were withdrawn (PEP 592), which pip itself
says only of a version that is asked for by its number. Then one line each: `NAME VERSION was yanked`.
"""

import os
import re
import subprocess
import sys

PIP = [sys.executable, "-I", sys.argv[1]]
NOT_FOUND = re.compile(
    r"satisfies the requirement ([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?([^(\n]*?)\s*\(from versions: ([^)\n]+)\)"
)
MOST = 3

process = subprocess.Popen(PIP + sys.argv[2:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
said = []
for line in process.stdout:
    text = line.decode("utf-8", "replace")
    sys.stdout.write(text)
    sys.stdout.flush()
    said.append(text)
code = process.wait()


def reason(name, version):
    """Why a version was withdrawn; nothing where it was not. It is asked for by its number, and not installed."""
    asked = PIP + ["install", "--no-input", "--no-cache-dir", "--dry-run", "--no-deps", "--ignore-installed"]
    try:
        ran = subprocess.run(
            asked + ["--", "%s==%s" % (name, version)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=120,
        )
    except subprocess.TimeoutExpired:
        return None
    text = ran.stdout.decode("utf-8", "replace")
    if "is a yanked version" not in text:
        return None
    why = re.search(r"Reason for being yanked: (.*)", text)
    return why.group(1).strip() if why else "no reason is given"


if code != 0:
    sys.path.insert(0, os.path.dirname(sys.argv[1]))
    from pip._vendor.packaging.specifiers import InvalidSpecifier, SpecifierSet

    # Newer ones name the withdrawn versions in a line before, older ones among all that there are.
    withdrawn, seen = "", set()
    for line in said:
        ignored = re.search(r"Ignored the following yanked versions: (.*)", line)
        if ignored:
            withdrawn = ignored.group(1)
        for name, wanted, versions in NOT_FOUND.findall(line):
            there = [v.strip() for v in (withdrawn + "," + versions).split(",") if v.strip() not in ("", "none")]
            withdrawn = ""
            try:
                fits = SpecifierSet(wanted.split(";")[0].strip())
            except InvalidSpecifier:
                continue
            for version in [v for v in reversed(there) if fits.contains(v, prereleases=True)][:MOST]:
                why = reason(name, version) if (name, version) not in seen else None
                seen.add((name, version))
                if why:
                    print("%s %s was yanked: %s" % (name, version, why))
sys.exit(code if code >= 0 else 128 - code)
