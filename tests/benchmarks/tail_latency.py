"""What a staleness limit and completion order buy when tools have a heavy tail and one call in twenty hangs. SIMULATED.

    python -m tests.benchmarks.tail_latency OUT.json [OUT.svg]

A rerun gives the same figures: nothing here is timed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.planner import scenario
from bench.planner.simulate import simulate
from leaderboard.site import html

BASE: dict[str, Any] = {
    "model": "qwen2.5-1.5b", "device": "h100", "devices": 4, "tenants": 8, "updates": 12, "groups_per_update": 4,
    "group_size": 8, "prompt_tokens": 256, "response_tokens": 128, "response_p95": 384, "max_new_tokens": 512,
    "turns": 2, "env_timeout_s": 60,
}  # fmt: skip
TAILS = {
    "light: lognormal median 1, p95 4": {"latency": "lognormal:median=1,p95=4"},
    "heavy: 2 % take 40 s": {"latency": "heavy:median=1,p95=4,tail=0.02,tail_s=40"},
    "light, 5 % time out at 60 s": {"latency": "lognormal:median=1,p95=4", "hang_share": 0.05},
}
ARMS = [
    ("S1", 2, "admission"),
    *(("A1", eta, order) for order in ("admission", "completion") for eta in (1, 2, 4, 8)),
]


def study() -> list[dict[str, Any]]:
    """A row a tail, arm, limit and order of consumption."""
    rows = []
    for tail, settings in TAILS.items():
        for arm, eta, order in ARMS:
            s = scenario.build({**BASE, **settings, "max_staleness": eta, "consume": order})
            o = simulate(scenario.setup(s, arm))
            rows.append(
                {
                    "tail": tail, "arm": arm, "max_staleness": 0 if arm == "S1" else eta, "consume": order,
                    "t_work_s": o.t_work_s, "util_busy": o.util_busy, "staleness_mean": o.staleness["mean"],
                    "stale_discard_frac": o.stale_discard_frac, "errored_frac": o.errored_frac,
                }
            )  # fmt: skip
    return rows


def figure(rows: list[dict[str, Any]]) -> html.Markup:
    """Time by staleness limit, a panel a tail: S1 at 0, then A1 by order of consumption."""
    drawn = [html.tag("rect", width=780, height=250, fill="#fff")]
    for panel, tail in enumerate(TAILS):
        own = [r for r in rows if r["tail"] == tail]
        left, top = 30 + 250 * panel, max(r["t_work_s"] for r in own)
        drawn.append(html.tag("text", tail, x=left, y=20))
        for order, colour in (("admission", "#0072b2"), ("completion", "#d55e00")):
            points = [
                (left + 20 + 45 * i, 210 - 170 * r["t_work_s"] / top, r)
                for i, r in enumerate([own[0], *(r for r in own[1:] if r["consume"] == order)])
            ]
            line = " ".join(f"{x},{y:.1f}" for x, y, _ in points)
            drawn.append(html.tag("polyline", points=line, fill="none", stroke=colour, stroke_width=2))
            for x, y, r in points:
                drawn.append(html.tag("circle", cx=x, cy=round(y, 1), r=3, fill=colour))
                drawn.append(html.tag("text", f"{r['max_staleness']}", x=x - 3, y=226))
            x, y, r = points[-1]
            shift = 4 if order == "admission" else -8
            drawn.append(
                html.tag("text", f"{r['t_work_s']:.0f} s", x=x + 6, y=round(y + shift, 1), fill=colour)
            )
        drawn.append(html.tag("text", f"{own[0]['t_work_s']:.0f} s", x=left + 26, y=44))
    caption = "SIMULATED. Time by staleness limit (0: S1); blue: learnt in order of admission, orange: of completion"
    drawn.append(html.tag("text", caption, x=30, y=244))
    style = html.tag("style", html.Markup("text{font:11px system-ui,sans-serif}"))
    return html.tag("svg", style, *drawn, xmlns="http://www.w3.org/2000/svg", viewBox="0 0 780 250", width=780,
                    height=250, role="img")  # fmt: skip


if __name__ == "__main__":
    found = {"label": "SIMULATED", "scenario": BASE, "rows": study()}
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n")
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(figure(found["rows"]) + "\n")
    sys.stdout.write(
        "| tail | arm | limit | order | T_work s | busy | staleness | dropped stale | errored |\n"
        + "|---" * 9
        + "|\n"
    )
    for r in found["rows"]:
        sys.stdout.write(
            f"| {r['tail']} | {r['arm']} | {r['max_staleness']} | {r['consume']} | {r['t_work_s']:.0f} | "
            f"{r['util_busy']:.2f} | {r['staleness_mean']:.2f} | {r['stale_discard_frac']:.1%} | "
            f"{r['errored_frac']:.1%} |\n"
        )
