import unittest

from shelf import ReadCache


class EmptyReadsAreKept(unittest.TestCase):
    def setUp(self):
        self.loaded = []

    def load(self, name):
        self.loaded.append(name)
        return b"" if name == "empty" else b"full"

    def test_an_empty_value_is_loaded_once(self):
        cache = ReadCache(self.load)
        self.assertEqual([cache.get("empty") for _ in range(3)], [b"", b"", b""])
        self.assertEqual(self.loaded, ["empty"])

    def test_a_full_value_is_loaded_once(self):
        cache = ReadCache(self.load)
        self.assertEqual([cache.get("note") for _ in range(3)], [b"full", b"full", b"full"])
        self.assertEqual(self.loaded, ["note"])

    def test_the_limit_still_holds(self):
        cache = ReadCache(self.load, limit=2)
        for name in ("a", "b", "c", "a"):
            cache.get(name)
        self.assertEqual(self.loaded, ["a", "b", "c", "a"])


if __name__ == "__main__":
    unittest.main()
