# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Runs a program as `python train.py` or `python -m package` runs it."""

from __future__ import annotations

import atexit
import builtins
import importlib.machinery
import io
import os
import runpy
import signal
import sys
import types
from collections.abc import Sequence

__all__ = ["run_program"]

_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _is_ours(frame: types.FrameType) -> bool:
    """Returns whether a frame of a traceback is one that the program does not have by itself."""
    name = os.path.basename(frame.f_code.co_filename)
    is_of_command = name in ("_budget.py", "_engine.py", "_script.py", "_steps.py")
    return is_of_command and frame.f_code.co_filename.startswith(_FOLDER)


def _remove_our_frames(error: BaseException, seen: set[int]) -> None:
    """Removes our frames from the tracebacks of an error and of its causes."""
    seen.add(id(error))
    frames = []
    traceback = error.__traceback__
    while traceback is not None:
        if not _is_ours(traceback.tb_frame):
            frames.append(traceback)
        traceback = traceback.tb_next
    first = None
    for each in reversed(frames):
        first = types.TracebackType(first, each.tb_frame, each.tb_lasti, each.tb_lineno)
    error.__traceback__ = first
    for other in (error.__cause__, error.__context__):
        if other is not None and id(other) not in seen:
            _remove_our_frames(other, seen)


class _Interrupted:
    """Ends the process as the interpreter ends one that an interrupt has ended."""

    def __init__(self) -> None:
        self.is_interrupted = False
        atexit.register(self._end)  # the last one that is called

    def _end(self) -> None:
        if self.is_interrupted and os.name == "posix":
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)


def _show(error: BaseException) -> None:
    _remove_our_frames(error, set())
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    sys.excepthook(type(error), error, error.__traceback__)


def _main_module() -> types.ModuleType:
    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=builtins, __annotations__={})
    sys.modules["__main__"] = module
    return module


def _run_file(path: str) -> None:
    module = _main_module()
    path = os.path.abspath(path)
    with io.open_code(path) as file:
        source = file.read()
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    module.__dict__.update(__file__=path, __cached__=None, __loader__=loader)
    exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)


def _is_source(path: str) -> bool:
    """Returns whether a path is that of a source file; otherwise it is a folder or an archive."""
    if os.path.isdir(path):
        return False
    with open(path, "rb") as file:
        return file.read(4) != b"PK\x03\x04" and not path.endswith(".pyc")


def _run(name: str, is_module: bool) -> None:
    is_first_path_ours = not getattr(sys.flags, "safe_path", False)
    if is_module:
        _main_module()
        runpy._run_module_as_main(name)  # type: ignore[attr-defined]
    elif _is_source(name):
        if is_first_path_ours:
            sys.path[0] = os.path.dirname(os.path.realpath(name))
        _run_file(name)
    else:
        if is_first_path_ours:
            del sys.path[0]
        runpy.run_path(name, run_name="__main__")


def run_program(
    name: str,
    arguments: Sequence[str],
    is_module: bool,
    ends_at: type[BaseException] | None = None,
) -> int:
    """Runs a script, or a module, as the interpreter's `__main__`.

    sys.argv, sys.path, `__main__`, tracebacks and the end after an interrupt are those of a run
    without this package. SystemExit goes through.

    Args:
        name: the path of a script, of a folder or an archive with a `__main__`, or a module.
        arguments: of the program.
        is_module: whether `name` is a module, as after `python -m`.
        ends_at: an exception that ends the program as if it had come to its end.

    Returns:
        The exit status: 0; 1 after an error, which has been shown; 2 if there is no such file.
    """
    if not is_module and not os.path.exists(name):
        path = os.path.abspath(name)
        print(
            f"{sys.executable}: can't open file {path!r}: [Errno 2] No such file or directory",
            file=sys.stderr,
        )
        return 2
    end = _Interrupted()
    sys.argv = [name, *arguments]
    try:
        _run(name, is_module)
    except SystemExit:
        raise
    except BaseException as error:
        if ends_at is not None and isinstance(error, ends_at):
            return 0
        _show(error)
        end.is_interrupted = isinstance(error, KeyboardInterrupt)
        return 1
    return 0
