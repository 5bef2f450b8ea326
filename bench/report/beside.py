"""Several runs side by side: each one's verdict, and the figures that a series of runs is drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import study, table
from bench.compare import compare
from bench.errors import RejectedError, UsageError
from leaderboard.records import RunRecord


def compared(directory: Path) -> tuple[dict[str, Any] | None, str | None]:
    """(what `bench compare --json` prints, None), or (None, why there is no verdict): a report says it then."""
    try:
        return compare(directory, sealed=True).as_dict(), None
    except (RejectedError, UsageError) as error:
        return None, f"{error}" + (f" ({error.hint})" if error.hint else "")


def rows(directories: Sequence[Path]) -> list[dict[str, Any]]:
    """One row a run: what was varied, how fast and how accurate, and whether it is of the first run's work.

    `same_work` is true where nothing but the staleness limit differs from the first run's settings.
    """
    first = study.work(RunRecord.open(directories[0]), "max_staleness")
    found = []
    for directory in directories:
        record = RunRecord.open(directory)
        comparison, refused = compared(directory)
        row: dict[str, Any] = {
            "path": directory.name,
            "run_id": record.header.run_id,
            "tenants": len(record.header.tenants),
            "max_staleness": record.header.config.get("max_staleness"),
            "same_work": study.work(record, "max_staleness") == first,
            "refused": refused,
            "speedup": None,
            "low": None,
            "high": None,
            "accuracy_difference": None,
            "accuracy": None,
            "staleness_mean": None,
        }
        if comparison is not None:
            product = comparison["product"]
            arms = {arm["arm"]: arm for arm in table.as_dict(record)["arms"]}
            row |= {key: comparison[key] for key in ("speedup", "low", "high")}
            row["accuracy_difference"] = comparison["parity_details"]["difference"]
            row["accuracy"] = table.mean_of(own[product] for own in comparison["accuracy"].values())
            row["staleness_mean"] = arms[product]["staleness_mean"]
        found.append(row)
    return found
