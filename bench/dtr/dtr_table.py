#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""DTR's own traces: its simulator beside the planner, as a table in Markdown.

  bench/dtr/dtr_table.py --simrd DTR/simrd --logs DTR/simrd/logs --program build/release/planner/reprise_plan

needs DTR's prototype (uwsampl/dtr-prototype on GitHub), of which `simrd/` is the simulator and
`simrd/logs.zip` the logs, and the Python package attrs. A budget is a part of the activations' peak
in DTR's simulator without a limit: the bytes above those of its constants, which exist before the
step. Both get the same number of bytes. DTR decides while the step runs, without knowing what comes;
a plan is made for a step that is known.

Extra times are in percent of the step. "--": out of memory, no plan, or more time than --limit.
"""

import argparse
import importlib
import json
import math
import multiprocessing
import pathlib
import subprocess
import sys
import tempfile

from dtr_log import to_trace

NONE = "--"


class Simrd:
    """DTR's simulator, with the changes that dtr_log.py gives reasons for."""

    def __init__(self, folder):
        sys.path.insert(0, str(folder))
        self._parse = importlib.import_module("simrd.parse.parse")
        self._graph = importlib.import_module("simrd.parse.graph")
        self._runtimes = importlib.import_module("simrd.runtime.v2")
        self._errors = importlib.import_module("simrd.runtime.runtime")
        self._heuristics = importlib.import_module("simrd.heuristic.dtr")

    def _with_early_releases(self, schedule):
        """Returns the schedule with what counts a storage's references right after its last use."""
        last_use = {}
        for position, step in enumerate(schedule):
            if isinstance(step, self._graph.GCompute):
                for tensor in (*step.op.args, *step.op.result):
                    last_use[root_name(tensor)] = position
        after = {}  # by position
        for position, step in enumerate(schedule):
            is_counting = not isinstance(step, self._graph.GCompute) and not getattr(
                step, "pin", False
            )
            place = min(position, last_use[root_name(step.tensor)]) if is_counting else position
            after.setdefault(place, []).append(step)
        return [step for position in sorted(after) for step in after[position]]

    def run(self, log, heuristic, budget, most_seconds):
        """Returns the run-time after the step; None if the budget or the time is too little."""
        with open(log) as file:
            graph = self._parse.parse_file(file)
        for op in graph.ops.values():
            if op.all_aliasing():
                op.cost = 0
        graph.schedule = self._with_early_releases(graph.schedule)
        runtime = self._runtimes.RuntimeV2EagerOptimized(
            budget, getattr(self._heuristics, heuristic)(), remat_limit=most_seconds * 1e9
        )
        try:
            graph.get_closure()(runtime)
        except (MemoryError, self._errors.RematExceededError):
            return None
        return runtime


def root_name(tensor):
    while tensor.alias():
        tensor = tensor.alias()
    return tensor.name


def run_dtr(task):
    """Returns the extra time in percent; None if it does not fit."""
    folder, log, heuristic, budget, seconds, limit = task
    sys.setrecursionlimit(100_000)
    runtime = Simrd(folder).run(log, heuristic, budget, seconds * limit / 100)
    if runtime is None:
        return None
    summary = runtime.telemetry.summary
    assert summary["max_memory"] <= budget
    return 100 * summary["remat_compute"] / summary["model_compute"]


def plain_run(folder, log):
    """Returns the bytes of constants, the peak and the seconds of the step without a budget."""
    summary = Simrd(folder).run(log, "DTRLocal", math.inf, math.inf).telemetry.summary
    assert summary["remat_compute"] == 0
    seconds = summary["model_compute"] / 1e9
    return summary["model_const_memory"], summary["max_memory"], seconds


def plan(program, trace, budget):
    result = subprocess.run(
        [program, trace, "--budget", str(budget), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode not in (0, 1):
        raise RuntimeError(result.stderr)
    return json.loads(result.stdout)


def percent(value):
    return NONE if value is None else f"{value:.1f}"


def rows_of(arguments, log, pool, folder):
    name = log.name.split("-")[0]
    trace = pathlib.Path(folder) / f"{name}.trace"
    try:
        trace.write_text("\n".join(to_trace(log.read_text().splitlines())) + "\n")
    except ValueError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return
    constants, peak, seconds = plain_run(arguments.simrd, log)
    budgets = [int(constants + part * (peak - constants)) for part in arguments.budgets]
    tasks = [
        (arguments.simrd, log, heuristic, budget, seconds, arguments.limit)
        for heuristic in arguments.heuristics
        for budget in budgets
    ]
    runs = pool.map(run_dtr, tasks, chunksize=1)
    plain = None
    for number, (part, budget) in enumerate(zip(arguments.budgets, budgets)):
        report = plan(arguments.program, trace, budget)
        plain = report["trace"]
        assert abs(plain["seconds"] - seconds) < 1e-6 * seconds
        found = report.get("plan", {})
        fits = "extra_time_percent" in found and found["extra_time_percent"] <= arguments.limit
        columns = [
            percent(runs[number + i * len(budgets)]) for i in range(len(runs) // len(budgets))
        ]
        columns.append(percent(found["extra_time_percent"] if fits else None))
        bound = found["extra_time_percent"] - found["gap_percent"] if fits else None
        print(f"| {name} | {part:.1f} | {' | '.join([*columns, percent(bound)])} |", flush=True)
    off = 100 * (plain["peak_bytes"] / peak - 1)
    print(
        f"{name}: {plain['operators']} operators, {seconds * 1e3:.0f} ms, {constants} bytes of constants, "
        f"plain peak {peak} in DTR's simulator, {off:+.3f} % in the planner's",
        file=sys.stderr,
        flush=True,
    )


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simrd", type=pathlib.Path, required=True, help="DTR's folder simrd")
    parser.add_argument("--logs", type=pathlib.Path, required=True, help="the folder of its logs")
    parser.add_argument("--program", required=True, help="the program behind tools/plan")
    parser.add_argument("--only", default="", help="a part of the names of the logs to run")
    parser.add_argument(
        "--budgets", type=float, nargs="+", default=[0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3]
    )
    parser.add_argument("--heuristics", nargs="+", default=["DTREqClass", "DTRLocal"])
    parser.add_argument("--limit", type=float, default=100, help="the most extra time, in percent")
    parser.add_argument("--processes", type=int, default=2)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    headers = ["model", "budget", *arguments.heuristics, "planner", "bound"]
    print(f"| {' | '.join(headers)} |")
    print(f"| --- |{' ---: |' * (len(headers) - 1)}", flush=True)
    logs = sorted(log for log in arguments.logs.glob("*.log") if arguments.only in log.name)
    with multiprocessing.Pool(arguments.processes) as pool, tempfile.TemporaryDirectory() as folder:
        for log in logs:
            rows_of(arguments, log, pool, folder)


if __name__ == "__main__":
    main()
