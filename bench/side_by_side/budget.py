# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Steps within budgets of memory: torch.compile's activation_memory_budget, and our MemoryBudget.

Of one model in Python, in this one process, with one counter of bytes. A budget is a part: of what
torch.compile saves without one, as it is defined there, and of the peak of the plain eager step for
ours. Prints JSON: the plain step, and of each side and budget the bytes at the peak, whether the
gradients are those without a budget, and the times of steps, or why it has failed.
"""

import argparse
import contextlib
import ctypes
import dataclasses
import gc
import json
import os
import sys
import tempfile
import time
import types

import torch
from budget_models import BUDGET_MODELS, COMPILED_BUDGETS, make_budget_model
from model_steps import Bench, Counter, have_equal_bits, run_plainly
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config

BACKENDS = ("aot_eager", "inductor")
BUDGETS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
NO_BUDGET = 1.0  # torch.compile's default
LONGEST_FAILURE = 320  # characters
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of glibc's mallopt()


class Compiled:
    """A step's forward under torch.compile."""

    warm_ups = 2  # steps, of which the first compiles
    may_fail_at_first = False
    backward = staticmethod(torch.Tensor.backward)

    def __init__(self, backend, budget):
        # Compiled code is cached per code object, whatever the budget: each gets its own.
        code = run_plainly.__code__.replace()
        forward = types.FunctionType(code, run_plainly.__globals__)
        self.run = torch.compile(forward, backend=backend, fullgraph=True)
        self.budget = budget

    def compiling(self):
        return functorch_config.patch(activation_memory_budget=self.budget)

    def facts(self):
        return {}


def compiled_graphs():
    """Since the process began; forward and backward of a step are one."""
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


class LastStep(ctypes.Structure):
    """RepriseLastStep in python_budget.cpp."""

    _fields_ = [
        ("peak_bytes", ctypes.c_int64),
        ("evicted_bytes", ctypes.c_int64),
        ("predicted_peak_bytes", ctypes.c_int64),
        ("predicted_seconds", ctypes.c_double),
        ("plain_seconds", ctypes.c_double),
        ("bound_seconds", ctypes.c_double),
    ]


def load_library(path):
    torch.ops.load_library(path)
    library = ctypes.CDLL(path)
    library.reprise_make_budget.argtypes = [ctypes.c_int64]
    library.reprise_make_budget.restype = ctypes.c_void_p
    for end in ("begin", "close", "abandon"):
        function = getattr(library, f"reprise_{end}_budget_scope")
        function.argtypes = [ctypes.c_void_p]
        function.restype = ctypes.c_char_p
    library.reprise_last_budgeted_step.argtypes = [ctypes.c_void_p, ctypes.POINTER(LastStep)]
    library.reprise_last_budgeted_step.restype = ctypes.c_bool
    return library


def check(error):
    if error is not None:
        raise RuntimeError(error.decode())


class Ours:
    """A step's forward in a BudgetScope; the budget lives as long as the process."""

    warm_ups = 5  # of which up to three observe and plan
    may_fail_at_first = True  # a small budget can need a plan, which the first step lacks

    def __init__(self, library, bytes_before, growth):
        self.library, self.bytes_before, self.growth = library, bytes_before, growth
        self.budget = library.reprise_make_budget(bytes_before + growth)
        # Tensor.backward() calls its engine past the default one, which the budget observes.
        self.backward = torch.ops.reprise_bench.backward

    def run(self, model):
        check(self.library.reprise_begin_budget_scope(self.budget))
        try:
            loss = run_plainly(model)
        except BaseException:
            check(self.library.reprise_abandon_budget_scope(self.budget))
            raise
        check(self.library.reprise_close_budget_scope(self.budget))
        return loss

    def compiling(self):
        return contextlib.nullcontext()

    def facts(self):
        """What the budget itself says of the last step; bytes are over those before the step."""
        facts = {"bytes_before": self.bytes_before, "budget_bytes": self.growth}
        step = LastStep()
        if self.library.reprise_last_budgeted_step(self.budget, ctypes.byref(step)):
            facts["last_step"] = {name: getattr(step, name) for name, _ in LastStep._fields_}
            for name in ("peak_bytes", "predicted_peak_bytes"):
                facts["last_step"][name] -= self.bytes_before
        return facts


@contextlib.contextmanager
def noting_failure(entry):
    """A budget at which a side fails is a result, too."""
    try:
        yield
    except Exception as error:  # whatever a compiler or an allocator raises
        entry["failed"] = f"{type(error).__name__}: {error}".splitlines()[0][:LONGEST_FAILURE]


@dataclasses.dataclass
class Outcome:
    """What a step without a budget gives."""

    gradients: list
    buffers: list
    loss: float

    def distance_of(self, gradients):
        """The norm of the difference of gradients, as a part of that of these."""
        pairs = zip(gradients, self.gradients, strict=True)
        difference = sum((a - b).square().sum().item() for a, b in pairs)
        return (difference / sum(b.square().sum().item() for b in self.gradients)) ** 0.5

    def compare(self, other):
        return {
            "gradient_distance": self.distance_of(other.gradients),
            "equal_bits": have_equal_bits(other.gradients, self.gradients)
            and have_equal_bits(other.buffers, self.buffers)
            and other.loss == self.loss,
        }


