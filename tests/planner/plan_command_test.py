#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The program behind tools/plan: reports of memory budgets, a long chain with a store, errors."""

import argparse
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

PROGRAM = None
LAYERS = 40
MIB = 1 << 20


def report_lines():
    """Returns a report of a chain of layers, of whose results every fourth is retained."""
    values = [{"value": 0, "bytes": 8 * MIB, "kind": "parameter", "name": "weights"}]
    operators = []
    for layer in range(LAYERS):
        value = len(values)
        values.append({"value": value, "bytes": MIB, "released": layer + 1})
        operators.append({"name": f"layer{layer}", "reads": [0, value - 1], "results": [value]})
    values[-1]["released"] = LAYERS - 1
    for layer in reversed(range(LAYERS)):
        operators.append({"name": f"layer{layer}_backward", "can_recompute": False})
        operators[-1] |= {"reads": [layer + 1], "results": [len(values)]}
        released = min(len(operators), 2 * LAYERS - 1)
        values.append({"value": len(values), "bytes": MIB // 2, "released": released})
    operators = [{"operator": i, "seconds": 0.001} | op for i, op in enumerate(operators)]
    choices = [{"value": v, "retained_from": 0} for v in range(4, LAYERS + 1, 4)]
    return [
        {"format": "reprise-report", "version": 1, "budget_bytes": 26 * MIB},
        {"format": "reprise-trace", "version": 1, "backward_begin": LAYERS},
        *values,
        *operators,
        {"format": "reprise-plan", "version": 1, "values": len(values)},
        *choices,
    ]


def long_chain_lines(layers):
    """Returns the trace of a chain; backward of a layer reads the layer's input."""
    values = [{"value": 0, "bytes": MIB, "kind": "input"}]
    operators = []
    for layer in range(layers):
        values.append({"bytes": MIB, "released": min(layer + 1, layers - 1)})
        operators.append({"name": f"layer{layer}", "reads": [layer], "results": [layer + 1]})
    for layer in reversed(range(layers)):
        operators.append({"name": f"layer{layer}_backward", "can_recompute": False})
        operators[-1]["reads"] = [layer]
    return [
        {"format": "reprise-trace", "version": 1, "backward_begin": layers},
        *[value | {"value": i} for i, value in enumerate(values)],
        *[{"operator": i, "seconds": 0.001} | op for i, op in enumerate(operators)],
    ]


class PlanCommandTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.report = self.folder / "step.report"
        self.write(report_lines())

    def write(self, lines):
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        self.report.write_text(text)

    def run_program(self, *options):
        return subprocess.run(
            [PROGRAM, self.report, *options], capture_output=True, text=True, check=False
        )

    def test_shows_the_plan_that_the_budget_follows(self):
        done = self.run_program()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("budget      26.0 MiB", done.stdout)
        self.assertIn("method      followed by the budget", done.stdout)
        plan = json.loads(self.run_program("--json").stdout)["plan"]
        self.assertEqual(plan["budget_bytes"], 26 * MIB)
        retained = [each for each in plan["choices"] if each["fate"] == "retained"]
        self.assertEqual([each["value"] for each in retained], list(range(4, LAYERS + 1, 4)))

    def test_plans_anew_where_that_is_asked_for(self):
        done = self.run_program("--budget", "30MiB")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("budget      30.0 MiB", done.stdout)
        self.assertNotIn("followed by the budget", done.stdout)

    def test_puts_checkpoints_of_a_long_chain_into_a_store(self):
        self.write(long_chain_lines(500))
        budget = ("--budget", "7MiB")
        alone = json.loads(self.run_program(*budget, "--json").stdout)["plan"]
        store = ("--store", "disk,rate=200MB/s")
        done = self.run_program(*budget, *store)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"stored      [0-9.]+ MiB, waited for [0-9]+ ms")
        plan = json.loads(self.run_program(*budget, *store, "--json").stdout)["plan"]
        stored = [each for each in plan["choices"] if each["fate"] == "stored"]
        self.assertEqual({each["store"] for each in stored}, {"disk"})
        self.assertEqual(plan["stored_bytes"], len(stored) * MIB)
        self.assertGreater(len(stored), 10)
        self.assertLess(plan["seconds"], 0.8 * alone["seconds"])
        self.assertLess(plan["recompute_seconds"], alone["recompute_seconds"] / 2)
        self.assertLessEqual(plan["peak_bytes"], 7 * MIB)

    @unittest.skipUnless(shutil.which("gnuplot"), "gnuplot is missing")
    def test_draws_the_memory_and_the_values(self):
        picture = self.folder / "step.svg"
        done = self.run_program("--plot", picture)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = picture.read_text()
        for part in (
            "Memory over the step under the plan that the budget follows",
            "budget 26.0 MiB",
            "without recomputation",
            "recomputed",
            "Values of the step in memory",
            "are left out",
            "result of #3 layer3, 1.00 MiB",
        ):
            self.assertIn(part, text)

    def test_refuses_broken_reports_by_line(self):
        lines = report_lines()
        lines[0]["version"] = 2
        self.write(lines)
        done = self.run_program()
        self.assertEqual(done.returncode, 1)
        self.assertIn("step.report: line 1 has version 2, not 1", done.stderr)
        self.write(report_lines()[:-12])
        self.assertEqual(self.run_program().returncode, 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True, type=pathlib.Path, help="reprise_plan")
    arguments, rest = parser.parse_known_args()
    PROGRAM = arguments.program
    unittest.main(argv=[__file__, *rest])
