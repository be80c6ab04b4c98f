# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Runs both sides of every benchmark in turn, and writes the results, tables and plots.

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
from instructions import costs_of, run_callgrind
from models import MODELS
from plots import draw_all
from report import write_report

HERE = pathlib.Path(__file__).parent


class Runner:
    """The programs of one build, and Python's counterparts."""

    def __init__(self, build):
        self.programs = build / "bench"
        self.start = time.monotonic()

    def say(self, what):
        print(f"[bench] {what} ({time.monotonic() - self.start:.0f} s)", flush=True)

    def json_of(self, command):
        # Threads that wait by spinning slow each other down where cores are shared.
        environment = {"OMP_WAIT_POLICY": "passive"} | os.environ
        command = [str(word) for word in command]
        done = subprocess.run(command, stdout=subprocess.PIPE, env=environment)
        if done.returncode:
            sys.exit(f"failed: {' '.join(command)}")
        return json.loads(done.stdout)

    def ours(self, program, *arguments):
        return self.json_of([self.programs / program, *arguments])

    def python(self, script, *arguments):
        return self.json_of([sys.executable, HERE / script, *arguments])


def by_name(google_benchmark):
    """{name: {counter: value}} of Google Benchmark's JSON, or of what has its shape."""
    return {entry["name"]: entry for entry in google_benchmark["benchmarks"]}


def run_overhead(runner, rounds, seconds):
    results = {"ours": [], "python": []}
    for number in range(rounds):
        runner.say(f"overhead, round {number + 1} of {rounds}")
        arguments = ("--benchmark_format=json", f"--benchmark_min_time={seconds}")
        results["ours"].append(by_name(runner.ours("overhead", *arguments)))
        found = runner.python("overhead.py", f"--min-time={seconds}")
        results["python"].append(by_name(found))
    return results


def add_steps(result, found):
    """Appends the steps of another turn to those of the first."""
    if not result:
        result.update(found)
        return
    for name, entry in found["variants"].items():
        result["variants"][name]["step_ms"] += entry["step_ms"]


def run_models(runner, models, threads, turns, steps):
    library = runner.programs / "libreprise_python_memory.so"
    results = {}
    for model in models:
        for count in threads:
            both = results.setdefault(model, {})[str(count)] = {"ours": {}, "python": {}}
            for turn in range(turns):
                runner.say(f"{model}, {count} threads, turn {turn + 1} of {turns}")
                arguments = (f"--model={model}", f"--rounds={steps}", f"--threads={count}")
                add_steps(both["ours"], runner.ours("model_steps", *arguments))
                found = runner.python("model_steps.py", *arguments, f"--counter={library}")
                add_steps(both["python"], found)
    return results


def run_scaling(runner, quick):
    runner.say("scaling")
    arguments = ["--quick"] if quick else []
    return {
        "ours": runner.ours("scaling", *arguments),
        "python": runner.python("scaling.py", *arguments),
    }


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true")
    quick = (arguments := parser.parse_args()).quick

    runner = Runner(arguments.build)
    every = os.cpu_count()
    threads = [every] if quick else sorted({1, every})
    results = {"machine": describe_machine()}
    results["overhead"] = run_overhead(runner, 1 if quick else 5, 0.02 if quick else 0.15)
    results["models"] = run_models(
        runner, MODELS, threads, turns=1 if quick else 2, steps=2 if quick else 4
    )
    results["scaling"] = run_scaling(runner, quick)
    results["offload"] = run_offload(runner, rounds=2 if quick else 9)
    results["gather_ahead"] = run_gather_ahead(runner, rounds=2 if quick else 9)
    results["operators"] = run_operators(runner, 0.1 if quick else 1)
    if not quick:
        runner.say("instruction counts")
        results["instructions"] = costs_of(run_callgrind(str(runner.programs / "hot_paths")))
    results["seconds"] = round(time.monotonic() - runner.start)

    figures = arguments.out / "benchmarks"
    figures.mkdir(parents=True, exist_ok=True)
    (figures / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    draw_all(results, figures)
    write_report(results, arguments.out)
    runner.say(f"written: {arguments.out / 'benchmarks.md'} and {figures}/")


if __name__ == "__main__":
    main()
