# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Logs of DTR's simulator ("Dynamic tensor rematerialization", 2021) as traces of the planner.

A log has a JSON object per line, for each thing that a training step does: CALL and MUTATE run an
operator, MEMORY and ALIAS follow for each result of a CALL, CONSTANT makes a tensor that is never
freed, COPY, COPY_FROM and RELEASE count references, and ANNOTATE marks the beginning of the step
and of its backward. A trace means the same (planner/trace_format.h):

- A value is a storage. What the step releases is freed after its last reader; of what forward made
  and backward reads, the program lets go after its last reader in forward, and from then on it is
  the plan's. The references of a log may last longer, of values that nothing reads any more: here
  they do not, and dtr_table.py has DTR's simulator free such values as early.
- MUTATE makes new values of the sizes of the old ones.
- What makes views takes no time, here and in DTR's simulator: without this, views that are made
  again would cost time there, and none here.

DTR may evict what backward itself makes, and what the step leaves behind, until its end; a plan may
not. A trace has one forward and one backward.
"""

import json
from dataclasses import dataclass, field


@dataclass
class Storage:
    bytes: int
    made_by: int = -1  # an operator; -1: there before the step
    references: int = 1
    is_released: bool = False
    is_constant: bool = False
    readers: list[int] = field(default_factory=list)  # operators


@dataclass
class LogOperator:
    name: str
    seconds: float
    reads: list[int]  # storages
    results: list[int]
    is_constant: bool = False


class Converter:
    """Reads a log from its START mark on, if it has one."""

    def __init__(self, lines):
        self._records = [json.loads(line) for line in lines]
        self._next = 0
        self._storages = []
        self._names = {}  # of tensors: the storage
        self._operators = []
        self._backward_begin = None

    def lines(self):
        """Returns the lines of the trace.

        Raises:
          ValueError: if the log has no mark of its backward, or something unknown.
        """
        self._skip_to_start()
        while self._next < len(self._records):
            self._read(self._pop())
        if self._backward_begin is None:
            raise ValueError("the log does not mark where backward begins")
        return [json.dumps(record) for record in self._records_of_trace()]

    def _pop(self, kind=None):
        record = self._records[self._next]
        self._next += 1
        if kind is not None and record["INSTRUCTION"] != kind:
            raise ValueError(f"{record} where {kind} is expected")
        return record

    def _skip_to_start(self):
        for position, record in enumerate(self._records):
            if record["INSTRUCTION"] == "ANNOTATE" and record["ANNOTATION"] == "START":
                self._next = position + 1
                return

    def _read(self, record):
        kind = record["INSTRUCTION"]
        if kind == "CONSTANT":
            self._add_constant(record["NAME"], int(self._pop("MEMORY")["MEMORY"]))
        elif kind == "COPY":
            self._refer(record["DST"], self._names[record["SRC"]])
        elif kind == "COPY_FROM":
            old = self._names[record["DST"]]
            self._refer(record["DST"], self._names[record["SRC"]])
            self._release(old)
        elif kind == "RELEASE":
            if record["NAME"] in self._names:
                self._release(self._names[record["NAME"]])
        elif kind == "CALL":
            self._call(record)
        elif kind == "MUTATE":
            self._mutate(record)
        elif kind == "ANNOTATE":
            if record["ANNOTATION"] == "BACKWARD":
                self._backward_begin = len(self._operators)
        else:
            raise ValueError(f"an unknown instruction: {record}")

    def _refer(self, name, storage):
        self._names[name] = storage
        self._storages[storage].references += 1

    def _release(self, storage):
        each = self._storages[storage]
        each.references -= 1
        each.is_released = each.references == 0 and not each.is_constant

    def _add_constant(self, name, size):
        self._names[name] = len(self._storages)
        self._storages.append(Storage(size, is_constant=True))
        if self._operators:
            self._run("constant", 0, [], [self._names[name]], is_constant=True)

    def _call(self, record):
        reads = [self._names[name] for name in record["ARGS"]]
        made = []
        for name in record["RESULT"]:
            size = int(self._pop("MEMORY")["MEMORY"])
            alias = int(self._pop("ALIAS")["ALIAS"])
            if alias >= 0:
                self._refer(name, reads[alias])
            else:
                made.append(self._add_result(name, size))
        if made:
            self._run(record["NAME"], int(record["TIME"]), reads, made)

    def _mutate(self, record):
        reads = [self._names[name] for name in record["ARGS"]]
        made = []
        for position in record["MUTATE"]:
            size = self._storages[reads[position]].bytes
            made.append(self._add_result(record["ARGS"][position], size))
        self._run(record["NAME"], int(record["TIME"]), reads, made)
        for position in record["MUTATE"]:
            self._release(reads[position])

    def _add_result(self, name, size):
        self._names[name] = len(self._storages)
        self._storages.append(Storage(size))
        return self._names[name]

    def _run(self, name, nanoseconds, reads, results, is_constant=False):
        number = len(self._operators)
        reads = sorted(set(reads))
        for storage in reads:
            self._storages[storage].readers.append(number)
        for storage in results:
            self._storages[storage].made_by = number
        self._operators.append(LogOperator(name, nanoseconds / 1e9, reads, results, is_constant))

    def _is_of_forward(self, storage):
        return 0 <= self._storages[storage].made_by < self._backward_begin

    def _released(self, storage):
        """Returns the operator after which the program no longer holds a value; -1: none."""
        each = self._storages[storage]
        if not each.is_released:
            return -1
        is_planned = self._is_of_forward(storage)
        readers = [op for op in each.readers if op < self._backward_begin or not is_planned]
        return max([each.made_by, *readers])

    def _records_of_trace(self):
        yield {"format": "reprise-trace", "version": 1, "backward_begin": self._backward_begin}
        for number, storage in enumerate(self._storages):
            record = {"value": number, "bytes": storage.bytes}
            released = self._released(number)
            if released >= 0:
                record["released"] = released
            if storage.made_by < 0:
                record["kind"] = "input"
            yield record
        for number, each in enumerate(self._operators):
            is_forward = number < self._backward_begin
            reads = [s for s in each.reads if is_forward or self._is_of_forward(s)]
            record = {"operator": number, "name": each.name, "seconds": each.seconds}
            if each.is_constant or not is_forward:
                record["can_recompute"] = False
            yield record | {"reads": reads, "results": each.results}


def to_trace(lines):
    """Returns the trace of a log, as lines of text."""
    return Converter(lines).lines()
