"""What the record of a run costs: the same job with its record written and with every line dropped.

    python -m tests.benchmarks.recording_cost [--tenants 8] [--updates 4] [--rounds 5] [--json FILE]

No latency, arm S1 (equal work to the token), so that nothing hides the cost. Beside the ratio of times, which is as
noisy as the machine, the share that can be told exactly: processor time of the sink's calls and of the writing thread.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import compose
from bench.config import resolve
from bench.recorder import RunRecorder
from tests.benchmarks.harness import Timed, interleave, ratio, write

NAMES = ("event", "span", "trajectory", "update", "evaluation", "adapter")


class Dropping:
    """A sink that keeps nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **more: None


class Metered:
    """A sink that adds up the processor time of another's calls."""

    def __init__(self, sink: Any) -> None:
        self._sink, self.seconds = sink, 0.0

    def __getattr__(self, name: str) -> Callable[..., None]:
        call = getattr(self._sink, name)

        def metered(*args: Any, **more: Any) -> None:
            began = time.thread_time()
            call(*args, **more)
            self.seconds += time.thread_time() - began

        return metered


def recorded(prepared: compose.Prepared) -> tuple[float, float]:
    """Runs the job with its record; (seconds of the window, share of them spent on recording)."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = RunRecorder(Path(folder) / "run")
        metered = Metered(recorder.sink("S1", 0))
        sink: Any = metered
        spent: list[float] = []
        recorder.queue(lambda: spent.append(time.thread_time()))
        result = compose.run_arm(prepared, "S1", 0, sink, lambda: False)
        recorder.queue(lambda: spent.append(time.thread_time()))
        recorder.close()
    window = (result.t_stop_ns - result.t_start_ns) / 1e9
    return window, (metered.seconds + spent[1] - spent[0]) / window


def dropped(prepared: compose.Prepared) -> float:
    """Runs the job without a record; seconds of the window."""
    sink: Any = Dropping()
    result = compose.run_arm(prepared, "S1", 0, sink, lambda: False)
    return (result.t_stop_ns - result.t_start_ns) / 1e9


def main() -> int:
    """Prints times, their ratio and the recording's share."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tenants", type=int, default=8)
    parser.add_argument("--updates", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    wanted = parser.parse_args()
    settings = {
        "tasks": ["math", "code", "search"],
        "tenants": wanted.tenants,
        "updates": wanted.updates,
        "latency": "none",
        "eval_items": 1,
    }
    config = resolve(None, {}, [], settings).config
    prepared = compose.prepare(config)
    shares: list[float] = []
    windows: dict[str, list[float]] = {"recorded": [], "dropped": []}

    def with_record() -> None:
        window, share = recorded(prepared)
        windows["recorded"].append(window)
        shares.append(share)

    cases = [
        Timed("recorded", with_record),
        Timed("dropped", lambda: windows["dropped"].append(dropped(prepared))),
    ]
    interleave(cases, wanted.rounds)
    for case in cases:  # of each run only the window counts; the first was the warm-up
        case.times = windows[case.name][1:]
    figures = {"recorded / dropped": ratio(*cases), "recording's share": statistics.median(shares[1:])}
    for case in cases:
        print(f"{case.name:<9} {case.median:7.2f} s")
    middle, low, high = figures["recorded / dropped"]
    print(f"recorded / dropped: {middle:.3f} (rounds {low:.3f} … {high:.3f})")
    share = 100 * figures["recording's share"]
    print(f"processor time of recording, share of the window: {share:.2f} %")
    write(wanted.json, cases, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
