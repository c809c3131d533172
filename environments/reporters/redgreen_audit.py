"""What an audited run does beside an ordinary one, as REDGREEN_AUDIT (a JSON object) says.

"trace": [PATH...]   note which code of the tree runs, which files of it the test opens, and which lines of these files
                     run; goes out as one `audit` event
"shuffle": SEED      run the tests in another order
"clock": SECONDS     let the clocks of `time` and `datetime` be ahead by so much
"one-core": true     run on one processor

A test that takes the tracer away is noted, and nothing is concluded from what was seen then. Works on Python 3.6 and
later; what is opened shows from 3.8 on.
"""
import json
import os
import sys
import threading

LISTED = 200  # names of a kind that go out; all are counted
LONGEST = 256 << 10  # characters of the event

CHILDREN = (
    "subprocess.Popen os.system os.exec os.fork os.forkpty os.posix_spawn os.spawn pty.spawn"
).split()


def wanted():
    """The setting, where the run is audited. Taken out of the environment: it is none of the test's business."""
    text = os.environ.pop("REDGREEN_AUDIT", None)
    return Audit(json.loads(text)) if text else None


class Audit(object):
    def __init__(self, setting):
        self.setting = setting
        self.watch = None
        if setting.get("one-core") and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    def begin(self, folder, test):
        """Called when the framework is loaded, and nothing of the tree yet."""
        if self.setting.get("clock"):
            shift_clocks(self.setting["clock"])
        if "trace" in self.setting:
            self.watch = Watch(folder, test, self.setting["trace"])
            self.watch.begin()

    def order(self, tests):
        """The tests in the order in which they are to run."""
        if "shuffle" not in self.setting:
            return tests
        tests = list(tests)
        # Not the module's own generator: what the tests draw from it stays what it would be.
        number = int(self.setting["shuffle"]) % 2147483647 + 1
        for last in range(len(tests) - 1, 0, -1):
            number = number * 48271 % 2147483647
            other = number % (last + 1)
            tests[last], tests[other] = tests[other], tests[last]
        return tests

    def end(self, send):
        """Called when the tests are over."""
        if self.watch is not None:
            send("audit", text=self.watch.end())


# -------------------------------------------------------------------------------------------------------------- tracing


