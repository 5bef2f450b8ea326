"""One update over 1, 2, 4 and 8 devices: the same loss, gradient and adapter, whatever divides what."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tunix_core.errors import ConfigError
from tunix_core.learner.sharded import data_mesh, round_up_rows
from tunix_core.testing import TINY_SPEC, ScriptedEnvs, tiny_tenant, tiny_trainer
from tunix_core.types import Bucket

ROOT = Path(__file__).resolve().parents[2]

CHILD = """
import json, jax, numpy as np
from dataclasses import replace
from tests.tunix_core.learning import SHAPES, TENANTS, make, trajectory, update
from tunix_core.types import Bucket, Group

def group(n, ordinal):
    members = [
        trajectory(float(i % 2) + 0.1 * i, tenant=tenant, ordinal=ordinal, sample=i, shape=SHAPES[i % 6])
        for i, tenant in enumerate(["t0"] * n)
    ]
    return Group(tenant_id="t0", ordinal=ordinal, trajectories=tuple(members))

found = {}
for count in (1, 2, 4, 8):
    learner = make(TENANTS, buckets=[Bucket(rows=10, length=32)], devices=jax.devices()[:count])
    for ordinal, n in enumerate((1, 7, 8, 10, 16)):
        learner.versions["t0"] = 0
        # alone in its group a member has no advantage: the one-sequence batch takes its signal from a pair
        extra = [group(2, 50)] if n == 1 else []
        report = update(learner, group(n, ordinal), *extra)["t0"]
        factors = learner.adapter("t0").factors
        found[f"{count} {n}"] = {
            "loss": report.loss,
            "norm": report.grad_norm,
            "tokens": report.loss_tokens,
            "entropy": report.entropy,
            "ratios": [report.ratio_min, report.ratio_mean, report.ratio_max],
            "slots": report.executed_slots,
            "factors": [float(v) for k in sorted(factors) for x in factors[k] for v in x.ravel()],
        }
print(json.dumps(found))
"""

WHOLE_RUN = """
import json, sys
from dataclasses import replace
from pathlib import Path
from tunix_core.testing import TINY_SPEC, Recorder, ScriptedEnvs, tiny_tenant, tiny_trainer

folder = Path(sys.argv[1])

def run(devices, checkpoints=None, stop_after=99, restore=False):
    recorder = Recorder()
    spec = replace(TINY_SPEC, learner_devices=devices, tenant_slots=3, checkpoint_dir=checkpoints)
    trainer = tiny_trainer(
        [tiny_tenant("a"), tiny_tenant("b", seed=2)], "S1", ScriptedEnvs(), spec=spec, observer=recorder,
        should_stop=lambda: len(recorder.reports) >= stop_after,
    )
    if restore:
        trainer.restore()
    else:
        trainer.add_tenant(tiny_tenant("late", seed=5))
    result = trainer.run()
    hashes = {n: trainer.learner.adapter(n).sha256 for n in ("a", "b", "late")}
    return result.status, hashes, recorder.reports

status, whole, reports = run(4)
_, _, single = run(1)
cut = run(4, folder, stop_after=3)
again = run(4, folder, restore=True)
print(json.dumps({
    "status": [status, cut[0], again[0]],
    "whole": whole,
    "again": again[1],
    "norms": [[r.grad_norm for r in x if r.version_before == 0] for x in (reports, single)],
}))
"""


def child(code: str, *arguments: str) -> dict[str, Any]:
    """What a process with eight devices prints."""
    flags = "--xla_force_host_platform_device_count=8 --xla_cpu_multi_thread_eigen=false"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_every_device_count_gives_the_loss_the_gradient_and_the_adapter_of_one() -> None:
    """Batches of 1, 7, 8, 10 and 16 sequences of unequal lengths; ten rows on eight devices become sixteen.

    Source of the case: LargeWorldModel/LWM issue 39 and huggingface/trl pull 3231.
    """
    found = child(CHILD)
    for n in (1, 7, 8, 10, 16):
        one = found[f"1 {n}"]
        assert one["norm"] > 1e-3
        assert one["slots"] == 10 * 32
        for count in (2, 4, 8):
            other = found[f"{count} {n}"]
            for figure in ("loss", "norm", "entropy", "ratios", "factors"):
                assert other[figure] == pytest.approx(one[figure], rel=1e-5, abs=1e-5), (figure, count, n)
            assert other["tokens"] == one["tokens"]
            assert other["slots"] == {2: 10, 4: 12, 8: 16}[count] * 32


@pytest.mark.slow
def test_a_whole_run_over_four_devices_takes_in_a_tenant_is_interrupted_and_resumed_to_the_bit(
    tmp_path: Path,
) -> None:
    found = child(WHOLE_RUN, str(tmp_path))
    assert found["status"] == ["success", "interrupted", "success"]
    assert found["again"] == found["whole"]
    four, one = found["norms"]
    assert len(one) == 3 and four == pytest.approx(one, rel=1e-5)


def test_more_devices_than_there_are_are_refused() -> None:
    with pytest.raises(ConfigError, match="learner_devices 64, but this process has"):
        tiny_trainer([tiny_tenant()], "S1", ScriptedEnvs(), spec=replace(TINY_SPEC, learner_devices=64))


def test_rows_are_rounded_up_to_the_devices() -> None:
    buckets = [Bucket(rows=10, length=64), Bucket(rows=8, length=16)]
    assert round_up_rows(buckets, 8) == (Bucket(rows=16, length=64), Bucket(rows=8, length=16))
    assert round_up_rows(buckets, 1) == tuple(buckets)


def test_one_device_needs_no_mesh_and_none_may_come_twice() -> None:
    import jax

    device = jax.devices()[0]
    assert data_mesh([]) is None
    assert data_mesh([device]) is None
    with pytest.raises(ConfigError, match="repeat"):
        data_mesh([device, device])
