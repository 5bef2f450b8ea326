"""Errors a user can act on, each with its exit code."""


class BenchError(Exception):
    """Base; `exit_code` is what the process ends with."""

    exit_code = 1


class UsageError(BenchError):
    """A flag, a key or a value that cannot work."""

    exit_code = 2


class DependencyError(BenchError):
    """Something is missing: a package, a file, a credential."""

    exit_code = 6
