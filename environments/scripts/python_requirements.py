"""What a Python project wants: `python_requirements.py MODE TREE`, prints one JSON object.

MODE  locked   as `tests`, with the versions of the project's lock file
      tests    what it needs to run and to be tested, and the test framework with its plugins
      runtime  what it needs to run
      files    what its requirements files name, and the test framework with its plugins

Reads text only. `setup.py`, where nothing else says what it wants, runs with stand-ins for everything that it imports
and that is not there, and a build back end is asked only if it happens to be installed. The standard library alone,
from Python 3.8 on.
"""

import ast
import configparser
import glob
import json
import os
import re
import subprocess
import sys

MAX_FILE = 1 << 20
MAX_TESTS = 400
TEST_GROUP = re.compile(r"^(unit-?)?tests?(ing)?$|^pytest$|^tests?-.*|.*-tests?$|^check$", re.I)
DEV_GROUP = re.compile(r"^(dev|develop|development|devel|ci)$|^dev-.*|.*-dev$", re.I)
MARKER = r"(?:python_|sys_platform|platform_|os_name|implementation_|extra\b)"
NAME = re.compile(r"^\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(\[[^\]]*\])?\s*(.*)$", re.S)


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


class Tree:
    def __init__(self, root):
        self.root = os.path.realpath(root)

    def place(self, path):
        """The place of a file that lies in the tree, also after links."""
        place = os.path.realpath(os.path.join(self.root, path))
        inside = place.startswith(self.root.rstrip("/") + "/") and os.path.isfile(place)
        return place if inside and os.path.getsize(place) <= MAX_FILE else None

    def read(self, path):
        place = self.place(path)
        if place is None:
            return None
        with open(place, encoding="utf-8-sig", errors="replace") as file:
            return file.read()

    def find(self, *patterns):
        found = []
        for pattern in patterns:
            for place in sorted(glob.glob(os.path.join(glob.escape(self.root), pattern), recursive=True)):
                path = os.path.relpath(place, self.root)
                if self.place(path) and path not in found:
                    found.append(path)
        return found

    def toml(self, path):
        text = self.read(path)
        if text is None:
            return {}
        try:
            return loads_toml(text)
        except Exception as error:
            note("%s can't be read: %s" % (path, error))
            return {}

    def ini(self, path):
        parser = configparser.ConfigParser(interpolation=None, strict=False, allow_no_value=True)
        parser.optionxform = lambda option: option.replace("-", "_")
        text = self.read(path)
        try:
            parser.read_string(text or "")
        except configparser.Error as error:
            note("%s can't be read: %s" % (path, str(error).splitlines()[0]))
        return {section: dict(parser.items(section)) for section in parser.sections()}


NOTES = []


def note(text):
    if text not in NOTES and len(NOTES) < 50:
        NOTES.append(text)


# ------------------------------------------------------------------------------------------------------------ TOML


def loads_toml(text):
    for module in ("tomllib", "tomli", "pip._vendor.tomli"):
        try:
            return __import__(module, fromlist=["loads"]).loads(text)
        except ImportError:
            continue
    return SmallToml(text).document()


