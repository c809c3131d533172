import unittest

import tally


class BadAmountNamesItsLine(unittest.TestCase):
    def test_the_message_has_the_line_number(self):
        lines = ["2025-01-30,food,300\n", "2025-01-31,food,1250\n", "2025-02-01,rent,n/a\n"]
        with self.assertRaises(ValueError) as caught:
            tally.by_label(lines)
        self.assertRegex(str(caught.exception), r"(?i)\bline\W+3\b")


if __name__ == "__main__":
    unittest.main()
