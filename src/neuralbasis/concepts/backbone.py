"""Backbone: pictures -> features on a grid, by any vision network of `transformers`. The home of that library.

    (n, side, side, 3) bytes -> (n, C, h, w) float16        ResNet-50 at 448: 2,048 features on 14 × 14 cells

Weights come from a local folder or the hub. Features are those before the last pooling; of a network of tokens (ViT),
those of its patches. They are kept in half precision: what a cache holds and what was just computed are the same.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
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
_BEHIND = ("stage_names", "out_features", "out_indices", "pooler_act", "pooler_output_size")  # settings behind the grid


class Backbone:
    """A network in evaluation mode, and how it wants its pictures.

    Parameters
    ----------
    network : a model of `transformers` whose `last_hidden_state` is (n, C, h, w), or (n, tokens, C)
    side : width and height of its pictures in pixels
    mean, std : of the three colours, between 0 and 1, for which it was trained
    resample : PIL's number of the filter for resizing
    name : where its weights came from
    device : where it runs

    Examples
    --------
    >>> from transformers import ResNetConfig, ResNetModel
    >>> network = ResNetModel(ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"))
    >>> backbone = Backbone(network, side=64)
    >>> backbone.features(np.zeros((2, 64, 64, 3), np.uint8)).shape, backbone.shape
    ((2, 16, 8, 8), (16, 8, 8))
    """

    def __init__(
        self,
        network: Any,
        side: int = 448,
        mean: tuple[float, ...] = IMAGENET_MEAN,
        std: tuple[float, ...] = IMAGENET_STD,
        resample: int = BICUBIC,
        name: str = "",
        device: str = "cpu",
    ):
        self.side, self.mean, self.std, self.resample = side, tuple(mean), tuple(std), resample
        self.name, self.device = name, device
        network = network.eval().requires_grad_(False).float()  # weights may be stored in half precision
        try:
            # Channels behind pixels: as pictures are stored, and faster on a CPU.
            self.network = network.to(device, memory_format=torch.channels_last)
        except (RuntimeError, AssertionError) as error:
            raise ValueError(f"the device {device!r} cannot be used; 'cpu' always can ({error})") from error
        self._wishes: dict[str, Any] = {}
        if "interpolate_pos_encoding" in inspect.signature(network.forward).parameters:
            self._wishes["interpolate_pos_encoding"] = True
        self._digest: str | None = None
        self._shape: tuple[int, int, int] | None = None

    @classmethod
    def load(cls, name: str | os.PathLike[str], side: int = 448, device: str = "cpu") -> Backbone:
        """A backbone from a local folder (config.json, model.safetensors) or by its name on the hub.

        `microsoft/resnet-50` is the paper's.
        """
        name = os.path.abspath(name) if os.path.isdir(name) else os.fspath(name)  # to be found from anywhere
        looks_local = os.path.isabs(name) or name.startswith(".") or name.count("/") > 1
        if looks_local and not os.path.isdir(name):
            raise FileNotFoundError(f"there is no folder {name!r}: expected config.json and model.safetensors in it")
        try:
            with _quiet():
                network, told = transformers.AutoModel.from_pretrained(
                    name, output_loading_info=True, ignore_mismatched_sizes=True
                )
        except Exception as error:  # a broken file of weights has an exception of its own
            text = " ".join(str(error).split())
            raise ValueError(
                f"the backbone {name!r} cannot be loaded: expected a folder with config.json and model.safetensors, or "
                f"the name of a vision model on the hub ({text:.300})"
            ) from error
        wrong = {*told["missing_keys"], *(key for key, *_ in told["mismatched_keys"])}
        if absent := sorted(key for key in wrong if "pooler" not in key):  # what stands behind the grid
            raise ValueError(
                f"the weights of {name!r} lack {absent[0]!r}, or have it in another size, and {len(absent) - 1} more: "
                "they are of another net"
            )
        return cls(network, side, name=name, device=device, **_read_preprocessor(name))

    @property
    def shape(self) -> tuple[int, int, int]:
        """C features, h × w cells."""
        if self._shape is None:
            self._shape = self.features(np.zeros((1, self.side, self.side, 3), dtype=np.uint8)).shape[1:]
        return self._shape

    @property
    def digest(self) -> str:
        """A sum over the weights, the network's settings and how pictures are prepared: features of two backbones of
        one digest agree."""
        if self._digest is None:
            found = hashlib.sha256(repr((self.side, self.mean, self.std, self.resample)).encode())
            found.update(type(self.network).__name__.encode())
            found.update(json.dumps(_list_settings(self.network), sort_keys=True, default=str).encode())
            for key, tensor in self.network.state_dict().items():
                found.update(key.encode())
                found.update(np.ascontiguousarray(tensor.cpu().float().numpy()).tobytes())
            self._digest = found.hexdigest()
        return self._digest

    def features(self, pixels: np.ndarray) -> np.ndarray:
        """(n, side, side, 3) bytes -> (n, C, h, w) float16."""
        with torch.inference_mode():
            found = self.forward(self.prepare(pixels))
            # Beyond float16's range a feature is as large as can be written.
            return found.clamp(-65504, 65504).half().cpu().numpy()

    def prepare(self, pixels: np.ndarray) -> torch.Tensor:
        """Bytes -> (n, 3, side, side), as the network was trained to see them."""
        batch = torch.tensor(np.asarray(pixels), device=self.device).permute(0, 3, 1, 2).float()
        scale = torch.tensor([255.0 * value for value in self.std], device=self.device).reshape(1, 3, 1, 1)
        shift = torch.tensor([255.0 * value for value in self.mean], device=self.device).reshape(1, 3, 1, 1)
        return (batch - shift) / scale

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """The network alone: (n, 3, side, side) -> (n, C, h, w)."""
        found = self.network(batch, **self._wishes).last_hidden_state
        if found.ndim == 3:  # tokens: a few for the whole picture, then one a patch
            cells = math.isqrt(found.shape[1])
            found = found[:, -(cells**2) :].transpose(1, 2).reshape(len(found), -1, cells, cells)
        return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Without bars, and without a list of the classifier's weights, which are not wanted."""
    talk = transformers.utils.logging
    verbosity, has_bars = talk.get_verbosity(), talk.is_progress_bar_enabled()
    talk.set_verbosity_error()
    talk.disable_progress_bar()
    try:
        yield
    finally:
        talk.set_verbosity(verbosity)
        if has_bars:
            talk.enable_progress_bar()


def _list_settings(network: Any) -> dict[str, Any]:
    """What the configuration says of the computation, where it is not the usual: later versions of the library know
    more settings."""
    config = getattr(network, "config", None)
    if config is None:
        return {}
    usual = {} if getattr(config, "has_no_defaults_at_init", False) else type(config)().to_dict()
    general = {*transformers.PretrainedConfig().to_dict(), "torch_dtype", *_BEHIND}
    return {key: value for key, value in config.to_dict().items() if key not in general and usual.get(key) != value}


def _read_preprocessor(name: str) -> dict[str, Any]:
    """Mean, deviation and filter as the weights' own processor has them, where it says so."""
    path = os.path.join(name, PREPROCESSOR)
    if not os.path.isdir(name):
        path = transformers.utils.cached_file(name, PREPROCESSOR, _raise_exceptions_for_missing_entries=False) or ""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    wishes = {"mean": found.get("image_mean"), "std": found.get("image_std"), "resample": found.get("resample")}
    return {
        key: tuple(value) if isinstance(value, list) else value for key, value in wishes.items() if value is not None
    }
