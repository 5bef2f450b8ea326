"""Environment workers: threads that build, reset and step environments while the device works.

A call that passes its deadline is answered with an error and its thread replaced, so that one hung tool costs
one episode and never the run. Threads are daemons: a hung one cannot keep the process alive.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tunix_core.environment import EnvFactory, Environment
from tunix_core.errors import EnvError
from tunix_core.types import EpisodeTicket

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvReply:
    """What an environment answered to reset (action None) or step."""

    ticket: EpisodeTicket
    observation: str = ""
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: dict[str, Any] = field(default_factory=dict)
    t_start_ns: int = 0
    t_end_ns: int = 0
    error: str | None = None


class EnvPool(Protocol):
    """Opens and steps environments; answers come back through `poll`, in any order."""

    def open(self, ticket: EpisodeTicket) -> None:
        """Builds the episode's environment and resets it."""
        ...

    def step(self, ticket: EpisodeTicket, action: str) -> None:
        """Steps the episode's environment."""
        ...

    def close(self, ticket: EpisodeTicket) -> None:
        """Frees the episode's environment."""
        ...

    def poll(self) -> list[EnvReply]:
        """Everything that has been answered since the last call; never blocks."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Blocks until an answer is there, `wake` is called or the time is up; whether there is an answer."""
        ...

    def wake(self) -> None:
        """Ends a `wait`, the present one or the next; from any thread."""
        ...

    @property
    def waiting(self) -> list[tuple[EpisodeTicket, float]]:
        """Calls under way, with their age in seconds, oldest first."""
        ...

    def shutdown(self) -> None:
        """Ends the workers."""
        ...


def _call(env: Environment | None, factory: EnvFactory, ticket: EpisodeTicket, action: str | None) -> Any:
    """Runs one call; returns (environment, fields of the reply). One that fails to open is closed here."""
    if action is None or env is None:
        env = factory(ticket)
        try:
            options = {"split": ticket.split, "index": ticket.item_index}
            observation, info = env.reset(seed=ticket.env_seed, options=options)
            return env, {"observation": _text(observation), "info": dict(info)}
        except BaseException:
            _close(env)
            raise
    observation, reward, terminated, truncated, info = env.step(action)
    return env, {
        "observation": _text(observation),
        # a missing reward is no zero: it is masked and counted like any other that is no number
        "reward": math.nan if reward is None else float(reward),
        "terminated": bool(terminated),
        "truncated": bool(truncated),
        "info": dict(info),
    }


def _text(observation: Any) -> str:
    if not isinstance(observation, str):
        raise EnvError(f"the observation is a {type(observation).__name__}; environments answer in text")
    return observation


def _close(env: Environment) -> None:
    """Closes; the episode is over, so a failure can't change it, but is told."""
    try:
        env.close()
    except Exception as e:  # noqa: BLE001 - the border: whatever an environment raises stays outside the run
        what = f"{type(env).__name__} failed to close: {type(e).__name__}: {e}"
        warnings.warn(what, RuntimeWarning, stacklevel=2)


class _FirstFailure:
    """Logs the traceback of a pool's first failure; the others become data like it, and differ little."""

    def __init__(self) -> None:
        self._told = threading.Event()

    def tell(self, ticket: EpisodeTicket, error: BaseException) -> None:
        if not self._told.is_set():
            self._told.set()
            _log.warning(
                "the first environment to fail is %s of %s:", ticket.env_id, ticket.key, exc_info=error
            )


class InlineEnvPool:
    """Runs every call at once, in the caller's thread: deterministic, for parity, replay and tests."""

    def __init__(self, factory: EnvFactory, clock_ns: Callable[[], int]) -> None:
        self._factory, self._clock_ns = factory, clock_ns
        self._envs: dict[tuple[str, int, int], Environment] = {}
        self._replies: list[EnvReply] = []
        self._first_failure = _FirstFailure()

    def open(self, ticket: EpisodeTicket) -> None:
        """Builds and resets, now."""
        self._run(ticket, None)

    def step(self, ticket: EpisodeTicket, action: str) -> None:
        """Steps, now."""
        self._run(ticket, action)

    def close(self, ticket: EpisodeTicket) -> None:
        """Closes the environment if it is open."""
        env = self._envs.pop(ticket.key, None)
        if env is not None:
            _close(env)

    def poll(self) -> list[EnvReply]:
        """All answers so far."""
        replies, self._replies = self._replies, []
        return replies

    def wait(self, timeout_s: float) -> bool:
        """Nothing is ever under way."""
        del timeout_s
        return bool(self._replies)

    def wake(self) -> None:
        """Nobody ever waits."""

    @property
    def waiting(self) -> list[tuple[EpisodeTicket, float]]:
        """Nothing is ever under way."""
        return []

    def shutdown(self) -> None:
        """Closes what is open."""
        for env in self._envs.values():
            _close(env)
        self._envs.clear()

    def _run(self, ticket: EpisodeTicket, action: str | None) -> None:
        t0 = self._clock_ns()
        fields: dict[str, Any]
        try:
            env, fields = _call(self._envs.get(ticket.key), self._factory, ticket, action)
            self._envs[ticket.key] = env
        except Exception as e:  # noqa: BLE001 - the border: whatever an environment raises becomes data
            self._first_failure.tell(ticket, e)
            fields = {"error": f"{type(e).__name__}: {e}"}
        self._replies.append(EnvReply(ticket=ticket, t_start_ns=t0, t_end_ns=self._clock_ns(), **fields))


