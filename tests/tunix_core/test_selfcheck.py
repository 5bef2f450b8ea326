"""The first-step self-check: what it measures, what it names, and that a run stops on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tunix_core.errors import LearnerError
from tunix_core.learner.stage import PackedUpdate
from tunix_core.sampler.base import Dispatch
from tunix_core.sampler.engine import SamplerEngine
from tunix_core.selfcheck import MEAN_GAP, TOKEN_RATIO, SelfCheck, self_check, token_table
from tunix_core.testing import (
    TINY_SPEC,
    EpisodeScript,
    LetterTokenizer,
    Recorder,
    ScriptedEnvs,
    tiny_tenant,
    tiny_trainer,
)
from tunix_core.types import Fate, SampleResult

TWO_TURNS = EpisodeScript(observations=("ab", "c"))
TENANTS = [tiny_tenant("t0", seed=0, updates=1), tiny_tenant("t1", seed=1, updates=1)]


@pytest.fixture(scope="module")
def first() -> tuple[PackedUpdate, list[np.ndarray]]:
    """The first update of two tenants, as the learner is about to consume it, with the learner's own scores."""
    found = []

    def keep(packed: PackedUpdate) -> None:
        found.append((packed, trainer.learner.score(packed.batches)))

    trainer = tiny_trainer(TENANTS, "S1", ScriptedEnvs(lambda t: TWO_TURNS), on_packed=keep)
    trainer.run()
    return found[0]


def altered(first: tuple[PackedUpdate, list[np.ndarray]], **changes: Any) -> SelfCheck:
    """The check of t0 with one field of every batch replaced by a function of it."""
    packed, logprobs = first
    score = changes.pop("logprobs", lambda x, batch: x)
    logprobs = [score(x, b) for x, b in zip(logprobs, packed.batches, strict=True)]
    batches = [b._replace(**{k: f(getattr(b, k)) for k, f in changes.items()}) for b in packed.batches]
    return self_check(replace(packed, batches=batches), logprobs, "t0")


def test_a_healthy_first_update_is_on_policy_at_every_position(first: Any) -> None:
    for tenant in ("t0", "t1"):
        check = self_check(*first, tenant)
        assert check.failure is None
        assert check.ratio_min == pytest.approx(1, abs=1e-4)
        assert check.ratio_mean == pytest.approx(1, abs=1e-5)
        assert check.ratio_max == pytest.approx(1, abs=1e-4)
        assert check.loss_tokens == check.sampled_tokens > 0
        assert check.first_outside is None
        assert check.gap_by_position.max() < 1e-4
        assert len(check.gap_by_position) == max(len(s.token_ids) for s in check.sequences)


def test_figures_are_those_of_the_tokens(first: Any) -> None:
    check = altered(first, logprobs=lambda x, b: x + np.float32(0.03))
    assert check.mean_gap == pytest.approx(0.03, abs=1e-4)
    assert check.ratio_min == pytest.approx(np.exp(0.03), abs=1e-4)
    assert check.ratio_max == pytest.approx(np.exp(0.03), abs=1e-4)
    assert check.first_outside is None  # every token is inside its tolerance, but all lean one way
    assert MEAN_GAP < 0.03 and np.exp(0.03) - 1 < TOKEN_RATIO
    assert check.failure is not None and "3.00e-02 in mean |log-probability|" in check.failure


def test_one_wrong_token_is_named_by_its_place(first: Any) -> None:
    """The gap of a whole update may be small, and still one token be another's."""
    packed, logprobs = first
    healthy = self_check(packed, logprobs, "t0")
    chosen = healthy.sequences[3]
    position = int(np.flatnonzero(chosen.loss_mask)[-1])
    place = next(
        (b, r, segment)
        for b, batch in enumerate(packed.plan.batches)
        for r, row in enumerate(batch.rows)
        for segment, i in enumerate(row.sequences, start=1)
        if (packed.sequences[i].tenant_id, packed.sequences[i].ordinal, packed.sequences[i].sample_index)
        == ("t0", chosen.ordinal, chosen.sample_index)
    )
    b, row, segment = place
    at = np.flatnonzero(packed.batches[b].segment_ids[row] == segment)[position]
    moved = [np.array(x) for x in logprobs]
    moved[b][row, at] += 0.06
    check = self_check(packed, moved, "t0")
    assert check.first_outside == (chosen.ordinal, chosen.sample_index, position)
    assert check.ratio_max == pytest.approx(np.exp(0.06), abs=1e-3)
    assert check.failure is not None
    assert (
        f"first at position {position} (group {chosen.ordinal}, sample {chosen.sample_index})"
        in check.failure
    )


def test_the_first_position_is_the_earliest_of_all_sequences(first: Any) -> None:
    check = altered(first, logprobs=lambda x, b: x + np.float32(1.0))
    earliest = min(int(np.flatnonzero(s.loss_mask)[0]) for s in check.sequences)
    assert check.first_outside is not None and check.first_outside[2] == earliest


@pytest.mark.parametrize("shift", [1, -1])
def test_logprobs_off_by_one_position_fail(first: Any, shift: int) -> None:
    assert altered(first, logprobs=lambda x, b: np.roll(x, shift, axis=1)).failure is not None


