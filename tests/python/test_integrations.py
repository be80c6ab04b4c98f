# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Budgets around the loops of frameworks: bits, bytes, and what their loggers receive."""

import logging
import os
import pathlib
import runpy
import subprocess
import sys
import weakref

import pytest
import reprise
import torch
from framework_loops import (
    MAKERS,
    Adversaries,
    Titan,
    adversarial_loop,
    language_model,
    lightning_module,
    plain_loop,
    small_batches,
    small_model,
    titan,
    token_batches,
)
from helpers import run_script
from torch import nn

integrations = reprise.integrations
KEYS = {"reprise_peak_bytes", "reprise_limit_bytes"}


def assert_same_weights(one, other):
    assert_same_dict(one.state_dict(), other.state_dict())


def assert_same_dict(one, other):
    assert one.keys() == other.keys() and len(one) > 0
    for name in one:
        assert torch.equal(one[name], other[name]), name


def assert_kept(applied, steps):
    """The last step had a plan, and its peak is within the budget and below a plain step's."""
    last = applied.last_step()
    assert applied.steps == steps
    assert last.is_planned and last.evicted_bytes == 0
    assert last.peak_bytes <= last.limit_bytes
    assert applied.values()["reprise_peak_bytes"] == last.peak_bytes
    assert applied.values()["reprise_limit_bytes"] == last.limit_bytes
    assert applied.values()["reprise_overhead"] >= 0
    assert f"{steps} steps, the last one of " in applied.summary()


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_loop_of_ones_own(make):
    if make is not titan:
        pytest.importorskip(next(name for name in MAKERS if MAKERS[name] is make))
    models = []
    for part in (None, 0.75):
        torch.manual_seed(0)
        model, batches = make()
        if part is not None:
            applied = integrations.apply(model, budget=part)
        plain_loop(model, batches)
        models.append(model)
    assert_same_weights(*models)
    assert_kept(applied, 5)
    applied.remove()


def test_the_trainer_of_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")

    def train(applies):
        torch.manual_seed(0)
        model = language_model()
        data = [{"input_ids": torch.randint(61, (64,))} for _ in range(24)]
        data = [{**each, "labels": each["input_ids"]} for each in data]
        arguments = transformers.TrainingArguments(
            output_dir=tmp_path,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=2,
            num_train_epochs=1,
            logging_steps=1,
            eval_strategy="epoch",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = transformers.Trainer(
            model=model, args=arguments, train_dataset=data, eval_dataset=data[:4]
        )
        applied = integrations.transformers.apply(trainer, budget=0.75) if applies else None
        trainer.train()
        return trainer, applied

    expected, _ = train(False)
    trainer, applied = train(True)
    assert_same_weights(trainer.model, expected.model)
    assert_kept(applied, 12)
    ours = [line for line in trainer.state.log_history if "loss" in line]
    theirs = [line for line in expected.state.log_history if "loss" in line]
    assert len(ours) == 6 and KEYS <= ours[-1].keys()
    assert [line["loss"] for line in ours] == [line["loss"] for line in theirs]
    evaluated = [line for line in trainer.state.log_history if "eval_loss" in line]
    assert len(evaluated) == 1 and not KEYS & evaluated[0].keys()
    # Watched while it trains, and not between.
    call = nn.Module.__call__
    assert not hasattr(call, "_is_of_steps")
    callbacks = len(trainer.callback_handler.callbacks)
    applied.remove()
    applied.remove()
    assert len(trainer.callback_handler.callbacks) == callbacks - 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("package", "is_manual"),
    [("lightning.pytorch", False), ("lightning.pytorch", True), ("pytorch_lightning", False)],
)
def test_the_trainer_of_lightning(tmp_path, package, is_manual):
    package = pytest.importorskip(package)

    def train(applies):
        torch.manual_seed(0)
        module = lightning_module(package, is_manual)
        data = torch.utils.data.TensorDataset(torch.randn(256 * 5, 32))
        loader = torch.utils.data.DataLoader(data, batch_size=256)
        trainer = package.Trainer(
            max_epochs=1,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=tmp_path,
        )
        applied = integrations.lightning.apply(trainer, budget=0.8) if applies else None
        trainer.fit(module, loader, loader)
        return trainer, module, applied

    _, expected, _ = train(False)
    trainer, module, applied = train(True)
    assert_same_weights(module, expected)
    assert module.losses == expected.losses
    assert_kept(applied, 10 if is_manual else 5)
    assert trainer.callback_metrics["reprise_limit_bytes"] == applied.last_step().limit_bytes
    assert "reprise_peak_bytes" in trainer.callback_metrics
    assert not hasattr(nn.Module.__call__, "_is_of_steps")
    applied.remove()
    assert not any("BudgetCallback" in type(each).__name__ for each in trainer.callbacks)


