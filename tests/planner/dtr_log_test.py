#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Logs in the syntax of DTR's simulator as traces (bench/dtr/dtr_log.py), and their plans."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench" / "dtr"))

from dtr_log import to_trace

PROGRAM = None


class Log:
    """Writes a log."""

    def __init__(self):
        self.lines = []

    def add(self, instruction, **members):
        self.lines.append(json.dumps({"INSTRUCTION": instruction} | members))
        return self

    def annotate(self, annotation):
        return self.add("ANNOTATE", ANNOTATION=annotation)

    def constant(self, name, size):
        return self.add("CONSTANT", NAME=name).add("MEMORY", NAME=name, MEMORY=str(size))

    def call(self, name, args, results, time=1000):
        """results: by name, bytes, or the number of an argument as a string for a view of it."""
        self.add("CALL", NAME=name, ARGS=args, RESULT=list(results), TIME=str(time))
        for result, size in results.items():
            is_view = isinstance(size, str)
            self.add("MEMORY", NAME=result, MEMORY="0" if is_view else str(size))
            self.add("ALIAS", NAME=result, ALIAS=size if is_view else "-1")
        return self

    def mutate(self, name, args, positions, time=1000):
        return self.add("MUTATE", NAME=name, ARGS=args, MUTATE=positions, TIME=str(time))

    def release(self, *names):
        for name in names:
            self.add("RELEASE", NAME=name)
        return self


def layers(count):
    """A chain: each layer saves its input, of which the program lets go."""
    log = Log().constant("before", 1).annotate("START").constant("x0", 10)
    for layer in range(count):
        log.add("COPY", DST=f"saved{layer}", SRC=f"x{layer}")
        log.call("layer", [f"x{layer}"], {f"x{layer + 1}": 100}, 2000)
        log.release(f"x{layer}")
    log.call("sum", [f"x{count}"], {"loss": 4}, 500).release(f"x{count}").annotate("BACKWARD")
    log.call("sum_backward", ["loss"], {f"g{count}": 100}, 500)
    for layer in reversed(range(count)):
        log.call("layer_backward", [f"g{layer + 1}", f"saved{layer}"], {f"g{layer}": 100}, 3000)
        log.release(f"g{layer + 1}", f"saved{layer}")
    return log.lines


def parts(lines):
    """Returns the header, the values and the operators of a trace."""
    records = [json.loads(line) for line in lines]
    values = [record for record in records if "value" in record]
    return records[0], values, [record for record in records if "operator" in record]


