"""The tokenizer that a GGUF file describes, as the content of a tokenizer.json."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tunix_core.errors import ConfigError
from tunix_core.pretrained.tokenizer import PretrainedTokenizer, Specials

_CONTROL, _USER_DEFINED, _UNKNOWN = 3, 4, 2
"""Kinds of tokens that are no ordinary pieces, by GGUF's numbers."""
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_SPLITS = {"llama-bpe": _LLAMA3, "llama3": _LLAMA3, "qwen2": _QWEN2}
"""How text is split before merging, by the file's `tokenizer.ggml.pre`; as these families' tokenizer.json say it."""


def tokenizer_of(field: Callable[..., Any], vocab_size: int, path: Path) -> PretrainedTokenizer:
    """Builds the tokenizer; `field` reads metadata. Raises ConfigError for a kind that is not supported."""
    tokens: list[str] = field("tokenizer.ggml.tokens")
    kinds: list[int] = field("tokenizer.ggml.token_type")
    kind, pre = field("tokenizer.ggml.model"), field("tokenizer.ggml.pre", "default")
    if kind == "gpt2":
        model, splitting = _bytelevel(tokens, field("tokenizer.ggml.merges"), pre, path)
    elif kind == "llama":
        model, splitting = _sentencepiece(tokens, kinds, field("tokenizer.ggml.scores")), None
    else:
        raise ConfigError(f"{path}: tokenizer {kind!r} is not supported; supported are 'gpt2' and 'llama'")
    added = [
        {"id": i, "content": token, "special": k != _USER_DEFINED, "single_word": False}
        for i, (token, k) in enumerate(zip(tokens, kinds, strict=True))
        if k in (_CONTROL, _USER_DEFINED, _UNKNOWN)
    ]
    eos = {field(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom")} - {None}
    bos = (
        field("tokenizer.ggml.bos_token_id")
        if field("tokenizer.ggml.add_bos_token", kind == "llama")
        else None
    )
    specials = Specials(
        bos_id=bos, eos_ids=tuple(sorted(eos)), chat_template=field("tokenizer.chat_template")
    )
    description = {"added_tokens": added, "pre_tokenizer": splitting, "model": model}
    return PretrainedTokenizer(description, vocab_size, specials)


def _bytelevel(
    tokens: list[str], merges: list[str], pre: str, path: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    model = {
        "type": "BPE",
        "vocab": {token: i for i, token in enumerate(tokens)},
        "merges": [merge.split(" ") for merge in merges],
        "ignore_merges": pre in ("llama-bpe", "llama3"),
    }
    letters = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    if pre == "smollm":
        parts = [{"type": "Digits", "individual_digits": True}, letters | {"use_regex": True}]
    elif pre in _SPLITS:
        split = {"type": "Split", "pattern": {"Regex": _SPLITS[pre]}, "behavior": "Isolated", "invert": False}
        parts = [split, letters | {"use_regex": False}]
    else:
        raise ConfigError(
            f"{path}: text splitting {pre!r} is not supported; supported are smollm, {', '.join(_SPLITS)}"
        )
    return model, {"type": "Sequence", "pretokenizers": parts}


def _sentencepiece(tokens: list[str], kinds: list[int], scores: list[float]) -> dict[str, Any]:
    """SentencePiece merges whichever pair makes the piece of the highest score: that order is BPE's list of merges."""
    rank = {token: i for i, token in enumerate(tokens)}
    # what is matched whole, or stands for a byte, is never a part of a merge
    plain = {t for t, k in zip(tokens, kinds, strict=True) if k == 1}
    order = sorted((t for t in plain if len(t) > 1), key=lambda t: (-scores[rank[t]], rank[t]))
    merges = [
        [piece[:i], piece[i:]]
        for piece in order
        for i in range(1, len(piece))
        if piece[:i] in plain and piece[i:] in plain
    ]
    unknown = next((t for t, k in zip(tokens, kinds, strict=True) if k == _UNKNOWN), None)
    return {
        "type": "BPE",
        "vocab": rank,
        "merges": merges,
        "byte_fallback": True,
        "fuse_unk": True,
        "unk_token": unknown,
    }