def test_a_loop_with_accelerate():
    accelerate = pytest.importorskip("accelerate")
    logged = []

    class Tracker(accelerate.tracking.GeneralTracker):
        name, requires_logging_directory, tracker = "kept", False, None

        def store_init_configuration(self, values):
            pass

        def log(self, values, step, **keywords):
            logged.append(values)

    def train(applies):
        torch.manual_seed(0)
        accelerator = accelerate.Accelerator(cpu=True, log_with=Tracker())
        accelerator.init_trackers("x")
        model, (inputs, *_) = Titan(), token_batches(1)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        model, optimizer = accelerator.prepare(model, optimizer)
        applied = None
        if applies:
            applied = integrations.accelerate.apply(accelerator, model, budget=0.75)
        for i in range(5):
            with accelerator.accumulate(model):
                loss = model(inputs["input_ids"]).square().mean()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            accelerator.log({"loss": loss.item()}, step=i)
        return model, applied, accelerator

    expected, *_ = train(False)
    model, applied, accelerator = train(True)
    assert_same_weights(model, expected)
    assert_kept(applied, 5)
    assert [each["loss"] for each in logged[:5]] == [each["loss"] for each in logged[5:]]
    assert not KEYS & logged[4].keys() and KEYS <= logged[9].keys()
    applied.remove()
    accelerator.log({"loss": 0}, step=6)
    assert logged[-1] == {"loss": 0}


def test_a_part_of_the_steps_of_two_networks():
    peaks = []

    def note_peak():
        peaks.append(reprise.memory_report().devices[0].peak_bytes)
        reprise.reset_peak_cpu_memory()

    models = []
    for part in (None, 0.7):
        torch.manual_seed(0)
        model = Adversaries()
        if part is not None:
            applied = integrations.apply(model, budget=part)
        adversarial_loop(model, 5, note_peak if part is not None else lambda: None)
        models.append(model)
    note_peak()
    assert_same_weights(*models)
    # The first round is the plain one: of the critic on data, of both, of the critic on results.
    assert applied.steps == 15
    states = 2 * sum(p.nbytes for p in model.parameters())
    limit = applied.last_step().limit_bytes
    assert limit == pytest.approx(0.7 * (peaks[1] + states), rel=1e-3)
    assert max(peaks[2:]) <= limit
    applied.remove()


def test_wrappers_and_others_modules():
    model, teacher = small_model(), nn.Linear(64, 64)
    with integrations.apply(model, budget="1GiB") as applied:
        plain_loop(teacher, small_batches(2))
        assert applied.steps == 0 and applied.values() == {}
        plain_loop(nn.Sequential(model, nn.Dropout(0.1)), small_batches(3))
        plain_loop(model[1], small_batches(1))
        assert applied.steps == 4
        assert applied.values()["reprise_limit_bytes"] == 1 << 30
        with torch.no_grad():
            model(*small_batches(1)[0])
        assert applied.steps == 4
        with integrations.apply(teacher, budget="1GiB") as others:  # each has its own
            plain_loop(teacher, small_batches(2))
            plain_loop(model, small_batches(1))
            assert (others.steps, applied.steps) == (2, 5)
    plain_loop(model, small_batches(1))
    assert applied.steps == 5
    assert not hasattr(nn.Module.__call__, "_is_of_steps")
    with integrations.apply(budget="1GiB") as applied:  # of any module
        plain_loop(small_model(), small_batches(2))
        assert applied.steps == 2


def test_a_budget_with_options_of_its_own():
    budget = reprise.MemoryBudget(max_overhead=0.5, plans_in_background=False)
    model = small_model()
    with integrations.apply(model, budget=budget) as applied:
        plain_loop(model, small_batches(4))
        assert budget.last_step().is_planned and applied.last_step().is_planned
        assert "reprise_limit_bytes" not in applied.values()
        assert applied.report() == budget.report()


def test_a_model_is_not_kept_alive_and_has_one_budget():
    model, other = small_model(), small_model()
    before = integrations.apply([model, other], budget="1GiB")
    applied = integrations.apply(model, budget=0.9)
    plain_loop(model, small_batches(2))
    plain_loop(other, small_batches(1))
    assert (before.steps, applied.steps) == (1, 2)
    last = integrations.apply(other, budget="1GiB")
    plain_loop(other, small_batches(1))
    assert (before.steps, last.steps) == (1, 1)
    alive = weakref.ref(model)
    del model
    assert alive() is None
    for each in (before, applied, last):
        each.remove()
    assert not hasattr(nn.Module.__call__, "_is_of_steps")


