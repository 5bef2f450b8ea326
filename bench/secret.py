"""Keeps out of a record what is nobody's business: secrets, passwords in URLs, the home directory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

SHORTEST = 6
"""A shorter value is no secret, and would mangle ordinary words."""
_NAME = re.compile(r"(^|_)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(_|$)", re.IGNORECASE)
_URL = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]*://)[^/\s@\"']+@")
_TOKEN = re.compile(r"\b(?:ghp_|gho_|github_pat_|glpat-|hf_|sk-|xox[abps]-|AKIA)[A-Za-z0-9_\-]{16,}")
HIDDEN = "***"


def scrubbed(value: Any, env: Mapping[str, str]) -> Any:
    """A JSON value in which no text holds a secret of the environment, a token, a URL's password or $HOME."""
    secrets = [text for name, text in env.items() if _NAME.search(name) and len(text) >= SHORTEST]
    hidden = dict.fromkeys(sorted(secrets, key=len, reverse=True), HIDDEN)
    home = env.get("HOME", "").rstrip("/")
    return _scrub(value, {**hidden, f"{home}/": "~/"} if home else hidden)


def _scrub(value: Any, hidden: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for text, shown in hidden.items():
            value = value.replace(text, shown)
        return _TOKEN.sub(HIDDEN, _URL.sub(rf"\1{HIDDEN}@", value))
    if isinstance(value, Mapping):
        return {key: _scrub(part, hidden) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_scrub(part, hidden) for part in value]
    return value
