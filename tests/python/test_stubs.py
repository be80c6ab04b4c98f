# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The stubs agree with the package."""

import os
import pathlib
import subprocess
import sys

import pytest
import reprise


def test_stubs_agree_with_the_package(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")
    allowlist = pathlib.Path(__file__).with_name("stubs_allowlist.txt")
    package = pathlib.Path(reprise.__file__).parent
    command = [sys.executable, "-m", "mypy.stubtest", "reprise", "--concise"]
    done = subprocess.run(
        [*command, "--allowlist", allowlist],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(package.parent)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
