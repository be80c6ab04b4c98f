# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Models and loops of frameworks for the tests of budgets around them. Each imports its framework."""

import functools

import torch
from torch import nn


def plain_loop(model, batches):
    """Trains with a loop that knows nothing of budgets."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    for batch in batches:
        outputs = model(**batch) if isinstance(batch, dict) else model(*batch)
        outputs = getattr(outputs, "loss", outputs)
        outputs = getattr(outputs, "sample", outputs)
        (outputs if outputs.ndim == 0 else outputs.square().mean()).backward()
        optimizer.step()
        optimizer.zero_grad()


def language_model():
    import transformers

    configuration = transformers.LlamaConfig(
        vocab_size=61,
        hidden_size=32,
        intermediate_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        attention_dropout=0.1,
        use_cache=False,
    )
    return transformers.LlamaForCausalLM(configuration)


def token_batches(count):
    batches = [torch.randint(61, (4, 64)) for _ in range(count)]
    return [{"input_ids": ids, "labels": ids} for ids in batches]


def with_adapters():
    import peft

    configuration = peft.LoraConfig(r=4, lora_dropout=0.1, target_modules=["q_proj", "v_proj"])
    return peft.get_peft_model(language_model(), configuration), token_batches(5)


def vision_transformer():
    import timm

    model = timm.models.vision_transformer.VisionTransformer(
        img_size=32, patch_size=4, embed_dim=32, depth=3, num_heads=2, proj_drop_rate=0.1
    )
    return model, [(torch.randn(8, 3, 32, 32),) for _ in range(5)]


def denoiser():
    import diffusers

    model = diffusers.UNet2DModel(
        sample_size=16,
        block_out_channels=(16, 32),
        norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        layers_per_block=1,
    )
    return model, [(torch.randn(4, 3, 16, 16), torch.randint(99, (4,))) for _ in range(5)]


class Titan(nn.Module):
    """As torchtitan's models: layers by name in a ModuleDict, each compiled or wrapped for itself."""

    def __init__(self, width=64):
        super().__init__()
        self.tok_embeddings = nn.Embedding(61, width)
        make = functools.partial(nn.TransformerEncoderLayer, width, 4, 4 * width, batch_first=True)
        self.layers = nn.ModuleDict({str(i): make() for i in range(3)})
        self.output = nn.Linear(width, 61)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens)
        for layer in self.layers.values():
            h = layer(h)
        return self.output(h)


def titan():
    return Titan(), [(torch.randint(61, (4, 64)),) for _ in range(5)]


MAKERS = {
    "peft": with_adapters,
    "timm": vision_transformer,
    "diffusers": denoiser,
    "torchtitan": titan,
}


def lightning_module(package, is_manual):
    class Module(package.LightningModule):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = not is_manual
            layers = [
                nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Dropout(0.1)) for _ in range(6)
            ]
            self.net, self.critic = (
                nn.Sequential(*layers),
                nn.Sequential(*layers[:2], nn.Linear(32, 1)),
            )
            self.losses = []

        def training_step(self, batch, batch_idx):
            if not is_manual:
                loss = self.net(batch[0]).square().mean()
                self.losses.append(loss.item())
                return loss
            for optimizer, code in zip(self.optimizers(), (self.net, self.critic), strict=True):
                loss = code(batch[0]).square().mean()
                optimizer.zero_grad()
                self.manual_backward(loss)
                optimizer.step()
                self.losses.append(loss.item())

        def validation_step(self, batch, batch_idx):
            self.log("validation", self.net(batch[0]).square().mean())

        def configure_optimizers(self):
            parts = (self.net, self.critic) if is_manual else (self,)
            return [torch.optim.SGD(part.parameters(), lr=0.1) for part in parts]

    return Module()


class Adversaries(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        layers = [nn.Linear(width, width) for _ in range(9)]
        self.generator = nn.Sequential(*(nn.Sequential(f, nn.GELU()) for f in layers[:6]))
        self.critic = nn.Sequential(*(nn.Sequential(f, nn.GELU()) for f in layers[6:]))


def adversarial_loop(model, rounds, before_step=lambda: None):
    """In the shape of DCGAN's: the critic on data, on detached results, and on results."""
    optimizers = [torch.optim.Adam(part.parameters()) for part in (model.generator, model.critic)]
    for _ in range(rounds):
        before_step()
        model.critic(torch.randn(512, 64)).square().mean().backward()
        fake = model.generator(torch.randn(512, 64))
        (-model.critic(fake.detach()).mean()).backward()
        model.critic(fake).mean().backward()
        del fake
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


def small_model():
    return nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(6)))


def small_batches(count):
    return [(torch.randn(256, 64),) for _ in range(count)]