def test_a_mask_that_lost_tokens_fails_though_every_ratio_is_one(first: Any) -> None:
    """The first sampled token of each turn dropped from the loss: the ratios say nothing of it."""

    def without_firsts(mask: np.ndarray) -> np.ndarray:
        return mask & np.roll(mask, 1, axis=1)

    check = altered(first, loss_mask=without_firsts)
    assert check.ratio_max == pytest.approx(1, abs=1e-4)
    assert check.failure is not None
    assert f"{check.loss_tokens} tokens carry loss, but {check.sampled_tokens} were sampled" in check.failure


@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf, 1e4])
def test_a_score_that_is_no_number_fails(first: Any, junk: float) -> None:
    def spoiled(x: np.ndarray, batch: Any) -> np.ndarray:
        return np.where(batch.loss_mask, np.float32(junk), x)

    assert altered(first, logprobs=spoiled).failure is not None


def test_what_stands_off_the_loss_is_not_looked_at(first: Any) -> None:
    def spoiled(x: np.ndarray, batch: Any) -> np.ndarray:
        return np.where(batch.loss_mask, x, np.float32(np.nan))

    assert altered(first, logprobs=spoiled).failure is None


def test_a_tenant_without_a_loss_token_passes(first: Any) -> None:
    packed, _ = first
    nobody = replace(
        packed, groups={"t0": ()}, sequences=(), batches=(), plan=replace(packed.plan, batches=())
    )
    check = self_check(replace(nobody, plan=replace(nobody.plan, lengths=())), [], "t0")
    assert (check.failure, check.loss_tokens, check.ratio_mean) == (None, 0, 1.0)


def test_the_table_shows_each_token_with_what_both_sides_say(first: Any) -> None:
    check = self_check(*first, "t0")
    head, names, *lines = token_table(check, LetterTokenizer().token_text).splitlines()
    sequence = check.sequences[0]
    assert head == f"tenant t0, group {sequence.ordinal}, sample {sequence.sample_index}"
    assert names.split() == ["pos", "text", "id", "mask", "advantage", "behaviour", "policy", "version"]
    assert len(lines) == len(sequence.token_ids)
    assert lines[0].split() == ["0", "<bos>", "4", "0"]
    sampled = int(np.flatnonzero(sequence.loss_mask)[0])
    cells = lines[sampled].split()
    assert cells[0] == str(sampled) and cells[3] == "1" and cells[7] == "0"
    assert float(cells[4]) == pytest.approx(sequence.advantage, abs=1e-4)
    assert float(cells[5]) == pytest.approx(float(sequence.behavior_logprobs[sampled]), abs=1e-4)
    assert cells[5] == cells[6]
    assert len(token_table(check, LetterTokenizer().token_text, sequences=2).splitlines()) > len(lines) + 2


# ---------------------------------------------------------------- in a run


class OffBy(SamplerEngine):
    """A sampler that reports its log-probabilities wrong by `by`."""

    by = 0.0

    def end(self, dispatch: Dispatch) -> list[SampleResult]:
        off = np.float32(self.by)
        return [replace(r, behavior_logprobs=r.behavior_logprobs + off) for r in super().end(dispatch)]


class OffByALot(OffBy):
    by = 0.2


class OffByNothingMuch(OffBy):
    by = 1e-5


def test_a_run_whose_first_ratio_is_not_one_stops_with_the_reason_and_its_record() -> None:
    recorder = Recorder()
    trainer = tiny_trainer(
        TENANTS, "A1", ScriptedEnvs(lambda t: TWO_TURNS), observer=recorder, sampler=OffByALot
    )
    with pytest.raises(
        LearnerError, match=r"self-check at the first update of tenant 't.'.*the ratio is 0\.8187"
    ):
        trainer.run()
    assert recorder.fates("t0")[Fate.CONSUMED] + recorder.fates("t1")[Fate.CONSUMED] > 0
    assert all(b.ledger.closes() for b in trainer._buffers.values())
    told = [e.value for e in recorder.events if e.key == "self_check"]
    assert told and told[0]["ratio_mean"] == pytest.approx(np.exp(-0.2), abs=1e-4)


def test_rounding_is_no_failure() -> None:
    trainer = tiny_trainer(TENANTS, "A1", ScriptedEnvs(lambda t: TWO_TURNS), sampler=OffByNothingMuch)
    assert trainer.run().status == "success"


def test_the_check_can_be_left_out_and_then_says_nothing() -> None:
    recorder = Recorder()
    trainer = tiny_trainer(
        TENANTS,
        "A1",
        ScriptedEnvs(lambda t: TWO_TURNS),
        spec=replace(TINY_SPEC, self_check=False),
        observer=recorder,
        sampler=OffByALot,
    )
    assert trainer.run().status == "success"
    assert not [e for e in recorder.events if e.key == "self_check"]


def test_the_check_changes_no_bit_of_a_run_and_compiles_nothing_inside_it() -> None:
    runs = []
    for checked in (True, False):
        recorder = Recorder()
        trainer = tiny_trainer(
            [replace(t, updates=3) for t in TENANTS],
            "A0",
            ScriptedEnvs(lambda t: TWO_TURNS),
            spec=replace(TINY_SPEC, self_check=checked),
            observer=recorder,
        )
        trainer.warm_up()
        assert trainer.run().recompiles == {}
        runs.append([recorder.adapters(t.tenant_id) for t in TENANTS])
        checks = [e.value["tenant"] for e in recorder.events if e.key == "self_check"]
        assert checks == (["t0", "t1"] if checked else [])  # each tenant once, at its first update
    assert runs[0] == runs[1]
