"""E182: secrets and private paths in what is about to be published."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from leaderboard.verify.report import Finding, error, warning

# transcripts are left out: a policy's random text may look like anything
SCANNED = ("run.json", "system.json", "events.jsonl", "metrics.jsonl", "submission.toml")
MAX_SCANNED_BYTES = 256 * 2**20

_SECRETS = {
    "a private key": re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "an access token": re.compile(
        rb"\b(?:ghp_|gho_|github_pat_|glpat-|hf_|sk-|xox[abps]-|AKIA)[A-Za-z0-9_\-]{16,}"
    ),
    "a password in a URL": re.compile(rb"[a-z][a-z0-9+.\-]{1,20}://[^/\s:@\"]{1,64}:[^/\s:@\"]{1,128}@"),
    "a secret setting": re.compile(
        rb"(?i)[\"']?[a-z0-9_]{0,40}(?:api_key|_token|_secret|password)[\"']?\s{0,3}[=:]\s{0,3}[\"']?[A-Za-z0-9+/_\-]{16,}"
    ),
}
_HOME = re.compile(rb"(?:/home/|/Users/|/root/|[A-Z]:\\\\Users\\\\)[^\s\"'/\\]{1,40}")


def secrets(directory: Path) -> Iterator[Finding]:
    """Refuses secrets and warns of home directories; shows neither."""
    for name in SCANNED:
        path = directory / name
        if not path.is_file() or path.stat().st_size > MAX_SCANNED_BYTES:
            continue
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                for what, pattern in _SECRETS.items():
                    if pattern.search(line):
                        yield error(
                            "E182", f"{name}:{number}", f"holds {what}", "revoke it, and run without it"
                        )
                if _HOME.search(line):
                    yield warning("E182", f"{name}:{number}", "holds a path below a home directory")
