"""Commands and options by group; what a command does is in `bench.commands`, imported when it runs.

`--help` loads nothing heavy.
"""

from bench.cli.program import invoke, main

__all__ = ["invoke", "main"]
