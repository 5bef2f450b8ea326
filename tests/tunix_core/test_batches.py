"""What a run trains, read from its batch dump: the sampled ids (case mt-004), all of them and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tunix_core.testing import (
    TINY_SPEC,
    Answer,
    BatchDump,
    DumpedUpdate,
    EpisodeScript,
    LetterTokenizer,
    Recorder,
    ScriptedEnvs,
    ScriptedSampler,
    constant,
    read_dump,
    tiny_base,
    tiny_tenant,
    tiny_trainer,
)
from tunix_core.tokens import ByteTokenizer
from tunix_core.types import Fate, SampleRequest

A, B, C, STOP, BOS, USER, ASSISTANT, END = range(8)
UNCHECKED = replace(TINY_SPEC, self_check=False)


def trained(
    folder: Path,
    turns: Callable[[SampleRequest], Sequence[int]],
    observations: tuple[str, ...] = ("",),
    *,
    tokenizer: Any = None,
    base: Any = None,
) -> tuple[DumpedUpdate, Recorder]:
    """One update over scripted turns; siblings are paid differently."""
    recorder = Recorder()
    tiny_trainer(
        [tiny_tenant("t0", updates=1, group_size=2, groups_per_update=1)],
        "A0",
        ScriptedEnvs(
            lambda t: EpisodeScript(observations=observations, reward=constant(float(t.sample_index)))
        ),
        spec=UNCHECKED,
        base=base,
        tokenizer=tokenizer,
        sampler=ScriptedSampler(lambda r: Answer(token_ids=turns(r))),
        observer=recorder,
        on_packed=BatchDump(folder),
    ).run()
    return read_dump(folder, 0), recorder


@pytest.mark.parametrize("answer", [(A, B, C, END), (END,)])
def test_every_token_of_an_answer_is_in_the_loss_and_none_of_the_prompt(
    tmp_path: Path, answer: tuple[int, ...]
) -> None:
    """A prompt of 3 tokens; an answer that is nothing but its end still has one loss token.

    Source: https://github.com/verl-project/verl/pull/3287
    """
    dump, _ = trained(tmp_path, lambda r: answer)
    s = dump.sequence("t0", 0, 1)
    assert s["token_ids"].tolist() == [BOS, USER, ASSISTANT, *answer]
    assert np.flatnonzero(s["loss_mask"]).tolist() == list(range(3, 3 + len(answer)))
    assert s["advantages"][s["loss_mask"]] == pytest.approx(1, abs=1e-4)


def test_what_a_tool_says_is_read_and_never_trained(tmp_path: Path) -> None:
    """Prompt 3, model 4, tool 3, model 5: of the 12 tokens from first to last action 9 were sampled.

    Source: https://github.com/PeterGriffinJin/Search-R1/issues/108
    """
    turns = ((A, B, C, END), (B, B, A, A, END))
    dump, recorder = trained(tmp_path, lambda r: turns[r.turn_index], ("", "c"))
    s = dump.sequence("t0", 0, 0)
    assert s["token_ids"].tolist() == [BOS, USER, ASSISTANT, *turns[0], USER, C, ASSISTANT, *turns[1]]
    assert np.flatnonzero(s["loss_mask"]).tolist() == [3, 4, 5, 6, 10, 11, 12, 13, 14]
    assert not s["behavior_logprobs"][~s["loss_mask"]].any()
    (report,) = recorder.reports
    assert report.loss_tokens == 2 * 9
    assert {t.sampled_tokens for t in recorder.consumed("t0").values()} == {9}


def test_padding_is_never_told_by_the_value_of_an_id(tmp_path: Path) -> None:
    """The padding id is an id of the prompt and the one that ends an answer: attended, trained, terminated.

    Source: https://github.com/huggingface/trl/pull/6357
    """
    for pad_id in (END, A):
        tokenizer = LetterTokenizer(pad_id=pad_id)
        dump, recorder = trained(tmp_path / str(pad_id), lambda r: (B, C, END), ("aa",), tokenizer=tokenizer)
        s = dump.sequence("t0", 0, 1)
        assert s["token_ids"].tolist() == [BOS, USER, A, A, ASSISTANT, B, C, END]
        assert int(s["loss_mask"].sum()) == 3 and s["loss_mask"][-1]
        assert s["positions"].tolist() == list(range(8))  # no id of the prompt is taken for padding
        assert {t.stop for t in recorder.consumed("t0").values()} == {"terminated"}


def test_each_of_two_stop_ids_terminates(tmp_path: Path) -> None:
    """Truncation rate 0. Source: https://github.com/huggingface/trl/pull/7039"""
    _, recorder = trained(tmp_path, lambda r: (A, (STOP, END)[r.ticket.sample_index]))
    done = recorder.consumed("t0")
    assert [t.turns[1].token_ids[-1] for _, t in sorted(done.items())] == [STOP, END]
    assert {(t.stop, t.turns[1].stop) for t in done.values()} == {("terminated", "eos")}


def test_sampled_ids_survive_that_no_text_would_give_back(tmp_path: Path) -> None:
    """A byte that is no UTF-8, alone and between two halves of a character, over two turns.

    Source: https://github.com/huggingface/trl/issues/5224
    """
    tokenizer = ByteTokenizer()
    (end,) = tokenizer.stop_ids
    turns = ((0xFF, 0xC3, end), (0xA9, 0x80, ord("x"), end))
    assert tokenizer.encode(tokenizer.decode(turns[0][:-1])).tolist() != list(turns[0][:-1])
    dump, recorder = trained(
        tmp_path,
        lambda r: turns[r.turn_index],
        ("é", "ok"),
        tokenizer=tokenizer,
        base=tiny_base(vocab_size=ByteTokenizer.vocab_size),
    )
    for sample in (0, 1):
        s = dump.sequence("t0", 0, sample)
        assert s["token_ids"][s["loss_mask"]].tolist() == [*turns[0], *turns[1]]
        assert len(s["token_ids"]) == len(s["behavior_logprobs"]) == len(s["policy_version"])
    assert recorder.fates("t0") == {Fate.CONSUMED: 2}


def test_a_result_with_fewer_logprobs_than_ids_ends_the_run_and_is_never_padded(tmp_path: Path) -> None:
    """Source: https://github.com/NovaSky-AI/SkyRL/issues/123"""
    trainer = tiny_trainer(
        [tiny_tenant("t0")],
        "A0",
        ScriptedEnvs(),
        spec=UNCHECKED,
        sampler=ScriptedSampler(lambda r: Answer(token_ids=(A, B, END), behavior_logprobs=(-1.0, -1.0))),
    )
    with pytest.raises(ValueError, match="differ in length: 3, 2, 3"):
        trainer.run()
