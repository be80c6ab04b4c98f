# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Runs both sides of every benchmark by turns, and writes the results, tables and plots.

Called by tools/bench, with the Python whose torch is the LibTorch that ours was built with.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

import torch
from budget_models import BUDGET_MODELS
from budget_report import write_budgets
from figures import FORMS, floor_of, is_within_a_hundredth, overhead_ratios, step_ratio
from instructions import costs_of, costs_side_by_side, run_callgrind
from models import MODELS
from package_report import write_package
from plots import draw_all, draw_budgets
from summaries import write_pages

HERE = pathlib.Path(__file__).parent
THREADED_MODELS = ("gpt", "gpt-fused")  # are run with all cores as well
MODEL_SECONDS = 330  # for the steps of models, unless the least that is measured takes longer
FLOOR_SECONDS = 75  # for the steps of a model beside their floors


class Runner:
    """The programs of one build, and Python's counterparts."""

    def __init__(self, build):
        self.programs = build / "bench"
        self.start = time.monotonic()

    def say(self, what):
        print(f"[bench] {what} ({time.monotonic() - self.start:.0f} s)", flush=True)

    def json_of(self, command, environment=None):
        # Threads that wait by spinning slow each other down where cores are shared.
        environment = {"OMP_WAIT_POLICY": "passive"} | os.environ | (environment or {})
        command = [str(word) for word in command]
        done = subprocess.run(command, stdout=subprocess.PIPE, env=environment)
        if done.returncode:
            sys.exit(f"failed: {' '.join(command)}")
        return json.loads(done.stdout)

    def ours(self, program, *arguments):
        return self.json_of([self.programs / program, *arguments])

    def python(self, script, *arguments, environment=None):
        return self.json_of([sys.executable, HERE / script, *arguments], environment)


def by_name(google_benchmark):
    """{name: {counter: value}} of Google Benchmark's JSON, or of what has its shape."""
    return {entry["name"]: entry for entry in google_benchmark["benchmarks"]}


def run_overhead(runner, quick):
    """Both sides in one process: some processes, and more until the ratios are steady."""
    library = runner.programs / "libreprise_python_regions.so"
    least, most, seconds = (6, 6, 0.05) if quick else (20, 60, 0.1)
    processes = []

    def is_steady():
        ratios = overhead_ratios({"overhead": processes})
        return all(ratio.is_steady for ratio in ratios)

    while len(processes) < least or (len(processes) < most and not is_steady()):
        runner.say(f"overhead, process {len(processes) + 1} of {least} to {most}")
        arguments = (f"--seconds={seconds}", f"--library={library}")
        processes.append(runner.python("overhead.py", *arguments))
    return processes


def run_instructions(runner):
    runner.say("instruction counts of the hot paths")
    hot_paths = costs_of(run_callgrind(runner.programs / "hot_paths"))
    runner.say("instruction counts of both sides")
    library = runner.programs / "libreprise_python_regions.so"
    side_by_side = costs_side_by_side(HERE / "overhead.py", library)
    return {"hot_paths": hot_paths, "side_by_side": side_by_side}


def add_steps(result, found):
    """Appends the steps of another turn to those of the first."""
    if not result:
        result.update(found)
        return
    for name, entry in found["variants"].items():
        if "step_ms" in entry:
            result["variants"][name]["step_ms"] += entry["step_ms"]


def add_turn(runner, both, model, threads, steps):
    runner.say(f"{model}, {threads} threads")
    arguments = (f"--model={model}", f"--rounds={steps}", f"--threads={threads}")
    add_steps(both["ours"], runner.ours("model_steps", *arguments))
    library = runner.programs / "libreprise_python_memory.so"
    found = runner.python("model_steps.py", *arguments, f"--counter={library}")
    add_steps(both["python"], found)


def has_steady_steps(both):
    """Whether the ratios of those variants are known that the text speaks of."""
    for side in both.values():
        for variant in {"full", "selective", "scope"} & side["variants"].keys():
            for base in ("none", floor_of(variant)):
                if not step_ratio(side["variants"], variant, base).is_steady:
                    return False
    return True


def run_models(runner, wanted, turns, steps, seconds):
    """Turns of each model; then, for so many seconds in all, of those whose ratios swing."""
    end = time.monotonic() + seconds
    results = {model: {} for model, _ in wanted}
    cases = []
    for model, threads in wanted:
        both = results[model][str(threads)] = {"ours": {}, "python": {}}
        cases.append((both, model, threads))
    while cases:
        for case in cases:
            if turns <= 0 and time.monotonic() > end:
                return results
            add_turn(runner, *case, steps)
        turns -= 1
        if turns <= 0:
            cases = [case for case in cases if not has_steady_steps(case[0])]
    return results


def run_floors(runner, steps, seconds):
    """Our steps of each model beside their floors, in processes until the ratios are known."""
    results = {}
    only = [f"--only={name}" for form in FORMS for name in (floor_of(form), form)]
    for model in MODELS:
        found = results[model] = {}
        end = time.monotonic() + seconds
        while not found or (time.monotonic() < end and not is_within_a_hundredth(found)):
            runner.say(f"{model} beside its floors")
            arguments = (f"--model={model}", f"--rounds={steps}", *only)
            add_steps(found, runner.ours("model_steps", *arguments))
    return results


