"""The worker of this project's trainer: arm S1, one tenant. Started by `peers_speed`.

python -m tests.benchmarks.peers.ours_worker FOLDER
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from bench.shapes import buckets_for, grain_of, prefill_lanes
from tests.benchmarks.peers.common import (
    NEVER,
    Gate,
    Job,
    check_logits,
    lines_to_parent,
    load_job,
    prompt_ids,
    reward,
)
from tests.benchmarks.peers.export import logits_of
from tunix_core.model.load import load_base
from tunix_core.runspec import TrainerSpec
from tunix_core.sampler.base import Dispatch, SamplerSpec
from tunix_core.sampler.engine import SamplerEngine
from tunix_core.schedule import arm
from tunix_core.telemetry import NullObserver
from tunix_core.tokens import ByteTokenizer, Renderer
from tunix_core.trainer import Trainer
from tunix_core.types import (
    EpisodeTicket,
    LoraSpec,
    OptimizerSpec,
    SampleResult,
    SamplingSpec,
    StopReason,
    TenantSpec,
    UpdateReport,
)

UPDATES = 100_000
"""More than any parent asks for."""


class Endless(ByteTokenizer):
    """No sampled token ends a turn."""

    stop_ids = (NEVER,)


class FixedLength(SamplerEngine):
    """Turns have one length; one that reached it is an answer, not half an answer, so it is graded."""

    def end(self, dispatch: Dispatch) -> list[SampleResult]:
        """The turns that ended, as if they had ended by themselves."""
        return [dataclasses.replace(result, stop=StopReason.EOS) for result in super().end(dispatch)]


class OneTurn:
    """An environment: a prompt, an answer, a reward."""

    def __init__(self, prompt: str) -> None:
        self.prompt = prompt

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """The prompt."""
        return self.prompt, {"item_uid": self.prompt}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """The reward of the answer."""
        return "", reward(action), True, False, {"grade_status": "correct", "stop": "terminated"}

    def close(self) -> None:
        """Holds nothing."""


class Watch(NullObserver):
    """Tells the gate of every update, and of one that wasn't what the others do."""

    def __init__(self, gate: Gate, job: Job) -> None:
        self.gate, self.job = gate, job
        self.over = False

    def update(self, report: UpdateReport) -> None:
        """After the new adapter is with the sampler."""
        expected = self.job.rollouts * self.job.new_tokens
        if report.loss_tokens != expected or report.skipped:
            self.gate.problems.append(
                f"update {report.update_id}: {report.loss_tokens} tokens of {expected}, skipped {report.skipped}"
            )
        self.over = self.over or not self.gate.passed()


def tenant(job: Job) -> TenantSpec:
    """The one tenant."""
    return TenantSpec(
        tenant_id="one",
        env_ids=("share",),
        seed=job.seed,
        group_size=job.group_size,
        groups_per_update=job.groups_per_update,
        updates=UPDATES,
        lora=LoraSpec(rank=job.rank, alpha=job.alpha),
        optimizer=OptimizerSpec(learning_rate=job.learning_rate),
        sampling=SamplingSpec(max_new_tokens=job.new_tokens),
    )


def trainer_spec(job: Job) -> TrainerSpec:
    """Shapes as `bench run` chooses them, with a sampler slot for each rollout."""
    context, grain = len(prompt_ids(job.prompts[0])), grain_of(jax.default_backend())
    return TrainerSpec(
        sampler=SamplerSpec(
            slots=job.rollouts,
            part_slots=grain.part_slots,
            prefill_lanes=prefill_lanes(grain, job.rollouts, context),
            prefill_lengths=(context,),
            max_new_tokens=job.new_tokens,
            workers=grain.workers,
        ),
        buckets=buckets_for(context + job.new_tokens, grain),
        workers=grain.workers,
        env_workers=job.rollouts,
    )


def main() -> int:
    """Trains until the parent has enough."""
    stream = lines_to_parent()
    folder = Path(sys.argv[1])
    job, base = load_job(folder), load_base()
    params = jax.device_put(base.params)
    worst = check_logits(folder, logits_of(base.config, params, job))
    about = {"name": "ours", "jax": jax.__version__, "logits off by": worst}
    watch = Watch(Gate(job, about, stream), job)

    def environment(ticket: EpisodeTicket) -> OneTurn:
        return OneTurn(job.prompts[ticket.ordinal % len(job.prompts)])

    trainer = Trainer(
        base, params, [tenant(job)], arm("S1"), environment, Renderer(Endless()), trainer_spec(job),
        observer=watch, should_stop=lambda: watch.over, sampler=FixedLength,
    )  # fmt: skip
    trainer.warm_up()
    trainer.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
