"""Test hooks, public: a tiny model with its tokenizer, scripted environments, a scripted sampler, observers.

A whole run of the real trainer over these takes a second after its first compilation:

    envs = ScriptedEnvs(lambda ticket: EpisodeScript(reward=share_of("a")))
    recorder = Recorder()
    trainer = tiny_trainer([tiny_tenant("t0")], "A1", envs, observer=recorder)
    trainer.warm_up()
    result = trainer.run()

Faults are data of an `EpisodeScript` or an `Answer`: exceptions, rewards that are no numbers, answers that
never come. Nothing here sleeps: what has to last, lasts until an event is set or a virtual clock has moved.
"""

from tunix_core.testing.dump import BatchDump, DumpedUpdate, read_dump
from tunix_core.testing.environments import (
    CompletionOrder,
    EpisodeScript,
    ScriptedEnv,
    ScriptedEnvs,
    constant,
    share_of,
    share_of_a,
)
from tunix_core.testing.observers import Ending, Recorder
from tunix_core.testing.sampler import Answer, ScriptedSampler, VirtualClock
from tunix_core.testing.tiny import (
    TINY_SAMPLER,
    TINY_SPEC,
    LetterTokenizer,
    random_adapter,
    tiny_base,
    tiny_tenant,
    tiny_trainer,
)

__all__ = [
    "TINY_SAMPLER",
    "TINY_SPEC",
    "Answer",
    "BatchDump",
    "CompletionOrder",
    "DumpedUpdate",
    "Ending",
    "EpisodeScript",
    "LetterTokenizer",
    "Recorder",
    "ScriptedEnv",
    "ScriptedEnvs",
    "ScriptedSampler",
    "VirtualClock",
    "constant",
    "random_adapter",
    "read_dump",
    "share_of",
    "share_of_a",
    "tiny_base",
    "tiny_tenant",
    "tiny_trainer",
]
