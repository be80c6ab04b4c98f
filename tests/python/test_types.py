# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The package's types: its own code, a user's, and the stub of the extension module."""

import ast
import inspect
import os
import pathlib
import subprocess
import sys

import pytest
import reprise

HERE = pathlib.Path(__file__).parent


def test_the_package_and_a_users_code_are_strictly_typed():
    pytest.importorskip("mypy", reason="mypy is not installed")
    package = pathlib.Path(reprise.__file__).resolve().parent
    built = pathlib.Path(reprise.__file__).absolute().parents[1]
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", built / "mypy"]
    done = subprocess.run(
        [*command, package, HERE / "user_code.py"],
        cwd=built,
        env={**os.environ, "MYPYPATH": os.fspath(package.parent)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def names_of(body):
    """Returns the names that a stub's statements define, and for classes those inside."""
    names = {}
    for each in body:
        if isinstance(each, ast.ClassDef):
            names[each.name] = names_of(each.body)
        elif isinstance(each, ast.FunctionDef):
            names[each.name] = None
        elif isinstance(each, ast.AnnAssign):
            names[each.target.id] = None
        elif isinstance(each, ast.Assign) and not each.targets[0].id.startswith("_"):
            names[each.targets[0].id] = None
    return {name: inside for name, inside in names.items() if not name.startswith("__")}


OF_ENUMS = {"name", "value"}  # what pybind11 adds


def assert_same_names(stub, module, path):
    there = {name for name in vars(module) if not name.startswith(("__", "_pybind11"))} - OF_ENUMS
    assert stub.keys() - OF_ENUMS == there, path
    for name, inside in stub.items():
        found = getattr(module, name)
        if inside is not None:
            assert inspect.isclass(found) or inspect.ismodule(found), f"{path}.{name}"
            assert_same_names(inside, found, f"{path}.{name}")


def test_the_stub_has_the_names_of_the_extension_module():
    stub = pathlib.Path(reprise.__file__).with_name("_C.pyi").read_text()
    assert_same_names(names_of(ast.parse(stub).body), reprise._C, "_C")


def public_names():
    for module in (reprise, reprise.policies, reprise.stores, reprise.integrations):
        for name, value in vars(module).items():
            if not name.startswith("_") and callable(value):
                yield f"{module.__name__}.{name}", value


def test_public_names_are_documented_and_typed():
    checked = 0
    for name, value in public_names():
        if not inspect.isfunction(value) or not value.__module__.startswith("reprise"):
            continue
        signature, documented = inspect.signature(value), inspect.getdoc(value)
        untyped = [p.name for p in signature.parameters.values() if p.annotation is p.empty]
        assert documented and not untyped, name
        assert signature.return_annotation is not signature.empty, name
        # Sections of Google's style, rather than lines of parameters without one.
        for parameter in signature.parameters:
            assert f"\n{parameter}: " not in documented, f"{name}: {parameter}"
        assert "\nRaises " not in documented, name
        checked += 1
    assert checked > 50


def test_options_have_the_defaults_of_the_extension_module():
    defaults = reprise._C.CheckpointOptions()
    parameters = inspect.signature(reprise.CheckpointOptions).parameters
    values = {name: p.default for name, p in parameters.items() if hasattr(defaults, name)}
    assert parameters.keys() - values.keys() == {"policy", "input_store"}
    assert values.pop("determinism_check") == "default"
    assert defaults.determinism_check == reprise.CheckpointOptions().determinism_check == "metadata"
    assert values == {name: getattr(defaults, name) for name in values}
    stub = pathlib.Path(reprise.__file__).with_name("_C.pyi").read_text()
    attributes = names_of(ast.parse(stub).body)["CheckpointOptions"].keys()
    assert attributes - {"assign", "set_policy", "set_input_store"} == values.keys() | {
        "determinism_check"
    }
