# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Tests .ci/ran_whole with reports and a program made up."""

import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALL_ROUNDS = ROOT / "tests/engine/errors_test.cpp"
FEWER_ROUNDS = ROOT / "tests/engine/budget_stores_test.cpp"  # includes testing/sanitized.h
FEWER_BY_HEADER = ROOT / "tests/engine/selective_operators_test.cpp"  # by engine/under_policies.h

CASES = """Whole.
  First
  Second
Whole/Parameters.  # TypeParam = float
  Runs/0  # GetParam() = 1
Fewer.
  First
FewerByHeader.
  First
Skipped.
  First
  Second
LeftOut.
  First
  Second
Failed.
  First
"""


def case(suite, name, file=ALL_ROUNDS, result="completed", inside=""):
    return (
        f'<testcase name="{name}" file="{file}" status="run" result="{result}" '
        f'classname="{suite}">{inside}</testcase>'
    )


class RanWholeTest(unittest.TestCase):
    def run_tool(self, *reports):
        """Returns the result of .ci/ran_whole for reports of the program engine_test."""
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            program = build / "dev" / "tests" / "engine_test"
            program.parent.mkdir(parents=True)
            program.write_text(f"#!/bin/sh\ncat <<'END'\n{CASES}END\n")
            program.chmod(0o755)
            folder = build / "asan" / "tests" / "reports"
            folder.mkdir(parents=True)
            for number, cases in enumerate(reports):
                text = f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>"
                (folder / f"engine_test.{number}.xml").write_text(text)
            return subprocess.run(
                [ROOT / ".ci" / "ran_whole", build / "asan", build / "dev"],
                capture_output=True,
                text=True,
            )

    def test_names_suites_of_which_all_cases_passed_in_any_report(self):
        first = [
            case("Whole", "First"),
            case("Whole/Parameters", "Runs/0"),
            case("LeftOut", "First"),
            case("Skipped", "First"),
        ]
        second = [
            case("Whole", "Second"),
            case("Fewer", "First", FEWER_ROUNDS),
            case("FewerByHeader", "First", FEWER_BY_HEADER),
            case("Skipped", "Second", result="skipped"),
            case("Failed", "First", inside="<failure/>"),
        ]
        result = self.run_tool(first, second)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "^(engine_test\\.Whole|engine_test\\.Whole/Parameters)$\n")
        self.assertIn("engine_test: 3 of 10 cases, 2 of 7 suites", result.stderr)

    def test_fails_without_reports(self):
        result = self.run_tool()
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("no reports", result.stderr)

    def test_leaves_out_nothing_if_nothing_ran_whole(self):
        result = self.run_tool([case("LeftOut", "First")])
        self.assertEqual(result.stdout, "^()$\n")


if __name__ == "__main__":
    unittest.main()
