"""Verifiers: what counts as correct, one file per kind of answer. Strict, total, and pure."""
