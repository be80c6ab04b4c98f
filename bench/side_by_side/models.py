# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The models of bench/models in Python: the same parameters, drawn in the same order."""

import math
from dataclasses import dataclass
from typing import Callable

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Model:
    module: nn.Module
    enter: Callable  # gives what the first block gets
    blocks: list
    loss: Callable  # of what the last block gives


class GptBlock(nn.Module):
    def __init__(self, context, width, heads, dropout, fused):
        super().__init__()
        self.heads, self.dropout, self.fused = heads, dropout, fused
        self.attention_norm = nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp_up = nn.Linear(width, 4 * width)
        self.mlp_down = nn.Linear(4 * width, width)
        future = torch.ones(context, context, dtype=torch.bool).triu(diagonal=1)
        self.register_buffer("future", future)

    def drop(self, h):
        return F.dropout(h, self.dropout, self.training)

    def explicit_attention(self, q, k, v):
        tokens = q.size(2)
        scale = 1.0 / math.sqrt(q.size(3))
        scores = torch.matmul(q * scale, k.transpose(2, 3))
        scores = scores.masked_fill(self.future[:tokens, :tokens], -math.inf)
        return torch.matmul(self.drop(torch.softmax(scores, dim=-1)), v)

    def attend(self, h):
        batch, tokens, width = h.shape
        qkv = self.queries_keys_values(h).view(batch, tokens, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        if self.fused:
            mixed = F.scaled_dot_product_attention(
                q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=True
            )
        else:
            mixed = self.explicit_attention(q, k, v)
        return self.attention_out(mixed.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, h):
        attended = h + self.drop(self.attend(self.attention_norm(h)))
        hidden = F.gelu(self.mlp_up(self.mlp_norm(attended)))
        return attended + self.drop(self.mlp_down(hidden))


def make_gpt(fused, large=False, device="cpu"):
    vocabulary, batch = 64, 4
    context, width, heads, layers = (1024, 1024, 16, 24) if large else (128, 256, 8, 4)
    # torch's fused attention on the CPU has none
    dropout = 0.0 if fused and device == "cpu" else 0.1
    module = nn.Module()
    module.embedding = nn.Embedding(vocabulary, width)
    module.blocks = nn.ModuleList(
        GptBlock(context, width, heads, dropout, fused) for _ in range(layers)
    )
    module.head = nn.Linear(width, vocabulary)
    tokens = torch.randint(vocabulary, (batch, context + 1)).to(device)
    module.to(device)
    inputs, targets = tokens[:, :context], tokens[:, 1:]
    return Model(
        module,
        lambda: module.embedding(inputs),
        list(module.blocks),
        lambda h: F.cross_entropy(module.head(h).flatten(0, 1), targets.flatten()),
    )


def convolution(width_in, width_out, size, stride):
    return nn.Conv2d(width_in, width_out, size, stride=stride, padding=size // 2, bias=False)


class BasicBlock(nn.Module):
    def __init__(self, width_in, width_out):
        super().__init__()
        self.first = convolution(width_in, width_out, 3, width_out // width_in)
        self.first_norm = nn.BatchNorm2d(width_out)
        self.second = convolution(width_out, width_out, 3, 1)
        self.second_norm = nn.BatchNorm2d(width_out)
        self.shortcut = None
        if width_in != width_out:
            self.shortcut = convolution(width_in, width_out, 1, width_out // width_in)

    def forward(self, x):
        h = self.second_norm(self.second(torch.relu(self.first_norm(self.first(x)))))
        return torch.relu(h + (x if self.shortcut is None else self.shortcut(x)))


def make_resnet():
    batch, classes, side, widths = 16, 10, 32, (32, 64)
    module = nn.Module()
    module.stem = convolution(3, widths[0], 3, 1)
    module.stem_norm = nn.BatchNorm2d(widths[0])
    ins = (widths[0],) * 4 + (widths[0],) + (widths[1],) * 3
    outs = (widths[0],) * 4 + (widths[1],) * 4
    module.blocks = nn.ModuleList(map(BasicBlock, ins, outs))
    module.head = nn.Linear(widths[1], classes)
    images = torch.randn(batch, 3, side, side)
    labels = torch.randint(classes, (batch,))
    return Model(
        module,
        lambda: torch.relu(module.stem_norm(module.stem(images))),
        list(module.blocks),
        lambda h: F.cross_entropy(module.head(h.mean((2, 3))), labels),
    )


class LstmBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.lstm = nn.LSTM(width, width)

    def forward(self, h):
        return h + F.dropout(self.lstm(self.norm(h))[0], 0.1, self.training)


class Expert(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class SwitchBlock(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(Expert(width) for _ in range(experts))

    def forward(self, h):
        tokens = self.norm(h)
        weight, choice = torch.softmax(self.router(tokens), -1).max(-1)
        mixed = torch.zeros_like(tokens)
        for i, expert in enumerate(self.experts):
            rows = (choice == i).nonzero().squeeze(1)
            out = expert(tokens.index_select(0, rows))
            share = weight.index_select(0, rows).unsqueeze(1)
            mixed = mixed.index_add(0, rows, out * share)
        return h + F.dropout(mixed, 0.1, self.training)


def make_regression(blocks, shape):
    """Blocks whose result a linear layer compares with random vectors."""
    module = nn.Module()
    module.blocks = nn.ModuleList(blocks)
    module.head = nn.Linear(shape[-1], shape[-1])
    inputs, targets = torch.randn(shape), torch.randn(shape)
    return Model(
        module,
        lambda: inputs,
        list(module.blocks),
        lambda h: F.mse_loss(module.head(h), targets),
    )


MODELS = {
    "gpt": lambda: make_gpt(fused=False),
    "gpt-fused": lambda: make_gpt(fused=True),
    "resnet": make_resnet,
    "lstm": lambda: make_regression((LstmBlock(128) for _ in range(4)), (64, 16, 128)),
    "moe": lambda: make_regression((SwitchBlock(128, 4) for _ in range(4)), (1024, 128)),
}


def make_model(name):
    torch.manual_seed(0)
    return MODELS[name]()
