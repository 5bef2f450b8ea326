"""A submission's own page: its arms, drawings, checks and transcripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leaderboard.metrics import METRICS
from leaderboard.records import ArmView, RunRecord
from leaderboard.row import ArmSummary, Row
from leaderboard.schema import EvalLine
from leaderboard.site import plots
from leaderboard.site.board import parity_badge, tier_badge
from leaderboard.site.html import Markup, join, page, tag
from leaderboard.site.svg import Drawing, legend

MAX_TRANSCRIPTS = 60
MAX_TEXT = 2_000

_FIGURES = (
    ("t_work", "t_work", "s"),
    ("util_busy", "util_busy", "%"),
    ("util_useful", "util_useful", "%"),
    ("exposed_generation", "exposed", "%"),
    ("goodput", "goodput", "%"),
    ("padding_train", "padding_waste", "%"),
    ("staleness_mean", "staleness", ""),
    ("staleness_max", "staleness", ""),
    ("recompiles", "recompiles", ""),
)


def render(row: Row, record: RunRecord, rows: Sequence[Row] = ()) -> str:
    """Returns the page of one submission; `rows` are all of its board."""
    return page(
        row.name,
        tag("p", tag("a", "← all submissions", href="../index.html")),
        tag("h1", row.name),
        tag("p", tier_badge(row.tier), " ", *_labels(row)),
        tag("p", row.description, class_="note") if row.description else "",
        *_corrections(row, rows),
        tag("h2", "Arms"),
        tag("div", _arms(row), class_="scroll"),
        tag("h2", "Accuracy"),
        tag("p", _simulated(row), class_="note"),
        legend([(plots.arm_ink(arm), arm) for arm in row.order]),
        _drawings("accuracy", _curves(record)),
        tag("div", _accuracy(row), class_="scroll"),
        tag("p", "Parity: ", parity_badge(row), f" {_parity(row)}") if row.parity else "",
        tag("h2", "Device"),
        legend(plots.ROLE_LEGEND, box=True),
        _drawings("device", [plots.timeline(_first_seed(record))]),
        tag("h2", "Run"),
        tag("div", _facts(row), class_="scroll"),
        tag("h2", "Verification"),
        tag("p", ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in row.checked.items())),
        tag("ul", *(tag("li", warning) for warning in row.warnings)),
        tag("h2", "Transcripts of the last evaluation"),
        *_transcripts(record),
    )


def _drawings(identity: str, drawings: list[Drawing]) -> Markup:
    pictures = (drawing.markup(f"{identity}{number}") for number, drawing in enumerate(drawings))
    return tag("div", *pictures, class_="drawings scroll", tabindex=0, role="group", aria_label=identity)


def _curves(record: RunRecord) -> list[Drawing]:
    """One picture a tenant, with every arm and seed."""
    runs = [plots.learnt(view) for view in record.views]
    tenants = dict.fromkeys(tenant for run in runs for tenant in run.curves)
    return [plots.accuracy(runs, tenants=[tenant], name=tenant) for tenant in tenants]


def _first_seed(record: RunRecord) -> list[ArmView]:
    return [view for view in record.views if view.seed == record.views[0].seed]


def _corrections(row: Row, rows: Sequence[Row]) -> Iterable[Markup]:
    if row.supersedes:
        link = tag("a", row.supersedes, href=f"{row.supersedes}.html")
        yield tag("p", "Corrects ", link, f": {row.supersedes_reason}")
    for other in rows:
        if other.supersedes == row.slug:
            link = tag("a", other.slug, href=f"{other.slug}.html")
            yield tag("p", "Superseded by ", link, f": {other.supersedes_reason}", class_="banner")


def _labels(row: Row) -> Iterable[Markup]:
    yield tag("span", f"{row.device_class}: {', '.join(sorted(set(row.devices)))}", class_="badge")
    if row.latency_simulated:
        yield join((" ", tag("span", "simulated latency", class_="badge simulated")))
    if row.limit_applied:
        yield join((" ", tag("span", "limit: cut short, not ranked", class_="badge limit")))


def _simulated(row: Row) -> str:
    if not row.latency_simulated:
        return "The environments' own latency."
    return f"The environments' latency is simulated ({row.latency_profile}: {row.latency_description})."


def _arms(row: Row) -> Markup:
    head = tag(
        "tr",
        tag("th", "", scope="col"),
        *(tag("th", arm, scope="col") for arm in row.order if arm in row.arms),
    )
    lines = []
    for field, metric, unit in _FIGURES:
        about = METRICS[metric]
        title = {"staleness_max": "Staleness, max", "exposed_generation": "Waiting for generation"}.get(
            field, about.title
        )
        name = tag("th", title, scope="row", class_="text", title=f"{about.formula} [{about.unit}]")
        values = (tag("td", _show(getattr(summary, field), unit)) for summary in _in_order(row))
        lines.append(tag("tr", name, *values))
    if row.headline:
        speed = row.headline
        interval = f" [{speed.low:.2f}, {speed.high:.2f}]" if speed.low and speed.high else ", one seed"
        claim = f"{speed.arm} is {speed.speedup:.2f}× as fast as {speed.baseline}{interval}"
        return join((tag("table", tag("thead", head), tag("tbody", *lines)), tag("p", claim)))
    return tag("table", tag("thead", head), tag("tbody", *lines))


def _in_order(row: Row) -> list[ArmSummary]:
    return [row.arms[arm] for arm in row.order if arm in row.arms]


def _accuracy(row: Row) -> Markup:
    head = tag(
        "tr", *(tag("th", title, scope="col") for title in ("Arm", "Tenant", "Before", "After", "Items"))
    )
    lines = [
        tag(
            "tr",
            tag("td", arm, class_="text"),
            tag("td", tenant, class_="text"),
            tag("td", _show(score.before, "%")),
            tag("td", _show(score.after, "%")),
            tag("td", score.n),
        )
        for arm in row.order
        if (summary := row.arms.get(arm)) is not None
        for tenant, score in summary.accuracy.items()
    ]
    return tag("table", tag("thead", head), tag("tbody", *lines))


def _parity(row: Row) -> str:
    p, head = row.parity, row.headline
    assert p is not None and head is not None
    return (
        f"{head.arm} against {head.baseline}: {100 * p.difference:+.1f} points, one-sided 95 % bound "
        f"{100 * p.low:+.1f}, margin -{100 * p.margin:.0f}, n = {p.n} {p.unit}."
    )


def _facts(row: Row) -> Markup:
    facts = {
        "Run": row.run_id,
        "Date": row.created_utc,
        "Suite": row.suite_version,
        "Authors": ", ".join(row.authors),
        "Code": row.code_url or "–",
        "Model": f"{row.model}, {row.parameters:,} parameters",
        "Tenants": "; ".join(f"{tenant}: {', '.join(ids)}" for tenant, ids in row.tenants.items()),
        "Seeds": row.seeds,
        "Merkle root": row.merkle_root,
    }
    lines = (
        tag("tr", tag("th", key, scope="row", class_="text"), tag("td", value, class_="text wrap"))
        for key, value in facts.items()
    )
    return tag("table", tag("tbody", *lines))


def _transcripts(record: RunRecord) -> Iterable[Markup]:
    last = max((line.eval_id for line in record.evals), default=0)
    lines = [line for line in record.evals if line.eval_id == last]
    # every n-th, so that all arms and tenants are among those shown
    step = max(1, -(-len(lines) // MAX_TRANSCRIPTS))
    shown = lines[::step]
    yield tag("p", f"{len(shown)} of {len(lines)}; all are in the bundle.", class_="note")
    for line in shown:
        yield _transcript(line)


def _transcript(line: EvalLine) -> Markup:
    title = f"{line.arm} · {line.tenant} · {line.env_id} item {line.item_index} · reward {line.reward:g}"
    turns = (join((tag("b", turn.role), tag("pre", turn.text[:MAX_TEXT]))) for turn in line.turns)
    return tag("details", tag("summary", f"{title} ({line.grade_status or line.stop})"), *turns)


def _show(value: float | int | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit == "%":
        return f"{100 * value:.1f} %"
    return f"{value:.2f} {unit}".strip() if isinstance(value, float) else str(value)
