"""The front page: one sortable table, ranked within what may be compared."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from leaderboard.row import TIERS, Row
from leaderboard.site import downloads
from leaderboard.site.html import Markup, asset, join, page, tag

INTRO = (
    "Asynchronous against synchronous RL post-training of many LoRA tenants on one base model. Every number "
    "here was recomputed from raw lines, and every reward graded again from its transcript."
)
CPU_BANNER = (
    "Hardware class cpu-sim: these runs used a CPU. The formulas are the same, but the ratios don't carry "
    "over to accelerators."
)
LIMITS = (
    "A made-up trace that is consistent in every detail passes T1. Ranks are ranges: entries whose intervals "
    "overlap share them; an entry without an interval (one seed), cut short by --limit, superseded, or less accurate "
    "than its baseline (parity: fail) has no rank. Underpowered: too few items and seeds to tell."
)

# title, kind, which way the first click sorts
COLUMNS = (
    ("Rank", "number", "ascending"),
    ("Submission", "text", "ascending"),
    ("Tier", "text", "descending"),
    ("Hardware", "text", "ascending"),
    ("Latency", "text", "ascending"),
    ("Tenants", "number", "descending"),
    ("Speed-up", "number", "descending"),
    ("Accuracy", "number", "descending"),
    ("Parity", "number", "descending"),
    ("Time", "number", "ascending"),
    ("Time less", "number", "descending"),
    ("Busy", "number", "descending"),
    ("Useful", "number", "descending"),
    ("Staleness", "number", "ascending"),
    ("Goodput", "number", "descending"),
    ("Recompiles", "number", "ascending"),
    ("Seeds", "number", "descending"),
    ("Date", "text", "descending"),
)


def render(rows: Sequence[Row]) -> str:
    """Returns the page."""
    ranks = rank_ranges(rows)
    superseded = {row.supersedes for row in rows}
    ordered = sorted(rows, key=lambda row: (ranks.get(row.slug, (10**9, 0)), row.slug))
    hardware = sorted({row.device_class for row in rows})
    header = tag(
        "tr",
        *(
            tag(
                "th",
                tag("button", title, type="button"),
                scope="col",
                aria_sort="none",
                data_kind=kind,
                data_first=first,
                class_="text" if kind == "text" else None,
            )
            for title, kind, first in COLUMNS
        ),
    )
    table = tag(
        "table",
        tag("caption", "Submissions. A click on a column sorts by it.", class_="note"),
        tag("thead", header),
        tag("tbody", *(_row(row, ranks.get(row.slug), row.slug in superseded) for row in ordered)),
        id="board",
    )
    filters = tag(
        "div",
        tag("label", "Search", Markup('<input id="search" type="search" autocomplete="off">')),
        tag(
            "label",
            "Hardware",
            tag(
                "select", tag("option", "all", value=""), *(tag("option", h) for h in hardware), id="hardware"
            ),
        ),
        tag("span", id="shown", class_="note", aria_live="polite"),
        class_="filters",
    )
    tiers = tag("ul", *(tag("li", f"{tier} {name}: {what}") for tier, (name, what) in TIERS.items()))
    return page(
        "Asynchronous RL board",
        tag("h1", "Asynchronous RL board"),
        tag("p", INTRO, class_="note"),
        tag("p", CPU_BANNER, class_="banner") if "cpu-sim" in hardware else "",
        filters,
        tag("div", table, class_="scroll"),
        tag("p", *downloads.links()),
        tag("h2", "What a tier proves"),
        tiers,
        tag("p", LIMITS, class_="note"),
        code=join((asset("sort.js"), asset("board.js"))),
    )


def rank_ranges(rows: Sequence[Row]) -> dict[str, tuple[int, int]]:
    """Returns {slug: (best, worst) rank} within equal suite, hardware class and latency profile."""
    boards: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    superseded = {row.supersedes for row in rows}
    for row in rows:
        if row.slug in superseded:
            continue
        known = row.headline is not None and row.headline.low is not None and row.headline.high is not None
        worse_accuracy = row.parity is not None and row.parity.verdict == "fail"
        if known and not row.limit_applied and not worse_accuracy and row.tier != "T0":
            boards[row.suite_version, row.device_class, row.latency_profile].append(row)
    ranks: dict[str, tuple[int, int]] = {}
    for board in boards.values():
        for row in board:
            low, high = _interval(row)
            better = sum(_interval(other)[0] > high for other in board)
            worse = sum(_interval(other)[1] < low for other in board)
            ranks[row.slug] = (1 + better, len(board) - worse)
    return ranks


def _row(row: Row, rank: tuple[int, int] | None, superseded: bool) -> Markup:
    head = row.headline
    arm = row.arms.get(head.arm) if head else next(iter(row.arms.values()), None)
    befores = [t.before for t in arm.accuracy.values() if t.before is not None] if arm else []
    afters = [t.after for t in arm.accuracy.values() if t.after is not None] if arm else []
    before, after = _mean(befores), _mean(afters)
    rank_text = "–" if rank is None else str(rank[0]) if rank[0] == rank[1] else f"{rank[0]}–{rank[1]}"
    interval = f" [{head.low:.2f}, {head.high:.2f}]" if head and head.low and head.high else ""
    labels = [tag("a", row.name, href=f"submissions/{row.slug}.html")]
    if row.limit_applied:
        labels += [" ", tag("span", "limit", class_="badge limit", title="cut short by --limit, not ranked")]
    if superseded:
        labels += [
            " ",
            tag("span", "superseded", class_="badge limit", title="its page names the correction"),
        ]
    latency = tag("span", "simulated", class_="badge simulated") if row.latency_simulated else Markup("")
    accuracy = "" if after is None else f"{_percent(before)} → {_percent(after)}"
    cells = (
        _cell(rank_text, rank[0] if rank else None),
        _cell(join(labels), row.name, kind="text wrap"),
        _cell(tier_badge(row.tier), row.tier, kind="text"),
        _cell(f"{row.device_class}, {len(row.devices)}×", row.device_class, kind="text"),
        _cell(join((row.latency_profile, " ", latency)), row.latency_profile, kind="text"),
        _cell(len(row.tenants), len(row.tenants)),
        _cell(f"{head.speedup:.2f}×{interval}" if head else "", head.speedup if head else None),
        _cell(accuracy, after),
        _cell(parity_badge(row), row.parity.difference if row.parity else None),
        _cell(f"{arm.t_work:.1f} s" if arm else "", arm.t_work if arm else None),
        _cell(_percent(head.time_reduction) if head else "", head.time_reduction if head else None),
        _cell(_percent(arm.util_busy) if arm else "", arm.util_busy if arm else None),
        _cell(_percent(arm.util_useful) if arm else "", arm.util_useful if arm else None),
        _cell(_number(arm.staleness_mean) if arm else "", arm.staleness_mean if arm else None),
        _cell(_percent(arm.goodput) if arm else "", arm.goodput if arm else None),
        _cell(arm.recompiles if arm else "", arm.recompiles if arm else None),
        _cell(row.seeds, row.seeds),
        _cell(row.created_utc[:10], row.created_utc, kind="text"),
    )
    return tag("tr", *cells, data_hardware=row.device_class)


def tier_badge(tier: str) -> Markup:
    """Returns the badge of a tier, with what it proves as a tooltip."""
    name, what = TIERS[tier]
    return tag("span", f"{tier} {name}", class_=f"badge tier tier-{tier.lower()}", title=what)


def parity_badge(row: Row) -> Markup:
    """Returns whether accuracy held, as a word, with its bound as a tooltip."""
    if row.parity is None:
        return Markup("")
    p = row.parity
    about = (
        f"{100 * p.difference:+.1f} points, one-sided 95 % bound {100 * p.low:+.1f}, margin -{100 * p.margin:.0f}, "
        f"{p.n} {p.unit}"
    )
    return tag(
        "span", f"{p.verdict} {100 * p.difference:+.1f}", class_=f"badge parity-{p.verdict}", title=about
    )


def _cell(shown: object, value: object, *, kind: str | None = None) -> Markup:
    return tag("td", shown, class_=kind, data_value="" if value is None else value)


def _interval(row: Row) -> tuple[float, float]:
    assert row.headline is not None and row.headline.low is not None and row.headline.high is not None
    return row.headline.low, row.headline.high


def _mean(values: list[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
