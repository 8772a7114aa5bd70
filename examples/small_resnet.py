"""A small ResNet trained on drawn birds, in place of the weights of ResNet-50.

    train_small_resnet(annotations, folder) -> folder with config.json, model.safetensors, preprocessor_config.json

The network learns to classify the concepts at annotated patches for a few epochs; the classification head is then
discarded. The folder has the format of a checkpoint on the hub, and `Backbone.load` reads it.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from transformers import ResNetConfig, ResNetForImageClassification

from neuralbasis.vision import Annotations, Backbone, read_picture
from neuralbasis.vision.backbone import IMAGENET_MEAN, IMAGENET_STD
from neuralbasis.vision.learning import IGNORED, POSITIVE, Patches, sample_patches


def train_small_resnet(
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
    """Train a ResNet and write its checkpoint; `widths` are those of the embedding and of each stage."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    config = ResNetConfig(
        embedding_size=widths[0], hidden_sizes=list(widths[1:]), depths=[1] * (len(widths) - 1), layer_type="basic"
    )
    network = ResNetForImageClassification(config)
    backbone = Backbone(network.resnet, side)
    train = annotations.select(annotations.is_train)
    pictures = [read_picture(path, side) for path in train.images]
    pixels = np.stack([picture.pixels for picture in pictures])
    n_features, *grid = backbone.shape
    patches = sample_patches(train, np.array([picture.size for picture in pictures]), tuple(grid), 4, rng)
    head = torch.nn.Linear(n_features, len(annotations.concepts))
    parameters = [*network.resnet.requires_grad_(True).train().parameters(), *head.parameters()]
    n_steps = epochs * (len(pixels) // batch_size)
    optimizer = torch.optim.AdamW(parameters, lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=n_steps)
    for step in range(n_steps):
        rows = rng.choice(len(pixels), batch_size, replace=False)
        loss = _compute_loss(backbone, head, pixels[rows], _select_patches(patches, rows))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if verbose and step % 20 == 0:
            print(f"step {step} of {n_steps}: loss {loss.item():.3f}")
    return _save(network, Path(folder))


def _select_patches(patches: Patches, rows: np.ndarray) -> Patches:
    """The patches of a batch of pictures; `image` becomes the index in the batch."""
    index = {int(row): k for k, row in enumerate(rows)}
    here = Patches(*(field[np.isin(patches.image, rows)] for field in patches))
    return here._replace(image=np.array([index[int(row)] for row in here.image]))


def _compute_loss(backbone: Backbone, head: torch.nn.Linear, pixels: np.ndarray, patches: Patches) -> torch.Tensor:
    features = backbone.forward(backbone.prepare(pixels)).flatten(2).transpose(1, 2)  # (b, h · w, C)
    labels = torch.from_numpy(patches.labels)
    weight = (labels != IGNORED) * torch.where(labels == POSITIVE, 4.0, 1.0)
    target = (labels == POSITIVE).float()
    logits = head(features[torch.from_numpy(patches.image), torch.from_numpy(patches.position)])
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
    return (weight * loss).sum() / weight.sum()


def _save(network: ResNetForImageClassification, folder: Path) -> Path:
    network.eval().to(memory_format=torch.contiguous_format).save_pretrained(folder)
    preprocessing = {"image_mean": IMAGENET_MEAN, "image_std": IMAGENET_STD, "resample": 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessing), encoding="utf-8")
    return folder
