"""What redgreen's two reporters for Python share: the result channel, what exceptions say, canaries.

The channel is what REDGREEN_RESULT_FD names. The first line that can be read from it (or from what REDGREEN_TOKEN_FD
names, where that is set) is the run's token, which stays in memory only. Every event goes out as one line: a seal, a
running number, a JSON object. The seal is half an HMAC-SHA256 (RFC 2104) of number and object under the token, so that
whoever can read the channel learns nothing. What this module needs of the interpreter is bound here, before any code of the
tree is loaded, so that replacing it later changes nothing.

Works on Python 3.6 and later.
"""
import builtins
import json.encoder
import os
import sys

try:  # without the rest of hashlib, which takes its time
    from _sha2 import sha256
except ImportError:
    try:
        from _sha256 import sha256
    except ImportError:
        from hashlib import sha256

Assertion = AssertionError  # the interpreter's own, whatever the name means later


def open_channel():
    """Takes the channel and the token; returns the function that sends events. Children inherit neither."""
    number = int(os.environ.pop("REDGREEN_RESULT_FD"))
    source = int(os.environ.pop("REDGREEN_TOKEN_FD", number))
    descriptor = os.dup(number)  # not inheritable, unlike the original
    os.close(number)
    reading = descriptor if source == number else source
    token = b""
    while not token.endswith(b"\n"):
        part = os.read(reading, 256)
        if not part:
            sys.exit("the result channel has no token")
        token += part
    if reading != descriptor:
        os.close(reading)
    inner, outer = (sha256(bytes(byte ^ pad for byte in token.strip().ljust(64, b"\0"))) for pad in (0x36, 0x5C))
    quote, write, own_process, process = json.encoder.encode_basestring_ascii, os.write, os.getpid(), os.getpid
    count = [0, 0]  # events, tests

    def seal(text):
        first, second = inner.copy(), outer.copy()
        first.update(text)
        second.update(first.digest())
        return second.hexdigest()[:32].encode("ascii")

    def value(item):
        if isinstance(item, str):
            return quote(item)
        return "true" if item is True else "false" if item is False else "%d" % item

    def send(event, **fields):
        """Sends one event; fields that are None are left out. A forked child says nothing."""
        if process() != own_process:
            return
        if event == "end":
            fields["tests"] = count[1]
        count[1] += event == "test"
        fields["event"] = event
        body = ",".join("%s:%s" % (quote(name), value(fields[name])) for name in fields if fields[name] is not None)
        text = ("%d {%s}" % (count[0], body)).encode("ascii")
        left = seal(text) + b" " + text + b"\n"
        count[0] += 1
        while left:
            left = left[write(descriptor, left):]

    return send


def open_audit():
    """What an audited run does beside an ordinary one; None for an ordinary one."""
    if "REDGREEN_AUDIT" not in os.environ:
        return None
    import redgreen_audit

    sys.modules.pop("redgreen_audit")
    return redgreen_audit.wanted()


def hide_the_reporter():
    """Takes this module, and what was started as `__main__`, off the places where everybody finds modules."""
    sys.modules.pop(__name__, None)
    empty = type(sys)("__main__")
    empty.__file__ = sys.modules["__main__"].__file__  # programs ask for it
    sys.modules["__main__"] = empty


def late_path():
    """The entries of PYTHONPATH, those in the tree with them, which redgreen kept from the interpreter's start."""
    full = os.environ.pop("REDGREEN_LATE_PYTHONPATH", None)
    if full is not None:
        early = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:] = [path for path in sys.path if path not in early]
        os.environ["PYTHONPATH"] = full
    return [path for path in (full or "").split(os.pathsep) if path]


