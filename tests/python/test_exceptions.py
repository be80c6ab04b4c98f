# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Exceptions of a region's code, and the early stop."""

import contextlib
import signal
import threading
import traceback

import pytest
import reprise
import torch
from helpers import (
    FORMS,
    FUNCTION_FORMS,
    TAPE_FORMS,
    assert_as_plain,
    assert_regions_work,
    leaf,
    run_script,
)


class OurError(Exception):
    def __init__(self, message, payload):
        super().__init__(message)
        self.payload = payload


def raise_it(payload):
    raise OurError("raised by the region's code", payload)


@pytest.mark.parametrize("error", [OurError("m", 3), KeyboardInterrupt(), SystemExit(3)])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_in_forward_the_exception_itself_arrives(form, error):
    x = leaf(3)

    def function(t):
        t.sin().exp()
        raise error

    with pytest.raises(type(error)) as caught:
        form(function, x)
    assert caught.value is error
    assert traceback.extract_tb(error.__traceback__)[-1].name == "function"
    assert_regions_work()


@pytest.mark.parametrize(
    "error", [OurError("m", 3), KeyboardInterrupt(), SystemExit(3), GeneratorExit()]
)
@pytest.mark.parametrize("form", FUNCTION_FORMS.values(), ids=FUNCTION_FORMS)
def test_in_backward_the_exception_itself_arrives(form, error):
    x = leaf(3)

    def function(t):
        if reprise.is_recomputing():
            raise error
        return t.sin().exp()

    y = form(function, x)
    with pytest.raises(type(error)) as caught:
        y.sum().backward()
    assert caught.value is error
    names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert names[-1] == "function"
    assert names[0] == "test_in_backward_the_exception_itself_arrives"
    assert x.grad is None
    assert_regions_work()


def test_an_exception_in_backward_keeps_cause_context_and_notes():
    x = leaf(3)

    def function(t):
        if reprise.is_recomputing():
            try:
                raise_it("inner")
            except OurError as error:
                raise KeyError("outer") from error
        return t.sin().exp()

    y = reprise.checkpoint(function, x)
    with pytest.raises(KeyError) as caught:
        y.sum().backward()
    assert caught.value.__cause__.payload == "inner"


def test_after_an_exception_in_backward_it_can_be_repeated():
    x = leaf(3)
    fails = [True]

    def function(t):
        if reprise.is_recomputing() and fails:
            raise_it(fails.pop())
        return torch.dropout(t.sin(), 0.5, True).exp()

    torch.manual_seed(0)
    y = reprise.checkpoint(function, x)
    with pytest.raises(OurError):
        y.sum().backward(retain_graph=True)
    y.sum().backward()
    got = x.grad.clone()
    x.grad = None
    torch.manual_seed(0)
    torch.dropout(x.sin(), 0.5, True).exp().sum().backward()
    assert torch.equal(got, x.grad)


def test_the_early_stop_runs_finally_and_exit_and_is_no_exception():
    x = leaf(3)
    events = []

    class Context:
        def __enter__(self):
            events.append("enter")

        def __exit__(self, kind, error, trace):
            events.append(kind)

    def function(t):
        with Context():
            try:
                return t.sin().exp()
            except Exception:
                events.append("except Exception")
                raise
            finally:
                events.append("finally")

    reprise.checkpoint(function, x).sum().backward()
    assert events == ["enter", "finally", None, "enter", "finally", reprise.StopRecomputation]
    assert issubclass(reprise.StopRecomputation, BaseException)
    assert not issubclass(reprise.StopRecomputation, Exception)


@pytest.mark.parametrize("depth", [1, 5])
def test_swallowing_the_early_stop_changes_nothing(depth):
    x = leaf(3)
    swallowed = []

    def function(t):
        y = t
        for _ in range(depth):
            try:
                y = y.sin().exp()
            except:  # noqa: E722
                swallowed.append(1)
        return y

    assert_as_plain(lambda region: region(function, x).sum(), [x], reprise.checkpoint)
    assert swallowed


