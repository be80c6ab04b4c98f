# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Steps within budgets of memory: torch.compile's activation_memory_budget, and our MemoryBudget.

Of one model in Python, in this one process, with one counter of bytes. A budget is a part: of what
torch.compile saves without one, as it is defined there, and of the peak of the plain eager step for
ours. Prints JSON: the plain step, and of each side and budget the bytes at the peak, the gradients'
distance from those without a budget, and the times of steps, or why it has failed.
"""

import argparse
import contextlib
import ctypes
import gc
import json
import sys
import time
import types

import torch
from budget_models import BUDGET_MODELS, make_budget_model
from model_steps import Bench, Counter, run_plainly
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config

BACKENDS = ("aot_eager", "inductor")
BUDGETS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
NO_BUDGET = 1.0  # torch.compile's default
WARM_UPS = 4  # steps; ours observes and plans in the first ones, torch.compile compiles
LONGEST_FAILURE = 320  # characters


class Compiled:
    """A step's forward under torch.compile."""

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
    library = ctypes.CDLL(path)
    library.reprise_make_budget.argtypes = [ctypes.c_int64]
    library.reprise_make_budget.restype = ctypes.c_void_p
    for function in (library.reprise_begin_budget_scope, library.reprise_close_budget_scope):
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

    def __init__(self, library, peak_bytes):
        self.library, self.peak_bytes = library, peak_bytes
        self.budget = library.reprise_make_budget(peak_bytes)

    def run(self, model):
        check(self.library.reprise_begin_budget_scope(self.budget))
        try:
            return run_plainly(model)
        finally:
            check(self.library.reprise_close_budget_scope(self.budget))

    def compiling(self):
        return contextlib.nullcontext()

    def facts(self):
        """Of the last step: what the budget itself says."""
        step = LastStep()
        if not self.library.reprise_last_budgeted_step(self.budget, ctypes.byref(step)):
            return {}
        return {"last_step": {name: getattr(step, name) for name, _ in LastStep._fields_}}


@contextlib.contextmanager
def noting_failure(entry):
    """A budget at which a side fails is a result, too."""
    try:
        yield
    except Exception as error:  # whatever a compiler or an allocator raises
        entry["failed"] = f"{type(error).__name__}: {error}".splitlines()[0][:LONGEST_FAILURE]


def distance(gradients, others):
    """The norm of their difference, as a part of that of `others`."""
    difference = sum((a - b).square().sum().item() for a, b in zip(gradients, others))
    return (difference / sum(b.square().sum().item() for b in others)) ** 0.5


def prepare(bench, side, without_budget):
    """The side's entry, and its gradients; `without_budget` are the ones to compare them with."""
    entry, gradients = {"step_ms": []}, None
    with noting_failure(entry):
        start = time.monotonic()
        with side.compiling():
            for _ in range(WARM_UPS):
                bench.step_milliseconds(side.run)
        entry["warm_up_seconds"] = time.monotonic() - start
        _, entry["peak_bytes"], gradients, _, entry["loss"] = bench.outcome_of(side.run)
        if without_budget is not None:
            entry["gradient_distance"] = distance(gradients, without_budget)
        entry |= side.facts()
    return entry, gradients


def prepare_compiled(bench, backend, budgets):
    """Yields (budget, side, entry), no budget first."""
    reference = None
    for budget in (NO_BUDGET, *budgets):
        side = Compiled(backend, budget)
        entry, gradients = prepare(bench, side, reference)
        if budget == NO_BUDGET:
            reference = gradients
        yield budget, side, entry


def prepare_ours(bench, library, budgets, plain_peak, gradients):
    for budget in budgets:
        bench.reset()
        gc.collect()
        side = Ours(library, bench.counter.current() + round(budget * plain_peak))
        entry, _ = prepare(bench, side, gradients)
        yield budget, side, entry


def time_rounds(bench, plain, prepared, rounds):
    """Appends a step of each to its times, in an order that is reversed each round."""
    order = [(run_plainly, plain), *((side.run, entry) for _, side, entry in prepared)]
    for _ in range(rounds):
        for run, entry in order:
            if "failed" not in entry:
                with noting_failure(entry):
                    entry["step_ms"].append(bench.step_milliseconds(run))
        order.reverse()


def measure(bench, library, backends, budgets, rounds):
    bench.step_milliseconds(run_plainly)
    _, plain_peak, gradients, _, loss = bench.outcome_of(run_plainly)
    plain = {"peak_bytes": plain_peak, "loss": loss, "step_ms": []}
    prepared = {}
    for backend in backends:
        prepared[backend] = list(prepare_compiled(bench, backend, budgets))
    # After them, as what they leave behind would count against its budgets.
    prepared["ours"] = list(prepare_ours(bench, library, budgets, plain_peak, gradients))
    torch._dynamo.config.error_on_recompile = True
    time_rounds(bench, plain, sum(prepared.values(), []), rounds)
    sides = {
        name: {str(budget): entry for budget, _, entry in found} for name, found in prepared.items()
    }
    return {"plain": plain, "sides": sides}


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
    inductor_config.force_disable_caches = True  # each budget is compiled
    gc.freeze()  # what the imports made is not looked through again
    bench = Bench(make_budget_model(arguments.model), Counter(arguments.library))
    library = load_library(arguments.library)
    wanted = (arguments.backends, arguments.budgets, arguments.rounds)
    json.dump(measure(bench, library, *wanted), sys.stdout, indent=1)


if __name__ == "__main__":
    main()
