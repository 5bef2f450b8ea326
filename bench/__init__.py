"""A benchmark of asynchronous, multi-tenant RL post-training; the commands of `bench` as functions.

Nothing heavy is imported until a function is called. Errors are those of `bench.errors`, with the messages of
the command line. docs/api.md has an example.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import gymnasium

    from bench.api import Comparison, Report, Run

__all__ = ["compare", "load", "make", "report", "run", "verify"]

Place = str | os.PathLike[str]


def run(out: Place | None = None, *, quiet: bool = True, resume: bool = False, **settings: Any) -> Run:
    """Trains tenants on tasks under several timetables and records everything.

    Args:
      out: a new folder; default runs/<id>.
      quiet: no progress on stderr.
      resume: go on in `out` if a run with these settings was begun there.
      **settings: any key of the configuration (`bench config show`): tasks=["math"], arms=["S1", "A1"], updates=5.
    Returns:
      The record. Its `status` tells how it ended.
    Raises:
      UsageError: a key, a value or a folder that cannot work. DependencyError: something is missing.
    """
    from bench.api import ran

    return ran(None if out is None else Path(out), quiet=quiet, resume=resume, settings=settings)


def load(path: Place) -> Run:
    """Opens a run directory. Raises leaderboard.errors.RecordError where there is none."""
    from bench import api

    return api.load(Path(path))


def compare(path: Place, *, baseline: str | None = None, product: str | None = None) -> Comparison:
    """The verdict on two arms of a run, recomputed from the raw lines.

    Raises RejectedError where the arms did unequal work or the record was changed, UsageError for an unknown arm.
    """
    from bench.api import compared

    return compared(Path(path), baseline, product)


def report(path: Place, out: Place | None = None) -> Path:
    """Writes the self-contained HTML page about a run; beside it where `out` isn't given. Returns its path."""
    from bench.commands.results import report_command

    return report_command([Path(path)], None if out is None else Path(out), None)


def verify(path: Place, *, data: str | None = None) -> Report:
    """All checks on a run directory or archive: `.ok`, `.findings`, `.codes`. Raises nothing for a bad record."""
    from bench import api

    return api.verify(Path(path), data=data)


def make(task: str, **options: Any) -> gymnasium.Env[Any, Any]:
    """A task as a Gymnasium environment, text in and text out; by its id or short name."""
    import tasks

    return tasks.make(tasks.resolve(task), **options)


class _Package(ModuleType):
    """`bench.run`, `bench.compare` and `bench.report` are functions, and submodules too.

    Importing a submodule sets it on its package, in place of the function; so it is made callable as that.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        function = self.__dict__.get(name)
        if name in __all__ and isinstance(value, ModuleType) and callable(function):
            value.__class__ = type("CallableModule", (ModuleType,), {"__call__": staticmethod(function)})
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