@dataclass(slots=True)
class _Call:
    ticket: EpisodeTicket
    action: str | None
    started_s: float | None = None
    expired: bool = False
    """Answered by its deadline; the thread that still works on it has been replaced."""
    closed: bool = False
    """Its episode is over; nobody waits for the answer."""


class ThreadEnvPool:
    """A fixed number of worker threads; a sleeping or hung environment occupies one of them.

    An environment is closed by its episode's end, or by its worker where it was busy then.
    """

    def __init__(
        self, factory: EnvFactory, clock_ns: Callable[[], int], *, workers: int, timeout_s: float
    ) -> None:
        self._factory, self._clock_ns, self._timeout_s = factory, clock_ns, timeout_s
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        # guards everything below; workers notify it when an answer is in
        self._answered = threading.Condition()
        self._envs: dict[tuple[str, int, int], Environment] = {}
        self._running: dict[tuple[str, int, int], _Call] = {}
        self._replies: list[EnvReply] = []
        self._first_failure = _FirstFailure()
        self._workers = workers
        self._ended = False
        self._woken = False
        for _ in range(workers):
            self._spawn()

    def open(self, ticket: EpisodeTicket) -> None:
        """Queues building and resetting."""
        self._submit(ticket, None)

    def step(self, ticket: EpisodeTicket, action: str) -> None:
        """Queues a step."""
        self._submit(ticket, action)

    def close(self, ticket: EpisodeTicket) -> None:
        """Closes the environment if it is open; one that is still being stepped is left to its worker."""
        with self._answered:
            call = self._running.get(ticket.key)
            if call is not None:
                call.closed = True
            env = self._envs.pop(ticket.key, None) if call is None else None
        if env is not None:
            _close(env)

    def poll(self) -> list[EnvReply]:
        """All answers so far; calls past their deadline are answered with an error here."""
        with self._answered:
            self._expire()
            replies, self._replies = self._replies, []
            return replies

    def wait(self, timeout_s: float) -> bool:
        """Blocks until an answer, the next deadline, a `wake`, or the time is up."""
        with self._answered:
            if not self._replies and not self._woken:
                now = time.monotonic()
                started = [c.started_s for c in self._running.values() if c.started_s is not None]
                until_deadline = min((s + self._timeout_s - now for s in started), default=timeout_s)
                self._answered.wait(max(0.0, min(timeout_s, until_deadline)))
            self._woken = False
            return bool(self._replies)

    def wake(self) -> None:
        """Ends a wait; from any thread."""
        with self._answered:
            self._woken = True
            self._answered.notify()

    @property
    def waiting(self) -> list[tuple[EpisodeTicket, float]]:
        """Calls that somebody waits for, under way or queued, oldest first; a queued one has age 0."""
        now = time.monotonic()
        with self._answered:
            ages = [
                (c.ticket, now - c.started_s if c.started_s is not None else 0.0)
                for c in self._running.values()
                if not c.closed
            ]
        return sorted(ages, key=lambda x: -x[1])

    def shutdown(self) -> None:
        """Asks the workers to end; a hung one ends with the process."""
        with self._answered:
            self._ended = True
            idle = [k for k in self._envs if k not in self._running]
            envs = [self._envs.pop(k) for k in idle]
        for _ in range(self._workers):
            self._calls.put(None)
        for env in envs:
            _close(env)

    def _submit(self, ticket: EpisodeTicket, action: str | None) -> None:
        call = _Call(ticket, action)
        with self._answered:
            self._running[ticket.key] = call
        self._calls.put(call)

    def _spawn(self) -> None:
        threading.Thread(target=self._work, name="env-worker", daemon=True).start()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            with self._answered:
                env = self._envs.get(call.ticket.key)
                call.started_s = time.monotonic()
                wanted = not (call.closed or self._ended)
            t0 = self._clock_ns()
            fields: dict[str, Any] = {}
            if wanted:
                try:
                    env, fields = _call(env, self._factory, call.ticket, call.action)
                # SystemExit too: a library that calls sys.exit would end this thread, and nobody would answer
                except (Exception, SystemExit) as e:  # noqa: BLE001 - the border: what an environment raises is data
                    self._first_failure.tell(call.ticket, e)
                    fields = {"error": f"{type(e).__name__}: {e}"}
            reply = EnvReply(ticket=call.ticket, t_start_ns=t0, t_end_ns=self._clock_ns(), **fields)
            kept = self._deliver(call, env, reply)
            if env is not None and not kept:
                _close(env)
            if call.expired:
                return

    def _deliver(self, call: _Call, env: Environment | None, reply: EnvReply) -> bool:
        """Hands the answer in, unless nobody waits for it any more; whether the environment is kept."""
        with self._answered:
            if not call.expired:
                del self._running[call.ticket.key]
            if call.expired or call.closed or self._ended:
                self._envs.pop(call.ticket.key, None)
                return False
            if env is not None:
                self._envs[call.ticket.key] = env
            self._replies.append(reply)
            self._answered.notify()
            return True

    def _expire(self) -> None:
        now = time.monotonic()
        for key, call in list(self._running.items()):
            if call.started_s is None or now - call.started_s < self._timeout_s:
                continue
            call.expired = True
            del self._running[key]
            self._envs.pop(key, None)
            self._spawn()
            if not call.closed:
                t = self._clock_ns()
                error = f"environment call took longer than its limit of {self._timeout_s:g} s"
                self._replies.append(EnvReply(ticket=call.ticket, t_start_ns=t, t_end_ns=t, error=error))
