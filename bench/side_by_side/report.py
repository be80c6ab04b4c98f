# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The tables of docs/benchmarks.md and the README; what stands outside their marks is left alone."""

import numpy as np
from figures import (
    COLUMNS,
    LENGTHS,
    Figure,
    bytes_ratio,
    first_of,
    linear_fit,
    operator_cost,
    over_floor,
    region_cost,
    step_ratio,
)
from tabulate import tabulate

BEGIN = "<!-- {}: begin; written by tools/bench -->"
END = "<!-- {}: end -->"
FORMS = ("function", "scope")
DEPTHS = (1, 2, 4, 8)


def table(headers, rows):
    align = ["left"] + ["right"] * (len(headers) - 1)
    return tabulate(
        rows, headers, tablefmt="pipe", colalign=align, disable_numparse=True
    )


def verdict(met):
    return "met" if met else "**missed**"


def cost_targets(results):
    """Rows of costs of which ours is to be a small part of Python's."""
    wanted = [
        ("a region, full", region_cost, "none", 20),
        ("a region, selective", region_cost, "recompute", 20),
        ("one more saved tensor", operator_cost, "none", 12),
        ("one more operator, recompute", operator_cost, "recompute", 25),
        ("one more operator, save", operator_cost, "save", 25),
    ]
    for what, cost, policy, factor in wanted:
        theirs = cost(results, "python", f"function/{policy}")
        for form in FORMS:
            ours = cost(results, "ours", f"{form}/{policy}")
            ratio = np.median(theirs) / np.median(ours)
            yield [
                f"{what}, {form}",
                f"{Figure.of(theirs).text(1)} us",
                f"{Figure.of(ours).text(2)} us",
                f"1/{ratio:.1f}",
                f"1/{factor}",
                verdict(ratio >= factor),
            ]


def step_targets(results):
    for model in ("gpt", "gpt-fused"):
        variants = first_of(results, model)["ours"]["variants"]
        for variant, floor in (("full", "floor"), ("scope", "floor, one graph")):
            ratio = step_ratio(variants, variant, floor)
            yield [
                f"step of {model}, {variant}, over its {floor}",
                "-",
                ratio.text(3),
                "-",
                "1.02",
                verdict(ratio.median <= 1.02),
            ]


def peak_targets(results):
    for model in ("gpt-fused", "gpt", "resnet"):
        both = first_of(results, model)
        theirs = bytes_ratio(both["python"]["variants"], "full", "peak_bytes")
        for variant in ("full", "scope"):
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


def targets(results):
    headers = ["what", "Python", "Reprise", "ratio", "target", ""]
    rows = [*cost_targets(results), *step_targets(results), *peak_targets(results)]
    return table(headers, rows)


def overhead_table(results, header, sizes, case):
    """`case`: the name of a case, less its form and size."""
    rows = []
    for size in sizes:
        names = [(side, case.format(form=form, size=size)) for side, form in COLUMNS]
        costs = [Figure.of(over_floor(results, *name)).text(1) for name in names]
        rows.append([size, *costs])
    return table([header, "Python, us", "Reprise, us", "Reprise, scope, us"], rows)


