import random
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunix_core.streams import Stream, fold, generator, init_seed, sampling_seed
from tunix_core.types import EpisodeTicket

TICKET = EpisodeTicket(
    tenant_id="a", ordinal=3, sample_index=0, env_id="t", split="train", env_seed=42, item_index=7
)
parts = st.lists(st.one_of(st.integers(), st.text()), max_size=4)


@given(parts, parts)
def test_different_parts_give_different_words(a, b):
    same = [(type(x), x) for x in a] == [(type(x), x) for x in b]
    assert (fold(*a) == fold(*b)) == same


def test_words_are_uint32_and_boundaries_count():
    assert all(0 <= w < 2**32 for w in fold("x", 1))
    assert len({fold("ab"), fold("a", "b"), fold("b", "a"), fold(1), fold("1"), fold(), fold("")}) == 7
    assert fold("as1:b") != fold("a", "b") and fold("as:b") != fold("a", "b")
    assert fold(np.int64(5)) == fold(5)


def test_a_float_is_refused():
    with pytest.raises(TypeError):
        fold(0.5)  # pyright: ignore[reportArgumentType]


def test_another_process_folds_the_same():
    code = "from tunix_core.streams import fold; print(fold('sampling', 42, 'é', -1))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == str(fold("sampling", 42, "é", -1))


def test_siblings_turns_and_seeds_are_sampled_differently():
    # One seed for the whole group would make its samples identical.
    siblings = {sampling_seed(replace(TICKET, sample_index=i), 0) for i in range(8)}
    assert len(siblings) == 8
    assert sampling_seed(TICKET, 0) == sampling_seed(replace(TICKET), 0)
    assert sampling_seed(TICKET, 1) not in siblings
    assert sampling_seed(replace(TICKET, env_seed=43), 0) not in siblings


def test_the_admitted_version_does_not_enter_a_draw():
    assert sampling_seed(replace(TICKET, admitted_version=5), 0) == sampling_seed(TICKET, 0)


def test_evaluation_has_its_own_stream():
    assert sampling_seed(replace(TICKET, split="dev"), 0) != sampling_seed(TICKET, 0)


def test_streams_of_one_seed_differ():
    draws = {tuple(generator(s, 0).integers(0, 2**31, 4).tolist()) for s in Stream}
    assert len(draws) == len(Stream)
    assert init_seed(0) != fold(Stream.DATA.value, 0)


def test_global_random_state_is_untouched():
    before = (random.getstate(), np.random.get_state()[1].tolist())  # type: ignore[index]
    generator(Stream.DATA, 1).permutation(10)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # type: ignore[index]