def test_what_cannot_have_a_budget_is_said_once(caplog):
    model = small_model()
    with integrations.apply(model, budget="1GiB") as applied, caplog.at_level(logging.WARNING):
        with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
            plain_loop(model, small_batches(2))
        assert applied.steps == 0
    assert [record.message for record in caplog.records] == ["a step runs as it is: not here"]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: integrations.apply(small_model(), budget=1.5), ValueError, "up to 1; got 1.5"),
        (lambda: integrations.apply(small_model(), budget="much"), ValueError, "is no budget"),
        (
            lambda: integrations.apply(small_model(), budget=1, max_overhead=0.1),
            ValueError,
            "not both",
        ),
        (
            lambda: integrations.apply(3),
            TypeError,
            "a int is no module; the trainers of frameworks",
        ),
        (lambda: integrations.transformers.apply(3), TypeError, "neither a Trainer nor a module"),
        (lambda: integrations.lightning.apply(3), TypeError, "no Trainer of Lightning"),
        (lambda: integrations.nothing, AttributeError, "has no attribute 'nothing'"),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_no_framework_is_imported():
    run_script(
        """
        import sys
        reprise.integrations.transformers, reprise.integrations.accelerate
        reprise.integrations.lightning
        names = {"transformers", "lightning", "pytorch_lightning", "accelerate", "peft", "timm"}
        assert not names & sys.modules.keys(), names & sys.modules.keys()
        """
    )


PROGRAMS = pathlib.Path(__file__).with_name("programs")
APPLY = "reprise.integrations"
# The arguments of each program, the statement before which its line goes, and the line.
LINES = {
    "transformers_causal_lm.py": (
        ["--per_device_train_batch_size", "4", "--num_train_epochs", "1", "--report_to", "none"]
        + ["--use_cpu", "--save_strategy", "no", "--disable_tqdm", "true", "--save"],
        "result = trainer.train()",
        f"applied = {APPLY}.transformers.apply(trainer, budget=0.75)",
    ),
    "lightning_images.py": (
        [],
        "trainer.fit(model, data)",
        f"applied = {APPLY}.lightning.apply(trainer, budget=0.75)",
    ),
    "images.py": (
        [],
        "optimizer = torch.optim.SGD",
        f"applied = {APPLY}.apply(model, budget=0.75)",
    ),
}


def run_program(path, arguments, folder):
    """Runs a program in this process, as `python path arguments`; returns the weights that it saves."""
    saved = folder / f"{path.stem}.pt"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [os.fspath(path), *arguments, os.fspath(saved)])
        patch.chdir(folder)
        runpy.run_path(sys.argv[0], run_name="__main__")
    return torch.load(saved)


@pytest.fixture
def all_applied(monkeypatch):
    """What apply() has made."""
    found, make = [], integrations.AppliedBudget.__init__

    def make_and_keep(applied, *args):
        found.append(applied)
        make(applied, *args)

    monkeypatch.setattr(integrations.AppliedBudget, "__init__", make_and_keep)
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", LINES)
def test_scripts_with_a_line_and_without_one(tmp_path, capsys, all_applied, program):
    if "_" in program:
        pytest.importorskip(program.split("_")[0])
    arguments, before, line = LINES[program]
    expected = run_program(PROGRAMS / program, arguments, tmp_path)
    printed = capsys.readouterr().out.splitlines()[-1]

    text = (PROGRAMS / program).read_text()
    assert text.count(before) == 1
    changed = tmp_path / "changed.py"
    changed.write_text("import reprise\n" + text.replace(before, f"{line}\n    {before}"))
    got = run_program(changed, arguments, tmp_path)
    assert capsys.readouterr().out.splitlines()[-1] == printed
    assert_same_dict(got, expected)
    (applied,) = all_applied
    assert_kept(applied, applied.steps)
    applied.remove()

    saved = tmp_path / "run.pt"
    command = [sys.executable, "-m", "reprise", "run", "--budget", "0.75", PROGRAMS / program]
    done = subprocess.run(
        [*command, *arguments, saved], capture_output=True, text=True, cwd=tmp_path, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == printed
    assert_same_dict(torch.load(saved), expected)
    assert f"{applied.steps} steps, the last one of " in done.stderr
    assert ", a budget of " in done.stderr
