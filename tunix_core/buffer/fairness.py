"""Weighted deficit round-robin: who is served next where there is less than everybody asks for.

Source: Shreedhar and Varghese 1996, "Efficient fair queuing using deficit round-robin", IEEE/ACM ToN 4(3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class DeficitRoundRobin:
    """Serves queues in proportion to their weights, whatever each asks for and however large its items are.

    A queue that is visited and has items earns quantum x weight, and is served while what it has earned lasts;
    a queue without items earns nothing, so nobody saves up for a burst.
    """

    def __init__(self, quantum: float) -> None:
        """`quantum`: what a weight of 1 earns a visit, in the unit of the costs; about one item's cost."""
        self._quantum = quantum
        self._earned: dict[str, float] = {}
        self._next: str | None = None

    def serve(
        self, costs: Mapping[str, Sequence[float]], weights: Mapping[str, float], budget: float
    ) -> list[str]:
        """Names in the order of service, one an item; each queue's items in their order.

        Ends where the next item to be served costs more than is left of `budget`: a small item that comes
        later doesn't overtake, or a large one would wait for ever.
        """
        heads = {name: 0 for name, queue in costs.items() if queue}
        self._earned = {name: self._earned.get(name, 0.0) for name in heads}
        ring = self._from_next(list(heads))
        served: list[str] = []
        while ring:
            name = ring[0]
            queue, self._next = costs[name], name
            if self._earned[name] < queue[heads[name]]:
                self._earned[name] += self._quantum * weights[name]
            while heads[name] < len(queue) and self._earned[name] >= queue[heads[name]]:
                cost = queue[heads[name]]
                if cost > budget:
                    return served
                budget -= cost
                self._earned[name] -= cost
                heads[name] += 1
                served.append(name)
            ring.pop(0)
            if heads[name] < len(queue):
                ring.append(name)
            else:
                del self._earned[name]
            self._next = ring[0] if ring else None
        return served

    def _from_next(self, names: list[str]) -> list[str]:
        at = names.index(self._next) if self._next in names else 0
        return names[at:] + names[:at]
