# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Trains a LLaMA on the sources of Python, in the shape of transformers' run_clm.py, without a network."""

import argparse
import inspect
from dataclasses import dataclass, field

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)


@dataclass
class ModelArguments:
    model_type: str = field(default="llama")
    block_size: int = field(default=64)
    save: str | None = field(default=None)


def group_texts(text, block_size, count):
    ids = torch.tensor(list(text.encode()[: count * block_size]))
    return [{"input_ids": block, "labels": block} for block in ids.view(count, block_size)]


def main():
    parser = HfArgumentParser((ModelArguments, TrainingArguments))
    model_args, training_args = parser.parse_args_into_dataclasses()
    set_seed(training_args.seed)
    config = AutoConfig.for_model(
        model_args.model_type,
        vocab_size=256,
        hidden_size=32,
        intermediate_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        attention_dropout=0.1,
        use_cache=False,
    )
    model = AutoModelForCausalLM.from_config(config)
    blocks = group_texts(inspect.getsource(argparse), model_args.block_size, 40)
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=blocks[:32],
        eval_dataset=blocks[32:],
        data_collator=default_data_collator,
    )
    result = trainer.train()
    metrics = trainer.evaluate()
    print(f"train {result.training_loss!r}, evaluation {metrics['eval_loss']!r}")
    if model_args.save:
        torch.save(model.state_dict(), model_args.save)


if __name__ == "__main__":
    main()