class Watch(object):
    def __init__(self, folder, test, paths):
        self.folder = folder
        self.test = os.path.realpath(test)
        self.active = False
        self.problem = None
        self.opens_show = False
        self.known = {}  # a code's file name: its path in the tree, or None
        self.loaded, self.called, self.opened, self.children = set(), set(), set(), set()
        self.wanted = set(paths)
        self.lines = {path: set() for path in paths}
        self.roots = [(folder.rstrip(os.sep) + os.sep, "")] + self.copies()
        self.dumps, self.frame = json.JSONEncoder().encode, sys._getframe
        self.realpath, self.join = os.path.realpath, os.path.join
        self.get_trace, self.set_trace = sys.gettrace, sys.settrace

    def copies(self):
        """Where packages of the tree are installed as copies, and which part of the tree they are copies of."""
        from importlib.util import find_spec

        found = []
        for part in ("", "src", "lib"):
            place = os.path.join(self.folder, part) if part else self.folder
            for name in sorted(os.listdir(place)) if os.path.isdir(place) else ():
                if not os.path.isfile(os.path.join(place, name, "__init__.py")) or name in sys.modules:
                    continue
                try:
                    origin = getattr(find_spec(name), "origin", None)
                except (ImportError, ValueError, AttributeError):
                    continue
                if origin and "-packages" in origin:
                    copy = os.path.dirname(os.path.realpath(origin)) + os.sep
                    found.append((copy, "/".join([part, name, ""] if part else [name, ""])))
        return found

    def place(self, name):
        """The path in the tree of code that says to come from this file; None where it is not the tree's."""
        try:
            return self.known[name]
        except KeyError:
            pass
        except TypeError:
            return None
        path = None
        if isinstance(name, str) and not name.startswith("<"):
            full = self.realpath(self.join(self.folder, name))
            if full != self.test:
                for root, inside in self.roots:
                    if full.startswith(root):
                        path = inside + full[len(root):]
                        break
                if path is not None and "-packages/" in path:
                    path = None  # an environment that lies in the tree
        self.known[name] = path
        return path

    def by_test(self, depth):
        """Whether the test's own code stands behind what happens, rather than an import that it began."""
        frame = self.frame(depth)
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith("<frozen importlib"):
                return False
            if self.is_test(name):
                return True
            frame = frame.f_back
        return True

    def is_test(self, name):
        if name.startswith("<"):
            return False
        key = ("test", name)
        if key not in self.known:
            self.known[key] = self.realpath(self.join(self.folder, name)) == self.test
        return self.known[key]

    def comes_from_test(self, depth, imports):
        """Whether the test stands behind what happens; with `imports` also where it is an import that it began."""
        frame = self.frame(depth)
        while frame is not None:
            name = frame.f_code.co_filename
            # pytest reads test modules of the tree itself when they are imported.
            if not imports and (name.startswith("<frozen importlib") or name.endswith("/assertion/rewrite.py")):
                return False
            if self.is_test(name):
                return True
            frame = frame.f_back
        return False

    def started(self, code, path, depth):
        """Code of the tree starts to run; says whether it need not be looked at again."""
        self.loaded.add(path)
        if code.co_flags & 3 != 3:  # a module's or class's body
            return True
        if self.by_test(depth):
            self.called.add((path, code.co_firstlineno))
            return True
        return False

    def begin(self):
        self.active = True
        if hasattr(sys, "addaudithook"):
            self.opens_show = True
            sys.addaudithook(self.hook)
        if hasattr(sys, "monitoring"):
            self.monitor()
        else:
            threading.settrace(self.trace)
            self.set_trace(self.trace)

    # Python 3.12 and later: each place of the code is looked at once.

    def monitor(self):
        monitoring = sys.monitoring
        self.tool = next((number for number in (3, 4, 2) if monitoring.get_tool(number) is None), None)
        if self.tool is None:
            self.problem = "no place for a tracer is free"
            return
        monitoring.use_tool_id(self.tool, "redgreen")
        events, disable = monitoring.events, monitoring.DISABLE

        def start(code, offset):
            path = self.place(code.co_filename)
            return disable if path is None or self.started(code, path, 3) else None

        def line(code, number):
            path = self.place(code.co_filename)
            if path in self.wanted:
                self.lines[path].add(number)
            return disable

        monitoring.register_callback(self.tool, events.PY_START, start)
        monitoring.register_callback(self.tool, events.LINE, line)
        self.events = events.PY_START | events.LINE
        monitoring.set_events(self.tool, self.events)
        self.monitoring = monitoring

    # Before it: every call of the tree's code, and every line of the wanted files.

    def trace(self, frame, event, argument):
        code = frame.f_code
        path = self.known.get(code.co_filename, 0)
        if path == 0:
            path = self.place(code.co_filename)
        if path is None:
            return None
        key = (path, code.co_firstlineno)
        if key not in self.called:
            self.started(code, path, 2)
        if path in self.wanted:
            lines = self.lines[path]
            lines.add(frame.f_lineno)

            def line(frame, event, argument):
                lines.add(frame.f_lineno)
                return line

            return line
        return None

    def hook(self, event, arguments):
        if not self.active or event != "open" and event not in CHILDREN:
            return
        if event != "open":
            if self.comes_from_test(2, True):
                self.children.add(event)
            return
        path, flags = arguments[0], arguments[2]
        if isinstance(path, bytes):
            path = path.decode("utf-8", "replace")
        if not isinstance(path, str) or isinstance(flags, int) and flags & 3:
            return
        if not self.comes_from_test(2, False):
            return
        full = self.realpath(path)
        root = self.roots[0][0]
        if full.startswith(root) and full != self.test and len(self.opened) < 10000:
            self.opened.add(full[len(root):])

    def end(self):
        self.active = False
        if hasattr(sys, "monitoring"):
            if self.problem is None:
                monitoring = self.monitoring
                if monitoring.get_tool(self.tool) != "redgreen" or monitoring.get_events(self.tool) != self.events:
                    self.problem = "the tracer was taken away while the tests ran"
                else:
                    monitoring.set_events(self.tool, 0)
                    monitoring.free_tool_id(self.tool)
        else:
            # `==`, as each look at a method makes another object of it.
            if self.get_trace() != self.trace:
                self.problem = "the tracer was taken away while the tests ran"
            self.set_trace(None)
            threading.settrace(None)
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            if isinstance(path, str) and not path.endswith((".py", ".pyc")):
                path = self.place(path)  # compiled code, which no tracer sees
                if path is not None:
                    self.loaded.add(path)
        text = self.text(LISTED)
        if len(text) > LONGEST:
            self.problem = "there is too much to tell"
            self.lines, text = {}, ""
            text = self.text(20)
        return text

    def text(self, most):
        return self.dumps({
            "problem": self.problem,
            "loaded": sorted(self.loaded)[:most],
            "loaded_files": len(self.loaded),
            "called_functions": len(self.called),
            "opened": sorted(self.opened)[:most] if self.opens_show else None,
            "opened_files": len(self.opened) if self.opens_show else None,
            "children": sorted(self.children),
            "lines": {path: ranges(self.lines[path]) for path in sorted(self.lines)},
        })


