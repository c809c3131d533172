import unittest

from clamp import clamp


class Clamp(unittest.TestCase):
    def test_values_above_are_cut(self):
        self.assertEqual(clamp(9, 0, 5), 5)

    def test_values_between_stay(self):
        self.assertEqual(clamp(3, 0, 5), 3)

    def test_values_below_are_raised(self):
        self.assertEqual(clamp(-4, 0, 5), 0)
