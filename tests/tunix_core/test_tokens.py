import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunix_core.tokens import CONTROLS, MARKS, ByteTokenizer, Renderer

TOK = ByteTokenizer()
texts = st.text(st.characters(exclude_categories=["Cs"]))
sampled_ids = st.lists(st.integers(0, TOK.vocab_size - 1).filter(lambda i: i != TOK.end_id), max_size=12)


def test_ids_of_controls_and_marks():
    assert (TOK.pad_id, TOK.bos_id, TOK.user_id, TOK.assistant_id, TOK.end_id) == (256, 257, 258, 259, 260)
    assert [TOK.encode(mark).tolist() for mark in MARKS] == [[261], [262], [263], [264], [265], [266]]
    assert TOK.encode("a<answer>é</answer>").tolist() == [97, 261, 0xC3, 0xA9, 262]
    assert TOK.encode("").dtype == TOK.encode("x").dtype == np.int32


@given(texts)
def test_text_comes_back(text):
    assert TOK.decode(TOK.encode(text)) == text


@given(texts)
def test_text_never_makes_a_control_id(text):
    ids = TOK.encode("".join(CONTROLS) + text)
    assert not set(ids.tolist()) & {256, 257, 258, 259, 260}


def test_controls_and_unused_ids_have_no_text():
    assert TOK.decode([257, 258, 104, 105, 260, 256, 271]) == "hi"


def test_invalid_utf8_shows_as_replacement():
    assert TOK.decode([0xFF, 97]) == "�a"


def test_halves_of_a_character_do_not_join_across_another_id():
    assert TOK.decode([0xC3, TOK.pad_id, 0xA9]) == "��"


def test_lone_surrogate_is_encoded_as_question_mark():
    assert TOK.decode(TOK.encode("\ud800")) == "?"


@pytest.mark.parametrize("token_id", [-1, 272])
def test_unknown_id_is_refused(token_id):
    with pytest.raises(ValueError, match=str(token_id)):
        TOK.decode([token_id])


def test_token_text_is_readable_for_every_id():
    shown = [TOK.token_text(i) for i in range(TOK.vocab_size)]
    assert len(set(shown)) == TOK.vocab_size and all(s.isprintable() for s in shown)
    assert (shown[97], shown[10], shown[260], shown[261]) == ("a", "\\x0a", "<end>", "<answer>")


def test_first_context_holds_bos_user_text_assistant():
    assert Renderer(TOK).open("hi").tolist() == [257, 258, 104, 105, 259]


def test_sampled_spelling_of_a_mark_stays_as_sampled():
    # The policy wrote '<answer>' byte by byte; tokenising its text again would give one id.
    renderer = Renderer(TOK)
    sampled = np.asarray([*b"<answer>", 0xFF, TOK.end_id], np.int32)
    context = renderer.extend(renderer.open("q"), sampled, "r")
    assert context[4 : 4 + len(sampled)].tolist() == sampled.tolist()
    assert renderer.turn_text(sampled) == "<answer>�"
    assert TOK.encode(renderer.turn_text(sampled)).tolist() != sampled[:-1].tolist()


def test_a_turn_cut_at_its_limit_cannot_be_extended():
    renderer = Renderer(TOK)
    for cut in ([], [104, 105]):
        with pytest.raises(ValueError, match="End the episode"):
            renderer.extend(renderer.open("q"), np.asarray(cut, np.int32), "r")


@given(texts, st.lists(st.tuples(sampled_ids, texts), max_size=4))
def test_context_only_grows(first, turns):
    renderer = Renderer(TOK)
    context = renderer.open(first)
    for ids, observation in turns:
        sampled = np.asarray([*ids, TOK.end_id], np.int32)
        grown = renderer.extend(context, sampled, observation)
        added = renderer.observation_ids(observation, first=False)
        assert np.array_equal(grown, np.concatenate([context, sampled, added]))
        assert grown.dtype == np.int32
        context = grown
