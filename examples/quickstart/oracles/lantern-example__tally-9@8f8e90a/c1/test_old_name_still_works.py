import unittest

from tally import read, read_rows


class OldNameStillWorks(unittest.TestCase):
    def test_it_warns_and_gives_the_same_rows(self):
        lines = ["2025-01-31,food,1250\n"]
        with self.assertWarns(DeprecationWarning):
            rows = list(read(lines))
        self.assertEqual(rows, list(read_rows(lines)))


if __name__ == "__main__":
    unittest.main()
