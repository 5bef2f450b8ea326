"""The figures of a report, each a function from the material to a `Figure`."""

from __future__ import annotations

from collections.abc import Callable

from bench.report.figure import Figure
from bench.report.figures import (
    curves,
    device,
    environment,
    frontier,
    ratios,
    scaling,
    steps,
    tenants,
    tokens,
)
from bench.report.material import Material

FIGURES: tuple[Callable[[Material], Figure], ...] = (
    curves.accuracy,
    ratios.forest,
    ratios.slopes,
    device.minute,
    steps.breakdown,
    device.utilization,
    tokens.staleness,
    tokens.ledger,
    steps.padding,
    tenants.fairness,
    frontier.frontier,
    scaling.scaling,
    ratios.profile,
    environment.environment,
)
"""In the order of reading."""


def all_figures(material: Material) -> list[Figure]:
    """Draws every figure."""
    return [draw(material) for draw in FIGURES]
