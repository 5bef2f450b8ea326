"""What `import bench` offers, done: the same parts as the commands, returning what those print."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import table
from bench.compare import Comparison, compare
from bench.errors import RejectedError
from leaderboard.records import RunRecord
from leaderboard.verify import Report, intact, verify

__all__ = ["Comparison", "Report", "Run", "compared", "load", "ran", "verify"]


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

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def preformatted(text: str) -> str:
    """Text as a notebook shows it: every column stays under its head."""
    return f"<pre>{html.escape(text)}</pre>"


def load(path: Path) -> Run:
    """Opens a run directory; raises RecordError where there is none."""
    return Run(RunRecord.open(path))


def ran(out: Path | None, *, quiet: bool, resume: bool, settings: dict[str, Any]) -> Run:
    """`bench run`, with the settings of its flags."""
    from bench.commands.run import command

    flags = {**settings, "out": None if out is None else str(out)}
    value, _, _ = command(None, (), flags, dry_run=False, quiet=quiet, resume=resume)
    return load(Path(value["run"]))


def compared(path: Path, baseline: str | None, product: str | None) -> Comparison:
    """`bench compare`; a record that isn't as it was sealed is refused."""
    found = compare(path, baseline=baseline, product=product)
    report = intact(path)
    if not report.ok:
        first = report.findings[0]
        raise RejectedError(f"{path} is not the record that was sealed: {first}", f"'bench verify {path}'")
    return found
