# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Trains on images, in the shape of Lightning's example: a module, a data module, a trainer."""

import sys

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Images(lightning.LightningDataModule):
    def setup(self, stage):
        classes = torch.randint(10, (80,))
        images = torch.randn(80, 1, 16, 16) + torch.randn(10, 1, 16, 16)[classes]
        self.parts = random_split(TensorDataset(images, classes), [64, 16])

    def train_dataloader(self):
        return DataLoader(self.parts[0], batch_size=16, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.parts[1], batch_size=16)


class Classifier(lightning.LightningModule):
    def __init__(self, channels=16):
        super().__init__()
        layers = [nn.Conv2d(1, channels, 3, padding=1), nn.GELU()]
        for _ in range(4):
            layers += [
                nn.Conv2d(channels, channels, 3, padding=1),
                nn.BatchNorm2d(channels),
                nn.GELU(),
                nn.Dropout(0.1),
            ]
        self.net = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))
        self.losses = []

    def forward(self, images):
        return self.head(self.net(images))

    def loss(self, batch):
        images, classes = batch
        return nn.functional.cross_entropy(self(images), classes)

    def training_step(self, batch, index):
        loss = self.loss(batch)
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, index):
        self.log("validation", self.loss(batch))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    lightning.seed_everything(0, verbose=False)
    model, data = Classifier(), Images()
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, data)
    print(model.losses, trainer.callback_metrics["validation"].item())
    if len(sys.argv) > 1:
        torch.save(model.state_dict(), sys.argv[1])


if __name__ == "__main__":
    main()
