"""Peak memory: the window's own, by device and for the process."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest

from tunix_core.memory import PROCESS, PeakMemory

MB = 1 << 20


class Allocator:
    """A device that counts."""

    id, platform = 0, "gpu"

    def __init__(self) -> None:
        self.peak = 0

    def memory_stats(self) -> dict[str, int]:
        return {"peak_bytes_in_use": self.peak, "bytes_in_use": 0}


def test_a_device_is_told_of_where_its_mark_rose_in_the_window(tmp_path: Path) -> None:
    device = Allocator()
    memory = PeakMemory([device], proc=tmp_path / "none")
    device.peak = 7
    memory.begin()
    assert memory.read() == {}, "an earlier run's peak isn't this one's"
    device.peak = 9
    assert memory.read() == {"gpu:0": 9}


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the kernel keeps no mark to put back")
def test_the_process_mark_is_of_the_window() -> None:
    held = np.ones(200 * MB, np.uint8)
    memory = PeakMemory(jax.devices("cpu"))
    memory.begin()
    first = memory.read()[PROCESS]
    held = np.concatenate([held, held])
    grown = memory.read()[PROCESS]
    assert grown - first > 150 * MB
    del held
    memory.begin()
    assert memory.read()[PROCESS] < grown - 150 * MB


def test_a_kernel_that_tells_nothing_is_not_an_error(tmp_path: Path) -> None:
    memory = PeakMemory([], proc=tmp_path / "none")
    memory.begin()
    assert memory.read() == {}
