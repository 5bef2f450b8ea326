"""The command line: composes tasks with the trainer, records, compares, reports, submits."""
