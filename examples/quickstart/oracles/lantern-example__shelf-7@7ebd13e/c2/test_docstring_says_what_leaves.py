import inspect
import unittest

from shelf import ReadCache


class DocstringSaysWhatLeaves(unittest.TestCase):
    def test_it_names_the_limit_and_the_entry(self):
        text = (inspect.getdoc(ReadCache) or "").lower()
        self.assertIn("limit", text)
        self.assertIn("oldest", text)


if __name__ == "__main__":
    unittest.main()
