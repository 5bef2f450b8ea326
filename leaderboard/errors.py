"""What a record can be refused for."""

from __future__ import annotations


class RecordError(ValueError):
    """A record that can't be read or trusted: a stable code, the place, what is wrong and what to do."""

    def __init__(self, code: str, place: str, reason: str, hint: str = "") -> None:
        self.code = code
        self.place = place
        self.reason = reason
        self.hint = hint
        super().__init__(f"{code} {place}: {reason}" + (f" ({hint})" if hint else ""))
