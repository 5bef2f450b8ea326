"""One face for every kind of checkpoint, and the loading of its weights leaf by leaf."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from tunix_core.errors import AssetError
from tunix_core.model.config import ModelConfig, parameter_shapes
from tunix_core.model.load import BaseModel, file_sha256, unflatten
from tunix_core.pretrained.tokenizer import PretrainedTokenizer


class Checkpoint(Protocol):
    """A model on disk. Opening it reads no weight.

    files: everything that decides what the model computes; architecture and licence: as it says them, '' where it
    doesn't.
    """

    files: tuple[Path, ...]
    architecture: str
    licence: str
    config: ModelConfig

    def tensor(self, leaf: str, layer: int | None) -> np.ndarray:
        """One weight as float32, in the decoder's orientation. Raises AssetError where it is missing."""
        ...

    def unused(self, read: set[str]) -> list[str]:
        """Names of weights in the file that are not among those `read`: the decoder has no place for them."""
        ...

    def stored_name(self, leaf: str, layer: int | None) -> str:
        """What the checkpoint calls a weight."""
        ...

    def tokenizer(self) -> PretrainedTokenizer:
        """Its tokenizer, chat template included."""
        ...


def open_model(path: Path) -> Checkpoint:
    """Opens a Hugging Face folder, a GGUF file, or a folder with one GGUF file.

    Raises AssetError for anything else.
    """
    from tunix_core.pretrained.gguf_file import GGUFCheckpoint
    from tunix_core.pretrained.hf import HFCheckpoint

    if path.is_file() and path.suffix == ".gguf":
        return GGUFCheckpoint(path)
    if (path / "config.json").is_file():
        return HFCheckpoint(path)
    found = sorted(path.glob("*.gguf")) if path.is_dir() else []
    if len(found) == 1:
        return GGUFCheckpoint(found[0])
    raise AssetError(
        f"{path} is no model: it is neither a .gguf file, nor a folder with config.json and *.safetensors, nor a "
        f"folder with one .gguf file ({len(found)} there)"
    )


def leaves(checkpoint: Checkpoint) -> Iterator[tuple[str, np.ndarray]]:
    """The decoder's weights by dotted name, float32, a leaf at a time: no more than one of them is held here.

    Raises AssetError for a weight that is missing or of another shape, and for weights that would be left over.
    """
    read: set[str] = set()
    for leaf, shape in parameter_shapes(checkpoint.config).items():
        stacked = leaf.startswith("layers.")
        value = np.empty(shape, np.float32)
        for layer in range(shape[0]) if stacked else [None]:
            tensor = checkpoint.tensor(leaf, layer)
            target = value if layer is None else value[layer]
            name = checkpoint.stored_name(leaf, layer)
            if tensor.shape != target.shape:
                raise AssetError(
                    f"{checkpoint.files[0]}: {name} is {list(tensor.shape)}, its config asks for {list(target.shape)}"
                )
            target[...] = tensor
            read.add(name)
        yield leaf, value
    if left := checkpoint.unused(read):
        raise AssetError(
            f"{checkpoint.files[0]}: {len(left)} weights have no place in the decoder, e.g. {', '.join(left[:3])}; "
            "this architecture is not supported"
        )


def load_weights(checkpoint: Checkpoint, name: str) -> BaseModel:
    """The whole base model on the host, float32, with the hash of the files it came from."""
    params = unflatten(dict(leaves(checkpoint)))
    return BaseModel(name=name, config=checkpoint.config, params=params, sha256=content_sha256(checkpoint))


def content_sha256(checkpoint: Checkpoint) -> str:
    """Hash of a single file; of several, the hash of their names and hashes."""
    if len(checkpoint.files) == 1:
        return file_sha256(checkpoint.files[0])
    each = {path.name: file_sha256(path) for path in checkpoint.files}
    return hashlib.sha256(json.dumps(each, sort_keys=True).encode()).hexdigest()
