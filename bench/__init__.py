"""A benchmark of asynchronous, multi-tenant RL post-training; the commands of `bench` as functions.

Nothing heavy is imported until a function is called. Whatever a function raises is one of `bench.errors`, with the
message of the command line and its remedy in `.hint`. docs/api.md has an example.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

    import gymnasium

    from bench.api import Comparison, Report, Run

__version__ = "0.1.0"
__all__ = ["compare", "load", "make", "report", "run", "verify"]

Place: TypeAlias = "str | os.PathLike[str] | Run"
"""Of a record: its directory, an archive of it, or the `Run` that was made or loaded."""


def run(
    out: str | os.PathLike[str] | None = None, *, quiet: bool = True, resume: bool = False, **settings: Any
) -> Run:
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
    from bench import api

    return api.ran(out, quiet=quiet, resume=resume, settings=settings)


def load(path: Place) -> Run:
    """Opens a run directory. Raises UsageError where there is none, RejectedError for one that can't be read."""
    from bench import api

    return api.load(path)


def compare(
    run: Place,
    other: Place | None = None,
    *,
    baseline: str | None = None,
    product: str | None = None,
    metric: str = "t_work",
) -> Comparison:
    """The verdict on two arms of a run, or on an arm of one and one of another, recomputed from the raw lines.

    Args:
      run: whose arms are compared; with `other`, the record of the baseline.
      other: the record of the product, paired by seed.
      baseline, product: arms; default S1 and A1.
      metric: the time of the ratio: t_work, t_total, tenant_mean or tenant_p95.
    Raises:
      RejectedError: the arms did unequal work, or a record was changed after it was sealed.
      UsageError: no record there, an unknown arm or metric.
    """
    from bench import api

    return api.compared(run, other, baseline=baseline, product=product, metric=metric)


def report(
    runs: Place | Sequence[Place],
    out: str | os.PathLike[str] | None = None,
    *,
    format: Literal["html", "md", "png"] | None = None,
) -> Path:
    """Writes the report about a run, with others or a study beside it, and returns its path.

    Args:
      out: the file; default beside the first run.
      format: default what `out` ends with, else html.
    """
    from bench import api

    return api.reported(runs, out, format)


def verify(run: Place, *, data: str | None = None) -> Report:
    """All checks on a run directory or archive: `.ok`, `.findings`, `.codes`. Raises nothing for a bad record.

    Raises UsageError where there is nothing at all.
    """
    from bench import api

    return api.verified(run, data=data)


def make(task: str, **options: Any) -> gymnasium.Env[Any, Any]:
    """A task as a Gymnasium environment, text in and text out; by its id or short name.

    Raises UsageError for an unknown one, with what it may have meant.
    """
    from bench import api

    return api.made(task, options)


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
