"""What the shell offers after TAB for the value of an option; loads what holds the names, and no trainer."""

from __future__ import annotations

from collections.abc import Callable, Iterable

Offer = Callable[[str], list[str]]


def comma_separated(names: Callable[[], Iterable[str]]) -> Offer:
    """Completes the last of a list such as `math,co`; what stands in it already is not offered again."""

    def offer(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        taken = before.split(",")
        return [f"{before}{comma}{name}" for name in names() if name.startswith(last) and name not in taken]

    return offer


def one_of(names: Callable[[], Iterable[str]]) -> Offer:
    """Completes a single name."""

    def offer(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return offer


def arm_names() -> Iterable[str]:
    """S0, S1, A0, A1."""
    from bench.config import ARMS

    return ARMS


def suite_names() -> Iterable[str]:
    """The named suites."""
    from bench.suites import SUITES

    return SUITES


def task_names() -> list[str]:
    """Short names, then ids."""
    import tasks
    from tasks.registry import ALIASES

    return [*ALIASES, *tasks.specs()]


def model_names() -> list[str]:
    """`embedded` and the catalogue of models."""
    from bench.models import CATALOGUE, EMBEDDED

    return [EMBEDDED, *CATALOGUE]


def setting_names() -> list[str]:
    """Keys of the configuration, with their `=`."""
    from bench.config import RunConfig

    return [f"{key}=" for key in RunConfig.model_fields]


def tracker_names() -> Iterable[str]:
    """What --tracker takes."""
    from bench.trackers import NAMES

    return NAMES


def latency_forms() -> Iterable[str]:
    """One example of every form of a latency profile."""
    from tasks.latency import FORMS

    return FORMS


def time_names() -> Iterable[str]:
    """The times that `bench compare` can take ratios of."""
    from bench.compare import TIMES

    return TIMES


def report_formats() -> Iterable[str]:
    """What `bench report` writes."""
    from bench.commands.results import SUFFIXES

    return SUFFIXES
