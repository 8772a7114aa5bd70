"""Backbone: pictures -> features on a grid of patches, by any vision network of `transformers`.

    (n, side, side, 3) bytes -> (n, C, h, w) float16        ResNet-50 at 448: 2,048 features on 14 × 14 patches

Only this module imports transformers. Weights come from a local folder or, on explicit request, from the hub. They
must be safetensors: pickled weights and repository code are refused. Features are the activations before the last
pooling, or the patch tokens of a transformer (ViT), in half precision both in memory and in a cache.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import torch

try:
    import transformers
except ImportError as error:
    raise ImportError("backbones need transformers: pip install 'neuralbasis[vision]'", name="transformers") from error

from .pictures import BICUBIC

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PREPROCESSOR = "preprocessor_config.json"
_HUB_NAME = re.compile(r"\w[\w.-]*(/[\w.-]+)?")
# Settings of a network's configuration that do not affect its last hidden state.
_UNUSED_SETTINGS = ("stage_names", "out_features", "out_indices", "pooler_act", "pooler_output_size")


class Backbone:
    """A network in evaluation mode, with the preprocessing of its pictures.

    Parameters
    ----------
    network : model of `transformers` whose `last_hidden_state` is (n, C, h, w) or (n, tokens, C)
    side : width and height of its pictures in pixels
    mean, std : of the three colour channels in the network's training data, on a scale of 0 to 1
    resample : PIL's number of the filter for resizing
    name : folder or hub name of the weights
    device : device of the network
    revision : commit of a hub model; None for a local folder

    Examples
    --------
    >>> from transformers import ResNetConfig, ResNetModel
    >>> network = ResNetModel(ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"))
    >>> backbone = Backbone(network, side=64)
    >>> backbone.features(np.zeros((2, 64, 64, 3), np.uint8)).shape, backbone.shape
    ((2, 16, 8, 8), (16, 8, 8))
    """

    def __init__(
        self, network: Any, side: int = 448, mean: tuple[float, ...] = IMAGENET_MEAN,
        std: tuple[float, ...] = IMAGENET_STD, resample: int = BICUBIC, name: str = "", device: str = "cpu",
        revision: str | None = None,
    ):  # fmt: skip
        self.side, self.mean, self.std, self.resample = side, tuple(mean), tuple(std), resample
        self.name, self.device, self.revision = name, device, revision
        network = network.eval().requires_grad_(False).float()  # weights may be stored in half precision
        try:
            # Channels last: the layout of the pictures, and faster on a CPU.
            self.network = network.to(device, memory_format=torch.channels_last)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(f"the device {device!r} is not available; use 'cpu' or another one ({error})") from error
        can_interpolate = "interpolate_pos_encoding" in inspect.signature(network.forward).parameters
        self._forward_options = {"interpolate_pos_encoding": True} if can_interpolate else {}

    @classmethod
    def load(
        cls, name: str | os.PathLike[str], side: int = 448, device: str = "cpu", *, allow_download: bool = False,
        revision: str | None = None,
    ) -> Backbone:  # fmt: skip
        """Load a backbone from a local folder with config.json and model.safetensors, or from the Hugging Face hub.

        Pickled weights (.bin, .pt) are refused, and code in a model's repository is never run.

        Parameters
        ----------
        name : folder, or a name on the hub such as "microsoft/resnet-50", which the paper uses
        side : width and height of its pictures in pixels
        device : device of the network
        allow_download : use the hub if `name` is not a folder; by default nothing is sent or downloaded
        revision : commit, tag or branch on the hub; the latest by default. `backbone.revision` is its commit.
        """
        name = os.fspath(name)
        # Network paths, which a concept file could name, are never accessed.
        if is_local := not name.startswith(("//", "\\\\")) and os.path.isdir(name):
            name = os.path.abspath(name)  # a concept file records it
        elif not allow_download or not _HUB_NAME.fullmatch(name):
            reason = f"there is no folder {name!r}: expected config.json and model.safetensors in it"
            hint = "to download the model of that name from the Hugging Face hub, set allow_download=True (--download)"
            raise FileNotFoundError(f"{reason}; {hint}" if _HUB_NAME.fullmatch(name) else reason)
        access = {"local_files_only": is_local, "trust_remote_code": False, "revision": revision or "main"}
        try:
            with _silence_transformers():
                config = transformers.AutoConfig.from_pretrained(name, **access)
                if getattr(config, "use_pretrained_backbone", False):
                    raise ValueError("its config.json refers to the weights of another model")
                options = {"use_safetensors": True, "output_loading_info": True, "ignore_mismatched_sizes": True}
                network, info = transformers.AutoModel.from_pretrained(name, config=config, **options, **access)
            preprocessing = _read_preprocessor(name, access)
        except Exception as error:  # each library raises its own exceptions
            text = " ".join(str(error).split())
            raise ValueError(
                f"the backbone {name!r} cannot be loaded: expected a vision model of transformers with config.json and "
                f"model.safetensors; pickled weights are refused ({text:.300})"
            ) from error
        wrong = {*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])}
        if wrong := {key for key in wrong if "pooler" not in key}:  # the pooler does not affect the grid
            raise ValueError(
                f"the weights of {name!r} do not match its config.json: {len(wrong)} tensors are missing or have "
                f"another size, first {min(wrong)!r}"
            )
        commit = None if is_local else getattr(network.config, "_commit_hash", None)
        return cls(network, side, name=name, device=device, revision=commit, **preprocessing)

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """(C, h, w): features and the grid of patches."""
        return self.features(np.zeros((1, self.side, self.side, 3), dtype=np.uint8)).shape[1:]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of weights, settings and preprocessing. Backbones with the same digest compute the same features."""
        digest = hashlib.sha256(repr((self.side, self.mean, self.std, self.resample)).encode())
        digest.update(type(self.network).__name__.encode())
        digest.update(json.dumps(_list_settings(self.network), sort_keys=True, default=str).encode())
        for key, tensor in self.network.state_dict().items():
            digest.update(key.encode())
            digest.update(np.ascontiguousarray(tensor.cpu().float().numpy()).tobytes())
        return digest.hexdigest()

    def features(self, pixels: np.ndarray) -> np.ndarray:
        """(n, side, side, 3) bytes -> (n, C, h, w) float16."""
        with torch.inference_mode():
            found = self.forward(self.prepare(pixels))
            # Avoid infinity beyond the range of float16.
            return found.clamp(-65504, 65504).half().cpu().numpy()

    def prepare(self, pixels: np.ndarray) -> torch.Tensor:
        """(n, side, side, 3) bytes -> (n, 3, side, side), normalised by `mean` and `std`."""
        batch = torch.tensor(np.asarray(pixels), device=self.device).permute(0, 3, 1, 2).float()
        shift, scale = (
            torch.tensor([255.0 * value for value in values], device=self.device).reshape(1, 3, 1, 1)
            for values in (self.mean, self.std)
        )
        return (batch - shift) / scale

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Run the network: (n, 3, side, side) -> (n, C, h, w)."""
        found = self.network(batch, **self._forward_options).last_hidden_state
        if found.ndim == 3:  # (n, tokens, C): a few global tokens, then one per patch
            width = math.isqrt(found.shape[1])
            found = found[:, -(width**2) :].transpose(1, 2).reshape(len(found), -1, width, width)
        return found


@contextmanager
def _silence_transformers() -> Iterator[None]:
    """Suppress progress bars and the warning about unused weights of the classification head."""
    logging = transformers.utils.logging
    verbosity, has_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if has_bars:
            logging.enable_progress_bar()


def _list_settings(network: Any) -> dict[str, Any]:
    """Settings of the network that differ from their defaults, because later versions of transformers add settings."""
    config = getattr(network, "config", None)
    if config is None:
        return {}
    defaults = {} if getattr(config, "has_no_defaults_at_init", False) else type(config)().to_dict()
    ignored = {*transformers.PretrainedConfig().to_dict(), "torch_dtype", *_UNUSED_SETTINGS}
    return {key: value for key, value in config.to_dict().items() if key not in ignored and defaults.get(key) != value}


def _read_preprocessor(name: str, access: dict[str, Any]) -> dict[str, Any]:
    """Mean, standard deviation and filter from `preprocessor_config.json`, as far as it states them."""
    path = os.path.join(name, PREPROCESSOR)
    if not access["local_files_only"]:
        options = {"revision": access["revision"], "_raise_exceptions_for_missing_entries": False}
        path = transformers.utils.cached_file(name, PREPROCESSOR, **options) or ""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        stated = {key: value for key, value in json.load(file).items() if value is not None}
    mean = tuple(map(float, stated.get("image_mean", IMAGENET_MEAN)))
    std = tuple(map(float, stated.get("image_std", IMAGENET_STD)))
    if (len(mean), len(std)) != (3, 3) or not np.isfinite([*mean, *std]).all() or min(std) <= 0:
        raise ValueError(f"{PREPROCESSOR} must have three finite numbers each in image_mean and image_std (above 0)")
    return {"mean": mean, "std": std, "resample": stated.get("resample", BICUBIC)}
