"""A checkpoint's tokenizer with the promises that a trainer needs.

Ids spell text: the text of ids is the concatenation of what each of them spells, so a record can be checked
against a list of spellings, without the tokenizer. No text encodes to a control id, so no observation can forge
a turn. And text encodes to ids that spell it and nothing else: what a tokenizer would add or normalise (a space
before the first word, Unicode composition) is switched off.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tunix_core.errors import ConfigError

SPACE = "▁"
"""What SentencePiece writes for a space."""
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Specials:
    """What a checkpoint says of its controls. `bos_id` is None where a context opens without one."""

    bos_id: int | None
    eos_ids: tuple[int, ...]
    chat_template: str | None


class PretrainedTokenizer:
    """Wraps a `tokenizers` model (byte-level BPE, or SentencePiece-like BPE that falls back to bytes)."""

    def __init__(self, description: dict[str, Any], vocab_size: int, specials: Specials) -> None:
        """`description` is the content of a tokenizer.json; `vocab_size` the model's, unused ids included."""
        from tokenizers import Tokenizer as Rust  # pyright: ignore[reportMissingImports]

        exact, bytelevel = _exact(description)
        self.vocab_size = vocab_size
        self.specials = specials
        self._rust = Rust.from_str(json.dumps(exact))
        self._rust.encode_special_tokens = True
        self.spellings = _spellings(exact, vocab_size, bytelevel=bytelevel)
        self._names = {t["content"]: t["id"] for t in exact["added_tokens"] if t["special"]}
        self._ids_of_names = {i: name for name, i in self._names.items()}

    def encode(self, text: str) -> np.ndarray:
        """Ids int32 [n] that spell a text; never a control id."""
        clean = text.encode("utf-8", "replace").decode()
        return np.asarray(self._rust.encode(clean, add_special_tokens=False).ids, np.int32)

    def encode_template(self, text: str) -> np.ndarray:
        """Ids int32 [n] of a template's own text, in which the names of controls stand for them."""
        if not self._names:
            return self.encode(text)
        parts = re.split(
            "(" + "|".join(sorted(map(re.escape, self._names), key=len, reverse=True)) + ")", text
        )
        ids = [
            np.asarray([self._names[part]], np.int32) if i % 2 else self.encode(part)
            for i, part in enumerate(parts)
            if part
        ]
        return np.concatenate([np.zeros(0, np.int32), *ids]).astype(np.int32)

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """What ids spell; invalid UTF-8 shows as U+FFFD, controls as nothing."""
        return spell(np.asarray(ids, np.int64).tolist(), self.spellings)

    def token_text(self, token_id: int) -> str:
        """One id for human eyes."""
        if not 0 <= token_id < self.vocab_size:
            raise ValueError(f"Token id {token_id} is outside 0..{self.vocab_size - 1}.")
        spelling = self.spellings[token_id]
        if spelling is None:
            return self._ids_of_names.get(token_id, f"<unused {token_id}>")
        return "".join(
            c if c.isprintable() and c != "�" else c.encode("unicode_escape").decode()
            for c in spelling.decode("utf-8", "replace")
        )

    def ids_with(self, text: str) -> tuple[int, ...]:
        """All ids whose spelling contains a text."""
        wanted = text.encode()
        return tuple(i for i, s in enumerate(self.spellings) if s is not None and wanted in s)

    @functools.cached_property
    def sha256(self) -> str:
        """Hash of the spellings: what decides which text ids stand for."""
        return hashlib.sha256(json.dumps(as_json(self.spellings)).encode()).hexdigest()


def spell(ids: Sequence[int], spellings: Sequence[bytes | None]) -> str:
    """Text of ids; a byte sequence never reaches across a control."""
    pieces: list[str] = []
    run = bytearray()
    for i in ids:
        if not 0 <= i < len(spellings):
            raise ValueError(f"Token id {i} is outside 0..{len(spellings) - 1}.")
        if (piece := spellings[i]) is None:
            pieces.append(run.decode("utf-8", "replace"))
            run.clear()
        else:
            run += piece
    pieces.append(run.decode("utf-8", "replace"))
    return "".join(pieces)


def as_json(spellings: Sequence[bytes | None]) -> list[str | None]:
    """Spellings for a file: each byte a character of Latin-1."""
    return [None if s is None else s.decode("latin-1") for s in spellings]


def _exact(description: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The description without what would change text, and whether its pieces are byte-level."""
    model = description.get("model") or {}
    parts = _parts(description.get("pre_tokenizer"), "pretokenizers")
    bytelevel = any(p["type"] == "ByteLevel" for p in parts)
    if model.get("type") != "BPE" or not (bytelevel or model.get("byte_fallback")):
        raise ConfigError(
            f"tokenizer: a {model.get('type')!r} model without a spelling for every byte is not supported; "
            "supported are byte-level BPE and BPE with byte fallback"
        )
    for part in parts:
        if part["type"] == "ByteLevel":
            part["add_prefix_space"] = False
        if part["type"] == "Metaspace":
            part["prepend_scheme"] = "never"
    normalizer = None if bytelevel else {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    if any(p["type"] == "Metaspace" for p in parts):
        normalizer = None
    added = [
        dict(t, normalized=False, lstrip=False, rstrip=False) for t in description.get("added_tokens", ())
    ]
    pre = {"type": "Sequence", "pretokenizers": parts} if parts else None
    kept = {"version": "1.0", "truncation": None, "padding": None, "post_processor": None, "decoder": None}
    return {
        **kept,
        "added_tokens": added,
        "normalizer": normalizer,
        "pre_tokenizer": pre,
        "model": model,
    }, bytelevel


def _parts(node: dict[str, Any] | None, key: str) -> list[dict[str, Any]]:
    if node is None:
        return []
    return [dict(p) for p in node[key]] if node["type"] == "Sequence" else [dict(node)]


def _spellings(description: dict[str, Any], vocab_size: int, *, bytelevel: bool) -> list[bytes | None]:
    """What each id spells; None for controls and for ids without a piece."""
    out: list[bytes | None] = [None] * vocab_size
    letters = {c: b for b, c in byte_letters().items()}
    for piece, i in description["model"]["vocab"].items():
        if i >= vocab_size:
            raise ConfigError(f"tokenizer: id {i} of {piece!r} is past the model's {vocab_size} embeddings")
        if bytelevel and all(c in letters for c in piece):
            out[i] = bytes(letters[c] for c in piece)
        elif not bytelevel and (byte := _BYTE.fullmatch(piece)):
            out[i] = bytes([int(byte.group(1), 16)])
        else:
            out[i] = (piece if bytelevel else piece.replace(SPACE, " ")).encode()
    unknown = description["model"].get("unk_token")
    if unknown is not None and unknown in description["model"]["vocab"]:
        out[description["model"]["vocab"][unknown]] = None
    for token in description["added_tokens"]:
        if token["id"] >= vocab_size:
            raise ConfigError(
                f"tokenizer: id {token['id']} of {token['content']!r} is past the model's {vocab_size} embeddings"
            )
        out[token["id"]] = None if token["special"] else token["content"].replace(SPACE, " ").encode()
    return out


@functools.lru_cache(maxsize=1)
def byte_letters() -> dict[int, str]:
    """The printable letter by which byte-level BPE writes each byte (Radford et al. 2019, GPT-2)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}
