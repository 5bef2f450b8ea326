"""What a run tells the outside: an observer for lines, a counter for compilations."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Protocol

import jax

from tunix_core.types import Event, Span, Trajectory, UpdateReport

COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"
CACHE_HIT_EVENT = "/jax/compilation_cache/cache_hits"


class Observer(Protocol):
    """Receives every line of a run, on the thread that drives it, in order of time."""

    def event(self, event: Event) -> None:
        """A point in time."""
        ...

    def span(self, span: Span) -> None:
        """A closed interval of device work."""
        ...

    def trajectory(self, trajectory: Trajectory, consumed_in: int | None, staleness: int | None) -> None:
        """A trajectory with its final fate, and the update that consumed it."""
        ...

    def update(self, report: UpdateReport) -> None:
        """What one update did to one tenant."""
        ...


class NullObserver:
    """Listens to nothing."""

    def event(self, event: Event) -> None:
        """Ignored."""

    def span(self, span: Span) -> None:
        """Ignored."""

    def trajectory(self, trajectory: Trajectory, consumed_in: int | None, staleness: int | None) -> None:
        """Ignored."""

    def update(self, report: UpdateReport) -> None:
        """Ignored."""


class CompileCounter:
    """Counts XLA compilations by function name, and those a persistent cache answered.

    `jax.monitoring` fires the compile event on a cache hit too, so `real` subtracts the hits.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # listeners run on whichever thread compiles
        self.by_name: Counter[str] = Counter()
        self.seconds = 0.0
        self.cache_hits = 0
        jax.monitoring.register_event_duration_secs_listener(self._on_duration)
        jax.monitoring.register_event_listener(self._on_event)

    @property
    def real(self) -> int:
        """Compilations that were not answered by a cache."""
        with self._lock:
            return sum(self.by_name.values()) - self.cache_hits

    def names(self) -> Counter[str]:
        """A copy of the counts by function name."""
        with self._lock:
            return Counter(self.by_name)

    def _on_duration(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event == COMPILE_EVENT:
            with self._lock:
                self.by_name[str(kwargs.get("fun_name", "unknown"))] += 1
                self.seconds += duration_secs

    def _on_event(self, event: str, **kwargs: object) -> None:
        del kwargs
        if event == CACHE_HIT_EVENT:
            with self._lock:
                self.cache_hits += 1


_counter: CompileCounter | None = None


def compile_counter() -> CompileCounter:
    """The process's counter; listeners cannot be taken off again, so there is one."""
    global _counter
    if _counter is None:
        _counter = CompileCounter()
    return _counter
