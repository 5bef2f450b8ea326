"""Plays given episodes with frozen adapters: evaluation, replay. Nothing is learnt, nothing of training is touched."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from tunix_core.actor import Actor, ActorSpec
from tunix_core.env_pool import InlineEnvPool
from tunix_core.environment import EnvFactory
from tunix_core.errors import StalledError
from tunix_core.sampler.base import Sampler, turn
from tunix_core.tokens import Renderer
from tunix_core.types import EpisodeTicket, SamplingSpec, Trajectory


def play(
    engine: Sampler,
    tickets: Iterable[EpisodeTicket],
    *,
    env_factory: EnvFactory,
    renderer: Renderer,
    sampling: Mapping[str, SamplingSpec],
    adapter_slot: Mapping[str, int],
    clock_ns: Callable[[], int],
    should_stop: Callable[[], bool] = lambda: False,
) -> list[Trajectory]:
    """Trajectories of the tickets, in their order; fewer if `should_stop` said so.

    The engine must be idle; it is left idle. `sampling` and `adapter_slot` are per tenant id.
    """
    pool = InlineEnvPool(env_factory, clock_ns)
    spec = ActorSpec(max_context=engine.spec.max_context, sampling=sampling, adapter_slot=adapter_slot)
    actor = Actor(spec, renderer, pool, engine.submit, clock_ns)
    waiting = deque(tickets)
    order = [t.key for t in waiting]
    done: dict[tuple[str, int, int], Trajectory] = {}

    def keep(trajectory: Trajectory | None) -> None:
        if trajectory is not None:
            done[trajectory.ticket.key] = trajectory

    while (waiting or actor.open_episodes) and not should_stop():
        # twice the slots keeps them filled without opening every environment at once
        while waiting and actor.open_episodes < 2 * engine.spec.slots:
            actor.start(waiting.popleft())
        replies = pool.poll()
        for reply in replies:
            keep(actor.on_reply(reply))
        if engine.busy:
            for result in turn(engine):
                keep(actor.on_sample(result))
        elif not replies and actor.open_episodes:
            raise StalledError(f"{actor.open_episodes} episodes are open, but none waits for anything")
    for tenant in {t.ticket.tenant_id for t in done.values()} | set(sampling):
        engine.drop(tenant)
        actor.drop(tenant)
    pool.shutdown()
    return [done[k] for k in order if k in done]
