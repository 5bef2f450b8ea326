"""The page in a real browser, from the disk: scripts run, nothing submitted does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from leaderboard.site import build
from leaderboard.submit import submit
from tests.browser import BROWSER, needs_browser
from tests.leaderboard import golden

pytestmark = [pytest.mark.browser, needs_browser]


def dom(page: Path, profile: Path, fragment: str = "") -> str:
    """The page's document after its scripts have run."""
    assert BROWSER is not None
    command = [BROWSER, "--headless", "--disable-gpu", f"--user-data-dir={profile}", "--dump-dom"]
    if os.name == "posix" and os.geteuid() == 0:
        command.append("--no-sandbox")  # the browser refuses its sandbox to root
    command += ["--virtual-time-budget=2000", page.as_uri() + fragment]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.fixture(scope="module")
def site(golden_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("board")
    nasty = "<script>document.title='pwned'</script>"
    submit(golden_run, root / "data", about={"name": f"Zeta {nasty}", "authors": [nasty]})
    submit(golden.build(root / "r2", seeds=(1, 2)), root / "data", about={"name": "Alpha", "authors": ["B"]})
    build(root / "data", root / "site")
    return root / "site"


def test_the_board_opens_from_the_disk_sorts_and_filters(site: Path, tmp_path: Path) -> None:
    page = dom(site / "index.html", tmp_path, "#sort=-1&q=a")
    assert "2 of 2 shown" in page
    assert '<th scope="col" aria-sort="descending"' in page
    assert page.index("Zeta") < page.index("Alpha")
    assert "<title>Asynchronous RL board</title>" in page
    filtered = dom(site / "index.html", tmp_path, "#q=alpha")
    assert "1 of 2 shown" in filtered


def test_a_submission_page_opens_and_runs_nothing(site: Path, tmp_path: Path) -> None:
    path = next(path for path in (site / "submissions").iterdir() if path.name.startswith("zeta"))
    page = dom(path, tmp_path)
    assert "pwned" in page
    assert "<title>Zeta &lt;script&gt;" in page
    assert "<polyline" in page and "<rect" in page