def text_of(error):
    """The first line of what an exception says, cut to a sane length."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # a __str__ of the project's own that breaks
        lines = []
    return lines[0][:2000] if lines else ""


def kind_of(error):
    if isinstance(error, SyntaxError):
        return "syntax"
    if isinstance(error, ImportError):
        return "import"
    return "exception"


def ran_project(before, own_files, folder, family=()):
    """Whether code of the folder was loaded: True, False, or None where that cannot be told. `before` are the modules
    that were there before the tests, `own_files` the tests' files, `family` packages that say nothing."""
    unsure = False
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if not isinstance(path, str):
            continue
        path = os.path.realpath(os.path.join(folder, path))
        if path in own_files:
            space = getattr(module, "__dict__", {})
            unsure = unsure or any(word in space for word in ("subprocess", "multiprocessing", "os"))
        elif path == folder or path.startswith(folder.rstrip(os.sep) + os.sep):
            return True
        elif name not in before and name.split(".")[0] not in family and "-packages" in path:
            unsure = True
    return None if unsure else False


# ------------------------------------------------------------------------------------------------------------ canaries
#
# Two tests of our own run after the oracle's, by the same framework in the same process: one must pass, one must fail.
# The latter tries every usual way to assert something wrong, and fails (with an exception that only the reporter knows)
# when all of them did. A framework that was made to pass whatever it runs, or an assertion that was taken out, shows.

WORDS = (
    "about after again alone apart basic begin below blank both bound brief chain close count cover deep default "
    "depth different double each edge either empty equal even exact extra final first fixed full given good half heavy "
    "inner items large later least left light limit lines local lower many mixed more most names near nested next none "
    "odd once one only open order other outer over own pair part past plain rest right same second several short simple "
    "single small some sorted strict text third three twice under unit upper usual value whole wide within without zero"
).split()


def draw(number):
    """A number below `number`, that nobody can foresee."""
    return int.from_bytes(os.urandom(8), "big") % number


def draw_words(number):
    return "_".join(WORDS[draw(len(WORDS))] for _ in range(number))


class Canaries(object):
    """What a reporter needs to make a pair of canaries in its framework's way, and to read how they ended."""

    def __init__(self, send, means, allowed):
        self._send = send
        self._means = means
        self._allowed = allowed
        self._failure = Assertion(draw_words(4))
        self._idle = []
        self.names = []
        while len(set(self.names)) < 2:
            self.names = ["test_" + draw_words(2 + draw(2)) for _ in range(2)]

    def must_fail(self, *more):
        """The body of the one that must fail. `more` are ways to assert something wrong beside the usual ones."""
        self._idle = [name for name, way in list(more) + self._means() if not self.fails(way)]
        if not self._idle:
            raise self._failure

    def fails(self, way):
        try:
            way()
        except self._allowed:
            return True
        except BaseException:  # an assertion, but not of the right kind
            return False
        return False

    def report(self, role, status, error):
        """Sends how a canary ended, by the status and the exception that the framework showed for it."""
        if role == "fail" and status == "failed" and error is not self._failure:
            status = "errored"
        message = None if error is None or error is self._failure else text_of(error)
        if self._idle and role == "fail":
            message = "it does not fail any more: " + ", ".join(self._idle)
        self._send("canary", role=role, status=status, message=message)


def plain_assert():
    one, two = 1, 2
    assert one == two


def plain_means():
    return [("assert", plain_assert)]


