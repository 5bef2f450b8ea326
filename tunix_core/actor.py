"""Episodes as small state machines between environment pool and sampler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tunix_core.env_pool import EnvPool, EnvReply
from tunix_core.streams import sampling_seed
from tunix_core.tokens import Renderer
from tunix_core.types import (
    EpisodeTicket,
    Fate,
    SampleRequest,
    SampleResult,
    SamplingSpec,
    StopReason,
    Trajectory,
    Turn,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorSpec:
    """Limits of an episode. A context past max_context, or a turn past its limit, ends it without reward."""

    max_context: int
    sampling: Mapping[str, SamplingSpec]
    """Per tenant."""
    adapter_slot: Mapping[str, int]
    """Per tenant."""


@dataclass(slots=True)
class _Episode:
    ticket: EpisodeTicket
    t_start_ns: int
    context_ids: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    turns: list[Turn] = field(default_factory=list)
    item_uid: str = ""
    env_ns: int = 0


class Actor:
    """Drives all open episodes; owns no thread and no clock of its own."""

    def __init__(
        self,
        spec: ActorSpec,
        renderer: Renderer,
        pool: EnvPool,
        submit: Callable[[SampleRequest], None],
        clock_ns: Callable[[], int],
    ) -> None:
        self.spec, self._renderer, self._pool = spec, renderer, pool
        self._submit, self._clock_ns = submit, clock_ns
        self._open: dict[tuple[str, int, int], _Episode] = {}

    @property
    def open_episodes(self) -> int:
        """Episodes under way."""
        return len(self._open)

    def start(self, ticket: EpisodeTicket) -> None:
        """Opens an episode."""
        self._open[ticket.key] = _Episode(ticket, self._clock_ns())
        self._pool.open(ticket)

    def on_reply(self, reply: EnvReply) -> Trajectory | None:
        """Takes an environment's answer; the trajectory if the episode is over."""
        episode = self._open.get(reply.ticket.key)
        if episode is None:  # its tenant was stopped meanwhile
            return None
        episode.env_ns += reply.t_end_ns - reply.t_start_ns
        if reply.error is not None:
            return self._finish(episode, 0.0, "grader_error", StopReason.ERROR, error=reply.error)
        first = not episode.turns
        if first:
            episode.item_uid = str(reply.info.get("item_uid", ""))
        if reply.terminated or reply.truncated:
            if reply.observation:
                self._observe(episode, reply, np.zeros(0, np.int32))
            status = str(reply.info.get("grade_status", ""))
            harness_error = reply.info.get("harness_error")
            if harness_error:
                return self._finish(episode, 0.0, status, StopReason.ERROR, error=str(harness_error))
            stop = StopReason.TERMINATED if reply.terminated else StopReason.TRUNCATED
            return self._finish(episode, reply.reward, status, stop)
        if first:
            context = self._renderer.open(reply.observation, episode.ticket.env_id)
        else:
            said = episode.turns[-1].token_ids
            before = episode.context_ids[: len(episode.context_ids) - len(said)]
            context = self._renderer.extend(before, said, reply.observation, episode.ticket.env_id)
        self._observe(episode, reply, context[len(episode.context_ids) :])
        episode.context_ids = context
        if len(context) > self.spec.max_context:
            return self._finish(episode, 0.0, "truncated", StopReason.CONTEXT)
        turn_index = sum(t.role == "policy" for t in episode.turns)
        tenant = episode.ticket.tenant_id
        self._submit(
            SampleRequest(
                ticket=episode.ticket,
                turn_index=turn_index,
                context_ids=context,
                sampling=self.spec.sampling[tenant],
                stop_ids=self._renderer.stop_ids,
                stream_seed=sampling_seed(episode.ticket, turn_index),
                adapter_slot=self.spec.adapter_slot[tenant],
            )
        )
        return None

    def on_sample(self, result: SampleResult) -> Trajectory | None:
        """Takes a sampled turn and hands its text to the environment.

        A turn cut at its token limit ends the episode without being graded: half an answer is not a wrong
        answer, and what it happens to contain is not a right one.
        """
        episode = self._open.get(result.ticket.key)
        if episode is None:
            return None
        text = self._renderer.turn_text(result.token_ids)
        n = len(result.token_ids)
        episode.turns.append(
            Turn(
                role="policy",
                text=text,
                token_ids=result.token_ids,
                loss_mask=np.ones(n, bool),
                behavior_logprobs=result.behavior_logprobs,
                policy_version=result.policy_version,
                stop=result.stop,
                t_start_ns=result.t_start_ns,
                t_end_ns=result.t_end_ns,
            )
        )
        episode.context_ids = np.concatenate([episode.context_ids, result.token_ids])
        if result.stop is not StopReason.EOS:
            return self._finish(episode, 0.0, "truncated", result.stop)
        self._pool.step(episode.ticket, text)
        return None

    def drop(self, tenant_id: str) -> list[Trajectory]:
        """Ends a tenant's open episodes (it was stopped, or the run was); what they had so far, fate SURPLUS."""
        dropped = []
        for episode in [e for e in self._open.values() if e.ticket.tenant_id == tenant_id]:
            dropped.append(self._finish(episode, 0.0, "", StopReason.ERROR, fate=Fate.SURPLUS))
        return dropped

    def _observe(self, episode: _Episode, reply: EnvReply, token_ids: np.ndarray) -> None:
        n = len(token_ids)
        episode.turns.append(
            Turn(
                role="environment",
                text=reply.observation,
                token_ids=token_ids,
                loss_mask=np.zeros(n, bool),
                behavior_logprobs=np.zeros(n, np.float32),
                policy_version=np.full(n, -1, np.int32),
                stop=None,
                t_start_ns=reply.t_start_ns,
                t_end_ns=reply.t_end_ns,
            )
        )

    def _finish(
        self,
        episode: _Episode,
        reward: float,
        status: str,
        stop: StopReason,
        *,
        error: str | None = None,
        fate: Fate = Fate.OPEN,
    ) -> Trajectory:
        del self._open[episode.ticket.key]
        self._pool.close(episode.ticket)
        return Trajectory(
            ticket=episode.ticket,
            item_uid=episode.item_uid,
            turns=tuple(episode.turns),
            reward=reward,
            grade_status=status,
            stop=stop,
            fate=Fate.ERRORED if error is not None else fate,
            t_start_ns=episode.t_start_ns,
            t_end_ns=self._clock_ns(),
            env_ns=episode.env_ns,
            error=error,
        )
