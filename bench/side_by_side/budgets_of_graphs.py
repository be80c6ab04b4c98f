# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Budgets of the package beside torch's checkpoint: a GPT of compiled blocks, a jagged transformer.

Prints a table in Markdown: of each model the peak of a plain step, of torch.utils.checkpoint around
each block, of a budget of 1.05 of that peak, and of a budget of half of the plain peak, each with the
time of a step over that of torch's checkpoint. The steps of a ratio follow each other, in turn, in this
process. Each step's gradients are compared with the plain ones, bit for bit, the first one included.
"""

import argparse
import statistics
import time

import reprise
import torch
from models import GptBlock
from torch.utils import checkpoint as torch_checkpoint

WIDTH, HEADS, BLOCKS = 128, 4, 8


class JaggedBlock(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.mlp_norm = (torch.nn.LayerNorm(WIDTH) for _ in range(2))
        self.queries, self.keys, self.values = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.attention_out = torch.nn.Linear(WIDTH, WIDTH)
        self.mlp_up = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.mlp_down = torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, h):
        normal = self.attention_norm(h)
        q, k, v = (
            layer(normal).unflatten(-1, [HEADS, WIDTH // HEADS]).transpose(1, 2)
            for layer in (self.queries, self.keys, self.values)
        )
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        h = h + self.attention_out(mixed.transpose(1, 2).flatten(-2))
        return h + self.mlp_down(torch.nn.functional.gelu(self.mlp_up(self.mlp_norm(h))))


def compiled_gpt():
    """Blocks, and what they receive: 512 tokens in sequences of 128."""
    blocks = torch.nn.ModuleList(GptBlock(128, WIDTH, HEADS, 0.1, True) for _ in range(BLOCKS))
    for block in blocks:
        block.compile()
    return blocks, torch.randn(4, 128, WIDTH), lambda h: h.square().mean()


def jagged_transformer():
    """The same with 476 tokens in sequences of four lengths."""
    blocks = torch.nn.ModuleList(JaggedBlock() for _ in range(BLOCKS))
    rows = [torch.randn(length, WIDTH) for length in (128, 92, 160, 96)]
    x = torch.nested.nested_tensor(rows, layout=torch.jagged)
    return blocks, x, lambda h: h.values().square().mean()


def memory():
    (cpu,) = [entry for entry in reprise.memory_report().devices if entry.device == "cpu"]
    return cpu


class Bench:
    def __init__(self, make):
        torch.manual_seed(0)
        self.blocks, self.x, self.loss = make()
        self.expected = None

    def plainly(self):
        h = self.x
        for block in self.blocks:
            h = block(h)
        return self.loss(h)

    def checkpointed(self):
        h = self.x
        for block in self.blocks:
            h = torch_checkpoint.checkpoint(
                block,
                h,
                use_reentrant=False,
                determinism_check="none",  # which fails with parts of jagged attention
            )
        return self.loss(h)

    def budgeted(self, growth):
        """A forward within so many bytes beyond those in use before a step."""
        self.blocks.zero_grad()
        peak_bytes = memory().current_bytes + growth
        budget = reprise.MemoryBudget(peak_bytes=peak_bytes)

        def forward():
            forward.budget = budget  # lives as long
            with budget.step():
                return self.plainly()

        return forward

    def step(self, forward):
        """Returns the bytes at the peak beyond those before the step, and its seconds."""
        self.blocks.zero_grad()
        torch.manual_seed(1)
        before = memory().current_bytes
        reprise.reset_peak_cpu_memory()
        start = time.perf_counter()
        forward().backward()
        seconds = time.perf_counter() - start
        growth = memory().peak_bytes - before
        gradients = [p.grad.clone() for p in self.blocks.parameters()]
        self.expected = self.expected or gradients
        assert all(map(torch.equal, gradients, self.expected))
        return growth, seconds

    def rows(self, rounds):
        for forward in (self.plainly, self.plainly, self.checkpointed, self.checkpointed):
            self.step(forward)  # compiles
        plain, theirs = self.step(self.plainly)[0], self.step(self.checkpointed)[0]
        self.step(self.budgeted(2 * plain))  # compiles for regions
        theirs += theirs // 20
        forms = {
            "plain": self.plainly,
            "torch's checkpoint": self.checkpointed,
            "budget of 1.05 of that": self.budgeted(theirs),
            "budget of half of plain's": self.budgeted(plain // 2),
        }
        growths = {}
        for name in list(forms):  # first steps
            try:
                growths[name] = self.step(forms[name])[0]
            except reprise.BudgetExceededError:
                del forms[name]
                yield name, "does not fit", ""
        assert growths.get("budget of 1.05 of that", 0) <= theirs
        assert growths.get("budget of half of plain's", 0) <= plain // 2
        times = {name: [] for name in forms}
        for i in range(5 + rounds):
            for name in list(forms) if i % 2 else reversed(list(forms)):
                growth, seconds = self.step(forms[name])
                growths[name] = max(growths[name], growth)
                if i >= 5:
                    times[name].append(seconds)
        for name, growth in growths.items():
            yield name, f"{growth / plain:.3f}", ratios(times[name], times["torch's checkpoint"])


def ratios(times, others):
    """The median and the quartiles of each time over the other one of its round."""
    low, median, high = statistics.quantiles([a / b for a, b in zip(times, others)], n=4)
    return f"{median:.3f} ({low:.3f}-{high:.3f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    reprise.install_cpu_memory_counter()
    print(
        "| model | step | peak / plain | time / torch's checkpoint |\n| --- | --- | ---: | ---: |"
    )
    for make in (compiled_gpt, jagged_transformer):
        for name, peak, time_ratio in Bench(make).rows(rounds):
            print(f"| {make.__name__.replace('_', ' ')} | {name} | {peak} | {time_ratio} |")


if __name__ == "__main__":
    main()