def unittest_means():
    """The ways of unittest and its mocks, as far as they are loaded."""
    unittest = sys.modules.get("unittest")
    if not hasattr(unittest, "TestCase"):
        return []
    case = unittest.TestCase()

    def raises_nothing():
        with case.assertRaises(ValueError):
            pass

    means = [
        ("assertEqual", lambda: case.assertEqual(1, 2)),
        ("assertNotEqual", lambda: case.assertNotEqual(1, 1)),
        ("assertTrue", lambda: case.assertTrue(False)),
        ("assertFalse", lambda: case.assertFalse(True)),
        ("assertIs", lambda: case.assertIs([], [])),
        ("assertIsNot", lambda: case.assertIsNot(None, None)),
        ("assertIsNone", lambda: case.assertIsNone(1)),
        ("assertIsNotNone", lambda: case.assertIsNotNone(None)),
        ("assertIn", lambda: case.assertIn(1, [2])),
        ("assertNotIn", lambda: case.assertNotIn(1, [1])),
        ("assertIsInstance", lambda: case.assertIsInstance(1, str)),
        ("assertNotIsInstance", lambda: case.assertNotIsInstance(1, int)),
        ("assertRaises", lambda: case.assertRaises(ValueError, int)),
        ("assertRaises", raises_nothing),
        ("assertRaisesRegex", lambda: case.assertRaisesRegex(ValueError, "^a$", int, "b")),
        ("assertAlmostEqual", lambda: case.assertAlmostEqual(1.0, 2.0)),
        ("assertNotAlmostEqual", lambda: case.assertNotAlmostEqual(1.0, 1.0)),
        ("assertGreater", lambda: case.assertGreater(1, 2)),
        ("assertGreaterEqual", lambda: case.assertGreaterEqual(1, 2)),
        ("assertLess", lambda: case.assertLess(2, 1)),
        ("assertLessEqual", lambda: case.assertLessEqual(2, 1)),
        ("assertRegex", lambda: case.assertRegex("a", "b")),
        ("assertNotRegex", lambda: case.assertNotRegex("a", "a")),
        ("assertCountEqual", lambda: case.assertCountEqual([1], [2])),
        ("assertListEqual", lambda: case.assertListEqual([1], [2])),
        ("assertTupleEqual", lambda: case.assertTupleEqual((1,), (2,))),
        ("assertDictEqual", lambda: case.assertDictEqual({1: 1}, {1: 2})),
        ("assertSetEqual", lambda: case.assertSetEqual({1}, {2})),
        ("assertSequenceEqual", lambda: case.assertSequenceEqual([1], [2])),
        ("assertMultiLineEqual", lambda: case.assertMultiLineEqual("a", "b")),
        ("fail", lambda: case.fail("")),
    ]
    mock = sys.modules.get("unittest.mock")
    if hasattr(mock, "Mock"):
        never, once = mock.Mock(), mock.Mock()
        once(1)
        means += [
            ("assert_called", lambda: never.assert_called()),
            ("assert_called_once", lambda: never.assert_called_once()),
            ("assert_called_with", lambda: once.assert_called_with(2)),
            ("assert_called_once_with", lambda: once.assert_called_once_with(2)),
            ("assert_any_call", lambda: once.assert_any_call(2)),
            ("assert_not_called", lambda: once.assert_not_called()),
        ]
    return means


def holds():
    """What the one that must pass does."""
    unittest = sys.modules.get("unittest")
    if hasattr(unittest, "TestCase"):
        case = unittest.TestCase()
        case.assertEqual(1, 1)
        case.assertTrue(True)
        with case.assertRaises(ValueError):
            int("one")


# Of unittest's methods, those that people replace for the looks of it, or to set things up.
HARMLESS = "__eq__ __hash__ __repr__ __str__ id setUp setUpClass shortDescription tearDown tearDownClass".split()


class Originals(object):
    """Notes what assertions are made of, so that one that was replaced only for some values shows, too."""

    def __init__(self, extra=()):
        self._noted = [(builtins, name, getattr(builtins, name), None) for name in ("AssertionError", "isinstance")]
        for owner, name in extra:
            self.note(owner, name)
        unittest = sys.modules.get("unittest")
        for kind in ("TestCase", "TestSuite", "BaseTestSuite", "TestLoader"):
            owner = getattr(unittest, kind, None)
            for name in sorted(vars(owner)) if owner is not None else ():
                if name == "failureException" or name not in HARMLESS and hasattr(vars(owner)[name], "__code__"):
                    self.note(owner, name)

    def note(self, owner, name):
        thing = vars(owner).get(name)
        if thing is not None:
            self._noted.append((owner, name, thing, getattr(thing, "__code__", None)))

    def replaced(self):
        """The names of what is not what it was."""
        return [
            name
            for owner, name, thing, code in self._noted
            if vars(owner).get(name) is not thing or getattr(thing, "__code__", None) is not code
        ]
