"""The documentation says what the code does."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_page_of_metrics_is_made_from_the_registry() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_metrics.py"))
    assert (ROOT / "docs" / "metrics.md").read_text() == made["page"]()


def test_links_of_the_readme_and_the_docs_lead_somewhere() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_short_name_the_readme_tells_is_a_task() -> None:
    import tasks

    table = (ROOT / "README.md").read_text().split("## Tasks")[1].split("**Adding")[0]
    rows = re.findall(r"^\| (`[^|]+) \| (`[^|]+) \|", table, re.MULTILINE)
    assert len(rows) >= 6
    for names, ids in rows:
        found = {tasks.resolve(n) for n in re.findall(r"`([^`]+)`", names)}
        assert found == set(re.findall(r"`([^`]+)`", ids))


def test_recipes_are_valid_configurations() -> None:
    from bench.config import resolve

    for path in (ROOT / "recipes").glob("*.toml"):
        assert resolve(path, {}, [], {}).config.tasks
