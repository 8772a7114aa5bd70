"""Backbone: pictures -> features on a grid, by any vision network of `transformers`. The home of that library.

    (n, side, side, 3) bytes -> (n, C, h, w) float16        ResNet-50 at 448: 2,048 features on 14 × 14 cells

Weights come from a local folder, or on explicit request from the hub; always as safetensors, never as a pickle, and
never with code of their own. Features are those before the last pooling; of a network of tokens (ViT),
those of its patches. They are kept in half precision: what a cache holds and what was just computed are the same.
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
        self,
        network: Any,
        side: int = 448,
        mean: tuple[float, ...] = IMAGENET_MEAN,
        std: tuple[float, ...] = IMAGENET_STD,
        resample: int = BICUBIC,
        name: str = "",
        device: str = "cpu",
        revision: str | None = None,
    ):
        self.side, self.mean, self.std, self.resample = side, tuple(mean), tuple(std), resample
        self.name, self.device, self.revision = name, device, revision
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
    def load(
        cls,
        name: str | os.PathLike[str],
        side: int = 448,
        device: str = "cpu",
        *,
        allow_download: bool = False,
        revision: str | None = None,
    ) -> Backbone:
        """Load a backbone from a local folder with config.json and model.safetensors, or from the Hugging Face hub.

        Pickled weights (.bin, .pt) are refused, and code in a model's repository is never run.

        Parameters
        ----------
        name : a folder; or a name on the hub such as "microsoft/resnet-50", the paper's
        side, device : as above
        allow_download : allow the hub, where `name` is not a folder; nothing is sent or downloaded otherwise
        revision : commit, tag or branch on the hub; the latest by default. `backbone.revision` is its commit.
        """
        name = os.fspath(name)
        if is_local := _is_folder(name):
            name = os.path.abspath(name)  # to be found from anywhere
        elif not _HUB_NAME.fullmatch(name):
            raise FileNotFoundError(f"there is no folder {name!r}: expected config.json and model.safetensors in it")
        elif not allow_download:
            raise FileNotFoundError(
                f"there is no folder {name!r}: expected config.json and model.safetensors in it; to download a model "
                "of that name from the Hugging Face hub, ask for it with allow_download=True (--download)"
            )
        access = {"local_files_only": is_local, "trust_remote_code": False, "revision": revision or "main"}
        try:
            network, told = _load_network(name, access)
            prepared = _read_preprocessor(name, access)
        except Exception as error:  # a broken file of weights has an exception of its own
            text = " ".join(str(error).split())
            raise ValueError(
                f"the backbone {name!r} cannot be loaded: expected a vision model of transformers with config.json and "
                f"model.safetensors; pickled weights are refused ({text:.300})"
            ) from error
        wrong = {*told["missing_keys"], *(key for key, *_ in told["mismatched_keys"])}
        if absent := sorted(key for key in wrong if "pooler" not in key):  # what stands behind the grid
            raise ValueError(
                f"the weights of {name!r} lack {absent[0]!r}, or have it in another size, and {len(absent) - 1} more: "
                "they are of another net"
            )
        commit = None if is_local else getattr(network.config, "_commit_hash", None)
        return cls(network, side, name=name, device=device, revision=commit, **prepared)

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


def _is_folder(name: str) -> bool:
    """Is it a folder of this machine? A path to another machine, which a file could name, is not looked at."""
    return not name.startswith(("//", "\\\\")) and os.path.isdir(name)


def _load_network(name: str, access: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    with _quiet():
        config = transformers.AutoConfig.from_pretrained(name, **access)
        if getattr(config, "use_pretrained_backbone", False):
            raise ValueError("its config.json asks for the weights of another model")
        return transformers.AutoModel.from_pretrained(
            name, config=config, use_safetensors=True, output_loading_info=True, ignore_mismatched_sizes=True, **access
        )


def _read_preprocessor(name: str, access: dict[str, Any]) -> dict[str, Any]:
    """Mean, deviation and filter as the weights' own processor has them, where it says so."""
    path = os.path.join(name, PREPROCESSOR)
    if not access["local_files_only"]:
        options = {"revision": access["revision"], "_raise_exceptions_for_missing_entries": False}
        path = transformers.utils.cached_file(name, PREPROCESSOR, **options) or ""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    mean, std, resample = (found.get(key) for key in ("image_mean", "image_std", "resample"))
    wishes = {"mean": mean and tuple(map(float, mean)), "std": std and tuple(map(float, std)), "resample": resample}
    known = {key: value for key, value in wishes.items() if value is not None}
    colours = [*known.get("mean", IMAGENET_MEAN), *known.get("std", IMAGENET_STD)]
    if len(colours) != 6 or not np.isfinite(colours).all() or min(known.get("std", IMAGENET_STD)) <= 0:
        raise ValueError(f"{PREPROCESSOR} must have three numbers each in image_mean and image_std, those above 0")
    return known
