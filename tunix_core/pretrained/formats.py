"""How a pretrained model is spoken to: by its chat template, or by a few examples that it completes.

A format is four pieces of text around an observation and the ids that end a turn. The pieces and the observation
are encoded one by one, in examples as in the dialogue itself, so that what a model sees of the one is what it saw
of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tunix_core.errors import ConfigError
from tunix_core.pretrained.tokenizer import PretrainedTokenizer
from tunix_core.tokens import Around, PromptFormat, Renderer


class Exchange(NamedTuple):
    """An observation and what was said to it."""

    observation: str
    turn: str


Dialogue = Sequence[Exchange]
"""An episode of an example: an observation and a turn, another observation and turn, ..."""

QUESTION, ANSWER, LEAD, END = "Question: ", "\nAnswer:", " ", "\n"


def few_shot_format(tokenizer: PretrainedTokenizer, examples: Sequence[Dialogue]) -> PromptFormat:
    """Question and answer in lines of their own, the examples before the first question.

    A turn ends with its line: by whichever id spells a line's end, or the model's own end.
    """
    ask, reply, end = (tokenizer.encode(text) for text in (QUESTION, ANSWER, END))
    if len(end) != 1:
        raise ConfigError("the tokenizer has no single id for the end of a line; use the chat format")
    lines = tuple(i for i in tokenizer.ids_with(END) if i != int(end[0]))
    stops = (int(end[0]), *lines, *tokenizer.specials.eos_ids)
    bare = PromptFormat(
        first=Around(ask, reply), later=Around(np.zeros(0, np.int32), reply), stop_ids=stops, lead=LEAD
    )
    writer = Renderer(tokenizer, bare)
    bos = tokenizer.specials.bos_id
    shown = [np.asarray([] if bos is None else [bos], np.int32)]
    for dialogue in examples:
        for number, (observation, turn) in enumerate(dialogue):
            shown += [writer.observation_ids(observation, first=number == 0), writer.turn_ids(turn)]
    before = np.concatenate([*shown, ask]).astype(np.int32)
    return PromptFormat(first=Around(before, reply), later=bare.later, stop_ids=stops, lead=LEAD)


_MESSAGES = ("\x01first\x01", "\x01said\x01", "\x01later\x01")


def chat_format(tokenizer: PretrainedTokenizer) -> PromptFormat:
    """The checkpoint's own chat template, run once in jinja2's sandbox with marks in place of messages.

    Raises ConfigError for a checkpoint without one, or a template that changes or moves what it is given.
    """
    template = tokenizer.specials.chat_template
    if template is None:
        raise ConfigError("this model has no chat template; use the few-shot format")
    user, assistant, later = _MESSAGES
    messages = [
        {"role": "user", "content": user},
        {"role": "assistant", "content": assistant},
        {"role": "user", "content": later},
    ]
    opening = _render(template, messages[:1], tokenizer).split(user)
    whole = _render(template, messages, tokenizer)
    pieces = whole.replace(assistant, user).replace(later, user).split(user)
    if len(opening) != 2 or len(pieces) != 4 or pieces[0] != opening[0]:
        raise ConfigError(
            "the chat template doesn't put each message down once, in order: it is not supported"
        )
    head, ask = opening
    said_to_later = tokenizer.encode_template(pieces[2])
    controls = [int(i) for i in said_to_later if tokenizer.spellings[int(i)] is None]
    stops = tuple(dict.fromkeys([*controls[:1], *tokenizer.specials.eos_ids]))
    if not stops:
        raise ConfigError("the chat template doesn't end a turn with a control: it is not supported")
    # the stop itself is sampled: what the template writes after it belongs to the next message
    end = int(np.flatnonzero(said_to_later == stops[0])[0]) + 1 if controls else 0
    return PromptFormat(
        first=Around(tokenizer.encode_template(head), tokenizer.encode_template(ask)),
        later=Around(said_to_later[end:], tokenizer.encode_template(pieces[3])),
        stop_ids=stops,
    )


def _render(template: str, messages: list[dict[str, str]], tokenizer: PretrainedTokenizer) -> str:
    from jinja2 import TemplateError  # pyright: ignore[reportMissingImports]
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # pyright: ignore[reportMissingImports]

    def refuse(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals |= {"raise_exception": refuse, "strftime_now": lambda form: ""}
    bos, eos = tokenizer.specials.bos_id, tokenizer.specials.eos_ids
    names = {
        "bos_token": "" if bos is None else tokenizer.token_text(bos),
        "eos_token": tokenizer.token_text(eos[0]) if eos else "",
    }
    try:
        return environment.from_string(template).render(
            messages=messages, add_generation_prompt=True, tools=None, **names
        )
    except (TemplateError, TypeError, ValueError, KeyError) as error:
        raise ConfigError(f"the chat template can't be rendered: {error}") from error
