# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""The models whose steps run within budgets of memory.

Their gradients, which no budget can do without, are at most a twelfth of the plain step's peak.
"""

import functools

import torch
import torch.nn.functional as F
from models import MODELS, GptBlock, Model
from torch import nn

BATCH, TOKENS, VOCABULARY, WIDTH = 8, 128, 64, 128
GPT_LAYERS, GPT_HEADS = 6, 4
LAYERS, HEADS, HIDDEN = 32, 4, 256


class SwiGluBlock(nn.Module):
    """Fused attention and a gated layer, as in pytorch#197838."""

    def __init__(self):
        super().__init__()
        self.attention_norm = nn.RMSNorm(WIDTH)
        self.queries_keys_values = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.attention_out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp_norm = nn.RMSNorm(WIDTH)
        self.gate = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def attend(self, h):
        batch, tokens, width = h.shape
        qkv = self.queries_keys_values(h).view(batch, tokens, 3, HEADS, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.attention_out(mixed.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, h):
        h = h + self.attend(self.attention_norm(h))
        normed = self.mlp_norm(h)
        return h + self.down(F.silu(self.gate(normed)) * self.up(normed))


def make_language_model(blocks):
    module = nn.Module()
    module.embedding = nn.Embedding(VOCABULARY, WIDTH)
    module.blocks = nn.ModuleList(blocks)
    module.head = nn.Linear(WIDTH, VOCABULARY)
    tokens = torch.randint(VOCABULARY, (BATCH, TOKENS + 1))
    inputs, targets = tokens[:, :TOKENS], tokens[:, 1:]
    return Model(
        module,
        lambda: module.embedding(inputs),
        list(module.blocks),
        lambda h: F.cross_entropy(module.head(h).flatten(0, 1), targets.flatten()),
    )


def make_gpt():
    """With explicit attention, and dropout."""
    block = functools.partial(GptBlock, TOKENS, WIDTH, GPT_HEADS, dropout=0.1, fused=False)
    return make_language_model(block() for _ in range(GPT_LAYERS))


def make_swiglu():
    return make_language_model(SwiGluBlock() for _ in range(LAYERS))


BUDGET_MODELS = {"gpt": make_gpt, "swiglu": make_swiglu, "resnet": MODELS["resnet"]}

# Where not all budgets are compiled: a budget takes inductor most of a minute there.
COMPILED_BUDGETS = {("swiglu", "inductor"): (0.8, 0.5, 0.2)}


def make_budget_model(name):
    torch.manual_seed(0)
    return BUDGET_MODELS[name]()
