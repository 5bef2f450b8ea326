"""The embedded base model: safetensors weights with a checksum, verified before they are used."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from tunix_core.errors import AssetError
from tunix_core.model.config import ModelConfig

ASSETS = Path(__file__).resolve().parent.parent / "assets"
REMEDY = "reinstall the package, or rebuild the file with `bench warmstart`"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseModel:
    """Frozen weights (nested dict of host arrays, the decoder's own layout), their config and their hash."""

    name: str
    config: ModelConfig
    params: dict[str, Any]
    sha256: str

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return sum(x.size for x in flatten(self.params).values())


def flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, np.ndarray]:
    """Nested dict to dotted names."""
    out: dict[str, np.ndarray] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            out.update(flatten(value, f"{prefix}{key}."))
        else:
            out[f"{prefix}{key}"] = np.asarray(value)
    return out


def unflatten(flat: dict[str, np.ndarray]) -> dict[str, Any]:
    """Dotted names to nested dict."""
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        *path, leaf = name.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[leaf] = value
    return tree


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, hex."""
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def check_asset(name: str = "embedded", folder: Path | None = None) -> dict[str, Any]:
    """Reads the model's card and verifies the weights' checksum, without loading them.

    Raises AssetError naming the file, the fault and the remedy.
    """
    folder = folder or ASSETS
    card_path, weights = folder / f"{name}.json", folder / f"{name}.safetensors"
    for path in (card_path, weights):
        if not path.is_file():
            raise AssetError(f"model {name!r}: {path} is missing; {REMEDY}")
    try:
        card = json.loads(card_path.read_text())
        expected = card["sha256"]
    except (ValueError, KeyError) as e:
        raise AssetError(f"model {name!r}: {card_path} is not a model card ({e}); {REMEDY}") from e
    actual = file_sha256(weights)
    if actual != expected:
        raise AssetError(
            f"model {name!r}: {weights} has been altered (sha256 {actual[:12]}…, expected {expected[:12]}…); {REMEDY}"
        )
    return card


def load_base(name: str = "embedded", folder: Path | None = None) -> BaseModel:
    """Loads a model whose checksum holds. Weights are stored as float16 and computed with as float32."""
    card = check_asset(name, folder)
    path = (folder or ASSETS) / f"{name}.safetensors"
    try:
        flat = load_file(path)
    except SafetensorError as e:
        raise AssetError(f"model {name!r}: {path} cannot be read ({e}); {REMEDY}") from e
    params = unflatten({k: v.astype(np.float32) for k, v in flat.items()})
    config = ModelConfig.from_mapping(card["config"])
    return BaseModel(name=name, config=config, params=params, sha256=card["sha256"])


def save_base(params: dict[str, Any], config: ModelConfig, folder: Path, name: str, **card: Any) -> str:
    """Writes weights (float16) and card; returns the weights' sha256."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.safetensors"
    save_file({k: np.ascontiguousarray(v.astype(np.float16)) for k, v in flatten(params).items()}, path)
    digest = file_sha256(path)
    head = {"name": name, "parameters": sum(x.size for x in flatten(params).values()), "sha256": digest}
    text = json.dumps({**head, "config": config.as_dict(), **card}, indent=1)
    (folder / f"{name}.json").write_text(text + "\n")
    return digest
