"""The test hooks themselves: a scripted sampler under the real trainer, orders of completion, dumps."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tunix_core.errors import LearnerError, StalledError
from tunix_core.schedule import ScheduleSpec
from tunix_core.testing import (
    TINY_SPEC,
    Answer,
    BatchDump,
    CompletionOrder,
    EpisodeScript,
    Recorder,
    ScriptedEnvs,
    ScriptedSampler,
    VirtualClock,
    constant,
    read_dump,
    tiny_base,
    tiny_tenant,
    tiny_trainer,
)
from tunix_core.types import Fate, OptimizerSpec, SampleRequest

A, B, C, STOP, BOS, USER, ASSISTANT, END = range(8)
UNCHECKED = replace(TINY_SPEC, self_check=False)
"""Log-probabilities of scripts are made up, and would not pass the first-step self-check."""


def alternating(request: SampleRequest) -> Answer:
    """Siblings differ, so that there is signal."""
    return Answer(token_ids=(A if request.ticket.sample_index % 2 else B, END))


# ---------------------------------------------------------------- scripted sampler


def test_what_the_sampler_says_is_what_is_trained(tmp_path: Path) -> None:
    """Ids, log-probabilities and versions of the script reach the learner's batch unchanged, turn by turn."""

    def script(request: SampleRequest) -> Answer:
        if request.turn_index == 0:
            return Answer(token_ids=(C, A, END), behavior_logprobs=(-0.5, -1.5, -0.25))
        return Answer(token_ids=(B, STOP), behavior_logprobs=(-2.0, -0.125))

    sampler = ScriptedSampler(script)
    envs = ScriptedEnvs(
        lambda t: EpisodeScript(observations=("ab", "c"), reward=constant(t.sample_index % 2))
    )
    trainer = tiny_trainer(
        [tiny_tenant("t0", updates=1)],
        "A0",
        envs,
        spec=UNCHECKED,
        sampler=sampler,
        on_packed=BatchDump(tmp_path),
    )
    assert trainer.run().status == "success"
    assert len(sampler.requests) == 2 * 8
    assert [a.version for a in sampler.published] == [1]
    dump = read_dump(tmp_path, 0)
    assert dump.about["tenants"] == {"t0": {"version": 0, "ordinals": [0, 1]}}
    for ordinal, sample in itertools.product((0, 1), range(4)):
        s = dump.sequence("t0", ordinal, sample)
        assert s["token_ids"].tolist() == [BOS, USER, A, B, ASSISTANT, C, A, END, USER, C, ASSISTANT, B, STOP]
        on = s["loss_mask"]
        assert np.flatnonzero(on).tolist() == [5, 6, 7, 11, 12]
        assert s["behavior_logprobs"][on].tolist() == [-0.5, -1.5, -0.25, -2.0, -0.125]
        assert s["policy_version"].tolist() == np.where(on, 0, -1).tolist()
        assert np.unique(s["advantages"][on]) == pytest.approx(1 if sample % 2 else -1, abs=1e-4)
        assert s["token_weights"][on] == pytest.approx(1 / 40)
        assert not s["advantages"][~on].any() and not s["token_weights"][~on].any()


def test_a_turn_carries_the_version_that_was_published_when_it_began() -> None:
    recorder = Recorder()
    sampler = ScriptedSampler(alternating)
    trainer = tiny_trainer(
        [tiny_tenant("t0", updates=3)],
        "A0",
        ScriptedEnvs(),
        spec=UNCHECKED,
        sampler=sampler,
        observer=recorder,
    )
    trainer.run()
    versions = {k[0]: t.oldest_version for k, t in recorder.consumed("t0").items()}
    assert versions == {0: 0, 1: 0, 2: 1, 3: 1, 4: 2, 5: 2}


def test_a_sampler_that_fails_ends_the_run_with_its_own_error_and_the_books_closed() -> None:
    answers = itertools.count()

    def third_fails(request: SampleRequest) -> Answer:
        error = RuntimeError("device lost") if next(answers) == 3 else None
        return Answer(token_ids=(A, END), error=error)

    recorder = Recorder()
    trainer = tiny_trainer(
        [tiny_tenant("t0")],
        "A1",
        ScriptedEnvs(),
        spec=UNCHECKED,
        sampler=ScriptedSampler(third_fails),
        observer=recorder,
    )
    with pytest.raises(RuntimeError, match="device lost"):
        trainer.run()
    assert all(b.ledger.closes() for b in trainer._buffers.values())
    assert recorder.fates("t0")[Fate.SURPLUS] > 0


def test_a_sampler_that_hangs_is_a_stall_that_names_its_turns() -> None:
    never = threading.Event()
    sampler = ScriptedSampler(lambda r: Answer(token_ids=(A, END), hold=never))
    spec = replace(UNCHECKED, no_progress_s=0.2)
    trainer = tiny_trainer([tiny_tenant("t0")], "A0", ScriptedEnvs(), spec=spec, sampler=sampler)
    with pytest.raises(
        StalledError, match=r"no progress for 0.2 s; waiting for 8 turns of the sampler: t0 group"
    ):
        trainer.run()


def test_a_version_of_the_future_is_refused() -> None:
    sampler = ScriptedSampler(lambda r: Answer(token_ids=(A, END), policy_version=6))
    trainer = tiny_trainer([tiny_tenant("t0")], "A1", ScriptedEnvs(), spec=UNCHECKED, sampler=sampler)
    with pytest.raises(LearnerError, match="claims policy version 6, but the learner has only reached 0"):
        trainer.run()


