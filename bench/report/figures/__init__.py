"""The figures of a report, each a function from the material to a `Figure`."""

from __future__ import annotations

from bench.report.figure import Figure
from bench.report.figures import curves, device, environment
from bench.report.material import Material


def all_figures(material: Material) -> list[Figure]:
    """Every figure, in the order of reading."""
    return [
        curves.accuracy(material),
        device.minute(material),
        environment.environment(material),
    ]
