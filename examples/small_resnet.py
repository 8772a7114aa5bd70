"""A small ResNet, taught on drawn birds: what stands in for ResNet-50's weights where they cannot be fetched.

    teach(annotations, folder) -> folder with config.json, model.safetensors and preprocessor_config.json

It learns to tell the concepts at the cells with parts, for a few epochs; the head that it learns them with is thrown
away. The folder has the form of the hub's checkpoints, so that `Backbone.load` reads it like any other.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from transformers import ResNetConfig, ResNetForImageClassification

from neuralbasis.vision import Annotations, Backbone, read_picture
from neuralbasis.vision.backbone import IMAGENET_MEAN, IMAGENET_STD
from neuralbasis.vision.patches import NOTHING, YES, choose_cells


def teach(
    annotations: Annotations,
    folder: str | Path,
    side: int = 96,
    widths: tuple[int, ...] = (16, 24, 48),
    epochs: int = 8,
    rate: float = 0.02,
    batch_size: int = 16,
    seed: int = 0,
    verbose: bool = False,
) -> Path:
    """Write the checkpoint of a ResNet of these widths: of the embedding, then of each stage."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    config = ResNetConfig(
        embedding_size=widths[0], hidden_sizes=list(widths[1:]), depths=[1] * (len(widths) - 1), layer_type="basic"
    )
    whole = ResNetForImageClassification(config)
    backbone = Backbone(whole.resnet, side)
    chosen = annotations.select(annotations.is_train)
    pictures = [read_picture(path, side) for path in chosen.images]
    pixels = np.stack([picture.pixels for picture in pictures])
    n_features, *grid = backbone.shape
    cells = choose_cells(chosen, np.array([picture.size for picture in pictures]), tuple(grid), 4, rng)
    head = torch.nn.Linear(n_features, len(annotations.concepts))
    parameters = [*whole.resnet.requires_grad_(True).train().parameters(), *head.parameters()]
    n_steps = epochs * (len(pixels) // batch_size)
    optimizer = torch.optim.AdamW(parameters, lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=n_steps)
    for step in range(n_steps):
        rows = rng.choice(len(pixels), batch_size, replace=False)
        loss = _loss(backbone, head, pixels[rows], *_gather(cells, rows))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if verbose and step % 20 == 0:
            print(f"step {step} of {n_steps}: loss {loss.item():.3f}")
    return _save(whole, Path(folder))


def _gather(cells, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The cells of some pictures: place of the picture in the batch, cell, and what it says of the concepts."""
    place = {int(row): k for k, row in enumerate(rows)}
    here = np.flatnonzero(np.isin(cells.image, rows))
    image = torch.tensor([place[int(row)] for row in cells.image[here]])
    return image, torch.from_numpy(cells.cell[here]), torch.from_numpy(cells.says[here])


def _loss(backbone: Backbone, head, pixels: np.ndarray, image, cell, says) -> torch.Tensor:
    features = backbone.forward(backbone.prepare(pixels)).flatten(2).transpose(1, 2)  # (b, cells, C)
    weight = (says != NOTHING) * torch.where(says == YES, 4.0, 1.0)
    target = (says == YES).float()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(head(features[image, cell]), target, reduction="none")
    return (weight * loss).sum() / weight.sum()


def _save(whole: ResNetForImageClassification, folder: Path) -> Path:
    whole.eval().to(memory_format=torch.contiguous_format).save_pretrained(folder)
    told = {"image_mean": IMAGENET_MEAN, "image_std": IMAGENET_STD, "resample": 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(told), encoding="utf-8")
    return folder
