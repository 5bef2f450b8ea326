"""Peak memory of a whole run, many tenants against one.

    python -m tests.benchmarks.memory_peak [--tenants 32] [--rounds 3] [--json FILE]

Each run is a process of its own (`bench run`, arm A1, two updates a tenant, no latency); what is compared is the most
memory that it ever held. Beside it, what the additional tenants must hold: adapters (the learner's and the sampler's),
both moments and the sum of gradients, in float32.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.harness import write
from tunix_core.model.config import lora_targets
from tunix_core.model.load import load_base

COPIES = 5
"""Of a tenant's factors: learner, sampler, first and second moment, sum of gradients."""


def peak_bytes(tenants: int) -> int:
    """Runs a job of so many tenants; the most resident memory of its process.

    Raises RuntimeError where the run fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench", "run", "--tasks", "math", "--arms", "A1", "--tenants", str(tenants),
                   "--updates", "2", "--eval-items", "8", "--latency", "none", "--out", f"{folder}/run"]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {said.decode()[-2000:]}")
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def tenant_bytes(rank: int = 8) -> int:
    """What one more tenant holds on the device."""
    config = load_base().config
    return (
        4 * COPIES * config.num_hidden_layers * sum(rank * (i + o) for i, o in lora_targets(config).values())
    )


def main() -> int:
    """Prints both peaks and what the additional tenants account for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tenants", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    wanted = parser.parse_args()
    peaks: dict[int, list[int]] = {1: [], wanted.tenants: []}
    for _ in range(wanted.rounds):
        for tenants, found in peaks.items():
            found.append(peak_bytes(tenants))
    one, many = (statistics.median(found) for found in peaks.values())
    held = tenant_bytes() * (wanted.tenants - 1)
    figures = {
        "one, bytes": one,
        "many, bytes": many,
        "adapters and optimizer of the additional tenants, bytes": held,
        "many / (one + those)": many / (one + held),
    }
    print(f"one tenant {one / 2**20:.0f} MiB, {wanted.tenants} tenants {many / 2**20:.0f} MiB; "
          f"adapters and optimizer of {wanted.tenants - 1} tenants {held / 2**20:.0f} MiB")  # fmt: skip
    print(f"{wanted.tenants} tenants / (one + those): {figures['many / (one + those)']:.3f}")
    write(wanted.json, (), figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
