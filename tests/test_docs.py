"""The examples of the documentation run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"


def test_the_example_of_testing_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (DOCS / "testing.md").read_text(), flags=re.S)
    names: dict[str, object] = {"__name__": "example"}
    exec(compile(example, "docs/testing.md", "exec"), names)
    assert "paid" in names


def test_every_hook_is_named() -> None:
    from tunix_core import testing

    text = (DOCS / "testing.md").read_text()
    for hook in (
        "BatchDump",
        "CompletionOrder",
        "Recorder",
        "ScriptedEnvs",
        "ScriptedSampler",
        "VirtualClock",
    ):
        assert hook in testing.__all__ and hook in text
