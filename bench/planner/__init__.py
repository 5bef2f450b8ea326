"""`bench plan`: the trainer's own timetable under a virtual clock, with simulated stages.

What is decided (admissions, updates, packing, books) is decided by `tunix_core`; what takes time is a number here.
Every figure that leaves this package is a prediction and says so.
"""
