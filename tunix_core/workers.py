"""Several device programs at once: a CPU runs one small program on little more than one of its cores."""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def usable_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(work: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Results of `work` in the order of the items, whatever order they end in; `workers` of them run at once.

    A few more than that are held at a time, so that the results of a long series need not fit in memory. With
    one worker everything runs in the caller's thread. The first error ends it; what is running then runs out.
    """
    if workers <= 1:
        yield from map(work, items)
        return
    pool = _pool(workers)
    under_way: deque[Future[Result]] = deque()
    try:
        for item in items:
            under_way.append(pool.submit(work, item))
            if len(under_way) > workers:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        for future in under_way:
            future.cancel()


@functools.cache
def _pool(workers: int) -> ThreadPoolExecutor:
    """One pool of a size serves the process: trainers come and go, threads stay."""
    return ThreadPoolExecutor(workers, thread_name_prefix="device")