def test_latencies_pass_in_virtual_time_and_in_dispatches() -> None:
    clock = VirtualClock()
    slow = {0: 1, 1: 3}
    recorder = Recorder()
    sampler = ScriptedSampler(
        lambda r: Answer(token_ids=(A, END), after_dispatches=slow[r.ticket.ordinal % 2]),
        clock=clock,
        dispatch_s=0.25,
    )
    trainer = tiny_trainer(
        [tiny_tenant("t0", updates=1)],
        "A0",
        ScriptedEnvs(),
        spec=UNCHECKED,
        sampler=sampler,
        observer=recorder,
    )
    trainer.run()
    took = {k[0]: t.turns[1].t_end_ns - t.turns[1].t_start_ns for k, t in recorder.consumed("t0").items()}
    assert took == {0: 250_000_000, 1: 750_000_000}
    assert clock() == 750_000_000


# ---------------------------------------------------------------- completion order


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_episodes_end_in_the_scripted_order_and_are_learnt_in_that_of_admission(
    order: tuple[int, ...],
) -> None:
    """Groups of one member each: whatever the order in which they end, the updates take them 0, 1, 2, 3."""
    keys = [("t0", k, s) for k in order for s in (0, 1)]
    turns = CompletionOrder(keys)
    recorder = Recorder()
    trainer = tiny_trainer(
        [tiny_tenant("t0", updates=2, group_size=2)],
        ScheduleSpec(tenants_at_once=None, step_barrier=False, max_staleness=1),
        ScriptedEnvs(lambda t: EpisodeScript(order=turns)),
        spec=replace(UNCHECKED, runtime="threads", env_workers=8),
        sampler=ScriptedSampler(alternating),
        observer=recorder,
    )
    assert trainer.run().status == "success"
    complete = [e.value["ordinal"] for e in recorder.events if e.key == "group.complete"]
    assert complete == list(order)
    assert [r.ordinals for r in recorder.reports] == [(0, 1), (2, 3)]


# ---------------------------------------------------------------- model and dump


@pytest.mark.parametrize("vocab_size", [2, 8, 64])
def test_the_tiny_model_has_any_small_vocabulary(vocab_size: int) -> None:
    base = tiny_base(vocab_size=vocab_size)
    assert base.params["embed_tokens"].shape[0] == vocab_size
    assert {str(x.dtype) for x in itertools.chain(base.params["embed_tokens"][None])} == {"float32"}


def test_a_dump_holds_all_tenants_of_each_step_in_their_segments(tmp_path: Path) -> None:
    tenants = [tiny_tenant(n, seed=i, updates=2) for i, n in enumerate(("t0", "t1"))]
    recorder = Recorder()
    trainer = tiny_trainer(
        tenants, "S1", ScriptedEnvs(), observer=recorder, on_packed=BatchDump(tmp_path / "dump")
    )
    trainer.run()
    assert sorted(p.name for p in (tmp_path / "dump").iterdir()) == [
        f"update-0000{i}.{kind}" for i in (0, 1) for kind in ("json", "npz")
    ]
    for update in (0, 1):
        dump = read_dump(tmp_path / "dump", update)
        total = sum(int(b.loss_mask.sum()) for b in dump.batches)
        assert total == sum(r.loss_tokens for r in recorder.reports if r.update_id == update)
        for tenant in ("t0", "t1"):
            for (ordinal, sample), t in recorder.consumed(tenant).items():
                if ordinal // 2 != update:
                    with pytest.raises(KeyError, match="no sequence"):
                        dump.sequence(tenant, ordinal, sample)
                    continue
                sampled = np.concatenate([x.token_ids[x.loss_mask] for x in t.turns])
                s = dump.sequence(tenant, ordinal, sample)
                np.testing.assert_array_equal(s["token_ids"][s["loss_mask"]], sampled)
                assert set(s["policy_version"][s["loss_mask"]]) == {update}


def test_a_scripted_step_of_plain_sgd_raises_what_was_rewarded() -> None:
    """One update by hand: a is paid, b is not; afterwards a is likelier where it was said."""

    def policy(request: SampleRequest) -> Answer:
        return Answer(
            token_ids=(A if request.ticket.sample_index % 2 else B, END), behavior_logprobs=(-1.0, -1.0)
        )

    scores: list[Any] = []

    def keep(packed: Any) -> None:
        batch = packed.batches[0]
        scores.append((batch, trainer.learner.score([batch])[0]))

    sgd = OptimizerSpec(kind="sgd", learning_rate=0.5, clip_norm=1e9)
    trainer = tiny_trainer(
        [tiny_tenant("t0", updates=1, optimizer=sgd)],
        "A0",
        ScriptedEnvs(lambda t: EpisodeScript(reward=constant(t.sample_index % 2))),
        spec=UNCHECKED,
        sampler=ScriptedSampler(policy),
        on_packed=keep,
    )
    trainer.run()
    batch, before = scores[0]
    change = trainer.learner.score([batch])[0] - before
    said_a = batch.loss_mask & (batch.token_ids == A)
    said_b = batch.loss_mask & (batch.token_ids == B)
    assert change[said_a].min() > 0 > change[said_b].max()