def ranges(numbers):
    """Numbers as pairs of first and last."""
    pairs = []
    for number in sorted(numbers):
        if pairs and pairs[-1][1] + 1 == number:
            pairs[-1][1] = number
        else:
            pairs.append([number, number])
    return pairs


# ---------------------------------------------------------------------------------------------------------------- clocks


def shift_clocks(seconds):
    """Lets the wall clock be ahead, for Python code that asks `time` and `datetime` for it. Compiled code that asks the
    system itself, and child processes, still see the old time."""
    import datetime
    import time

    now, now_ns = time.time, getattr(time, "time_ns", None)
    time.time = lambda: now() + seconds
    if now_ns is not None:
        time.time_ns = lambda: now_ns() + seconds * 1000000000
    local, universal, ascii_, text = time.localtime, time.gmtime, time.ctime, time.strftime

    def at(given):
        return time.time() if given is None else given

    time.localtime = lambda secs=None: local(at(secs))
    time.gmtime = lambda secs=None: universal(at(secs))
    time.ctime = lambda secs=None: ascii_(at(secs))
    time.strftime = lambda form, *given: text(form, *(given or (time.localtime(),)))

    real_date, real_time = datetime.date, datetime.datetime

    def like(real):
        """A class for what was made by the real one, too: code that took that one earlier goes on using it."""

        class Like(type):
            def __instancecheck__(cls, thing):
                return isinstance(thing, real)

            def __subclasscheck__(cls, kind):
                return issubclass(kind, real)

        return Like

    # With the real ones' names, under which they are found when something pickled is read.
    named = {"__module__": "datetime"}
    datetime.date = like(real_date)("date", (real_date,), dict(
        named,
        today=classmethod(lambda cls: cls.fromtimestamp(time.time())),
    ))
    datetime.datetime = like(real_time)("datetime", (real_time,), dict(
        named,
        now=classmethod(lambda cls, tz=None: cls.fromtimestamp(time.time(), tz)),
        utcnow=classmethod(lambda cls: cls(1970, 1, 1) + datetime.timedelta(seconds=time.time())),
        today=classmethod(lambda cls: cls.fromtimestamp(time.time())),
    ))
