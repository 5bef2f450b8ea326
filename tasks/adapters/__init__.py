"""Other projects' tasks under our rules: seeding, splits, grading and the 5-tuple."""
