"""Hugging Face folders: config.json, safetensors in shards, tokenizer.json, chat template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from tunix_core.errors import AssetError
from tunix_core.pretrained.hf_config import config_of, read_json
from tunix_core.pretrained.names import hf_name, is_matrix
from tunix_core.pretrained.tokenizer import PretrainedTokenizer, Specials


class HFCheckpoint:
    """One folder. Tensors are read one by one; nothing else of a shard is held."""

    def __init__(self, folder: Path) -> None:
        """Reads config.json and the shards' headers.

        Raises AssetError for a shard that is missing or cut, ConfigError for what the decoder can't do.
        """
        self.folder = folder
        self._json = read_json(folder / "config.json")
        self._place = _place_of_tensors(folder)
        shards = sorted(set(self._place.values()))
        self.files = (*shards, folder / "config.json")
        self.architecture = str((self._json.get("architectures") or [self._json.get("model_type", "")])[0])
        self.licence = _licence(folder)
        # a checkpoint may leave this out; what is stored decides where it doesn't say
        tied = {"tie_word_embeddings": "lm_head.weight" not in self._place}
        self.config = config_of(tied | self._json, folder / "config.json")

    def stored_name(self, leaf: str, layer: int | None) -> str:
        """Its name in the shards."""
        return hf_name(leaf, layer)

    def tensor(self, leaf: str, layer: int | None) -> np.ndarray:
        """One weight as float32; Gemma's gains get the 1 that its norm adds."""
        name = self.stored_name(leaf, layer)
        shard = self._place.get(name)
        if shard is None:
            raise AssetError(f"{self.folder}: {name} is missing from its safetensors")
        try:
            with safe_open(shard, framework="numpy") as opened:
                value = opened.get_tensor(name)
        except SafetensorError as error:
            raise AssetError(f"{shard}: {name} can't be read ({error})") from error
        value = np.asarray(value, np.float32)
        if self.config.post_norms and leaf.endswith(".scale"):
            value = value + 1.0
        return np.ascontiguousarray(value.T) if is_matrix(leaf) else value

    def unused(self, read: set[str]) -> list[str]:
        """Weights that nobody asked for; a tied head and tables of angles are stored by some, and not needed."""
        left = self._place.keys() - read
        tied = {"lm_head.weight"} if self.config.tie_word_embeddings else set()
        return sorted(n for n in left - tied if not n.endswith("rotary_emb.inv_freq"))

    def tokenizer(self) -> PretrainedTokenizer:
        """From tokenizer.json, tokenizer_config.json and chat_template.jinja."""
        settings = _optional(self.folder / "tokenizer_config.json")
        description = read_json(self.folder / "tokenizer.json")
        ids = {t["content"]: t["id"] for t in description.get("added_tokens", ())}
        ids = {**description["model"]["vocab"], **ids}
        generation = _optional(self.folder / "generation_config.json")
        eos: set[Any] = {ids.get(_content(settings.get("eos_token")))}
        for source in (self._json, generation):
            said = source.get("eos_token_id")
            eos |= set(said) if isinstance(said, list) else {said}
        template = settings.get("chat_template")
        if isinstance(template, list):  # several, by name
            template = next((t["template"] for t in template if t.get("name") == "default"), None)
        file = self.folder / "chat_template.jinja"
        specials = Specials(
            bos_id=_bos(description, settings, ids),
            eos_ids=tuple(sorted(eos - {None})),
            chat_template=file.read_text(encoding="utf-8") if file.is_file() else template,
        )
        return PretrainedTokenizer(description, self.config.vocab_size, specials)


def _place_of_tensors(folder: Path) -> dict[str, Path]:
    """Which shard holds each tensor; names without a multimodal wrapper's prefix."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        shards = sorted({folder / name for name in read_json(index)["weight_map"].values()})
    else:
        shards = sorted(folder.glob("*.safetensors"))
    if not shards:
        raise AssetError(f"{folder} holds no *.safetensors; fetch the model again")
    place: dict[str, Path] = {}
    for shard in shards:
        if not shard.is_file():
            raise AssetError(f"{shard} is missing, {index.name} names it; fetch the model again")
        try:
            with safe_open(shard, framework="numpy") as opened:
                place |= dict.fromkeys(opened.keys(), shard)
        except SafetensorError as error:
            raise AssetError(f"{shard} is cut or altered ({error}); fetch the model again") from error
    return place


def _bos(description: dict[str, Any], settings: dict[str, Any], ids: dict[str, int]) -> int | None:
    """The control that opens a context: if the tokenizer's own post-processing would add it."""
    token = _content(settings.get("bos_token"))
    adds = settings.get("add_bos_token")
    if adds is None:
        adds = token is not None and json.dumps(token) in json.dumps(description.get("post_processor") or {})
    return ids.get(token) if adds and token is not None else None


def _content(token: Any) -> Any:
    return token.get("content") if isinstance(token, dict) else token


def _optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _licence(folder: Path) -> str:
    """The `license:` line of the model card's front matter."""
    card = folder / "README.md"
    if not card.is_file():
        return ""
    head = card.read_text(encoding="utf-8", errors="replace").split("---")
    lines = head[1].splitlines() if len(head) > 2 else []
    return next((li.partition(":")[2].strip() for li in lines if li.startswith("license:")), "")
