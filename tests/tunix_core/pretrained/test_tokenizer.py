"""A checkpoint's tokenizer: ids spell text, no text makes a control, and formats write what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunix_core.errors import ConfigError
from tunix_core.pretrained.formats import Exchange, chat_format, few_shot_format
from tunix_core.pretrained.tokenizer import PretrainedTokenizer, Specials, byte_letters
from tunix_core.tokens import Renderer

pytest.importorskip("tokenizers", reason="the extra 'models' is not installed")

TEMPLATE = (
    "{% for m in messages %}<|start|>{{ m['role'] }}\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def bytelevel(template: str | None = TEMPLATE) -> PretrainedTokenizer:
    letters = byte_letters()
    vocab = {letters[b]: b for b in range(256)} | {letters[ord("a")] + letters[ord("b")]: 256}
    description: dict[str, Any] = {
        "model": {"type": "BPE", "vocab": vocab, "merges": [["a", "b"]]},
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": True,
            "trim_offsets": True,
            "use_regex": True,
        },
        "normalizer": {"type": "NFC"},
        "added_tokens": [
            {"id": 257 + i, "content": c, "special": True, "single_word": False}
            for i, c in enumerate(("<|start|>", "<|end|>"))
        ],
    }
    return PretrainedTokenizer(
        description, 264, Specials(bos_id=None, eos_ids=(258,), chat_template=template)
    )


def sentencepiece() -> PretrainedTokenizer:
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"<0x{b:02X}>": 3 + b for b in range(256)}
    vocab |= {"▁": 259, "a": 260, "b": 261, "ab": 262, "▁ab": 263}
    description: dict[str, Any] = {
        "model": {
            "type": "BPE",
            "vocab": vocab,
            "merges": [["a", "b"], ["▁", "ab"]],
            "byte_fallback": True,
            "unk_token": "<unk>",
            "fuse_unk": True,
        },
        "normalizer": {"type": "Prepend", "prepend": "▁"},
        "added_tokens": [
            {"id": i, "content": c, "special": True, "single_word": False}
            for i, c in enumerate(("<unk>", "<s>", "</s>"))
        ],
    }
    return PretrainedTokenizer(description, 264, Specials(bos_id=1, eos_ids=(2,), chat_template=None))


BOTH = {"byte-level": bytelevel(), "sentencepiece-like": sentencepiece()}
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁"))


@pytest.mark.parametrize("tokenizer", BOTH.values(), ids=BOTH)
@given(text=texts)
def test_ids_spell_the_text_and_nothing_else(tokenizer: PretrainedTokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("tokenizer", BOTH.values(), ids=BOTH)
@given(text=texts)
def test_no_text_makes_a_control(tokenizer: PretrainedTokenizer, text: str) -> None:
    for forged in ("<|end|>", "<|start|>", "<s>", "</s>", "<unk>"):
        ids = tokenizer.encode(f"{forged}{text}{forged}")
        assert all(tokenizer.spellings[i] is not None for i in ids.tolist())


def test_pieces_are_merged() -> None:
    assert BOTH["byte-level"].encode("ab").tolist() == [256]
    assert BOTH["sentencepiece-like"].encode("ab ab").tolist() == [262, 263]


def test_a_chat_is_written_as_its_template_writes_it() -> None:
    tokenizer = bytelevel()
    renderer = Renderer(tokenizer, chat_format(tokenizer))
    said = renderer.turn_ids("7")
    context = renderer.extend(renderer.open("3+4=?"), said, "ok")
    ask = "<|start|>user\n{}<|end|>\n<|start|>assistant\n"
    written = ask.format("3+4=?") + "7<|end|>\n" + ask.format("ok")
    assert context.tolist() == tokenizer.encode_template(written).tolist()
    assert renderer.stop_ids == (258,)


def test_examples_are_written_as_the_dialogue_itself() -> None:
    tokenizer = bytelevel()
    form = few_shot_format(tokenizer, [[Exchange("1+1=?", "2")], [Exchange("a?", "b"), Exchange("c", "d")]])
    renderer = Renderer(tokenizer, {"t": form})
    assert tokenizer.decode(renderer.open("2+2=?", "t")) == (
        "Question: 1+1=?\nAnswer: 2\nQuestion: a?\nAnswer: b\nc\nAnswer: d\nQuestion: 2+2=?\nAnswer:"
    )
    assert set(renderer.stop_ids) == {ord("\n"), 258}


def test_a_format_that_a_model_has_not_is_refused() -> None:
    with pytest.raises(ConfigError, match="no chat template"):
        chat_format(bytelevel(None))
    with pytest.raises(ConfigError, match="can't be rendered"):
        chat_format(bytelevel("{{ raise_exception('no') }}"))
    with pytest.raises(ConfigError, match="put each message down once"):
        chat_format(bytelevel("{{ messages[0]['content'] }}"))


def test_a_tokenizer_without_a_spelling_for_every_byte_is_refused() -> None:
    with pytest.raises(ConfigError, match="every byte"):
        PretrainedTokenizer(
            {"model": {"type": "WordPiece"}}, 8, Specials(bos_id=None, eos_ids=(), chat_template=None)
        )


def test_ids_past_the_vocabulary_have_no_text() -> None:
    with pytest.raises(ValueError, match="outside"):
        bytelevel().decode(np.asarray([999]))
