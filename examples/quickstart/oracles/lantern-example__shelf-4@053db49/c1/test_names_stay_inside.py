import os
import tempfile
import unittest

from shelf import Store


class NamesStayInside(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.outside = folder.name
        self.store = Store(os.path.join(folder.name, "store"))

    def test_a_name_cannot_climb_out(self):
        for name in ("../escape", "work/../../escape"):
            with self.subTest(name), self.assertRaises(ValueError):
                self.store.put(name, b"x")
        self.assertFalse(os.path.exists(os.path.join(self.outside, "escape")))

    def test_an_absolute_name_is_refused(self):
        name = os.path.join(self.outside, "absolute")
        with self.assertRaises(ValueError):
            self.store.put(name, b"x")
        self.assertFalse(os.path.exists(name))

    def test_reading_is_held_in_too(self):
        with open(os.path.join(self.outside, "secret"), "wb") as file:
            file.write(b"x")
        with self.assertRaises(ValueError):
            self.store.get("../secret")

    def test_folders_still_work(self):
        self.store.put("work/today", b"write tests")
        self.assertEqual(self.store.get("work/today"), b"write tests")


if __name__ == "__main__":
    unittest.main()