class SmallToml:
    """Enough of TOML for manifests: tables, strings, arrays, inline tables, numbers; other scalars become texts."""

    def __init__(self, text):
        self.text, self.at = text.replace("\r\n", "\n"), 0

    def skip(self, lines=True):
        pattern = r"(?:[ \t\n]|#[^\n]*)*" if lines else r"[ \t]*"
        self.at = re.compile(pattern).match(self.text, self.at).end()

    def peek(self, token):
        return self.text.startswith(token, self.at)

    def take(self, token):
        if not self.peek(token):
            line = self.text.count("\n", 0, self.at) + 1
            raise ValueError("line %d: `%s` expected" % (line, token))
        self.at += len(token)

    def document(self):
        root = {}
        table = root
        self.skip()
        while self.at < len(self.text):
            if self.peek("[["):
                self.take("[[")
                keys = self.keys()
                self.take("]]")
                items = self.walk(root, keys[:-1]).setdefault(keys[-1], [])
                items.append({})
                table = items[-1]
            elif self.peek("["):
                self.take("[")
                keys = self.keys()
                self.take("]")
                table = self.walk(root, keys)
            else:
                self.pair(table)
            self.skip()
        return root

    def walk(self, table, keys):
        for key in keys:
            table = table.setdefault(key, {})
            if isinstance(table, list):
                table = table[-1]
            if not isinstance(table, dict):
                raise ValueError("`%s` is no table" % key)
        return table

    def pair(self, table):
        keys = self.keys()
        self.take("=")
        self.skip(False)
        self.walk(table, keys[:-1])[keys[-1]] = self.value()

    def keys(self):
        keys = []
        while True:
            self.skip(False)
            if self.peek('"') or self.peek("'"):
                keys.append(self.string())
            else:
                word = re.compile(r"[A-Za-z0-9_-]+").match(self.text, self.at)
                if not word:
                    raise ValueError("line %d: a key expected" % (self.text.count("\n", 0, self.at) + 1))
                keys.append(word.group())
                self.at = word.end()
            self.skip(False)
            if not self.peek("."):
                return keys
            self.at += 1

    def string(self):
        for quote in ('"""', "'''", '"', "'"):
            if self.peek(quote):
                break
        start = self.at + len(quote)
        literal = quote[0] == "'"
        if len(quote) == 3:
            body = r"(.*?)" if literal else r"((?:\\.|[^\\])*?)"
        else:
            body = r"([^'\n]*)" if literal else r"((?:\\.|[^\\\n])*?)"
        found = re.compile(body + re.escape(quote), re.S).match(self.text, start)
        if not found:
            raise ValueError("line %d: a text without an end" % (self.text.count("\n", 0, self.at) + 1))
        self.at = found.end()
        text = found.group(1)
        if len(quote) == 3 and text.startswith("\n"):
            text = text[1:]
        if literal:
            return text
        text = re.sub(r"\\[ \t]*\n\s*", "", text)
        plain = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "e": "\x1b"}

        def escape(match):
            code = match.group(1)
            return chr(int(code[1:], 16)) if code[0] in "uUx" and len(code) > 1 else plain.get(code, code)

        return re.sub(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|.)", escape, text, flags=re.S)

    def value(self):
        if self.peek('"') or self.peek("'"):
            return self.string()
        if self.peek("["):
            self.take("[")
            items = []
            self.skip()
            while not self.peek("]"):
                items.append(self.value())
                self.skip()
                if not self.peek("]"):
                    self.take(",")
                    self.skip()
            self.take("]")
            return items
        if self.peek("{"):
            self.take("{")
            table = {}
            self.skip()
            while not self.peek("}"):
                self.pair(table)
                self.skip()
                if not self.peek("}"):
                    self.take(",")
                    self.skip()
            self.take("}")
            return table
        word = re.compile(r"[^\s,\]}#]+").match(self.text, self.at)
        if not word:
            raise ValueError("line %d: a value expected" % (self.text.count("\n", 0, self.at) + 1))
        self.at = word.end()
        text = word.group()
        if text in ("true", "false"):
            return text == "true"
        return int(text) if re.match(r"^[+-]?\d+$", text) else text


# ---------------------------------------------------------------------------------------------------- requirements


def parts(requirement):
    """Name, extras and the rest of a requirement; none if it is an address or a path."""
    text = requirement.strip()
    if re.match(r"^[A-Za-z+]+://|^(git|hg|svn|bzr)\+|^[./]", text):
        return None
    match = NAME.match(text)
    if not match:
        return None
    name, extras, rest = match.groups()
    return normal(name), extras or "", rest.strip()


def as_list(value):
    if isinstance(value, str):
        return [line for line in value.splitlines() if line.strip()]
    return [item for item in value if isinstance(item, str)] if isinstance(value, (list, tuple)) else []


def table(value, *keys):
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def of_file(tree, path, seen=None, constraints=None):
    """The requirements in a requirements file, with those of the files that it names."""
    seen = set() if seen is None else seen
    if path in seen or len(seen) > 30:
        return []
    seen.add(path)
    text = tree.read(path)
    if text is None:
        note("%s is not there" % path)
        return []
    found = []
    for line in re.sub(r"\\\n", " ", text.replace("\r\n", "\n")).splitlines():
        line = re.sub(r"(^|\s)#.*$", "", line).strip()
        if not line:
            continue
        option = re.match(r"^(-r|--requirement|-c|--constraint)[ =]?\s*(\S+)", line)
        if option:
            other = os.path.normpath(os.path.join(os.path.dirname(path), option.group(2)))
            if option.group(1) in ("-r", "--requirement"):
                found += of_file(tree, other, seen, constraints)
            elif constraints is not None:
                constraints += of_file(tree, other, seen, None)
            continue
        line = re.sub(r"^(-e|--editable)[ =]?\s*", "", line)
        if line.startswith("-"):
            note("%s: `%s` is left out" % (path, line.split()[0]))
            continue
        line = re.sub(r"\s--(hash|config-settings|global-option|install-option)[= ]\S+", "", line).strip()
        found.append(line)
    return found


