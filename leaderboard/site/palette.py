"""The colours of pages and drawings, each for a light ground and for a dark one; told apart by colour-blind eyes.

Series take the colours of Okabe and Ito (jfly.uni-koeln.de/color), and a dash and a mark beside it, so that no
figure needs its colours to be read. Text has a contrast of 4.5 on its ground in both schemes, marks have 3.
"""

from __future__ import annotations

import re
from typing import Literal

Scheme = Literal["light", "dark"]

COLOURS: dict[str, tuple[str, str]] = {
    "back": ("#ffffff", "#14171c"),
    "band": ("#f4f6f9", "#1d222a"),
    "text": ("#15181d", "#e8ebf0"),
    "soft": ("#566072", "#a3adbd"),
    "line": ("#d3d8e0", "#37404d"),
    "axis": ("#838c9b", "#7b8697"),
    "good": ("#0063a0", "#62b9ec"),
    "warn": ("#9a4b00", "#eaa63a"),
    "fair": ("#00704f", "#35c496"),
    # arms
    "s0": ("#737d8c", "#98a2b3"),
    "s1": ("#d55e00", "#e69f00"),
    "a0": ("#009e73", "#009e73"),
    "a1": ("#0072b2", "#56b4e9"),
    # tenants, in turn
    "k0": ("#0072b2", "#56b4e9"),
    "k1": ("#d55e00", "#e69f00"),
    "k2": ("#009e73", "#009e73"),
    "k3": ("#b35f8d", "#cc79a7"),
    "k4": ("#15181d", "#e8ebf0"),
    "k5": ("#8a6d00", "#f0e442"),
    # what a device does
    "train": ("#d55e00", "#d55e00"),
    "decode": ("#0072b2", "#0072b2"),
    "prefill": ("#56b4e9", "#56b4e9"),
    "sync": ("#cc79a7", "#cc79a7"),
    "eval": ("#838c9b", "#838c9b"),
    "bubble": ("#b98900", "#c99700"),
    "other": ("#c3c9d3", "#4a5462"),
}

_CHARTS = """
svg text { fill: var(--text); font: 11px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
svg .soft { fill: var(--soft); }
svg .strong { font-weight: 600; }
svg .head { font-weight: 600; font-size: 13px; }
svg .warn { fill: var(--warn); font-weight: 600; }
svg .ground { fill: var(--back); }
svg .grid { stroke: var(--line); stroke-width: 1; fill: none; }
svg .axis { stroke: var(--axis); stroke-width: 1; fill: none; }
svg .mark { stroke: var(--back); stroke-width: 1; }
svg .target { stroke: var(--text); stroke-width: 1.2; stroke-dasharray: 1 3; fill: none; }
svg .gap { fill: var(--bubble); fill-opacity: 0.22; stroke: var(--bubble); stroke-width: 0.7; }
svg .empty { fill: var(--band); stroke: var(--line); stroke-width: 1; }
"""


def variables() -> str:
    """Returns the colours as CSS variables that follow `color-scheme`."""
    pairs = "; ".join(f"--{name}: light-dark({light}, {dark})" for name, (light, dark) in COLOURS.items())
    return f":root {{ color-scheme: light dark; {pairs}; }}\n"


def charts() -> str:
    """Returns the rules of all drawings, in terms of the variables."""
    rules = [_CHARTS.lstrip()]
    for name in COLOURS:
        rules.append(f"svg .line-{name} {{ stroke: var(--{name}); fill: none; }}\n")
        rules.append(f"svg .fill-{name} {{ fill: var(--{name}); }}\n")
    return "".join(rules)


def standalone(*, dark: bool) -> str:
    """Returns the rules of a drawing that leaves the page: plain colours, light, and dark where a viewer asks for it.

    Args:
      dark: whether to carry the dark scheme along; a renderer that knows no schemes wants one only.
    """
    sheet = _literal("light")
    return sheet + f"@media (prefers-color-scheme: dark) {{\n{_literal('dark')}}}\n" if dark else sheet


def _literal(scheme: Scheme) -> str:
    which = ("light", "dark").index(scheme)
    return re.sub(r"var\(--(\w+)\)", lambda name: COLOURS[name[1]][which], charts())
