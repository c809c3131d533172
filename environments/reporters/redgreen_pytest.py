"""Runs pytest on one test file and reports every test to an inherited descriptor.

Usage: python redgreen_pytest.py PYTEST_ARGUMENT...

Events (see `redgreen_common`): `start`, a `test` for every test, `collect-error` where a file could not be loaded, two
`canary`s after the tests, `odd` where a result does not fit what raised it or part of pytest was replaced, `end` with
pytest's own exit code. Works with pytest 3 to 9 on Python 3.6 and later. What failed is told by the exception, not by
pytest's word for the phase: an AssertionError or pytest's own `fail` is `failed`, anything else is `errored`.
"""
import os
import sys

FAMILY = (
    "pytest _pytest py pluggy iniconfig packaging pygments attr attrs six more_itertools atomicwrites pathlib2 "
    "importlib_metadata zipp typing_extensions tomli exceptiongroup colorama setuptools pkg_resources"
).split()

# The canaries' source; its asserts are rewritten as those of a test file are.
CANARIES = """
def wrong():
    left, right = 1, 2
    assert left == right


def {passes}():
    left, right = 1, 1
    assert left == right
    holds()


def {fails}():
    must_fail(("assert", wrong))
"""


def load_pytest(late):
    """Imports pytest from where the environment has it. What lies in the tree under that name is taken only where
    there is no other: the project is pytest itself."""
    import importlib.util

    if importlib.util.find_spec("pytest") is None:
        sys.path[:0] = late
        import pytest

        sys.path[:len(late)] = []
    else:
        import pytest
    import _pytest.config

    # What pytest loads when it starts, before a file of the tree can go by its name.
    for name in getattr(_pytest.config, "default_plugins", ()):
        try:
            importlib.import_module("_pytest." + name)
        except ImportError:
            pass  # not there in this version, or for other systems
    return pytest


