"""The fifteen figures: what they show is what the metrics say, and what a record lacks is said in a sentence."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from bench.report import headline, render
from bench.report.figure import Figure
from bench.report.figures import all_figures
from bench.report.figures.device import over_time, representative
from bench.report.material import Material, gather, mean_of_trees
from bench.report.numbers import Number, written
from leaderboard import metrics
from leaderboard.metrics.work import work_window
from tests.leaderboard import golden

KEYS = [
    "accuracy", "ratios", "seeds", "timeline", "breakdown", "utilization", "staleness", "ledger", "padding",
    "fairness", "frontier", "scaling", "profile", "environment",
]  # fmt: skip


@pytest.fixture(scope="session")
def figures(material: Material) -> dict[str, Figure]:
    return {figure.key: figure for figure in all_figures(material)}


def test_there_are_fourteen_below_the_headline_each_with_data_or_a_sentence(
    figures: dict[str, Figure],
) -> None:
    assert sorted(figures) == sorted(KEYS)
    for figure in figures.values():
        assert bool(figure.absent) != bool(figure.drawings or figure.tables), figure.key
    assert {key for key, figure in figures.items() if figure.absent} == {"fairness", "frontier", "scaling"}


def test_what_is_absent_names_the_command_that_makes_it(figures: dict[str, Figure]) -> None:
    for figure in figures.values():
        assert not figure.absent or re.search(
            r"`bench (run|study) --?\w", figure.absent.replace("tenants ", "")
        )


def test_every_drawing_has_a_title_and_says_in_words_what_it_shows(figures: dict[str, Figure]) -> None:
    for figure in figures.values():
        for drawing in figure.drawings:
            assert drawing.title and len(drawing.about) > 8, figure.key


def test_every_number_of_every_table_is_in_the_document(
    material: Material, figures: dict[str, Figure]
) -> None:
    for figure in figures.values():
        for table in figure.tables:
            for row in table.rows:
                assert len(row) == len(table.columns), table.caption
                numbers = [part for part in row if isinstance(part, Number)]
                assert all(written(material.document, number) for number in numbers)


def test_shares_of_the_utilization_figure_average_to_the_metrics(material: Material) -> None:
    for view in material.views:
        found = metrics.compute(view)
        shares = over_time(view, view.devices[0])
        assert sum(busy for busy, _ in shares) / len(shares) == pytest.approx(found["util_busy"], abs=1e-6)
        assert sum(useful for _, useful in shares) / len(shares) == pytest.approx(
            found["util_useful"], abs=1e-6
        )


def test_the_representative_stretch_is_as_busy_as_the_whole(material: Material) -> None:
    view = material.views[0]
    start, stop = work_window(view)
    assert representative(view) == (start, stop)  # the made-up run takes less than a minute
    low, high = representative(view, (stop - start) // 4)
    assert start <= low < high <= stop and high - low == (stop - start) // 4
    whole = metrics.compute(view)["util_busy"]
    busy = sum(max(0, min(s.t1_ns, high) - max(s.t0_ns, low)) for s in view.spans) / (high - low)
    assert busy == pytest.approx(whole, abs=0.15)


def test_means_are_taken_where_all_have_a_number() -> None:
    assert mean_of_trees([{"a": 1, "b": {"c": 2.0}}, {"a": 3, "b": {"c": None}}]) == {
        "a": 2,
        "b": {"c": None},
    }


def test_the_frontier_takes_runs_that_differ_in_the_staleness_limit_alone(tmp_path: Path) -> None:
    places = []
    first = golden.build(tmp_path / "k1", seeds=(1, 2))
    for limit, rate in ((1, 0.003), (2, 0.003), (4, 0.003), (8, 0.5)):
        place = tmp_path / f"k{limit}"
        if place != first:
            shutil.copytree(first, place)
        golden.edit_header(
            place, lambda h, n=limit, r=rate: h["config"].update(max_staleness=n, learning_rate=r)
        )
        golden.recompute(place)
        places.append(place)
    material = gather(*places)
    frontier = next(figure for figure in all_figures(material) if figure.key == "frontier")
    assert [row["same_work"] for row in material.document["beside"]] == [True, True, True, False]
    assert len(frontier.drawings) == 3 and [row[0] for row in frontier.tables[0].rows] == ["k1", "k2", "k4"]
    # one page of all that the formats must agree on
    page, text = (render(material, form).decode() for form in ("html", "md"))
    document = json.loads(page.split('id="document">', 1)[1].split("</script>", 1)[0])
    assert document["beside"] == json.loads(json.dumps(material.document["beside"]))
    speed = f"{document['beside'][1]['speedup']:.2f}×"
    assert f">{speed}</span>" in page and f"| {speed} |" in text


def test_the_dotted_line_and_its_intervals_are_those_of_the_metrics(tmp_path: Path) -> None:
    """Golden records are evaluated twice only, so they have no target; a third evaluation gives them one."""
    material = gather(golden.build(tmp_path / "r"))
    own = {
        "target": 0.78, "reached": True, "censored": False,
        **{axis: {"low": 0.1, "high": 0.2, "estimate": 0.15} for axis in ("seconds", "device_seconds", "samples")},
    }  # fmt: skip
    for run in material.document["runs"]:
        run["metrics"]["t_target"] = {"math": own} if run["arm"] == "A1" else {}
    accuracy = next(figure for figure in all_figures(material) if figure.key == "accuracy")
    panel = next(drawing for drawing in accuracy.drawings if drawing.title.endswith(", math"))
    assert "A1 reaches the dotted line between 0.1 and 0.2" in panel.inner()
    assert [row[:2] for row in accuracy.tables[1].rows] == [["A1", "math"]]


def test_all_that_the_headline_says_of_an_arm_stands_in_one_line(material: Material) -> None:
    table = headline.arms(material)
    assert [row[0] for row in table.rows] == ["S1", "A1"]
    assert table.rows[0][3] == "1 (base)"
    speed = material.document["comparison"]["speedup"]
    shown = "".join(p if isinstance(p, str) else written(material.document, p) for p in table.rows[1][3])
    assert shown.startswith(f"{speed:.2f}× [")