def region_that_replaces_the_early_stop(x, replacement):
    """Returns the exponential of the sine of x, from a region whose recomputation raises."""

    def function(t):
        try:
            return t.sin().exp()
        except BaseException:  # noqa: BLE001
            raise replacement from None

    return reprise.checkpoint(function, x)


@pytest.mark.parametrize("replacement", [ValueError("another"), KeyboardInterrupt()])
def test_replacing_the_early_stop(replacement):
    x = leaf(3)
    y = region_that_replaces_the_early_stop(x, replacement)
    if isinstance(replacement, KeyboardInterrupt):  # never taken for the stop
        with pytest.raises(KeyboardInterrupt):
            y.sum().backward()
            for _ in range(1000):  # raised by the interpreter, soon
                pass
    else:
        y.sum().backward()
        assert torch.equal(x.grad, x.detach().cos() * x.detach().sin().exp())
    assert_regions_work()


def test_an_interrupt_raised_in_place_of_the_early_stop_where_signals_are_ignored():
    x = leaf(3)
    interrupt = KeyboardInterrupt("by the code")
    y = region_that_replaces_the_early_stop(x, interrupt)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            y.sum().backward()
            for _ in range(1000):  # raised by the interpreter, soon
                pass
    finally:
        signal.signal(signal.SIGINT, before)
    assert caught.value is interrupt
    assert traceback.extract_tb(interrupt.__traceback__)[-1].name == "function"
    assert_regions_work()


def test_generators_and_exit_stacks_end_with_the_recomputation():
    x = leaf(3)
    closed = []

    def layers():
        try:
            yield torch.sin
            yield torch.exp
        finally:
            closed.append(1)

    def function(t):
        with contextlib.ExitStack() as stack:
            stack.callback(closed.append, 2)
            for layer in layers():
                t = layer(t)
        return t

    reprise.checkpoint(function, x).sum().backward()
    assert sorted(closed) == [1, 1, 2, 2]


def test_keyboard_interrupt_by_a_signal_in_a_recomputation():
    output = run_script(
        """
        import os, signal, time
        x = torch.randn(3, requires_grad=True)

        def function(t):
            y = t.sin()
            if reprise.is_recomputing():
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(1000):
                    time.sleep(0.001)
            return y.exp()

        y = reprise.checkpoint(function, x)
        try:
            y.sum().backward()
        except KeyboardInterrupt:
            print("interrupted", x.grad is None)
        reprise.checkpoint(lambda t: t.sin().exp(), x).sum().backward()
        print(torch.equal(x.grad, x.detach().cos() * x.detach().sin().exp()))
        """
    )
    assert output.split("\n")[:2] == ["interrupted True", "True"]


@pytest.mark.parametrize("form", FUNCTION_FORMS.values(), ids=FUNCTION_FORMS)
def test_exceptions_in_threads_that_run_backward(form):
    errors = []

    def run():
        x = leaf(3)
        y = form(lambda t: raise_it(4) if reprise.is_recomputing() else t.sin().exp(), x)
        try:
            y.sum().backward()
        except OurError as error:
            errors.append(error.payload)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [4] * 4


@pytest.mark.parametrize("form", TAPE_FORMS.values(), ids=TAPE_FORMS)
def test_an_exception_in_a_tape_leaves_its_tensors_as_they_are(form):
    x = leaf(3)
    made = []

    def function(t):
        made.append(t.sin().exp())
        raise_it(1)

    with pytest.raises(OurError):
        form(function, x)
    made[0].sum().backward()
    assert torch.equal(x.grad, x.detach().cos() * x.detach().sin().exp())


def test_exceptions_of_contexts():
    x = leaf(3)

    @contextlib.contextmanager
    def failing():
        raise_it("context")
        yield

    for pair in ((failing(), contextlib.nullcontext()), (contextlib.nullcontext(), failing())):
        with pytest.raises(OurError, match="raised by"):
            reprise.checkpoint(lambda t: t.sin(), x, context_fn=lambda p=pair: p).sum().backward()
    assert_regions_work()