def model_rows(side, variants):
    floor = {"scope": "floor, one graph", "scope+selective": "floor, one graph"}
    for variant, entry in variants.items():
        if "kept_bytes" not in entry:
            continue
        equal = [entry["gradients_equal"], entry["buffers_equal"]]
        yield [
            f"{side}: {variant}",
            step_ratio(variants, variant, "none").text(2),
            step_ratio(variants, variant, floor.get(variant, "floor")).text(2),
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


# What offload.cpp and offload.py measure, by side and variant.
OFFLOAD_COLUMNS = {
    ("python", "none"): "Python",
    ("python", "save_on_cpu"): "its save_on_cpu",
    ("ours", "none"): "C++",
    ("ours", "save_on_cpu"): "SaveOnCpuGuard",
    ("ours", "host"): "stores::host()",
}


def step_text(steps, variant, base):
    """The median step of a variant, and but for "none" its ratio to `base`."""
    text = f"{np.median(steps[variant]):.0f} ms"
    if variant != "none":
        ratio = Figure.of(np.array(steps[variant]) / np.array(steps[base]))
        text += f", {ratio.text(2)}"
    return text


def offload_steps(by_side):
    """Of each variant: its median step, and its ratio to its own side's without offload."""
    for side, variant in OFFLOAD_COLUMNS:
        steps = by_side[side]
        yield step_text(steps, variant, "none")


def offload_table(results):
    headers = ["a copy takes", *OFFLOAD_COLUMNS.values()]
    sides = ("python", "ours")
    rows = []
    for index, case in enumerate(results["ours"]["chain"]):
        by_side = {side: results[side]["chain"][index]["step_ms"] for side in sides}
        rows.append([f"{case['copy_ms']:.0f} ms", *offload_steps(by_side)])
    costs = {side: results[side]["saved_tensor_us"] for side in sides}
    row = ["one more saved tensor"]
    for side, variant in OFFLOAD_COLUMNS:
        over = costs[side][variant] - costs[side]["none"]
        row.append("-" if variant == "none" else f"{over:.1f} us")
    return table(headers, [*rows, row])


def offload_cuda_table(results):
    headers = ["", *OFFLOAD_COLUMNS.values()]
    steps = {side: results[side]["step_ms"] for side in results}
    peaks = ["peak of a step"]
    for side, variant in OFFLOAD_COLUMNS:
        peaks.append(f"{results[side]['peak_bytes'][variant] / 2**20:,.0f} MiB")
    return table(headers, [["step", *offload_steps(steps)], peaks])


def offload_section(results):
    parts = [
        "## Offload",
        "On the test device, with times of a step and its ratio to the one without offload, and in "
        "brackets how far the middle half of the rounds lie apart: ten layers, of which each kernel takes 4 ms and each saves 128 KiB. "
        "`stores::host()` may have two tensors on their way out, and brings two back ahead. "
        "The last row is the bookkeeping alone: what a tensor that is on the host already, so that "
        "neither side copies it, costs over none.",
        offload_table(results),
    ]
    if "cuda" in results:
        parts += [
            "A GPT of 24 layers of width 1024, context 1024, batch 4, fused attention, float32, "
            "on the GPU:",
            offload_cuda_table(results["cuda"]),
        ]
    return parts


GATHER_VARIANTS = ("none", "checkpoint", "when needed", "one ahead", "two ahead")


def gather_ahead_section(results):
    rows = []
    for case in results:
        steps = case["step_ms"]
        row = [f"{case['delay_ms']} ms"]
        for variant in GATHER_VARIANTS:
            row.append(step_text(steps, variant, "checkpoint"))
        rows.append(row)
    return [
        "## Gathers ahead",
        "Two ranks that keep half of each region's input (`stores::partitioned()`), over a simulated link: ten "
        "regions, of which a forward takes 4 ms and a backward 8 ms. A gather takes the delay, beside the "
        "computation, from when the last rank has started it. Steps, and their ratio to those of regions that "
        "keep their inputs whole; `when needed` is `prefetch_depth = 0`, the others 1 and 2.",
        table(["a gather takes", *GATHER_VARIANTS], rows),
    ]


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


def instructions_table(results):
    rows = [[name, f"{count:,}"] for name, count in results["instructions"].items()]
    return table(["hot path", "instructions over the floor"], rows)


def report(results):
    machine = results["machine"]
    parts = [
        f"Measured on {machine['date']}: {machine['cpu']}, {machine['cores']} cores, torch "
        f"{machine['torch']} on both sides, Python {machine['python']}; "
        f"{results['seconds'] / 60:.0f} minutes.",
        "## Targets",
        targets(results),
        "## Overhead of a region",
        "![overhead](benchmarks/overhead.svg)",
    ]
    titles = {"none": "No policy", "recompute": "Recompute all", "save": "Save all"}
    for policy, title in titles.items():
        case = f"chain/{{form}}/{policy}/{{size}}"
        parts += [f"### {title}", overhead_table(results, "operators", LENGTHS, case)]
    case = "nested/{form}/none/{size}"
    parts += ["### Nested, eight operators", overhead_table(results, "depth", DEPTHS, case)]
    parts += ["### Where an operator's time goes", operators_table(results)]
    if "instructions" in results:
        parts += ["### Instructions", instructions_table(results)]
    parts += ["## Models", "![models](benchmarks/models.svg)"]
    for model, by_threads in results["models"].items():
        parts += model_section(model, by_threads)
    parts += offload_section(results["offload"])
    parts += gather_ahead_section(results["gather_ahead"])
    parts += ["## Scaling", "![scaling](benchmarks/scaling.svg)", scaling_table(results)]
    return "\n\n".join(parts)


def summary_rows(results):
    """The README's table: what, Python, our function form, our scopes."""
    costs = [
        ("a region, over its floor", region_cost, "none"),
        ("one more saved tensor in it", operator_cost, "none"),
        ("one more operator under a policy that recomputes", operator_cost, "recompute"),
        ("one more operator under a policy that saves", operator_cost, "save"),
    ]
    for what, cost, policy in costs:
        medians = [np.median(cost(results, side, f"{form}/{policy}")) for side, form in COLUMNS]
        yield [what, *(f"{median:.1f} us" for median in medians)]
    for model, name in (("gpt", "GPT"), ("resnet", "ResNet")):
        both = first_of(results, model)
        variants = [
            (both[side]["variants"], "scope" if form == "scope" else "full")
            for side, form in COLUMNS
        ]
        steps = [step_ratio(found, variant, "none").median for found, variant in variants]
        peaks = [bytes_ratio(found, variant, "peak_bytes") for found, variant in variants]
        yield [f"{name}, a step, of no checkpointing", *(f"{step:.2f}" for step in steps)]
        yield [f"{name}, its peak, of no checkpointing", *(f"{peak:.3f}" for peak in peaks)]
    equal = [found[variant]["buffers_equal"] for found, variant in variants]
    words = ["yes" if yes else "**no**" for yes in equal]
    yield ["ResNet's batch-norm statistics as without checkpointing", *words]


def summary(results):
    headers = ["on a CPU, one thread", "Python", "Reprise", "Reprise, scope"]
    return table(headers, list(summary_rows(results)))


def replace_marked(path, name, text):
    """Puts `text` between the marks of that name, which are added where there are none."""
    begin, end = BEGIN.format(name), END.format(name)
    old = path.read_text() if path.exists() else ""
    if begin not in old:
        old += f"{begin}\n{end}\n"
    before, rest = old.split(begin)
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}")


def write_report(results, folder):
    """In `folder`, and the summary in the README beside it, if there is one with its marks."""
    replace_marked(folder / "benchmarks.md", "results", report(results))
    readme = folder.parent / "README.md"
    if readme.exists() and BEGIN.format("summary") in readme.read_text():
        replace_marked(readme, "summary", summary(results))