class DtrLogTest(unittest.TestCase):
    def test_values_are_freed_by_the_program_after_their_last_reader_in_forward(self):
        header, values, operators = parts(to_trace(layers(2)))
        self.assertEqual(header, {"format": "reprise-trace", "version": 1, "backward_begin": 3})
        self.assertEqual([value["bytes"] for value in values], [10, 100, 100, 4, 100, 100, 100])
        # x0 is there before the step; of the last two nothing is released but the first gradient.
        self.assertEqual(
            [value.get("released") for value in values], [None, 1, 2, None, 4, 5, None]
        )
        self.assertEqual(values[0]["kind"], "input")
        self.assertEqual(
            [op["name"] for op in operators],
            ["layer", "layer", "sum", "sum_backward", "layer_backward", "layer_backward"],
        )
        self.assertEqual([op["reads"] for op in operators], [[0], [1], [2], [3], [1], []])
        self.assertEqual([op["results"] for op in operators], [[1], [2], [3], [4], [5], [6]])
        self.assertEqual([op["seconds"] for op in operators], [2e-6, 2e-6, 5e-7, 5e-7, 3e-6, 3e-6])
        self.assertEqual(
            [op.get("can_recompute", True) for op in operators], [True] * 3 + [False] * 3
        )

    def test_what_is_before_the_start_is_left_out(self):
        log = Log().call("warm_up", [], {"w": 5}).annotate("START").annotate("BACKWARD")
        self.assertEqual(len(to_trace(log.lines)), 1)

    def test_views_are_their_storages_and_take_no_time(self):
        log = Log().annotate("START").constant("x", 8)
        log.call("exp", ["x"], {"y": 8}).call("view", ["y"], {"v": "0"}).release("y")
        log.call("sin", ["v"], {"z": 8}).release("v").annotate("BACKWARD")
        _, values, operators = parts(to_trace(log.lines))
        self.assertEqual([op["name"] for op in operators], ["exp", "sin"])
        self.assertEqual(operators[1]["reads"], [1])
        self.assertEqual(values[1]["released"], 1)  # with the view

    def test_a_mutation_makes_a_new_value(self):
        log = Log().annotate("START").constant("x", 8).call("exp", ["x"], {"y": 8})
        log.mutate("add_", ["y", "x"], [0]).call("sin", ["y"], {"z": 8}).annotate("BACKWARD")
        _, values, operators = parts(to_trace(log.lines))
        self.assertEqual(
            operators[1],
            {"operator": 1, "name": "add_", "seconds": 1e-6, "reads": [0, 1], "results": [2]},
        )
        self.assertEqual(values[1], {"value": 1, "bytes": 8, "released": 1})
        self.assertEqual(operators[2]["reads"], [2])

    def test_references_are_counted(self):
        log = Log().annotate("START").constant("x", 8).call("exp", ["x"], {"y": 8, "unused": 2})
        log.release("unused", "unknown").call("cos", ["x"], {"z": 8})
        log.add("COPY", DST="a", SRC="y").release("y").add("COPY_FROM", DST="a", SRC="z")
        log.call("sin", ["a"], {"b": 8}).release("a").call("tan", ["z"], {"c": 8}).release("z")
        log.annotate("BACKWARD")
        _, values, operators = parts(to_trace(log.lines))
        self.assertEqual([value.get("released") for value in values], [None, 0, 0, 3, None, None])
        self.assertEqual(operators[2]["reads"], [3])

    def test_late_constants_are_there_from_then_on(self):
        log = Log().annotate("START").constant("x", 8).call("exp", ["x"], {"y": 8})
        log.constant("mask", 3).release("mask").call("mul", ["y", "mask"], {"z": 8})
        _, values, operators = parts(to_trace(log.annotate("BACKWARD").lines))
        self.assertEqual(values[2], {"value": 2, "bytes": 3})
        self.assertFalse(operators[1]["can_recompute"])
        self.assertEqual((operators[1]["name"], operators[1]["seconds"]), ("constant", 0))

    def test_errors_say_what_is_wrong(self):
        with self.assertRaisesRegex(ValueError, "does not mark where backward begins"):
            to_trace(Log().annotate("START").lines)
        with self.assertRaisesRegex(ValueError, "unknown instruction: .*TELEPORT"):
            to_trace(Log().add("TELEPORT").lines)
        with self.assertRaisesRegex(ValueError, "where MEMORY is expected"):
            to_trace(Log().add("CONSTANT", NAME="x").annotate("BACKWARD").lines)

    def test_traces_can_be_planned(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "layers.trace"
            trace.write_text("\n".join(to_trace(layers(12))) + "\n")
            report = json.loads(
                subprocess.run(
                    [PROGRAM, trace, "--budget", "714", "--json"], capture_output=True, check=True
                ).stdout
            )
        # At the first backward of a layer: 11 saved results, two gradients, the input and the loss.
        self.assertEqual(report["trace"]["peak_bytes"], 11 * 100 + 200 + 10 + 4)
        self.assertLessEqual(report["plan"]["peak_bytes"], 714)
        self.assertGreater(report["plan"]["extra_time_percent"], 0)
        self.assertAlmostEqual(report["trace"]["seconds"] * 1e9, 12 * 5000 + 1000)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    arguments, rest = parser.parse_known_args()
    PROGRAM = arguments.program
    unittest.main(argv=[sys.argv[0], *rest])
