"""Runs the tests of one file with the standard library's unittest and reports every test to an inherited descriptor.

Usage: python redgreen_unittest.py TEST_FILE

Events (see `redgreen_common`): `start`, a `test` for every test, `collect-error` where the file could not be loaded, two
`canary`s after the tests, `odd` where part of unittest was replaced, `end` with the exit code: 0 all passed, 1 some did
not, 2 the file could not be loaded, 5 no test ran. Works on Python 3.6 and later. An AssertionError or the test case's
own `failureException` is `failed`, anything else is `errored`.
"""
import importlib
import importlib.util
import os
import sys
import unittest


def say(text):
    """For whoever reads the log; the code under test may have closed or replaced the stream."""
    try:
        sys.stderr.write(text)
    except Exception:
        pass


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


class Result(unittest.TestResult):
    """Sends one event a test, when it stops; errors outside a test (module and class fixtures) at once."""

    def __init__(self, common, send, module_name):
        super(Result, self).__init__()
        self.common = common
        self.send = send
        self.prefix = module_name + "."
        self.canaries = {}
        self.seen = 0
        self.bad = 0
        self.current = None
        self.phases = []

    def startTest(self, test):
        super(Result, self).startTest(test)
        self.current = test
        self.phases = []

    def stopTest(self, test):
        super(Result, self).stopTest(test)
        self.current = None
        order = ["errored", "failed", "skipped", "xfail", "passed"]
        if self.phases:
            self.report(test, *min(self.phases, key=lambda phase: order.index(phase[0])))
        self.phases = []  # Python 3.12.1 stops skipped tests that it never started

    def note(self, test, status, error=None, text=None):
        if self.current is None:
            self.report(test, status, error, text)
        else:
            self.phases.append((status, error, text))

    def report(self, test, status, error, text):
        if id(test) in self.canaries:
            canaries, role = self.canaries[id(test)]
            canaries.report(role, status, error)
            return
        self.seen += status in ("passed", "failed", "errored")
        self.bad += status in ("failed", "errored")
        name = test.id()
        if name.startswith(self.prefix):
            name = name[len(self.prefix):]
        say("%s ... %s\n" % (name, status))
        self.send(
            "test",
            id=name,
            status=status,
            kind=self.common.kind_of(error) if status == "errored" else None,
            exception=type(error).__name__ if error is not None else None,
            message=text if error is None else self.common.text_of(error),
        )

    def fault(self, test, info):
        # What stands for a class or module fixture has no failureException.
        own = (self.common.Assertion, getattr(test, "failureException", None) or self.common.Assertion)
        self.note(test, "failed" if isinstance(info[1], own) else "errored", info[1])

    def addSuccess(self, test):
        self.note(test, "passed")

    def addError(self, test, err):
        self.fault(test, err)
        if id(test) not in self.canaries:
            say(self._exc_info_to_string(err, test) + "\n")

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addError(test, err)

    def addSkip(self, test, reason):
        self.note(test, "skipped")

    def addExpectedFailure(self, test, err):
        self.note(test, "xfail")

    def addUnexpectedSuccess(self, test):
        self.note(test, "failed", text="unexpected success")


def load(path):
    """Imports the test file: by its dotted name where it lies in a package of the current directory, else by path."""
    folder, parts = os.path.dirname(path), [os.path.splitext(os.path.basename(path))[0]]
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        parts.insert(0, os.path.basename(folder))
        folder = os.path.dirname(folder)
    name = ".".join(parts)
    if folder == os.getcwd() and len(parts) > 1:
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(parts[-1], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[parts[-1]] = module
    spec.loader.exec_module(module)
    return module


def in_order(suite, audit):
    """The suite with the tests of each class, and the classes, in the audit's order; fixtures stay where they belong."""
    parts = [in_order(part, audit) if isinstance(part, unittest.TestSuite) else part for part in suite]
    return unittest.TestSuite(audit.order(parts))


def run_canaries(common, result, module_name):
    """Runs the two canaries as a test case of their own, in an order that nobody can foresee."""
    canaries = common.Canaries(result.send, lambda: common.plain_means() + common.unittest_means(), common.Assertion)
    passes, fails = canaries.names
    body = {
        passes: lambda self: common.holds(),
        fails: lambda self: canaries.must_fail(),
        "__module__": module_name,
    }
    name = common.draw_words(2).title().replace("_", "") + "Test"
    kind = type(name, (unittest.TestCase,), body)
    pair = [(kind(passes), "pass"), (kind(fails), "fail")]
    if common.draw(2):
        pair.reverse()
    result.canaries = {id(test): (canaries, role) for test, role in pair}
    unittest.TestSuite([test for test, _ in pair]).run(result)


def main(common):
    send = common.open_channel()
    folder = os.path.realpath(os.getcwd())  # the tests may go elsewhere, and remove it
    path = os.path.abspath(sys.argv[1])
    test = os.path.realpath(path)
    sys.argv[:] = [path]
    originals = common.Originals()
    audit = common.open_audit()
    common.hide_the_reporter()
    # As `python -m unittest` does: the current directory comes first, not this script's.
    late = common.late_path()
    sys.path[:] = [os.getcwd()] + late + sys.path[1:]
    send("start", framework="unittest", python="%d.%d.%d" % sys.version_info[:3])
    before = set(sys.modules)
    if audit is not None:
        audit.begin(folder, path)
    try:
        module = load(path)
    except unittest.SkipTest:
        code = 5
    except BaseException as error:  # SystemExit too: a test file that leaves while it is loaded has not run
        kind = common.kind_of(error)
        send(
            "collect-error",
            kind=kind if kind == "syntax" else "import",
            exception=type(error).__name__,
            message=common.text_of(error),
        )
        sys.excepthook(type(error), error, error.__traceback__)
        code = 2
    else:
        result = Result(common, send, module.__name__)
        suite = unittest.defaultTestLoader.loadTestsFromModule(module)
        some = suite.countTestCases() > 0
        if audit is not None:
            suite = in_order(suite, audit)
        suite.run(result)
        if some:
            run_canaries(common, result, module.__name__)
        code = 1 if result.bad else 0 if result.seen else 5
    if audit is not None:
        audit.end(send)
    replaced = originals.replaced()
    if replaced:
        send("odd", message="replaced while the tests ran: " + ", ".join(replaced))
    send("end", exit=code, project=common.ran_project(before, {test}, folder))
    flush()
    sys.exit(code)


if __name__ == "__main__":
    import redgreen_common

    main(redgreen_common)
