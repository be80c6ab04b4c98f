# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Small traces of training steps: how to make, write and read them.

The text form is that of planner/trace_format.h: a line of JSON for the header, each value and each
operator.
"""

import json
import random
from dataclasses import dataclass, field

KINDS = ("chain", "diamonds", "residual")


@dataclass
class Value:
    bytes: int = 0
    released: int = -1  # the operator after which the program no longer holds it; -1: none
    kind: str = "activation"
    name: str = ""


@dataclass
class Operator:
    name: str = ""
    seconds: float = 0
    workspace_bytes: int = 0
    can_recompute: bool = True
    reads: list = field(default_factory=list)
    results: list = field(default_factory=list)


@dataclass
class Trace:
    operators: list = field(default_factory=list)
    values: list = field(default_factory=list)
    backward_begin: int = 0

    def add_value(self, **members):
        self.values.append(Value(**members))
        return len(self.values) - 1

    def producers(self):
        """The operator that makes each value; None for those that exist before the step."""
        producers = [None] * len(self.values)
        for number, operator in enumerate(self.operators):
            for value in operator.results:
                producers[value] = number
        return producers

    def seconds(self):
        return sum(operator.seconds for operator in self.operators)


def write_trace(trace, path):
    lines = [{"format": "reprise-trace", "version": 1, "backward_begin": trace.backward_begin}]
    lines += [{"value": i, **vars(value)} for i, value in enumerate(trace.values)]
    lines += [{"operator": i, **vars(operator)} for i, operator in enumerate(trace.operators)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def read_trace(path):
    """Raises ValueError for a trace that checkmate.py has no rules for."""
    header, *lines = (json.loads(line) for line in path.read_text().splitlines() if line)
    trace = Trace(backward_begin=header["backward_begin"])
    for line in lines:
        if "overwrites" in line:
            raise ValueError(f"{path}: value {line['value']} overwrites another one")
        if "value" in line:
            del line["value"]
            trace.values.append(Value(**line))
        else:
            del line["operator"]
            trace.operators.append(Operator(**line))
    return trace


class Builder:
    """A forward pass, and then the backward pass that follows from it."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.trace = Trace()
        self.needed = []  # by operator of forward: the values that its backward reads
        self.input = self.trace.add_value(bytes=self.size(), kind="input", name="input")

    def size(self):
        return self.random.randint(1, 24)

    def add(self, *inputs):
        """Adds an operator of forward. Returns its result."""
        trace = self.trace
        number = len(trace.operators)
        result = trace.add_value(bytes=self.size(), released=number, name=f"h{number}")
        reads = list(dict.fromkeys(inputs))
        for value in reads:
            if trace.values[value].kind == "activation":
                trace.values[value].released = number
        trace.operators.append(
            Operator(
                name=f"forward{number}",
                seconds=self.random.randint(1, 12),
                workspace_bytes=self.random.choice((0, 0, 0, self.size())),
                can_recompute=self.random.random() > 0.07,
                reads=reads,
                results=[result],
            )
        )
        # As of a product, an activation function, a sum.
        self.needed.append(self.random.choice((reads, [result], [*reads, result], [])))
        return result

    def finish(self):
        """Adds backward. Returns the trace."""
        trace = self.trace
        forward = trace.backward_begin = len(trace.operators)
        trace.values[trace.operators[-1].results[0]].released = forward
        producers = trace.producers()
        for number in reversed(range(forward)):
            backward = Operator(
                name=f"backward{number}",
                seconds=self.random.randint(1, 12),
                workspace_bytes=self.random.choice((0, 0, 0, self.size())),
                reads=self.needed[number],
            )
            for value in trace.operators[number].reads:
                if producers[value] is not None:
                    released = 2 * forward - 1 - producers[value]
                    backward.results.append(
                        trace.add_value(
                            bytes=trace.values[value].bytes,
                            released=released,
                            kind="gradient",
                            name=f"gradient of h{producers[value]}",
                        )
                    )
            if self.random.random() < 0.3:
                backward.results.append(
                    trace.add_value(
                        bytes=self.random.randint(1, 4),
                        kind="gradient",
                        name=f"gradient of parameter {number}",
                    )
                )
            trace.operators.append(backward)
        return trace


def add_block(builder, kind, x):
    """Adds at most four operators. Returns what they make of `x`."""
    if kind == "chain":
        return builder.add(x)
    if kind == "diamonds":
        left = builder.add(x)
        right = builder.add(builder.add(x)) if builder.random.random() < 0.5 else builder.add(x)
        return builder.add(left, right)
    y = x
    for _ in range(builder.random.randint(1, 3)):
        y = builder.add(y)
    return builder.add(x, y)


def make_trace(kind, seed, longest):
    """A trace of at most `longest` operators of forward; the same for the same arguments."""
    builder = Builder(f"{kind} {seed}")
    x = builder.add(builder.input)
    target = builder.random.randint(6, longest)
    while len(builder.trace.operators) + (1 if kind == "chain" else 4) <= target:
        x = add_block(builder, kind, x)
    while len(builder.trace.operators) < target:
        x = builder.add(x)
    return builder.finish()
