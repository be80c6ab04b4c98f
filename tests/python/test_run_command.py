# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""`python -m reprise run`: programs as they are, within a budget."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import pytest
import torch
from reprise._quantities import bytes_text, parse_budget

PROGRAMS = pathlib.Path(__file__).with_name("programs")


def run(*arguments, cwd=None, **options):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=cwd,
        **options,
    )


def run_both(arguments, *program, cwd=None):
    """Returns what ends a run of a program, and one by the command."""
    return run(*program, cwd=cwd), run("-m", "reprise", "run", *arguments, *program, cwd=cwd)


@pytest.mark.parametrize(
    "program, arguments",
    [
        ("causal_lm.py", ["--budget", "0.7"]),
        ("images.py", ["--max-overhead", "0.5"]),
        ("trainer.py", ["--budget", "0.8"]),
    ],
)
def test_programs_have_the_bits_of_a_run_without(tmp_path, program, arguments):
    saved = ["--save"] if program == "causal_lm.py" else []
    plain, within = (tmp_path / name for name in ("plain.pt", "within.pt"))
    expected = run(PROGRAMS / program, *saved, plain)
    got = run("-m", "reprise", "run", *arguments, PROGRAMS / program, *saved, within)
    assert got.returncode == expected.returncode == 0, got.stderr
    assert got.stdout == expected.stdout
    one, other = torch.load(plain), torch.load(within)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert "reprise: " in got.stderr and " steps, the last one of " in got.stderr


STEPS = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(8)))
    x = torch.randn(512, 64)
"""


def write(path, *parts):
    path.write_text("".join(textwrap.dedent(part) for part in parts))
    return path


def test_the_peak_is_kept_to_a_part_of_the_plain_one(tmp_path):
    program = write(
        tmp_path / "train.py",
        STEPS,
        """
        import reprise
        peaks = []
        for _ in range(5):
            reprise.reset_peak_cpu_memory()
            model(x).square().mean().backward()
            peaks.append(reprise.memory_report().devices[0].peak_bytes)
            model.zero_grad()
        assert max(peaks[1:]) <= 0.6 * peaks[0], peaks
        """,
    )
    got = run("-m", "reprise", "run", "--budget", "0.6", "--report", program)
    assert got.returncode == 0, got.stderr
    assert "5 steps, the last one of " in got.stderr and ", a budget of " in got.stderr


def test_a_plain_step_that_does_not_fit(tmp_path):
    program = write(
        tmp_path / "train.py",
        STEPS,
        """
        import reprise
        reprise.set_cpu_memory_limit(reprise.memory_report().devices[0].current_bytes + (1 << 20))
        for _ in range(2):
            model(x).square().mean().backward()
        """,
    )
    got = run("-m", "reprise", "run", "--budget", "0.9", program)
    assert got.returncode == 1
    assert "give the budget in bytes, such as --budget 6GiB" in got.stderr


def test_what_a_program_finds(tmp_path):
    write(
        tmp_path / "train.py",
        """
        import pickle, sys, __main__
        class Kept: pass
        assert pickle.loads(pickle.dumps(Kept())).__class__ is Kept
        print(sys.argv, sys.path[0], __name__, __file__, __spec__, __package__, __doc__)
        print(sorted(vars(__main__)), __loader__.get_filename())
        """,
    )
    expected, got = run_both(["--budget", "1GiB"], "train.py", "--lr", "0.1", "-m", cwd=tmp_path)
    assert expected.returncode == got.returncode == 0, got.stderr
    assert got.stdout == expected.stdout
    assert "no step was found: no module was called with grad mode on" in got.stderr
    package = tmp_path / "package"
    package.mkdir()
    write(package / "__init__.py")
    write(package / "__main__.py", "import sys\nprint(sys.argv, __package__, __spec__.name)\n")
    expected, got = run_both([], "-m", "package", "a", cwd=tmp_path)
    assert (got.stdout, got.returncode) == (expected.stdout, expected.returncode)
    expected, got = run_both([], "package", "a", cwd=tmp_path)
    assert got.stdout == expected.stdout


ENDS = {
    "error": "def f(x): raise ValueError('mine')\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    f(1)\n",
    "in a module": "import torch\nclass M(torch.nn.Module):\n    def forward(self): raise KeyError(3)\nM()()\n",
    "syntax": "x = (\n",
    "status": "import sys; sys.exit(7)\n",
    "message": "import sys; sys.exit('why')\n",
}


@pytest.mark.parametrize("name", ENDS)
def test_a_program_ends_as_without(tmp_path, name):
    write(tmp_path / "train.py", ENDS[name])
    expected, got = run_both(["--quiet", "--budget", "1GiB"], "train.py", cwd=tmp_path)
    assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout)
    assert got.stderr == expected.stderr


def test_an_interrupted_program(tmp_path):
    write(tmp_path / "train.py", "raise KeyboardInterrupt\n")
    expected, got = run_both(["--quiet"], "train.py", cwd=tmp_path)
    assert got.returncode == expected.returncode == -signal.SIGINT
    assert got.stderr == expected.stderr


def test_a_missing_program(tmp_path):
    expected, got = run_both(["--quiet"], "nothing.py", cwd=tmp_path)
    assert got.returncode == expected.returncode == 2
    assert "can't open file" in got.stderr and os.fspath(tmp_path / "nothing.py") in got.stderr


def test_modules_that_it_cannot_serve_run_as_they_are(tmp_path):
    program = write(
        tmp_path / "train.py",
        STEPS,
        """
        with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
            model(x).square().mean().backward()
        torch.nn.Linear(2, 2, device="meta")(torch.ones(1, 2, device="meta")).sum().backward()
        print(model[0][0].weight.grad.norm().item())
        """,
    )
    got = run("-m", "reprise", "run", "--budget", "1GiB", program)
    assert got.returncode == 0, got.stderr
    assert "reprise: a step runs as it is: not here" in got.stderr
    assert "reprise: a step runs as it is: its module is on meta" in got.stderr
    assert got.stdout == run(program).stdout


def test_budgets_as_text():
    for text, value in (
        ("6GiB", 6 << 30),
        ("512M", 512 << 20),
        ("1.5GB", 1500000000),
        ("64 KiB", 65536),
        ("8B", 8),
        ("4096", 4096),
        ("0.6", 0.6),
        ("1", 1.0),
    ):
        assert parse_budget(text) == value
        assert type(parse_budget(text)) is type(value)
    for text in ("", "much", "0", "-1", "6XB", "1e3", "9999999999TiB", "GiB"):
        with pytest.raises(ValueError, match="is no budget"):
            parse_budget(text)
    assert bytes_text(6 << 30) == "6 GiB" and bytes_text(1000) == "1000 bytes"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--budget", "much", "x.py"], "'much' is no budget: write bytes, such as 6GiB"),
        (["--budget", "1G", "--max-overhead", "0.1", "x.py"], "not allowed with argument"),
        (["--max-overhead", "-1", "x.py"], "must not be negative"),
    ],
)
def test_wrong_arguments(arguments, message):
    got = run("-m", "reprise", "run", *arguments)
    assert got.returncode == 2 and message in got.stderr