class Project:
    def __init__(self, tree):
        self.tree = tree
        self.pyproject = tree.toml("pyproject.toml")
        self.cfg = tree.ini("setup.cfg")
        self.constraints = []
        self.name = None
        self.runtime = []
        self.groups = {}
        self.says = False
        self.pep621()
        self.poetry()
        self.other_tools()
        self.setup_cfg()
        if tree.read("setup.py") is not None and (not self.says or {"dependencies", "optional-dependencies"} & set(self.dynamic)):
            self.setup_py()
        if not self.says and "dependencies" in self.dynamic:
            self.back_end()
        self.pbr()
        self.conda()

    def group(self, name, requirements):
        if requirements:
            self.groups.setdefault(normal(name), []).extend(requirements)

    def pep621(self):
        project = table(self.pyproject, "project")
        self.name = project.get("name") if isinstance(project.get("name"), str) else None
        self.dynamic = as_list(project.get("dynamic"))
        if "dependencies" in project or (project and "dependencies" not in self.dynamic):
            self.says = True
            self.runtime += as_list(project.get("dependencies"))
        for name, requirements in table(project, "optional-dependencies").items():
            self.group(name, as_list(requirements))
        dynamic = table(self.pyproject, "tool", "setuptools", "dynamic")
        files = dynamic.get("dependencies")
        for path in as_list(files.get("file")) if isinstance(files, dict) else []:
            self.says = True
            self.runtime += of_file(self.tree, path)
        for name, files in table(dynamic, "optional-dependencies").items():
            for path in as_list(files.get("file")) if isinstance(files, dict) else []:
                self.group(name, of_file(self.tree, path))
        hook = table(self.pyproject, "tool", "hatch", "metadata", "hooks", "requirements_txt")
        for path in as_list(hook.get("files")):
            self.says = True
            self.runtime += of_file(self.tree, path)
        for name, files in table(hook, "optional-dependencies").items():
            for path in as_list(files):
                self.group(name, of_file(self.tree, path))
        groups = table(self.pyproject, "dependency-groups")

        def include(name, seen):
            if name in seen:
                return []
            found = []
            for item in groups.get(name, []) if isinstance(groups.get(name), list) else []:
                if isinstance(item, str):
                    found.append(item)
                elif isinstance(item, dict) and isinstance(item.get("include-group"), str):
                    wanted = normal(item["include-group"])
                    other = next((group for group in groups if normal(group) == wanted), None)
                    found += include(other, seen | {name}) if other else []
            return found

        for name in groups:
            self.group(name, include(name, set()))

    def poetry(self):
        poetry = table(self.pyproject, "tool", "poetry")
        if not poetry:
            return
        self.name = self.name or poetry.get("name")
        by_name = {}
        for name, wanted in table(poetry, "dependencies").items():
            if normal(name) == "python":
                continue
            requirement = of_poetry(name, wanted)
            if requirement:
                by_name[normal(name)] = requirement
                if not (isinstance(wanted, dict) and wanted.get("optional")):
                    self.runtime.append(requirement)
        self.says = self.says or "dependencies" in poetry
        for name, members in table(poetry, "extras").items():
            self.group(name, [by_name[normal(m)] for m in as_list(members) if normal(m) in by_name])
        groups = {"dev": table(poetry, "dev-dependencies")}
        groups.update((name, table(group, "dependencies")) for name, group in table(poetry, "group").items())
        for name, members in groups.items():
            self.group(name, [r for r in (of_poetry(n, w) for n, w in members.items()) if r])

    def other_tools(self):
        tool = table(self.pyproject, "tool")
        flit = table(tool, "flit", "metadata")
        if "requires" in flit:
            self.says = True
            self.runtime += as_list(flit["requires"])
        for name, requirements in table(flit, "requires-extra").items():
            self.group(name, as_list(requirements))
        for name, requirements in table(tool, "pdm", "dev-dependencies").items():
            self.group(name, as_list(requirements))
        self.group("dev", as_list(table(tool, "uv").get("dev-dependencies")))
        for name, env in table(tool, "hatch", "envs").items():
            if isinstance(env, dict):
                wanted = as_list(env.get("dependencies")) + as_list(env.get("extra-dependencies"))
                named = "test" if name in ("hatch-test", "default") else name
                self.group(named, wanted)
                for feature in as_list(env.get("features")):
                    if TEST_GROUP.match(named):
                        self.group(named, ["%s[%s]" % (self.name or ".", feature)])

    def setup_cfg(self):
        metadata, options = self.cfg.get("metadata", {}), self.cfg.get("options", {})
        self.name = self.name or metadata.get("name")

        def listed(text):
            text = (text or "").strip()
            if text.startswith("file:"):
                return [r for path in text[5:].split(",") for r in of_file(self.tree, path.strip())]
            # On a single line `;` is between requirements, unless a marker follows it.
            lines = text.splitlines() if "\n" in text else re.split(r";(?!\s*[(]*\s*%s)" % MARKER, text)
            return [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]

        if "install_requires" in options:
            self.says = True
            self.runtime += listed(options["install_requires"])
        self.group("test", listed(options.get("tests_require")))
        for name, text in self.cfg.get("options.extras_require", {}).items():
            self.group(name, listed(text))

    def setup_py(self):
        said = run_setup(self.tree)
        if said is None:
            return
        self.name = self.name or said.get("name")
        if said.get("install_requires"):
            self.says = True
            self.runtime += as_list(said["install_requires"])
        self.group("test", as_list(said.get("tests_require")))
        extras = said.get("extras_require")
        for name, requirements in (extras if isinstance(extras, dict) else {}).items():
            if name.startswith(":"):
                self.runtime += ["%s; %s" % (r, name[1:]) for r in as_list(requirements)]
            else:
                self.group(name.split(":")[0], as_list(requirements))

    def back_end(self):
        name = table(self.pyproject, "build-system").get("build-backend")
        code = (
            "import importlib, json, os, sys, tempfile\n"
            "sys.path[:0] = sys.argv[2:]\n"
            "back, _, at = sys.argv[1].partition(':')\n"
            "hook = importlib.import_module(back)\n"
            "for part in filter(None, at.split('.')): hook = getattr(hook, part)\n"
            "out = tempfile.mkdtemp()\n"
            "name = hook.prepare_metadata_for_build_wheel(out)\n"
            "print('\\n' + open(os.path.join(out, name, 'METADATA'), encoding='utf-8').read())\n"
        )
        if not isinstance(name, str):
            return
        paths = [os.path.join(self.tree.root, p) for p in as_list(table(self.pyproject, "build-system").get("backend-path"))]
        try:
            ran = subprocess.run(
                [sys.executable, "-c", code, name] + paths, cwd=self.tree.root, timeout=60,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return note("the build back end did not answer in time")
        if ran.returncode != 0:
            return note("the dependencies are dynamic, and the build back end `%s` is not at hand to ask" % name)
        for requirement in re.findall(r"(?m)^Requires-Dist: (.+)$", ran.stdout.decode("utf-8", "replace")):
            extra = re.search(r"""extra == ['"]([^'"]+)['"]""", requirement)
            if extra:
                self.group(extra.group(1), [requirement.split(";")[0].strip()])
            else:
                self.runtime.append(requirement)
        self.says = True

    def pbr(self):
        uses = as_list(table(self.pyproject, "build-system").get("requires"))
        uses += (self.cfg.get("options", {}).get("setup_requires") or "").splitlines()
        text = self.tree.read("setup.py") or ""
        if any((parts(r) or ("",))[0] == "pbr" for r in uses) or re.search(r"\bpbr\s*=\s*True", text):
            if self.tree.read("requirements.txt") is not None:
                self.says = True
                self.runtime += of_file(self.tree, "requirements.txt")

    def conda(self):
        for path in self.tree.find("environment*.yml", "environment*.yaml"):
            note("%s (conda) is not read" % path)

    def expand(self, requirements, depth=0):
        """Requirements without the project itself: its extras are looked up, addresses become names."""
        out = []
        own = normal(self.name) if isinstance(self.name, str) else None
        for text in requirements:
            text = text.strip()
            local = re.match(r"^(\.|\./|file:.*)?\s*(\[([^\]]*)\])?\s*$", text)
            known = parts(text)
            if local and (local.group(1) or local.group(3)):
                extras = local.group(3) or ""
            elif known and known[0] == own:
                extras = known[1].strip("[]")
            elif known is None:
                egg = re.search(r"[#&]egg=([A-Za-z0-9._-]+)", text)
                wheel = re.search(r"/([A-Za-z0-9_.]+)-[0-9][^/]*\.whl", text)
                name = (egg or wheel).group(1) if egg or wheel else None
                note("`%s` is %s" % (text, "taken from the index as `%s`" % name if name else "left out"))
                out += [name] if name else []
                continue
            elif known[2].startswith("@"):
                note("`%s` is taken from the index as `%s`" % (text, known[0]))
                marker = known[2].split(" ; ", 1)[1:] or known[2].split("; ", 1)[1:]
                out.append(known[0] + known[1] + ("; " + marker[0] if marker else ""))
                continue
            else:
                out.append(text)
                continue
            for extra in filter(None, (normal(e.strip()) for e in extras.split(","))):
                if depth < 5:
                    out += self.expand(self.groups.get(extra, []), depth + 1)
        return out

    def test_groups(self):
        for pattern in (TEST_GROUP, DEV_GROUP):
            chosen = [name for name in sorted(self.groups) if pattern.match(name)]
            if chosen:
                return chosen
        return []


def of_poetry(name, wanted):
    """A requirement from poetry's own form."""
    if isinstance(wanted, list):
        wanted = wanted[0] if wanted else "*"
    extras, marker = "", ""
    if isinstance(wanted, dict):
        if "path" in wanted and not wanted.get("version"):
            note("`%s` by path is left out" % name)
            return None
        if any(key in wanted for key in ("git", "url")):
            note("`%s` is taken from the index instead of its address" % name)
        extras = "[%s]" % ",".join(as_list(wanted.get("extras"))) if as_list(wanted.get("extras")) else ""
        marker = wanted.get("markers") or ""
        if isinstance(wanted.get("python"), str):
            versions = poetry_range(wanted["python"])
            also = " and ".join(
                "python_version %s '%s'" % re.match(r"([<>=!~]+)\s*(.*)", part).groups()
                for part in versions.split(",") if re.match(r"[<>=!~]+\s*\d+(\.\d+)?$", part)
            )
            marker = " and ".join(filter(None, [also, "(%s)" % marker if marker else ""]))
        wanted = wanted.get("version", "*")
    if not isinstance(wanted, str):
        return None
    text = name + extras + poetry_range(wanted)
    return "%s; %s" % (text, marker) if marker else text


def poetry_range(text):
    if "||" in text:
        # An alternative cannot be said in a requirement: the last one is the newest.
        text = text.split("||")[-1]
    out = []
    for part in text.split(","):
        part = part.strip()
        match = re.match(r"^([\^~])\s*([0-9.]+)(.*)$", part)
        if part in ("", "*"):
            continue
        if match and not part.startswith("~="):
            numbers = [int(n) for n in match.group(2).split(".") if n]
            if match.group(1) == "^":
                at = next((i for i, n in enumerate(numbers) if n), len(numbers) - 1)
            else:
                at = min(1, len(numbers) - 1)
            end = numbers[:at] + [numbers[at] + 1]
            out += [">=" + match.group(2) + match.group(3), "<" + ".".join(map(str, end))]
        elif re.match(r"^[0-9]", part):
            out.append("==" + part)
        else:
            out.append(part.replace(" ", ""))
    return ",".join(out)


# -------------------------------------------------------------------------------------------------------- setup.py

STAND_INS = r'''
import importlib.abc, importlib.machinery, io, json, os, sys, types

SAID = {}

class Anything:
    """Whatever a setup script asks of a module that is not there."""
    def __init__(self, *a, **k): pass
    def __call__(self, *a, **k): return Anything()
    def __getattr__(self, name):
        if name.startswith("__"): raise AttributeError(name)
        return Anything()
    def __getitem__(self, key): return Anything()
    def __iter__(self): return iter(())
    def __bool__(self): return False
    def __str__(self): return "0"
    def __fspath__(self): return "/"
    def __add__(self, other): return other
    def __radd__(self, other): return other
    def __or__(self, other): return other
    def __lt__(self, other): return False
    __gt__ = __le__ = __ge__ = __lt__
    def __len__(self): return 0
    def __enter__(self): return self
    def __exit__(self, *a): return False
    def __mro_entries__(self, bases): return (object,)

class Stand(types.ModuleType):
    __path__ = []
    def __getattr__(self, name):
        if name.startswith("__"): raise AttributeError(name)
        if name == "setup": return setup
        if name in ("find_packages", "find_namespace_packages"): return lambda *a, **k: []
        if name[:1].isupper(): return type(name, (), {"__init__": lambda self, *a, **k: None})
        return Anything()

def setup(*args, **kinds):
    for key in ("name", "install_requires", "tests_require", "extras_require", "python_requires", "setup_requires"):
        if key in kinds: SAID.setdefault(key, kinds[key])

class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names): self.names = names
    def find_spec(self, name, path=None, target=None):
        first = name.split(".")[0]
        if self.names is None or first in self.names:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
    def create_module(self, spec): return Stand(spec.name)
    def exec_module(self, module): pass

sys.meta_path.insert(0, Finder({"setuptools", "distutils", "pkg_resources", "skbuild", "numpy", "Cython", "pybind11"}))
sys.meta_path.append(Finder(None))
sys.path.insert(0, os.getcwd())
sys.argv = ["setup.py", "--name"]
out, sys.stdout = sys.stdout, io.StringIO()
try:
    with open("setup.py", encoding="utf-8", errors="replace") as file: code = file.read()
    exec(compile(code, os.path.abspath("setup.py"), "exec"), {"__name__": "__main__", "__file__": os.path.abspath("setup.py")})
    why = None
except BaseException as error:
    why = "%s: %s" % (type(error).__name__, error)
def plain(value):
    if isinstance(value, dict): return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)): return [plain(v) for v in value]
    return value if isinstance(value, str) else None
out.write("\n" + json.dumps({"said": plain(SAID), "why": why}))
out.flush()
os._exit(0)
'''


def run_setup(tree):
    try:
        ran = subprocess.run(
            [sys.executable, "-B", "-I", "-c", STAND_INS], cwd=tree.root, timeout=60, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )
        answer = json.loads(ran.stdout.decode("utf-8", "replace").splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError):
        return note("setup.py did not end well, so what it says is not known")
    if answer["why"] and not answer["said"]:
        note("setup.py ended with %s" % answer["why"][:200])
    return answer["said"]


# ----------------------------------------------------------------------------------------------------------- tests

# Options and settings of pytest that belong to a plugin, so that pytest does not start without it.
OPTIONS = {
    "--cov": "pytest-cov", "--no-cov": "pytest-cov", "-n": "pytest-xdist", "--numprocesses": "pytest-xdist",
    "--dist": "pytest-xdist", "--maxprocesses": "pytest-xdist", "--timeout": "pytest-timeout",
    "--asyncio-mode": "pytest-asyncio", "--benchmark": "pytest-benchmark", "--mpl": "pytest-mpl",
    "--doctest-plus": "pytest-doctestplus", "--doctest-rst": "pytest-doctestplus",
    "--reruns": "pytest-rerunfailures", "--flake8": "pytest-flake8", "--black": "pytest-black",
    "--mypy": "pytest-mypy", "--isort": "pytest-isort", "--pylint": "pytest-pylint", "--ds": "pytest-django",
    "--reuse-db": "pytest-django", "--nomigrations": "pytest-django", "--html": "pytest-html",
    "--random-order": "pytest-random-order", "--randomly-seed": "pytest-randomly", "--forked": "pytest-forked",
    "--boxed": "pytest-forked", "--nbval": "nbval", "--disable-socket": "pytest-socket",
    "--allow-hosts": "pytest-socket", "--remote-data": "pytest-remotedata", "--arraydiff": "pytest-arraydiff",
    "--snapshot": "syrupy", "--hypothesis": "hypothesis", "--codspeed": "pytest-codspeed",
    "--record-mode": "pytest-recording", "--block-network": "pytest-recording", "--pycodestyle": "pytest-pycodestyle",
    "--ruff": "pytest-ruff", "--mypy-ini": "pytest-mypy-plugins", "--splits": "pytest-split",
}
SETTINGS = {
    "asyncio_mode": "pytest-asyncio", "asyncio_default_fixture_loop_scope": "pytest-asyncio",
    "timeout": "pytest-timeout", "timeout_method": "pytest-timeout", "DJANGO_SETTINGS_MODULE": "pytest-django",
    "env": "pytest-env", "qt_api": "pytest-qt", "trio_mode": "pytest-trio", "mpl_results_path": "pytest-mpl",
    "doctest_plus": "pytest-doctestplus", "remote_data_strict": "pytest-remotedata",
    "mock_use_standalone_module": "pytest-mock", "mock_traceback_monkeypatch": "pytest-mock",
    "rst_files": "pytest-doctestplus", "twisted_reactor": "pytest-twisted",
}
# What a test says that needs a plugin. A setting alone only warns where the plugin is not there; a fixture fails.
IN_TESTS = [
    (r"pytest\.mark\.asyncio\b|\bpytest_asyncio\b", "pytest-asyncio"), (r"pytest\.mark\.timeout\b", "pytest-timeout"),
    (r"pytest\.mark\.django_db\b|\bpytest_django\b", "pytest-django"), (r"pytest\.mark\.flaky\b", "flaky"),
    (r"pytest\.mark\.vcr\b", "pytest-recording"), (r"pytest\.mark\.freeze_time\b", "pytest-freezer"),
    (r"pytest\.mark\.trio\b", "pytest-trio"), (r"pytest\.mark\.anyio\b", "anyio"),
]
FIXTURES = {
    "mocker": "pytest-mock", "benchmark": "pytest-benchmark", "httpserver": "pytest-httpserver",
    "subtests": "pytest-subtests", "datadir": "pytest-datadir", "requests_mock": "requests-mock",
    "httpx_mock": "pytest-httpx", "snapshot": "syrupy", "aiohttp_client": "pytest-aiohttp", "qtbot": "pytest-qt",
    "fs": "pyfakefs", "faker": "Faker", "respx_mock": "respx", "testdir": None, "freezer": "pytest-freezer",
}
ARGUMENTS = re.compile(r"(?m)^\s*(?:async )?def (\w+)\(([^)]*)\)")
MODULES = {
    "hypothesis": "hypothesis", "mock": "mock", "nose": "nose", "parameterized": "parameterized",
    "freezegun": "freezegun", "responses": "responses", "testfixtures": "testfixtures", "time_machine": "time-machine",
    "pytest_cases": "pytest-cases", "ddt": "ddt", "vcr": "vcrpy", "respx": "respx", "moto": "moto", "faker": "Faker",
    "factory": "factory-boy", "sybil": "sybil", "pyfakefs": "pyfakefs", "expecttest": "expecttest",
    "syrupy": "syrupy", "webtest": "WebTest", "aioresponses": "aioresponses", "pretend": "pretend",
    "trustme": "trustme", "httpretty": "httpretty", "requests_mock": "requests-mock", "flaky": "flaky",
    "absl": "absl-py", "twisted": "Twisted", "testtools": "testtools", "pexpect": "pexpect", "betamax": "betamax",
}


def pytest_settings(project):
    """The settings of pytest, wherever the project keeps them."""
    found = {}
    tree = project.tree
    for path, section in (("pytest.ini", "pytest"), (".pytest.ini", "pytest"), ("tox.ini", "pytest"), ("setup.cfg", "tool:pytest")):
        settings = (project.cfg if path == "setup.cfg" else tree.ini(path)).get(section)
        if settings is not None:
            found.update(settings)
    pytest = table(project.pyproject, "tool", "pytest")
    for key, value in list(table(pytest, "ini_options").items()) + list(pytest.items()):
        if key != "ini_options":
            found[key] = " ".join(as_list(value)) if isinstance(value, list) and key == "addopts" else value
    return found


def plugins_of(project):
    settings = pytest_settings(project)
    wanted = []
    words = str(settings.get("addopts") or "").split()
    for i, word in enumerate(words):
        for option, plugin in OPTIONS.items():
            exact = option in ("-n", "--ds", "--black", "--mypy", "--html", "--ruff")
            if word == option or word.startswith(option + "=") or (not exact and word.startswith(option + "-")):
                wanted.append(plugin)
        if re.match(r"^-n(\d+|auto|logical)$", word):
            wanted.append("pytest-xdist")
        if word == "-p" and i + 1 < len(words) or re.match(r"^-p.+", word):
            name = words[i + 1] if word == "-p" else word[2:]
            named = {"xdist": "pytest-xdist", "pytest_cov": "pytest-cov", "pytester": None, "sugar": "pytest-sugar"}
            wanted.append(named.get(name) or (name.replace("_", "-") if re.match(r"^pytest_\w+$", name) else None))
    wanted += [plugin for key, plugin in SETTINGS.items() if key in settings]
    required = settings.get("required_plugins")
    wanted += as_list(required) if isinstance(required, list) else str(required or "").split()
    return [plugin for plugin in wanted if plugin], settings


def tests_of(tree):
    found = []
    for folder, folders, files in os.walk(tree.root):
        skipped = ("node_modules", "vendor", "build", "dist", "site-packages")
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in skipped)
        for name in sorted(files):
            if re.match(r"^(test_.*|.*_test|tests?|conftest)\.py$", name):
                found.append(os.path.relpath(os.path.join(folder, name), tree.root))
    conftests = [path for path in found if path.endswith("conftest.py")]
    others = [path for path in found if not path.endswith("conftest.py")]
    step = max(1, len(others) // MAX_TESTS)
    return conftests[:MAX_TESTS] + others[::step][:MAX_TESTS]


def from_tests(tree):
    """What the project's own tests use, and whether they are pytest's."""
    wanted, pytest = [], False
    local = {re.sub(r"\.py$", "", name) for name in os.listdir(tree.root)}
    local |= {re.sub(r"\.py$", "", name) for path in ("src", "tests", "test") if os.path.isdir(os.path.join(tree.root, path)) for name in os.listdir(os.path.join(tree.root, path))}
    defined, asked = set(), set()
    for path in tests_of(tree):
        text = tree.read(path) or ""
        for name, arguments in ARGUMENTS.findall(text):
            defined.add(name)
            if name.startswith("test") or "fixture" in text:
                # What has a default or an annotation of another kind is no fixture as a rule.
                asked.update(a.split(":")[0].strip() for a in arguments.split(",") if "=" not in a)
        pytest = pytest or path.endswith("conftest.py") or bool(re.search(r"(?m)^\s*(import|from) pytest\b|^def test", text))
        wanted += [plugin for pattern, plugin in IN_TESTS if re.search(pattern, text)]
        for module in re.findall(r"(?m)^(?:import|from) (\w+)", text):
            if module in MODULES and module not in local:
                wanted.append(MODULES[module])
    wanted += [FIXTURES[name] for name in sorted(asked - defined) if FIXTURES.get(name)]
    return wanted, pytest


def from_tox(project):
    """What tox or nox install for tests."""
    tree, found = project.tree, []
    config = tree.ini("tox.ini") or {}
    text = table(project.pyproject, "tool", "tox").get("legacy_tox_ini")
    if isinstance(text, str):
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            parser.read_string(text)
            config = {section: dict(parser.items(section)) for section in parser.sections()}
        except configparser.Error:
            pass
    for section in ("testenv", "testenv:py", "testenv:test", "testenv:tests", "testenv:unit"):
        env = config.get(section, {})
        for line in (env.get("deps") or "").splitlines():
            line = re.sub(r"\s#.*$", "", line).strip()
            factor = re.match(r"^[!A-Za-z0-9_.,{}-]+:\s+(.*)$", line)
            if factor or "{[" in line or not line or line.startswith("#"):
                continue
            line = line.replace("{toxinidir}/", "").replace("{tox_root}/", "")
            option = re.match(r"^(-r|--requirement|-c)[ =]?\s*(\S+)$", line)
            if option and option.group(1) != "-c":
                found += of_file(tree, option.group(2), constraints=project.constraints)
            elif not line.startswith("-") and "{" not in line:
                found.append(line)
        for extra in re.split(r"[\s,]+", env.get("extras") or ""):
            found += project.groups.get(normal(extra), [])
    source = tree.read("noxfile.py")
    if source and not found:
        try:
            parsed = ast.parse(source)
        except SyntaxError:
            return found
        for function in [node for node in parsed.body if isinstance(node, ast.FunctionDef) and "test" in node.name]:
            for call in [node for node in ast.walk(function) if isinstance(node, ast.Call)]:
                if not (isinstance(call.func, ast.Attribute) and call.func.attr == "install"):
                    continue
                words = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
                skip = False
                for i, word in enumerate(words):
                    if skip:
                        skip = False
                    elif word == "-r" and i + 1 < len(words):
                        found += of_file(tree, words[i + 1], constraints=project.constraints)
                        skip = True
                    elif not word.startswith("-"):
                        found.append(word)
    return found


def test_files(tree):
    """Requirements files for tests; where there are none, those for developers."""
    folders = ("", "requirements/", "requirements/*/", "requirements*/", "tests/", "test/")
    for word in ("test", "dev"):
        names = ["%s*%s*.txt" % (a, b) for a, b in (("requirements", word), (word, "requirements"))]
        found = tree.find(*[folder + name for folder in folders for name in names])
        found += [f for f in tree.find("requirements/%s*.txt" % word, "requirements/*/%s*.txt" % word) if f not in found]
        found = [path for path in found if "docs" not in path]
        if found:
            # Compiled files (pip-tools) lie beside a shorter one of the same name.
            return [min(found, key=lambda path: (path.count("/"), len(path), path))]
    return []


# ----------------------------------------------------------------------------------------------------------- locks


def locked(tree):
    """The versions in the project's lock: names with one version each."""
    found = {}

    def add(name, version):
        if isinstance(name, str) and isinstance(version, str):
            found.setdefault(normal(name), set()).add(version)

    needs = {}
    for path in ("uv.lock", "poetry.lock", "pdm.lock"):
        for package in tree.toml(path).get("package", []) if tree.read(path) is not None else []:
            if isinstance(package, dict) and not table(package, "source").get("editable") and not table(package, "source").get("virtual"):
                add(package.get("name"), package.get("version"))
            if isinstance(package, dict) and isinstance(package.get("name"), str):
                wanted = package.get("dependencies")
                # What is only needed somewhere (another system, an extra) need not be installable here.
                if isinstance(wanted, dict):
                    sure = {n for n, w in wanted.items() if not isinstance(w, dict) or not set(w) & {"markers", "optional", "python"}}
                    names = [n for n in wanted if n in sure]
                else:
                    wanted = [d for d in wanted or [] if not (isinstance(d, dict) and "marker" in d or isinstance(d, str) and ";" in d)]
                    names = [d.get("name") if isinstance(d, dict) else (parts(d) or [None])[0] for d in wanted]
                needs.setdefault(normal(package["name"]), []).extend(normal(n) for n in names if isinstance(n, str))
    pipfile = tree.read("Pipfile.lock")
    if pipfile is not None:
        try:
            for section in ("default", "develop"):
                for name, entry in table(json.loads(pipfile), section).items():
                    add(name, (entry.get("version") or "")[2:] if isinstance(entry, dict) else None)
                    needs.setdefault(normal(name), [])
        except ValueError as error:
            note("Pipfile.lock can't be read: %s" % error)
    return {name: min(v) for name, v in found.items() if len(v) == 1 and min(v)}, needs


def pin(requirements, tree):
    versions, needs = locked(tree)
    markers, order = {}, []
    for requirement in requirements:
        known = parts(requirement)
        if known is None:
            continue
        rest = known[2]
        marker = rest[rest.index(";"):] if ";" in rest else ""
        if known[0] in versions:
            order.append("%s%s==%s%s" % (known[0], known[1], versions[known[0]], " " + marker if marker else ""))
        else:
            order.append(requirement)
        markers[known[0]] = marker
    seen, queue = set(markers), [name for name in markers if not markers[name]]
    later = []
    while queue:
        for name in needs.get(queue.pop(), []):
            if name not in seen and name in versions:
                seen.add(name)
                queue.append(name)
                later.append(name)
    return order, later, versions


# ------------------------------------------------------------------------------------------------------------ main


def unique(requirements):
    out, seen = [], set()
    for requirement in requirements:
        text = re.sub(r"\s+", " ", re.sub(r"\s#.*$", "", requirement)).strip()
        known = parts(text)
        key = (known[0], known[1], known[2].replace(" ", "").replace('"', "'")) if known else text
        if text and key not in seen:
            seen.add(key)
            out.append(text)
    return out


def main(mode, root):
    tree = Tree(root)
    project = Project(tree)
    wanted = list(project.runtime)
    sources = []
    if not wanted and (not project.says or mode == "files") and tree.read("requirements.txt") is not None:
        wanted += of_file(tree, "requirements.txt", constraints=project.constraints)
        sources.append("requirements.txt")
    if mode == "files":
        wanted = []
        files = tree.find("requirements.txt", "requirements/base.txt", "requirements/requirements.txt") or tree.find("requirements*.txt")
        for path in files[:3] + test_files(tree):
            wanted += of_file(tree, path, constraints=project.constraints)
            sources.append(path)
        wanted = wanted or list(project.runtime)
    elif mode in ("tests", "locked"):
        groups = project.test_groups()
        for group in groups:
            wanted += project.groups[group]
            sources.append("the group `%s`" % group)
        if not groups:
            for path in test_files(tree):
                wanted += of_file(tree, path, constraints=project.constraints)
                sources.append(path)
        if not sources or sources == ["requirements.txt"]:
            of_tox = from_tox(project)
            wanted += of_tox
            sources += ["tox or nox"] if of_tox else []
    wanted = project.expand(wanted)
    named = {(parts(r) or ("",))[0] for r in wanted}
    framework = None
    if mode != "runtime":
        plugins, settings = plugins_of(project)
        used, pytest = from_tests(tree)
        declared = "pytest" in named or bool(settings) or pytest
        framework = "pytest" if declared else "unittest"
        for name in ["pytest"] + plugins + used:
            known = parts(name)
            # Another plugin that gives the same is as good.
            same = {"flaky": {"pytest-rerunfailures"}, "pytest-freezer": {"pytest-freezegun"}, "pytest-asyncio": {"anyio"} - {"anyio"}, "syrupy": {"pytest-snapshot", "snapshottest"}}
            if known and known[0] not in named and not same.get(known[0], set()) & named:
                named.add(known[0])
                wanted.append(name)
    bounds = project.expand(project.constraints)
    wanted += [bound for bound in bounds if (parts(bound) or ("",))[0] in named]
    wanted = unique(wanted)
    if mode == "locked":
        order, later, versions = pin(wanted, tree)
        wanted = unique(order + ["%s==%s" % (name, versions[name]) for name in later])
    print(json.dumps({"packages": wanted, "framework": framework, "sources": sources, "notes": NOTES}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
