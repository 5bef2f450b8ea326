"""Writes docs/metrics.md from the registry, the one place where metrics are defined: `python docs/make_metrics.py`."""

from __future__ import annotations

import sys
from pathlib import Path

from leaderboard.metrics import METRICS

TARGET = Path(__file__).with_name("metrics.md")
HEAD = """# Metrics

Made from `leaderboard/metrics/registry.py` by `python docs/make_metrics.py`. Every figure in a table, report or
board is one of these, recomputed from the recorded lines alone. The window of a run begins at `run_start`, after
compilation, and never pauses.

| Metric | Unit | Formula | Population | Better |
|---|---|---|---|---|
"""


def page() -> str:
    """The page's text."""
    metrics = METRICS.values() if isinstance(METRICS, dict) else METRICS
    cells = ((f"**{m.name}** {m.title}", m.unit, m.formula, m.population, m.better) for m in metrics)
    rows = ("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells)
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    TARGET.write_text(page())
    sys.stdout.write(f"{TARGET}\n")
