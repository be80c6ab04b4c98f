# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The tables of docs/benchmarks.md."""

import numpy as np
from figures import (
    COSTS,
    DEPTHS,
    FORMS,
    LENGTHS,
    OURS,
    POLICIES,
    PYTHON,
    bytes_ratio,
    estimate,
    estimate_ratio,
    first_of,
    floor_of,
    linear_fit,
    operator_cost,
    over_floor,
    region_cost,
    step_ratio,
    variants_of_both,
)
from offload_report import gather_ahead_section, offload_section
from tables import table


def verdict(*met):
    """Of whether a target is met at each end of an interval."""
    if all(met):
        return "met"
    return "undecided" if any(met) else "**missed**"


def cost_targets(results):
    for cost in COSTS:
        theirs = cost.of(results, PYTHON)
        for column in OURS:
            ratio = cost.ratio(results, column)
            yield [
                f"{cost.what}, {column.removeprefix('ours/')}",
                f"{theirs.text(1)} us",
                f"{cost.of(results, column).text(2)} us",
                ratio.part_text(),
                f"1/{cost.target}",
                verdict(ratio.low >= cost.target, ratio.high >= cost.target),
            ]


def step_targets(results):
    for model, found in results["floors"].items():
        variants = found["variants"]
        for variant in FORMS:
            ratio = step_ratio(variants, variant, floor_of(variant))
            yield [
                f"step of {model}, {variant}, over its {floor_of(variant)}",
                "-",
                ratio.ratio_text(3),
                "-",
                "1.02",
                verdict(ratio.low <= 1.02, ratio.high <= 1.02),
            ]


def peak_targets(results):
    for model in ("gpt-fused", "gpt", "resnet"):
        both = first_of(results, model)
        theirs = bytes_ratio(both["python"]["variants"], "full", "peak_bytes")
        for variant in FORMS:
            ours = bytes_ratio(both["ours"]["variants"], variant, "peak_bytes")
            met = ours <= theirs if variant == "full" else ours < 0.97 * theirs
            yield [
                f"peak of {model}, {variant}, of none",
                f"{theirs:.3f}",
                f"{ours:.3f}",
                "-",
                "not above" if variant == "full" else "clearly below",
                verdict(met),
            ]


def bytes_targets(results):
    """Of each variant of both sides, the one that is the most of Python's."""
    for model in results["models"]:
        pairs = list(variants_of_both(first_of(results, model)))
        for what in ("kept", "peak"):
            most = max(ours[f"{what}_bytes"] / theirs[f"{what}_bytes"] for theirs, ours in pairs)
            yield [
                f"{what} of {model}, of Python's, the most of {len(pairs)} variants",
                "-",
                "-",
                f"{most:.4f}",
                "not above",
                verdict(most <= 1),
            ]


def targets(results):
    headers = ["what", "Python", "Reprise", "ratio", "target", ""]
    rows = [*cost_targets(results), *step_targets(results), *peak_targets(results)]
    rows += bytes_targets(results)
    return table(headers, rows)


def overhead_table(results, header, sizes, group):
    rows = []
    for size in sizes:
        theirs = over_floor(results, group, PYTHON, size)
        row = [size, estimate(theirs).text(1)]
        for column in OURS:
            ours = over_floor(results, group, column, size)
            row += [estimate(ours).text(1), estimate_ratio(theirs, ours).part_text()]
        rows.append(row)
    headers = [header, "Python, us", "Reprise, us", "of Python's"]
    return table([*headers, "Reprise, scope, us", "of Python's"], rows)


def reentrant_text(results):
    """Where the cost of Python's reentrant form is as high as that of our function form."""
    theirs, ours = (
        [estimate(cost(results, "none", column)).middle for cost in (region_cost, operator_cost)]
        for column in ("python/reentrant", "ours/function")
    )
    text = (
        f"Python's reentrant form: {theirs[0]:.1f} us a region, and {theirs[1]:.2f} us for each "
        "operator in it."
    )
    if theirs[1] >= ours[1]:
        return text
    equal = (theirs[0] - ours[0]) / (ours[1] - theirs[1])
    return f"{text} From {equal:.0f} operators on it costs less than ours as a function."


def model_rows(side, variants):
    for variant, entry in variants.items():
        if "kept_bytes" not in entry:
            continue
        equal = [entry["gradients_equal"], entry["buffers_equal"]]
        times = ["-", "-"]
        if entry.get("step_ms"):
            bases = ("none", floor_of(variant))
            times = [step_ratio(variants, variant, base).ratio_text(2) for base in bases]
        yield [
            f"{side}: {variant}",
            *times,
            f"{bytes_ratio(variants, variant, 'kept_bytes'):.3f}",
            f"{bytes_ratio(variants, variant, 'peak_bytes'):.3f}",
            *("yes" if yes else "**no**" for yes in equal),
        ]


def model_table(both):
    headers = ["variant", "step, of none", "of its floor", "kept, of none"]
    headers += ["peak, of none", "gradients equal", "buffers equal"]
    rows = [*model_rows("Python", both["python"]["variants"])]
    rows += model_rows("Reprise", both["ours"]["variants"])
    return table(headers, rows)


