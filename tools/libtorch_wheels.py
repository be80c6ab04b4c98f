# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Wheels of any version of torch, for tools/check_versions and tools/matrix."""

import subprocess
import sys

PLATFORMS = ["manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"]


def python_with_pip():
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0:
            return python
    sys.exit("no Python has pip: install python3-pip")


def download(requirements, folder):
    """Puts wheels, without those that they require, into a folder, and returns their paths."""
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    subprocess.run(
        [
            python_with_pip(),
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--disable-pip-version-check",
            "--only-binary=:all:",
            *platforms,
            "--python-version",
            "312",
            "--dest",
            str(folder),
            *requirements,
        ],
        check=True,
    )
    return list(folder.glob("*.whl"))
