"""What `import bench` offers, done: the same parts as the commands, returning what those print."""

from __future__ import annotations

import functools
import html
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from bench import table
from bench.compare import Comparison, compare
from bench.errors import BenchError, UsageError, of_bench
from bench.places import existing, run_directory
from leaderboard.records import RunRecord
from leaderboard.verify import Report, verify

if TYPE_CHECKING:
    import gymnasium

__all__ = ["Comparison", "Report", "Run", "compared", "load", "made", "ran", "reported", "verified"]


@dataclass(frozen=True, slots=True)
class Run:
    """A record: what `bench run` printed about it, and every line behind that."""

    record: RunRecord
    """Header, events, spans, rollouts, updates, evals; each file is read when first asked for."""

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.record.directory

    @property
    def status(self) -> str:
        """'success', 'interrupted' or 'error'."""
        return self.record.header.status

    @property
    def ok(self) -> bool:
        """Whether every arm came to its end."""
        return self.status == "success"

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """Of every (arm, seed): {arm, seed, metrics}; docs/metrics.md says what each is."""
        return self.record.header.results["runs"]

    def as_dict(self) -> dict[str, Any]:
        """What `bench run --json` prints of the table."""
        return table.as_dict(self.record)

    def __str__(self) -> str:
        """The table that `bench run` ends with."""
        return table.render(self.record)

    def __repr__(self) -> str:
        header = self.record.header
        arms = ", ".join(arm.arm for arm in header.arms)
        return f"<Run {self.path}: {self.status}, arms {arms}, seeds {header.seeds}>"

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def preformatted(text: str) -> str:
    """Text as a notebook shows it: every column stays under its head."""
    return f"<pre>{html.escape(text)}</pre>"


Place = str | os.PathLike[str] | Run
P = ParamSpec("P")
T = TypeVar("T")


def _border(function: Callable[P, T]) -> Callable[P, T]:
    """Errors of other parts leave as those of `bench.errors`; a defect leaves as it is."""

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except BenchError:
            raise
        except Exception as error:
            ours = of_bench(error)
            if ours is None:
                raise
            raise ours from error

    return called


@_border
def load(place: Place) -> Run:
    """Opens a run directory."""
    return Run(RunRecord.open(run_directory(_path(place))))


@_border
def ran(out: str | os.PathLike[str] | None, *, quiet: bool, resume: bool, settings: dict[str, Any]) -> Run:
    """`bench run`, with the settings of its flags."""
    from bench.commands.run import command

    unset = [key for key, value in settings.items() if value is None]
    if unset:
        raise UsageError(f"{unset[0]} = None is no value", "leave it out for the default")
    flags = {**settings, "out": None if out is None else os.fspath(out)}
    value, _, _ = command(None, (), flags, dry_run=False, quiet=quiet, resume=resume)
    return load(value["run"])


@_border
def compared(run: Place, other: Place | None, **options: Any) -> Comparison:
    """`bench compare`; a record that isn't as it was sealed is refused."""
    return compare(_path(run), None if other is None else _path(other), sealed=True, **options)


@_border
def reported(runs: Place | Sequence[Place], out: str | os.PathLike[str] | None, form: str | None) -> Path:
    """`bench report`."""
    from bench.commands.results import report_command

    several = [runs] if isinstance(runs, (str, os.PathLike, Run)) else runs
    places = [_path(run) for run in several]
    return Path(report_command(places, None if out is None else Path(out), form)["report"])


@_border
def verified(run: Place, *, data: str | None) -> Report:
    """`bench verify`."""
    return verify(existing(_path(run)), data=data)


@_border
def made(task: str, options: dict[str, Any]) -> gymnasium.Env[Any, Any]:
    """A task by any of its names."""
    import tasks

    return tasks.make(tasks.resolve(task), **options)


def _path(place: Place) -> Path:
    return place.path if isinstance(place, Run) else Path(place)
