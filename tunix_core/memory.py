"""The most memory a run needed, as told by the devices' allocators and by the kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

PROCESS = "process"
"""Stands for this process' resident memory: where devices count none (CPU), it holds what they would."""


class Device(Protocol):
    """What is asked of a `jax.Device`."""

    @property
    def id(self) -> int:
        """Its number among those of its platform."""
        ...

    @property
    def platform(self) -> str:
        """ "cpu", "gpu" or "tpu"."""
        ...

    def memory_stats(self) -> Mapping[str, int] | None:
        """Returns the allocator's figures in bytes; None where it keeps none (CPU)."""
        ...


class PeakMemory:
    """Most bytes in use between `begin` and `read`, by device, and in this process.

    An allocator's mark can't be put back. So a device is told of only where its mark rose since `begin`: what an
    earlier run of the process needed is never given as this one's. The process' mark is put back (Linux, proc(5):
    writing 5 to clear_refs); on systems without one it isn't told.
    """

    def __init__(self, devices: Iterable[Device], proc: Path = Path("/proc/self")) -> None:
        self._devices = tuple(devices)
        self._proc = proc
        self._before: dict[str, int] = {}
        self._reset = False

    def begin(self) -> None:
        """Begins the window."""
        self._before = self._marks()
        try:
            (self._proc / "clear_refs").write_text("5")
        except (
            OSError
        ):  # another system, or a container that forbids it: the mark would be of the whole process
            self._reset = False
        else:
            self._reset = True

    def read(self) -> dict[str, int]:
        """Returns bytes by device ("gpu:0") and for "process", of those that are known."""
        peaks = {name: mark for name, mark in self._marks().items() if mark > self._before.get(name, 0)}
        if self._reset and (resident := _resident_peak(self._proc / "status")) is not None:
            peaks[PROCESS] = resident
        return peaks

    def _marks(self) -> dict[str, int]:
        marks: dict[str, int] = {}
        for device in self._devices:
            mark = (device.memory_stats() or {}).get("peak_bytes_in_use")
            if mark is not None:
                marks[f"{device.platform}:{device.id}"] = mark
        return marks


def _resident_peak(status: Path) -> int | None:
    """Returns VmHWM in bytes; None where the kernel doesn't tell. Source: proc_pid_status(5), in kB."""
    try:
        lines = status.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)