def make_plugin(pytest, common, send):
    """The pytest plugin: notes exceptions as they come and sends one event a test when its teardown is over."""
    from _pytest.assertion.rewrite import rewrite_asserts
    from _pytest.runner import runtestprotocol

    own_failures = (common.Assertion, pytest.fail.Exception)

    def pytest_means():
        module = sys.modules["pytest"]

        def raises_nothing():
            with module.raises(ValueError):
                pass

        def raises_other_text():
            with module.raises(ValueError, match="^a$"):
                raise ValueError("b")

        def warns_of_nothing():
            with module.warns(UserWarning):
                pass

        def approximately():
            assert 1.0 == module.approx(2.0)

        return common.plain_means() + common.unittest_means() + [
            ("pytest.raises", raises_nothing),
            ("pytest.raises", raises_other_text),
            ("pytest.warns", warns_of_nothing),
            ("pytest.approx", approximately),
            ("pytest.fail", lambda: module.fail("")),
        ]

    class Reporter(object):
        def __init__(self):
            self.audit = None
            self.errors = {}
            self.phases = {}
            self.files = set()
            self.pair = []  # the canaries' items
            self.roles = {}  # of those that have not run, by item
            self.canaries = None

        @staticmethod
        def name_of(nodeid):
            # The file's part depends on where the test lies; there is only one file.
            name = nodeid.split("::", 1)[1] if "::" in nodeid else nodeid
            return name.replace("::()", "")  # pytest 3 names the instance of a class

        @pytest.hookimpl(tryfirst=True)
        def pytest_cmdline_main(self, config):
            # Tests that run in other processes would be out of sight; without `-n` pytest-xdist is not there.
            for name, value in (("numprocesses", None), ("dist", "no"), ("tx", []), ("distload", False)):
                if hasattr(config.option, name):
                    setattr(config.option, name, value)

        def pytest_runtest_makereport(self, item, call):
            if call.excinfo is not None:
                self.errors[(item.nodeid, call.when)] = call.excinfo.value

        def pytest_runtest_logreport(self, report):
            if any(report.nodeid == item.nodeid for item in self.pair):
                send("odd", message="a canary was run by somebody else")
                return
            error = self.errors.pop((report.nodeid, report.when), None)
            phases = self.phases.setdefault(report.nodeid, [])
            phases.append(self.status_of(report, error))
            if error is not None and report.outcome == "passed" and not hasattr(report, "wasxfail"):
                send("odd", message="a test that raised %s is reported as passed" % type(error).__name__)
            if report.when == "teardown":
                del self.phases[report.nodeid]
                status, error = self.worst(phases)
                bad = status in ("errored", "failed")
                message = common.text_of(error if error is not None else report.longrepr or "unexpected pass")
                send(
                    "test",
                    id=self.name_of(report.nodeid),
                    status=status,
                    kind=common.kind_of(error) if status == "errored" else None,
                    exception=type(error).__name__ if bad and error is not None else None,
                    message=message if bad else None,
                )

        @staticmethod
        def worst(phases):
            order = ["errored", "failed", "skipped", "xfail", "xpass", "passed"]
            return min(phases, key=lambda phase: order.index(phase[0]))

        @staticmethod
        def status_of(report, error):
            expected_failure = hasattr(report, "wasxfail")
            if report.outcome == "skipped":
                return ("xfail" if expected_failure else "skipped"), None
            if report.outcome == "passed":
                return ("xpass" if expected_failure else "passed"), None
            if error is None:  # a strict xfail that passed, or a test whose subtests failed
                return "failed", None
            return ("failed" if isinstance(error, own_failures) else "errored"), error

        def pytest_itemcollected(self, item):
            self.files.add(os.path.realpath(str(item.fspath)))

        def pytest_exception_interact(self, node, call, report):
            if not hasattr(report, "when") or report.when == "collect":
                self.collect_error(call.excinfo.value)

        def pytest_internalerror(self, excrepr, excinfo):
            self.collect_error(excinfo.value)

        def collect_error(self, error):
            # pytest wraps what an import raises; the cause is what tells.
            if type(error).__name__ == "CollectError":
                error = error.__cause__ or error.__context__ or error
            kind = common.kind_of(error)
            send(
                "collect-error",
                kind=kind if kind == "syntax" else "import",
                exception=type(error).__name__,
                message=common.text_of(error),
            )

        # Canaries. They are there before the project's hooks see the items, so that a hook that does something to tests
        # does it to them; they come last whatever the hooks make of the order, and are not logged, so that neither
        # pytest's exit code nor its summary knows of them.

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_collection_modifyitems(self, session, config, items):
            if items:
                try:
                    self.add_canaries(config, items)
                except Exception as error:
                    send("odd", message="no canaries can be made here: " + common.text_of(error))
            yield
            others = [item for item in items if item not in self.pair]
            if self.audit is not None:
                others = self.audit.order(others)
            if not others:
                self.pair, self.roles = [], {}
            items[:] = others + self.pair

        def add_canaries(self, config, items):
            functions = [item for item in items if isinstance(item, pytest.Function)]
            if not functions:
                raise TypeError("no test is a Python function")
            parent = functions[-1].getparent(pytest.Module)
            self.canaries = common.Canaries(send, pytest_means, own_failures)
            names = self.canaries.names
            source = CANARIES.format(passes=names[0], fails=names[1])
            space = {
                "__name__": parent.obj.__name__,
                "__file__": str(parent.fspath),
                "holds": common.holds,
                "must_fail": self.canaries.must_fail,
            }
            exec(self.compile(source, parent.fspath, config), space)
            for name, role in zip(names, ("pass", "fail")):
                if hasattr(pytest.Function, "from_parent"):
                    item = pytest.Function.from_parent(parent, name=name, callobj=space[name])
                else:  # before pytest 5.4
                    item = pytest.Function(name, parent, callobj=space[name])
                self.pair.append(item)
                self.roles[item] = role
            if common.draw(2):
                self.pair.reverse()
            items.extend(self.pair)

        @staticmethod
        def compile(source, path, config):
            import ast

            tree = ast.parse(source)
            try:
                rewrite_asserts(tree, source.encode("ascii"), str(path), config)
            except TypeError:  # before pytest 5
                rewrite_asserts(tree, path, config)
            return compile(tree, str(path), "exec")

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_protocol(self, item, nextitem):
            if item in self.roles:
                self.run_canary(item, nextitem)
                return True

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtestloop(self, session):
            session.testscollected -= len(self.pair)
            outcome = yield
            if outcome.excinfo is not None:  # `-x` kept them from running
                for item in self.pair:
                    if item in self.roles:
                        self.run_canary(item, None)

        def run_canary(self, item, nextitem):
            role = self.roles.pop(item)
            phases = []
            for report in runtestprotocol(item, log=False, nextitem=nextitem):
                phases.append(self.status_of(report, self.errors.pop((report.nodeid, report.when), None)))
            if phases:
                self.canaries.report(role, *self.worst(phases))

    return Reporter()


def main(common):
    send = common.open_channel()
    folder = os.path.realpath(os.getcwd())  # the tests may go elsewhere, and remove it
    audit = common.open_audit()
    sys.path.pop(0)
    late = common.late_path()
    pytest = load_pytest(late)
    # As `python -m pytest` does: the current directory comes first, not this script's.
    sys.path[:0] = [os.getcwd()] + late
    send("start", framework="pytest", version=pytest.__version__, python="%d.%d.%d" % sys.version_info[:3])
    plugin = make_plugin(pytest, common, send)
    raising = type(pytest.raises(ValueError))
    originals = common.Originals([(pytest, "raises"), (pytest, "fail"), (pytest, "approx"), (raising, "__exit__")])
    common.hide_the_reporter()
    before = set(sys.modules)
    if audit is not None:
        plugin.audit = audit
        audit.begin(folder, sys.argv[-1])
    code = pytest.main(sys.argv[1:], plugins=[plugin])
    if audit is not None:
        audit.end(send)
    replaced = originals.replaced()
    if replaced:
        send("odd", message="replaced while the tests ran: " + ", ".join(replaced))
    send("end", exit=int(code), project=common.ran_project(before, plugin.files, folder, FAMILY))
    try:
        sys.stdout.flush()
    except Exception:  # the code under test may have closed or replaced it
        pass
    sys.exit(int(code))


if __name__ == "__main__":
    import redgreen_common

    main(redgreen_common)
