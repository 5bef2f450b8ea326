"""Episodes: what they sample is what is trained, and how each of them ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tunix_core.actor import Actor, ActorSpec
from tunix_core.env_pool import InlineEnvPool
from tunix_core.sampler.base import turn
from tunix_core.streams import sampling_seed
from tunix_core.testing import Answer, EpisodeScript, LetterTokenizer, ScriptedEnvs, ScriptedSampler, constant
from tunix_core.tokens import Renderer
from tunix_core.types import EpisodeTicket, Fate, SampleRequest, SamplingSpec, StopReason, Trajectory

TICKET = EpisodeTicket(
    tenant_id="t0",
    ordinal=2,
    sample_index=1,
    env_id="e",
    split="train",
    env_seed=9,
    item_index=2,
    admitted_version=4,
)
A, B, C, STOP, BOS, USER, ASSISTANT, END = range(8)


class Table:
    """An actor on scripted parts."""

    def __init__(
        self,
        script: EpisodeScript,
        answer: Callable[[SampleRequest], Answer] = lambda r: Answer(token_ids=(A, END)),
        *,
        max_context: int = 40,
        tokenizer: Any = None,
    ) -> None:
        tokenizer = tokenizer or LetterTokenizer()
        self.envs = ScriptedEnvs(lambda t: script)
        self.sampler = ScriptedSampler(answer, stop_ids=tokenizer.stop_ids)
        self.pool = InlineEnvPool(self.envs, lambda: 0)
        spec = ActorSpec(
            max_context=max_context, sampling={"t0": SamplingSpec()}, adapter_slot={"t0": 5, "t1": 6}
        )
        self.actor = Actor(spec, Renderer(tokenizer), self.pool, self.sampler.submit, lambda: 0)

    def play(self, ticket: EpisodeTicket = TICKET) -> Trajectory:
        self.actor.start(ticket)
        for _ in range(50):
            for done in [self.actor.on_reply(r) for r in self.pool.poll()]:
                if done is not None:
                    return done
            for done in [self.actor.on_sample(r) for r in turn(self.sampler)]:
                if done is not None:
                    return done
        raise AssertionError("the episode does not end")


def ids(trajectory: Trajectory) -> list[int]:
    return np.concatenate([t.token_ids for t in trajectory.turns]).tolist()


def scripted(*turns: Sequence[int], **fields: Any) -> Callable[[SampleRequest], Answer]:
    return lambda r: Answer(token_ids=turns[r.turn_index], **fields)


def test_a_dialogue_is_the_ids_as_they_were_read_and_sampled() -> None:
    script = EpisodeScript(observations=("ab", "c"), reward=constant(0.75))
    table = Table(script, scripted((B, A, END), (C, STOP), behavior_logprobs=None, policy_version=3))
    done = table.play()
    assert ids(done) == [BOS, USER, A, B, ASSISTANT, B, A, END, USER, C, ASSISTANT, C, STOP]
    assert [t.role for t in done.turns] == ["environment", "policy", "environment", "policy"]
    assert [t.text for t in done.turns] == ["ab", "ba", "c", "c"]
    assert table.envs.built[0].said == ["ba", "c"]
    mask = np.concatenate([t.loss_mask for t in done.turns])
    assert np.flatnonzero(mask).tolist() == [5, 6, 7, 11, 12]
    versions = np.concatenate([t.policy_version for t in done.turns])
    assert versions.tolist() == [-1] * 5 + [3] * 3 + [-1] * 3 + [3] * 2
    assert (done.reward, done.grade_status, done.stop) == (0.75, "correct", StopReason.TERMINATED)
    assert (done.fate, done.error, done.item_uid) == (Fate.OPEN, None, "e/9/2")
    assert (done.oldest_version, done.sampled_tokens) == (3, 5)
    assert table.envs.built[0].closed == 1
    assert table.actor.open_episodes == 0


def test_each_turn_is_sampled_from_all_that_came_before_and_from_its_own_stream() -> None:
    table = Table(EpisodeScript(observations=("ab", "c")))
    done = table.play()
    first, second = table.sampler.requests
    assert first.context_ids.tolist() == ids(done)[:5]
    assert second.context_ids.tolist() == ids(done)[:10]
    assert (first.turn_index, second.turn_index) == (0, 1)
    assert first.stream_seed == sampling_seed(TICKET, 0) != second.stream_seed == sampling_seed(TICKET, 1)
    assert first.adapter_slot == 5
    assert first.stop_ids == (STOP, END)


def test_ids_are_never_taken_from_text_again() -> None:
    """'he' + 'llo' stays two ids though the tokenizer would write 'hello' as one; a broken byte survives."""

    class Pieces(LetterTokenizer):
        pieces = ("he", "llo", "hello", "<stop>", "<bos>", "<user>", "<assistant>", "<end>")

        def encode(self, text: str) -> np.ndarray:
            return np.asarray([2] * text.count("hello"), np.int32)

        def decode(self, ids: Sequence[int] | np.ndarray) -> str:
            return "".join(self.pieces[i] for i in ids if i < 3)

    table = Table(
        EpisodeScript(observations=("hello", "hello")),
        scripted((0, 1, END), (1, 0, 1, END)),
        tokenizer=Pieces(),
    )
    done = table.play()
    assert table.envs.built[0].said == ["hello", "llohello"]
    assert ids(done) == [BOS, USER, 2, ASSISTANT, 0, 1, END, USER, 2, ASSISTANT, 1, 0, 1, END]


def test_a_stop_id_that_is_also_the_padding_id_is_trained() -> None:
    table = Table(EpisodeScript(), scripted((A, B, END)), tokenizer=LetterTokenizer(pad_id=END))
    done = table.play()
    assert done.turns[1].token_ids.tolist() == [A, B, END]
    assert done.turns[1].loss_mask.all()
    assert done.stop is StopReason.TERMINATED


@pytest.mark.parametrize("stop", [STOP, END])
def test_any_stop_id_ends_a_turn_and_is_not_a_truncation(stop: int) -> None:
    assert Table(EpisodeScript(), scripted((A, stop))).play().stop is StopReason.TERMINATED


def test_a_turn_cut_at_its_limit_ends_the_episode_ungraded() -> None:
    table = Table(EpisodeScript(reward=constant(1.0)), scripted((A, A, A)))
    done = table.play()
    assert (done.stop, done.reward, done.grade_status) == (StopReason.MAX_TOKENS, 0.0, "truncated")
    assert table.envs.built[0].said == []
    assert table.envs.built[0].closed == 1
    assert done.sampled_tokens == 3


def test_an_environment_that_truncates_is_no_termination() -> None:
    done = Table(EpisodeScript(truncate=True, reward=constant(0.25))).play()
    assert (done.stop, done.reward) == (StopReason.TRUNCATED, 0.25)


def test_an_episode_without_end_is_ended_by_its_context() -> None:
    table = Table(EpisodeScript(endless=True, reward=constant(1.0)), max_context=20)
    done = table.play()
    assert (done.stop, done.reward, done.error) == (StopReason.CONTEXT, 0.0, None)
    assert max(len(r.context_ids) for r in table.sampler.requests) <= 20
    assert done.sampled_tokens == 2 * len(table.sampler.requests)


def test_a_first_observation_that_is_too_long_is_never_sampled() -> None:
    table = Table(EpisodeScript(observations=("a" * 100,)))
    done = table.play()
    assert (done.stop, done.sampled_tokens, done.oldest_version) == (StopReason.CONTEXT, 0, 4)
    assert table.sampler.requests == []


@pytest.mark.parametrize("place", ["factory", "reset", "step"])
def test_a_failing_environment_is_an_error_and_never_a_reward(place: Any) -> None:
    done = Table(EpisodeScript(raise_at=place, reward=constant(1.0))).play()
    assert done.fate is Fate.ERRORED
    assert done.reward == 0.0
    assert done.stop is StopReason.ERROR
    assert done.error == f"RuntimeError: scripted failure in {place}"
    assert done.sampled_tokens == (2 if place == "step" else 0)


def test_a_verifier_that_failed_is_an_error_and_never_a_reward() -> None:
    done = Table(EpisodeScript(harness_error="judge timed out", reward=constant(1.0))).play()
    assert (done.fate, done.reward, done.error) == (Fate.ERRORED, 0.0, "judge timed out")


def test_per_token_versions_and_logprobs_are_kept_as_the_sampler_gave_them() -> None:
    answer = Answer(
        token_ids=(A, B, C, END), behavior_logprobs=(-0.5, -1.5, -0.25, -2.0), policy_version=(7, 7, 8, 8)
    )
    done = Table(EpisodeScript(), lambda r: answer).play()
    assert done.turns[1].policy_version.tolist() == [7, 7, 8, 8]
    assert done.turns[1].behavior_logprobs.tolist() == [-0.5, -1.5, -0.25, -2.0]
    assert done.oldest_version == 7


def test_dropping_a_tenant_ends_its_episodes_alone_and_late_answers_are_ignored() -> None:
    table = Table(EpisodeScript())
    other = EpisodeTicket(
        tenant_id="t1", ordinal=0, sample_index=0, env_id="e", split="train", env_seed=9, item_index=0
    )
    table.actor.spec.sampling["t1"] = SamplingSpec()  # pyright: ignore[reportIndexIssue]
    for ticket in (TICKET, other):
        table.actor.start(ticket)
    assert [table.actor.on_reply(r) for r in table.pool.poll()] == [None, None]
    (dropped,) = table.actor.drop("t0")
    assert (dropped.ticket, dropped.fate, dropped.reward) == (TICKET, Fate.SURPLUS, 0.0)
    assert [e.closed for e in table.envs.built] == [1, 0]
    results = turn(table.sampler)
    assert [table.actor.on_sample(r) for r in results] == [None, None]  # t0's comes too late, t1's goes on
    (done,) = [table.actor.on_reply(r) for r in table.pool.poll()]
    assert done is not None and done.ticket == other