def model_section(model, by_threads):
    parts = []
    for threads, both in by_threads.items():
        none = {side: both[side]["variants"]["none"] for side in ("ours", "python")}
        loss = "the same" if both["ours"]["loss"] == both["python"]["loss"] else "another"
        medians = {side: np.median(entry["step_ms"]) for side, entry in none.items()}
        parts += [
            f"### {model}, {threads} thread{'s' if threads != '1' else ''}",
            f"Without checkpointing: {medians['python']:.0f} ms a step in Python, "
            f"{medians['ours']:.0f} ms in C++, with {loss} loss to the last bit; "
            f"{none['ours']['kept_bytes'] / 2**20:.1f} MiB kept, "
            f"{none['ours']['peak_bytes'] / 2**20:.1f} MiB at the peak.",
            model_table(both),
        ]
    return parts


def scaling_table(results):
    rows = []
    for side, name in (("python", "Python"), ("ours", "Reprise")):
        for form, by_what in results["scaling"][side].items():
            for what, figures in by_what.items():
                fit = linear_fit(figures, lambda row: row["step_us"])
                row = [f"{name}, {form}: {what} {figures[0]['size']} to {figures[-1]['size']}"]
                row += [f"{fit.slope:.2f}", f"{fit.r_squared:.5f}"]
                if side == "ours":
                    fit = linear_fit(figures, lambda row: row["heap_bytes"])
                    plain = linear_fit(figures, lambda row: row["plain_heap_bytes"])
                    row += [f"{fit.slope:.0f}", f"{fit.r_squared:.5f}", f"{plain.slope:.0f}"]
                else:
                    row += ["-", "-", "-"]
                rows.append(row)
    headers = ["what grows", "us for one more", "R2"]
    headers += ["bytes of heap for one more", "R2", "the same, plain run"]
    return table(headers, rows)


def operators_table(results):
    counters = {
        "forward_us": "forward, us",
        "replay_us": "replay, us",
        "replay_over_no_graph_us": "replay over one without graph, us",
        "tape_bytes_an_operator": "bytes of tape",
    }
    rows = []
    for name, entry in results["operators"].items():
        row = [name.removeprefix("operator_cost/").replace("_", " ")]
        rows.append(row + [f"{entry[c]:.2f}" if c in entry else "-" for c in counters])
    return table(["one more operator", *counters.values()], rows)


def instructions_sections(results):
    yield "### Instructions"
    yield "Over the floor, in the same process as the times above:"
    rows = []
    for cost in COSTS:
        theirs = cost.counted(results, PYTHON)
        row = [cost.what, f"{theirs:,}"]
        for column in OURS:
            ours = cost.counted(results, column)
            row += [f"{ours:,}", f"1/{theirs / ours:.1f}"]
        rows.append(row)
    headers = ["what", "Python", "Reprise", "of Python's"]
    yield table([*headers, "Reprise, scope", "of Python's"], rows)
    yield "Of the hot paths, in a process without Python:"
    counts = results["instructions"]["hot_paths"]
    rows = [[name, f"{count:,}"] for name, count in counts.items()]
    yield table(["hot path", "instructions over the floor"], rows)


def fingerprint_section(results):
    machine = results["machine"]
    rows = []
    for case in results["cases"]:
        low, middle, high = case["of_mul"]
        rows.append(
            [
                f"{case['MiB']} MiB",
                f"{middle:.2f} ({low:.2f}-{high:.2f})",
                f"{case['GB_per_s']:.0f}",
            ]
        )
    return [
        "## Fingerprints",
        "Memory on the CPU to which code may write through a pointer, without a version: a region "
        "takes a fingerprint of all bytes of a tensor from outside that requires no gradient, once "
        "when an operator reads it, and a replay once more. Of parameters, and of tensors with a "
        "gradient, it looks at 64 bytes. The processor time of a fingerprint over that of "
        "`aten::mul` of the tensor with itself, medians and quartiles of rounds in turn, one thread "
        f"({machine['date']}, {machine['cpu']}):",
        table(["tensor", "fingerprint of `aten::mul`", "GB per second"], rows),
    ]


def overhead_sections(results):
    yield "## Overhead of a region"
    yield (
        "![Cost of a region over the floor, by its operators, without a policy and under two: "
        "Reprise's is a small part of Python's in short regions]"
        "(benchmarks/overhead.svg)"
    )
    titles = ("No policy", "Recompute all", "Save all")
    for policy, title in zip(POLICIES, titles, strict=True):
        yield f"### {title}"
        yield overhead_table(results, "operators", LENGTHS, f"chain/{policy}")
        if policy == "none":
            yield reentrant_text(results)
    yield "### Nested, eight operators"
    yield overhead_table(results, "depth", DEPTHS, "nested/none")
    yield "### Where an operator's time goes"
    yield operators_table(results)
    if "instructions" in results:
        yield from instructions_sections(results)


def report(results):
    machine = results["machine"]
    parts = [
        f"Measured on {machine['date']}: {machine['cpu']}, {machine['cores']} cores, torch "
        f"{machine['torch']} on both sides, Python {machine['python']}; "
        f"{results['seconds'] / 60:.0f} minutes. Costs of regions are of "
        f"{len(results['overhead'])} processes.",
        "## Targets",
        targets(results),
        *overhead_sections(results),
        "## Models",
        "![Step time and peak memory of each variant and side, model by model]"
        "(benchmarks/models.svg)",
    ]
    for model, by_threads in results["models"].items():
        parts += model_section(model, by_threads)
    parts += offload_section(results["offload"])
    parts += gather_ahead_section(results["gather_ahead"])
    parts += [
        "## Scaling",
        "![Step time per region, per operator and by depth of nesting, and heap per region: "
        "growth is linear](benchmarks/scaling.svg)",
        scaling_table(results),
    ]
    parts += fingerprint_section(results["fingerprint"])
    return "\n\n".join(parts)
