"""The worker of TRL: its GRPOTrainer with a PEFT LoRA, torch on the CPU. Started by `peers_speed`.

    python -m tests.benchmarks.peers.trl_worker FOLDER

Settings are those that cost least: no checkpointing, no reference model, no second pass over a batch, no logs.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from tests.benchmarks.peers.common import (
    ASSISTANT,
    BOS,
    MODEL,
    NEVER,
    PAD,
    USER,
    VOCABULARY,
    Gate,
    Job,
    check_logits,
    lines_to_parent,
    load_job,
    prompt_ids,
    reward,
)

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
NAMES = {PAD: "<pad>", BOS: "<bos>", USER: "<user>", ASSISTANT: "<assistant>", NEVER: "<never>"}


def tokenizer() -> Any:
    """One id a character, as the byte tokenizer has it for the job's prompts."""
    tokenizers, transformers = importlib.import_module("tokenizers"), importlib.import_module("transformers")
    names = {i: chr(i) if i < 256 else NAMES.get(i, f"<{i}>") for i in range(VOCABULARY)}
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({name: i for i, name in names.items()}, unk_token="<pad>")
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex("[\\s\\S]"), "isolated")
    inner.decoder = tokenizers.decoders.Fuse()
    inner.add_special_tokens(list(NAMES.values()))
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", bos_token="<bos>", eos_token="<never>", padding_side="left"
    )
    made.clean_up_tokenization_spaces = False
    return made


def prompt_text(text: str) -> str:
    """A prompt with its control tokens."""
    return f"<bos><user>{text}<assistant>"


def settings(job: Job, folder: Path) -> Any:
    """The configuration of TRL's trainer."""
    return importlib.import_module("trl").GRPOConfig(
        output_dir=str(folder / "trl"),
        use_cpu=True,
        bf16=False,
        fp16=False,
        gradient_checkpointing=False,
        use_vllm=False,
        per_device_train_batch_size=job.rollouts,
        gradient_accumulation_steps=1,
        steps_per_generation=1,
        num_generations=job.group_size,
        num_iterations=1,
        beta=0.0,
        temperature=1.0,
        top_p=1.0,
        top_k=0,
        max_completion_length=job.new_tokens,
        generation_kwargs={"min_new_tokens": job.new_tokens},
        learning_rate=job.learning_rate,
        lr_scheduler_type="constant",
        warmup_steps=0,
        weight_decay=0.0,
        max_grad_norm=1.0,
        max_steps=100_000,
        shuffle_dataset=False,
        logging_strategy="no",
        save_strategy="no",
        eval_strategy="no",
        report_to="none",
        log_completions=False,
        disable_tqdm=True,
        dataloader_num_workers=0,
        dataloader_pin_memory=False,
        seed=job.seed,
    )


def check_prompts(made: Any, job: Job) -> None:
    """Raises where the tokenizer reads a prompt as other ids than the project's."""
    for text in job.prompts:
        found, expected = made(text=[prompt_text(text)])["input_ids"][0], prompt_ids(text)
        if list(found) != expected:
            raise SystemExit(f"prompt {text!r} reads as {found}, not as {expected}")


def main() -> int:
    """Trains until the parent has enough."""
    stream = lines_to_parent()
    torch, transformers = importlib.import_module("torch"), importlib.import_module("transformers")
    trl, peft, datasets = (importlib.import_module(name) for name in ("trl", "peft", "datasets"))
    folder = Path(sys.argv[1])
    job, made = load_job(folder), tokenizer()
    torch.set_num_threads(job.threads)
    check_prompts(made, job)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / MODEL, dtype=torch.float32)
    with torch.no_grad():
        found = model(torch.tensor([prompt_ids(text) for text in job.prompts])).logits
    worst = check_logits(folder, found)
    versions = {
        name: importlib.import_module(name).__version__ for name in ("torch", "transformers", "peft", "trl")
    }
    gate = Gate(job, {"name": "TRL", **versions, "logits off by": worst}, stream)

    def graded(completions: list[str], completion_ids: list[list[int]], **_: Any) -> list[float]:
        lengths = {len(ids) for ids in completion_ids}
        if lengths != {job.new_tokens} or len(completion_ids) != job.rollouts:
            gate.problems.append(f"{len(completion_ids)} completions of {sorted(lengths)} tokens")
        return [reward(text) for text in completions]

    class Watch(transformers.TrainerCallback):
        """Tells the gate of every update."""

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            """After the optimizer's step."""
            control.should_training_stop = not gate.passed()
            return control

    trainer = trl.GRPOTrainer(
        model=model,
        reward_funcs=graded,
        args=settings(job, folder),
        train_dataset=datasets.Dataset.from_dict({"prompt": [prompt_text(text) for text in job.prompts]}),
        processing_class=made,
        callbacks=[Watch()],
        peft_config=peft.LoraConfig(
            r=job.rank, lora_alpha=job.alpha, lora_dropout=0.0, target_modules=TARGETS, task_type="CAUSAL_LM"
        ),
    )
    trainer.train()
    return 0


if __name__ == "__main__":
    sys.exit(main())
