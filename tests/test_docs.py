"""The examples of the documentation run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tunix_core import ADVANTAGES, AGGREGATIONS, KL_ESTIMATORS, POLICY_LOSSES

DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.mark.parametrize("page", ["testing", "training"])
def test_the_example_runs(page: str) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(), flags=re.S)
    names: dict[str, object] = {"__name__": "example"}
    exec(compile(example, f"docs/{page}.md", "exec"), names)


def test_every_choice_of_the_loss_is_named() -> None:
    text = (DOCS / "training.md").read_text()
    for choices in (ADVANTAGES, POLICY_LOSSES, KL_ESTIMATORS, AGGREGATIONS):
        assert all(f"`{name}`" in text for name in choices)


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