def outcome_of(bench, run, backward=torch.Tensor.backward):
    """The step's figures, and its outcome."""
    kept, peak, gradients, buffers, loss = bench.outcome_of(run, backward)
    figures = {"kept_bytes": kept, "peak_bytes": peak, "loss": loss}
    return figures, Outcome(gradients, buffers, loss)


def warm_up(bench, side):
    """Returns how many of the first steps have failed, where that is no failure of the side."""
    failed_steps = 0
    for _ in range(side.warm_ups):
        try:
            bench.step_milliseconds(side.run, side.backward)
        except torch.OutOfMemoryError:
            if not side.may_fail_at_first:
                raise
            failed_steps += 1
    return failed_steps


def prepare(bench, side, without_budget):
    """The side's entry and outcome; `without_budget` is the outcome to compare it with."""
    entry, outcome = {"step_ms": []}, None
    with noting_failure(entry):
        start, graphs = time.monotonic(), compiled_graphs()
        with side.compiling():
            entry["failed_first_steps"] = warm_up(bench, side)
        entry["warm_up_seconds"] = time.monotonic() - start
        entry["graphs"] = compiled_graphs() - graphs
        figures, outcome = outcome_of(bench, side.run, side.backward)
        entry |= figures
        if without_budget is not None:
            entry |= without_budget.compare(outcome)
    return entry, outcome


def prepare_compiled(bench, backend, budgets):
    """Yields (side, budget, entry), no budget first."""
    without_budget = None
    for budget in (NO_BUDGET, *budgets):
        side = Compiled(backend, budget)
        entry, outcome = prepare(bench, side, without_budget)
        if budget == NO_BUDGET:
            without_budget = outcome
        del outcome  # its bytes
        yield side, budget, entry


def prepare_ours(bench, library, budgets, plain_peak, without_budget):
    for budget in budgets:
        bench.reset()
        gc.collect()
        side = Ours(library, bench.counter.current(), round(budget * plain_peak))
        yield side, budget, prepare(bench, side, without_budget)[0]


def time_step(bench, run, backward, entry):
    """Appends to its times, and raises its peak."""
    bench.reset()
    gc.collect()
    before = bench.counter.current()
    bench.counter.reset_peak()
    entry["step_ms"].append(bench.step_milliseconds(run, backward))
    entry["peak_bytes"] = max(entry["peak_bytes"], bench.counter.peak() - before)


def time_rounds(bench, plain, prepared, rounds):
    """Times a step of each, in an order that is reversed each round."""
    order = [(run_plainly, torch.Tensor.backward, plain)]
    order += ((side.run, side.backward, entry) for side, _, entry in prepared)
    for _ in range(rounds):
        for run, backward, entry in order:
            if "failed" not in entry:
                with noting_failure(entry):
                    time_step(bench, run, backward, entry)
        order.reverse()


def measure(bench, library, budgets, rounds):
    """`budgets` are those of each side."""
    bench.step_milliseconds(run_plainly)
    plain, outcome = outcome_of(bench, run_plainly)
    plain["step_ms"] = []
    prepared = {}
    for backend in (side for side in budgets if side != "ours"):
        prepared[backend] = list(prepare_compiled(bench, backend, budgets[backend]))
    # After them, as what they leave behind would count against its budgets.
    ours = prepare_ours(bench, library, budgets["ours"], plain["peak_bytes"], outcome)
    prepared["ours"] = list(ours)
    torch._dynamo.config.error_on_recompile = True
    gc.freeze()
    time_rounds(bench, plain, sum(prepared.values(), []), rounds)
    sides = {
        name: {str(budget): entry | side.facts() for side, budget, entry in found}
        for name, found in prepared.items()
    }
    return {"plain": plain, "sides": sides}


def keep_freed_memory():
    """So that no step pays for pages that the one before it, of another side, has given back."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        most = 2**31 - 1
        mallopt(M_TRIM_THRESHOLD, most)
        mallopt(M_MMAP_MAX, 0)


@contextlib.contextmanager
def compiling_anew():
    """Each budget's graph is compiled; only equal kernels of one process are compiled once."""
    inductor_config.fx_graph_cache = False
    functorch_config.enable_autograd_cache = False
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        yield


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=BUDGET_MODELS, required=True)
    parser.add_argument("--rounds", type=int, default=7, help="timed steps at each budget")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budgets", type=float, nargs="+", default=BUDGETS)
    parser.add_argument("--backends", choices=BACKENDS, nargs="*", default=BACKENDS)
    parser.add_argument("--library", required=True, help="libreprise_python_budget.so")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    gc.freeze()  # what the imports made is not looked through again
    bench = Bench(make_budget_model(arguments.model), Counter(arguments.library))
    library = load_library(arguments.library)
    budgets = {"ours": arguments.budgets}
    for backend in arguments.backends:
        at_all = COMPILED_BUDGETS.get((arguments.model, backend), arguments.budgets)
        budgets[backend] = [budget for budget in arguments.budgets if budget in at_all]
    with compiling_anew():
        found = measure(bench, library, budgets, arguments.rounds)
    json.dump(found, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
