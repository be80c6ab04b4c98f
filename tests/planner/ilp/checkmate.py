# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The least time of a step within a budget, by integer programming, for small traces.

After Jain et al., "Checkmate" (MLSys 2020), under the rules of planner/simulator.h, and with more
freedom than plans have: a value may be dropped and recomputed as often as one likes. So no plan is
faster.

A *stage* is a value that an operator of backward reads. In it, each operator of forward that the
value depends on may run again, once, in the order of forward. A *slot* is one possible run. The
binary variables say which operators run in which stage; the others, which values are in memory in
which slot. A value can be in memory only if it was so in the slot before or is made in this one,
and those that are read must be. In an optimum nothing else is: then memory is freed after the last
use. During forward nothing runs again.

For operators of forward with one result each, and values before the step that are never released.
"""

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array


class Program:
    """A mixed integer linear program, whose rows are added one by one."""

    def __init__(self):
        self.costs = []
        self.is_integer = []
        self.rows = []  # of (coefficient, variable)
        self.limits = []

    def add_variable(self, cost=0, is_integer=False):
        """A variable from 0 to 1."""
        self.costs.append(cost)
        self.is_integer.append(is_integer)
        return len(self.costs) - 1

    def add_at_most(self, terms, limit):
        """Demands that the sum of the terms, pairs of coefficient and variable, is at most this."""
        self.rows.append(terms)
        self.limits.append(limit)

    def solve(self):
        """The optimal variables, or None if there are none."""
        data = [coefficient for terms in self.rows for coefficient, _ in terms]
        columns = [variable for terms in self.rows for _, variable in terms]
        begins = np.cumsum([0] + [len(terms) for terms in self.rows])
        matrix = csr_array((data, columns, begins), shape=(len(self.rows), len(self.costs)))
        result = milp(
            np.array(self.costs, dtype=float),
            integrality=np.array(self.is_integer, dtype=int),
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(matrix, -np.inf, np.array(self.limits, dtype=float)),
            options={"mip_rel_gap": 0},
        )
        if result.status == 2:
            return None
        if result.status != 0:
            raise RuntimeError(result.message)
        return result.x


class Step:
    """What does not depend on the budget."""

    def __init__(self, trace):
        self.trace = trace
        self.producers = trace.producers()
        self.end = len(trace.operators)
        self.made = [
            value
            for value, producer in enumerate(self.producers)
            if producer is not None and producer < trace.backward_begin
        ]
        self.result = {}  # by operator of forward
        for value in self.made:
            if self.producers[value] in self.result:
                raise ValueError(f"operator {self.producers[value]} has more than one result")
            self.result[self.producers[value]] = value
        for value, producer in enumerate(self.producers):
            if producer is None and trace.values[value].released != -1:
                raise ValueError(f"value {value} exists before the step and is released in it")

    def bytes(self, value):
        return self.trace.values[value].bytes

    def released(self, value):
        released = self.trace.values[value].released
        return self.end if released == -1 else released

    def is_held(self, value, operator):
        """Whether the program holds the value while `operator`, or what it requests, runs."""
        return self.producers[value] is None or self.released(value) >= operator

    def fixed_bytes(self, operator, is_itself):
        """Bytes that are there in any case: before `operator` of backward runs, or as it does."""
        total = 0
        for value, producer in enumerate(self.producers):
            is_made = (
                producer is None or producer < operator or (is_itself and producer == operator)
            )
            total += self.bytes(value) if is_made and self.is_held(value, operator) else 0
        return total

    def needed_operators(self, value):
        """The operators of forward that may run to recompute the value, in order."""
        found, pending = set(), [value]
        while pending:
            producer = self.producers[pending.pop()]
            if producer is not None and producer not in found:
                found.add(producer)
                pending += self.trace.operators[producer].reads
        return sorted(op for op in found if self.trace.operators[op].can_recompute)


class Schedules:
    """All schedules within a budget, as a program."""

    def __init__(self, step, budget):
        self.step = step
        self.budget = budget
        self.program = Program()
        # By value: the variable that says whether it was in memory in the slot before. Values that
        # the program held then have none, and may stay.
        self.before = {}
        self.add_forward()
        for operator in range(step.trace.backward_begin, step.end):
            for value in step.trace.operators[operator].reads:
                if not step.is_held(value, operator):
                    self.add_stage(operator, value)
            self.add_backward(operator)

    def add_forward(self):
        step, trace = self.step, self.step.trace
        turn = trace.backward_begin
        for value in step.made:
            if not step.is_held(value, turn):
                self.before[value] = self.program.add_variable()  # retained
        base = sum(step.bytes(v) for v, producer in enumerate(step.producers) if producer is None)
        for operator in range(turn):
            here = [value for value in step.made if step.producers[value] <= operator]
            held = sum(step.bytes(value) for value in here if step.is_held(value, operator))
            workspace = trace.operators[operator].workspace_bytes
            terms = [
                (step.bytes(value), self.before[value])
                for value in here
                if not step.is_held(value, operator)
            ]
            self.program.add_at_most(terms, self.budget - base - held - workspace)

    def add_slot(self, operator, made=None, run=None):
        """Adds which values are in memory in a slot, of those that the program does not hold."""
        present = {}
        for value in self.step.made:
            if self.step.is_held(value, operator):
                continue
            present[value] = self.program.add_variable()
            if value in self.before:
                terms = [(1, present[value]), (-1, self.before[value])]
                if value == made:
                    terms.append((-1, run))
                self.program.add_at_most(terms, 0)
        self.before = present
        return present

    def add_stage(self, operator, requested):
        for rerun in self.step.needed_operators(requested):
            made = self.step.result[rerun]
            if self.step.is_held(made, operator):
                continue
            again = self.step.trace.operators[rerun]
            run = self.program.add_variable(cost=again.seconds, is_integer=True)
            present = self.add_slot(operator, made, run)
            for value in [*again.reads, made]:
                if not self.step.is_held(value, operator):
                    self.program.add_at_most([(1, run), (-1, present[value])], 0)
            terms = [(self.step.bytes(value), variable) for value, variable in present.items()]
            terms.append((again.workspace_bytes, run))
            fixed = self.step.fixed_bytes(operator, is_itself=False)
            self.program.add_at_most(terms, self.budget - fixed)

    def add_backward(self, operator):
        present = self.add_slot(operator)
        itself = self.step.trace.operators[operator]
        for value in itself.reads:
            if not self.step.is_held(value, operator):
                self.program.add_at_most([(-1, present[value])], -1)
        terms = [(self.step.bytes(value), variable) for value, variable in present.items()]
        fixed = self.step.fixed_bytes(operator, is_itself=True) + itself.workspace_bytes
        self.program.add_at_most(terms, self.budget - fixed)


def least_seconds(trace, budget):
    """The time of the fastest step whose peak is at most `budget` bytes; None if there is none."""
    schedules = Schedules(Step(trace), budget)
    variables = schedules.program.solve()
    if variables is None:
        return None
    is_integer = np.array(schedules.program.is_integer)
    runs = np.round(variables[is_integer])
    return trace.seconds() + float(runs @ np.array(schedules.program.costs)[is_integer])