def measure_budgets(runner, quick):
    """Both sides in one process, a process per model."""
    library = runner.programs / "libreprise_python_budget.so"
    arguments = [f"--library={library}"]
    if quick:
        arguments += ["--rounds=2", "--budgets=0.5", "--backends=aot_eager"]
    models = {}
    for model in ["resnet"] if quick else BUDGET_MODELS:
        runner.say(f"{model} within budgets")
        models[model] = runner.python("budget.py", f"--model={model}", *arguments)
    seconds = round(time.monotonic() - runner.start)
    return {"machine": describe_machine(), "models": models, "seconds": seconds}


def measure_package(runner, folder, quick):
    """The Python package beside torch.utils.checkpoint: some processes with both."""
    environment = {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    count, seconds = (6, 0.05) if quick else (20, 0.5)
    processes = []
    for number in range(count):
        runner.say(f"the Python package, process {number + 1} of {count}")
        processes.append(
            runner.python("package.py", f"--seconds={seconds}", environment=environment)
        )
    seconds = round(time.monotonic() - runner.start)
    return {"machine": describe_machine(), "processes": processes, "seconds": seconds}


def add_best(result, found):
    """Keeps the better times of two turns."""
    for form, by_what in found.items():
        for what, rows in by_what.items():
            for row, other in zip(result[form][what], rows, strict=True):
                for time_of in ("step_us", "plain_us"):
                    row[time_of] = min(row[time_of], other[time_of])


def run_scaling(runner, turns):
    results = {}
    for turn in range(turns):
        runner.say(f"scaling, turn {turn + 1} of {turns}")
        turn = {"ours": runner.ours("scaling"), "python": runner.python("scaling.py")}
        for side, found in turn.items():
            add_best(results.setdefault(side, found), found)
    return results


def run_offload(runner, rounds):
    runner.say("offload")
    library = runner.programs / "libreprise_python_device.so"
    arguments = [f"--rounds={rounds}"]
    results = {
        "ours": runner.ours("offload", *arguments),
        "python": runner.python("offload.py", *arguments, f"--library={library}"),
    }
    if torch.cuda.is_available():
        runner.say("offload on the GPU")
        arguments.append("--cuda")
        results["cuda"] = {
            "ours": runner.ours("offload", *arguments),
            "python": runner.python("offload.py", *arguments),
        }
    return results


def run_gather_ahead(runner, rounds):
    runner.say("gathers ahead")
    return runner.ours("gather_ahead", f"--rounds={rounds}")


def run_fingerprint(runner):
    runner.say("fingerprints of memory")
    return {"machine": describe_machine(), "cases": runner.ours("fingerprint")}


def run_operators(runner, seconds):
    runner.say("where an operator's time goes")
    arguments = ("--benchmark_format=json", f"--benchmark_min_time={seconds}")
    return by_name(runner.ours("policy_overhead", *arguments))


def describe_machine():
    model = platform.processor() or platform.machine()
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0].split(":")[1].strip() if names else model
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": model,
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def measure(runner, quick):
    results = {"machine": describe_machine()}
    results["overhead"] = run_overhead(runner, quick)
    models = [(model, 1) for model in MODELS]
    if quick:
        results["models"] = run_models(runner, models, turns=1, steps=2, seconds=0)
    else:
        if os.cpu_count() > 1:
            models += [(model, os.cpu_count()) for model in THREADED_MODELS]
        results["models"] = run_models(runner, models, turns=2, steps=3, seconds=MODEL_SECONDS)
    results["floors"] = run_floors(runner, *((2, 0) if quick else (9, FLOOR_SECONDS)))
    results["scaling"] = run_scaling(runner, turns=1 if quick else 3)
    results["offload"] = run_offload(runner, rounds=2 if quick else 9)
    results["gather_ahead"] = run_gather_ahead(runner, rounds=2 if quick else 9)
    results["fingerprint"] = run_fingerprint(runner)
    results["operators"] = run_operators(runner, 0.1 if quick else 1)
    if not quick:
        results["instructions"] = run_instructions(runner)
    results["seconds"] = round(time.monotonic() - runner.start)
    return results


def results_in(path, is_there, measured):
    """Of the file, which is written first unless it is there."""
    if not is_there:
        path.write_text(json.dumps(measured(), indent=1) + "\n")
    return json.loads(path.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--budgets", action="store_true", help="only steps within budgets")
    parser.add_argument(
        "--package", type=pathlib.Path, help="only the Python package, installed in this folder"
    )
    parser.add_argument("--report", action="store_true", help="of the results that are there")
    arguments = parser.parse_args()

    runner = Runner(arguments.build)
    figures = arguments.out / "benchmarks"
    figures.mkdir(parents=True, exist_ok=True)
    if not arguments.budgets and not arguments.package:
        kept = figures / "results.json"
        results = results_in(kept, arguments.report, lambda: measure(runner, arguments.quick))
        draw_all(results, figures)
        write_pages(results, arguments.out)
    kept = figures / "budgets.json"
    if arguments.budgets or (arguments.report and kept.exists()):
        results = results_in(
            kept, arguments.report, lambda: measure_budgets(runner, arguments.quick)
        )
        draw_budgets(results, figures)
        write_budgets(results, arguments.out)
    kept = figures / "package.json"
    if arguments.package or (arguments.report and kept.exists()):
        results = results_in(
            kept,
            arguments.report,
            lambda: measure_package(runner, arguments.package, arguments.quick),
        )
        write_package(results, arguments.out)
    runner.say(f"written: {arguments.out / 'benchmarks.md'} and {figures}/")


if __name__ == "__main__":
    main()
