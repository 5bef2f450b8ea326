"""Scores of given ids: padding, the padding id and what else is scored are irrelevant; contradictions are refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.tunix_core.learning import BASE, np_logprobs
from tunix_core.errors import ConfigError
from tunix_core.scoring import score_sequences
from tunix_core.testing import random_adapter
from tunix_core.types import LoraSpec, SamplingSpec

LORA = LoraSpec(rank=2, alpha=4.0)
ADAPTER = random_adapter(seed=3)
IDS = np.asarray([4, 5, 0, 1, 0, 0, 7, 6, 2, 7], np.int32)
"""Holds the ids that padding is made of below, in the middle and at the end."""


def scores(sequences: Any, **options: Any) -> list[np.ndarray]:
    return score_sequences(BASE.config, BASE.params, sequences, adapter=ADAPTER, lora=LORA, **options)


EXPECTED = np_logprobs(ADAPTER.factors, 2.0, IDS, 1.0)


def test_scores_are_those_of_an_independent_model() -> None:
    (found,) = scores([IDS])
    assert found.dtype == np.float32 and found[0] == 0
    np.testing.assert_allclose(found, EXPECTED, atol=1e-5)


@pytest.mark.parametrize("left", [0, 1, 7])
@pytest.mark.parametrize("right", [0, 5])
@pytest.mark.parametrize("pad", [0, 7])
def test_padding_on_either_side_changes_no_score(left: int, right: int, pad: int) -> None:
    """The pad id is a token of the text, too; the mask decides (AI-Hypercomputer/maxtext pulls 4016 and 5198)."""
    padded = np.concatenate([np.full(left, pad), IDS, np.full(right, pad)])[None]
    mask = np.concatenate([np.zeros(left), np.ones(len(IDS)), np.zeros(right)]).astype(bool)[None]
    for pad_id in (None, pad):  # an explicit mask has priority over what the id suggests
        (found,) = scores(padded, mask=mask, pad_id=pad_id)
        np.testing.assert_allclose(found, EXPECTED, atol=1e-5)


def test_without_a_mask_runs_of_the_pad_id_at_the_ends_are_padding_and_in_the_middle_text() -> None:
    padded = np.concatenate([np.full(3, 0), IDS, np.full(4, 0)])
    (found,) = scores([padded], pad_id=0)
    np.testing.assert_allclose(found, EXPECTED, atol=1e-5)
    # without either every id is text
    (whole,) = scores([padded])
    assert len(whole) == len(padded)


def test_many_ragged_sequences_are_scored_each_as_alone() -> None:
    rng = np.random.default_rng(0)
    ragged = [rng.integers(0, 8, n).astype(np.int32) for n in (1, 2, 16, 17, 3, 9, 30, 5, 12, 7, 31)]
    for ids, found in zip(ragged, scores(ragged), strict=True):
        np.testing.assert_allclose(found, np_logprobs(ADAPTER.factors, 2.0, ids, 1.0), atol=1e-5)
    assert scores([]) == []


def test_the_base_alone_and_temperature_and_cut() -> None:
    nothing = {k: (np.zeros_like(a), np.zeros_like(b)) for k, (a, b) in ADAPTER.factors.items()}
    (plain,) = score_sequences(BASE.config, BASE.params, [IDS])
    np.testing.assert_allclose(plain, np_logprobs(nothing, 1.0, IDS, 1.0), atol=1e-5)
    (hot,) = scores([IDS], sampling=SamplingSpec(temperature=2.0))
    np.testing.assert_allclose(hot, np_logprobs(ADAPTER.factors, 2.0, IDS, 2.0), atol=1e-5)
    # one token left: whatever was drawn shares the mass with the most likely one
    (cut,) = scores([IDS], sampling=SamplingSpec(top_k=1))
    assert (cut >= EXPECTED - 1e-5).all()
    assert cut.min() > -20 and cut.max() <= 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mask": [np.ones(9, bool)]}, "Sequence 0 has 10 tokens; its mask"),
        ({"mask": [np.ones(10, bool)] * 2}, "mask is for 2 sequences, but 1"),
        ({"mask": [np.asarray([1, 1, 0, 1, 1, 1, 1, 1, 1, 1], bool)]}, "hole at 2"),
        ({"mask": [np.zeros(10, bool)]}, "no real token"),
        ({"mask": [np.full(10, 0.5)]}, "as many booleans"),
        ({"sequences": [np.full(5, 7)], "pad_id": 7}, "no real token"),
        ({"sequences": [np.asarray([1, 8])]}, "outside 0..7"),
        ({"sequences": [np.asarray([-1, 2])]}, "outside 0..7"),
        ({"sequences": [np.asarray([0.5, 2.0])]}, "integer token ids"),
        ({"sequences": [np.zeros((2, 2), int)]}, "integer token ids"),
        ({"sequences": [np.zeros(65, int)]}, "reads 64 at most"),
        ({"lora": None}, "belong together"),
        ({"adapter": None}, "belong together"),
        ({"lora": LoraSpec(rank=4)}, "with rank 4"),
        ({"sampling": SamplingSpec(temperature=0.0)}, "temperature > 0"),
        ({"sampling": SamplingSpec(temperature=math.nan)}, "temperature > 0"),
        ({"sampling": SamplingSpec(top_p=0.0)}, "top_p"),
    ],
)
def test_inputs_that_contradict_each_other_are_refused(options: dict[str, Any], words: str) -> None:
    given = {"sequences": [IDS], "adapter": ADAPTER, "lora": LORA, **options}
    with pytest.raises(ConfigError, match=words):
        score_sequences(BASE.config, BASE.params, **given)
