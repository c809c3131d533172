import unittest

import tally


class BlankLines(unittest.TestCase):
    def total(self, lines):
        try:
            return tally.by_label(lines)
        except ValueError as error:
            self.fail("a blank line is taken for an expense: %s" % error)

    def test_at_the_end(self):
        self.assertEqual(self.total(["2025-01-31,food,1250\n", "\n"]), {"food": 1250})

    def test_between(self):
        lines = ["2025-01-31,food,1250\n", "  \n", "", "2025-02-01,food,50\n"]
        self.assertEqual(self.total(lines), {"food": 1300})


if __name__ == "__main__":
    unittest.main()
