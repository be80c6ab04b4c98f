# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Modules as frameworks write them: checkpointing behind a switch, parameters of a manager."""

import ctypes
import functools

import reprise
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint  # before any patch, as libraries import it


class Layer(nn.Module):
    """Notes for each call whether it is a recomputation of ours."""

    def __init__(self, width=8):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width)
        self.calls = []

    def forward(self, x, mask=None, scale=1.0):
        if not torch.compiler.is_compiling():
            self.calls.append(reprise.is_recomputing())
        h = nn.functional.gelu(self.linear(self.norm(x))) * scale
        return x + nn.functional.dropout(h if mask is None else h * mask, 0.5, self.training)


class Switchable(nn.Module):
    """Checkpointing that the user switches on, through a function that the model holds."""

    def __init__(self, layers=2):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.checkpointing_function = None

    def enable_checkpointing(self, **keywords):
        self.checkpointing_function = functools.partial(checkpoint, **keywords)

    def forward(self, x, mask=None):
        for layer in self.layers:
            if self.checkpointing_function is not None and self.training:
                x = self.checkpointing_function(layer.__call__, x, mask, scale=0.5)
            else:
                x = layer(x, mask, scale=0.5)
        return x


class SavingLinear(torch.autograd.Function):
    """Saves the parameter itself rather than a view of it."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient @ weight, gradient.t() @ x


class ManagedLinear(nn.Linear):
    def forward(self, x):
        return SavingLinear.apply(x, self.weight) + self.bias


class Manager:
    """Lends a module its parameters while it runs, in forward and in backward, by its hooks."""

    def __init__(self, module):
        self.whole = {p: p.detach().clone() for p in module.parameters()}
        module.register_forward_pre_hook(lambda *_: self.gather())
        module.register_forward_hook(lambda *_: self.release())
        module.register_full_backward_pre_hook(lambda *_: self.gather())
        module.register_full_backward_hook(lambda *_: self.release())
        self.gathers = 0
        self.release()

    def gather(self):
        lent = [self.lend(parameter, whole) for parameter, whole in self.whole.items()]
        self.gathers += any(lent)

    def lend(self, parameter, whole):
        if parameter.numel() > 0:
            return False
        parameter.data = whole.clone()
        return True

    def release(self):
        for parameter in self.whole:
            parameter.data = torch.empty(0)


class StorageManager(Manager):
    """Takes the memory out of the parameter's storage, and fills it in place."""

    def lend(self, parameter, whole):
        storage = parameter.untyped_storage()
        if storage.size() > 0:
            return False
        storage.resize_(whole.nbytes)
        ctypes.memset(storage.data_ptr(), 0xFF, whole.nbytes)  # not-a-numbers, past the dispatcher
        with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(parameter):
            parameter.copy_(whole)
        return True

    def release(self):
        for parameter in self.whole:
            parameter.untyped_storage().resize_(0)
