"""Backbones: checkpoints, digests, safe loading, and downloads on explicit request only."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers")
pytest.importorskip("PIL")

import torch
from transformers import ResNetConfig, ResNetForImageClassification, ResNetModel, ViTConfig, ViTModel

from neuralbasis.vision import Backbone, ConceptExtractor, load


def test_a_checkpoint_in_the_format_of_the_hub(birds, tmp_path: Path) -> None:
    """Like microsoft/resnet-50: with the weights of the classification head and the settings of the processor."""
    assert {"config.json", "model.safetensors", "preprocessor_config.json"} <= {
        p.name for p in birds.checkpoint.iterdir()
    }
    config = ResNetConfig(
        embedding_size=8, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1]
    )  # bottlenecks, as ResNet-50
    torch.manual_seed(0)
    network = ResNetForImageClassification(config).eval()
    network.save_pretrained(tmp_path / "net")
    processor = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.2, 0.25], "resample": 2}
    (tmp_path / "net" / "preprocessor_config.json").write_text(json.dumps(processor))
    backbone = Backbone.load(tmp_path / "net", side=128)
    assert (backbone.mean, backbone.std, backbone.resample) == ((0.5, 0.4, 0.3), (0.2, 0.2, 0.25), 2)
    assert backbone.shape == (64, 4, 4)  # 1/32 of the side, as 14 of 448
    pixels = np.random.default_rng(0).integers(0, 256, (2, 128, 128, 3), dtype=np.uint8)
    batch = (pixels / 255 - processor["image_mean"]) / processor["image_std"]
    with torch.no_grad():
        expected = network.resnet(torch.tensor(batch.transpose(0, 3, 1, 2), dtype=torch.float32)).last_hidden_state
    assert np.abs(backbone.features(pixels).astype(float) - expected.numpy()).max() < 2e-2 * float(expected.abs().max())
    assert Backbone.load(tmp_path / "net", side=128).digest == backbone.digest
    assert Backbone.load(tmp_path / "net", side=96).digest != backbone.digest


def test_tokens_of_a_transformer_become_a_grid() -> None:
    config = ViTConfig(
        hidden_size=24, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=32, patch_size=8
    )
    backbone = Backbone(ViTModel(config, add_pooling_layer=False), side=64)  # positions are interpolated
    assert backbone.shape == (24, 8, 8)
    pixels = np.zeros((1, 64, 64, 3), dtype=np.uint8)
    tokens = backbone.network(backbone.prepare(pixels), interpolate_pos_encoding=True).last_hidden_state
    found = backbone.features(pixels)[0].astype(float)
    assert found[:, 1, 2] == pytest.approx(tokens[0, 1 + 8 + 2].detach().numpy(), abs=2e-3)


def test_weights_that_do_not_match_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        Backbone.load(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"cannot be loaded: expected a vision model.*config\.json"):
        Backbone.load(tmp_path / "empty")
    ResNetModel(shallow_net()).save_pretrained(tmp_path / "net")
    config = json.loads((tmp_path / "net" / "config.json").read_text())
    (tmp_path / "net" / "config.json").write_text(json.dumps({**config, "depths": [2, 1]}))
    with pytest.raises(ValueError, match=r"do not match its config\.json"):
        Backbone.load(tmp_path / "net")


def shallow_net(**settings) -> ResNetConfig:
    return ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", **settings)


def test_the_digest_depends_on_the_settings_of_the_network(tmp_path: Path) -> None:
    """Networks with the same weights and another activation compute other features."""
    torch.manual_seed(0)
    nets = {
        name: ResNetModel(shallow_net(**options)) for name, options in (("relu", {}), ("gelu", {"hidden_act": "gelu"}))
    }
    nets["gelu"].load_state_dict(nets["relu"].state_dict())
    found = {name: Backbone(net, side=64) for name, net in nets.items()}
    pixels = np.random.default_rng(0).integers(0, 256, (1, 64, 64, 3), dtype=np.uint8)
    assert not np.allclose(found["relu"].features(pixels), found["gelu"].features(pixels))
    assert found["relu"].digest != found["gelu"].digest
    nets["relu"].save_pretrained(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    digests = {Backbone.load(tmp_path / name, side=64).digest for name in ("one", "two")}
    assert digests == {found["relu"].digest}  # it does not depend on the folder


def test_half_precision_weights_are_converted(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = ResNetModel(shallow_net()).half()
    network.save_pretrained(tmp_path / "net")
    backbone = Backbone.load(tmp_path / "net", side=64)
    pixels = np.random.default_rng(0).integers(0, 256, (1, 64, 64, 3), dtype=np.uint8)
    assert backbone.network.dtype == torch.float32
    assert np.array_equal(backbone.features(pixels), Backbone(network, side=64).features(pixels))


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    ResNetModel(shallow_net()).save_pretrained(tmp_path / "net")
    weights = tmp_path / "net" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"the backbone '.*net' cannot be loaded"):
        Backbone.load(tmp_path / "net")
    weights.write_bytes(whole)
    config = json.loads((tmp_path / "net" / "config.json").read_text())
    (tmp_path / "net" / "config.json").write_text(json.dumps({**config, "embedding_size": 16}))
    with pytest.raises(ValueError, match=r"do not match its config\.json.*another size"):
        Backbone.load(tmp_path / "net")


class Bomb:
    def __init__(self, folder: Path):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    """Loading .bin weights could execute code."""
    network = ResNetModel(shallow_net())
    network.save_pretrained(tmp_path / "net")
    Backbone.load(tmp_path / "net", side=64)
    (tmp_path / "net" / "model.safetensors").unlink()
    for weights in (network.state_dict(), {**network.state_dict(), "bomb": Bomb(tmp_path / "ran")}):
        torch.save(weights, tmp_path / "net" / "pytorch_model.bin")
        with pytest.raises(ValueError, match=r"net' cannot be loaded: .*pickled weights are refused"):
            Backbone.load(tmp_path / "net", side=64)
    assert not (tmp_path / "ran").exists()


def test_code_in_the_checkpoint_is_not_run(tmp_path: Path) -> None:
    ResNetModel(shallow_net()).save_pretrained(tmp_path / "net")
    config = json.loads((tmp_path / "net" / "config.json").read_text())
    code = {"model_type": "odd", "auto_map": {"AutoConfig": "odd.Odd", "AutoModel": "odd.Odd"}}
    (tmp_path / "net" / "config.json").write_text(json.dumps({**config, **code}))
    (tmp_path / "net" / "odd.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Odd: pass\n")
    with pytest.raises(ValueError, match="net' cannot be loaded"):
        Backbone.load(tmp_path / "net", side=64)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "processor",
    [
        {"image_mean": [1]},
        {"image_mean": [1, 1], "image_std": [1, 1, 1, 1]},
        {"image_std": [1, 0, 1]},
        {"image_mean": "red"},
        [],
        {"image_std": 3},
    ],
)
def test_invalid_preprocessors_are_refused(processor, tmp_path: Path) -> None:
    ResNetModel(shallow_net()).save_pretrained(tmp_path / "net")
    (tmp_path / "net" / "preprocessor_config.json").write_text(json.dumps(processor))
    with pytest.raises(ValueError, match="net' cannot be loaded"):
        Backbone.load(tmp_path / "net", side=64)


class Hub(BaseHTTPRequestHandler):
    """The parts of the Hugging Face hub that downloads of one repository need; `requested` lists the paths."""

    def do_GET(self) -> None:
        self.server.requested.append(self.path)
        found = re.fullmatch("/birds/net/resolve/(main|a{40})/(.*)", self.path)
        file = self.server.folder / found[2] if found else None
        data = file.read_bytes() if file is not None and file.is_file() else b""
        self.send_response(200 if data else 404)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Repo-Commit", "a" * 40)
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        if not data:
            self.send_header("X-Error-Code", "EntryNotFound")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    do_HEAD = do_GET

    def log_message(self, *_) -> None:
        pass


@pytest.fixture
def hub(birds):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.requested, server.folder = [], birds.checkpoint
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_the_hub_is_accessed_only_on_request(birds, hub, tmp_path: Path) -> None:
    """A concept file names a hub model: an error without --download; with it, the recorded commit is downloaded."""
    learned = birds.extractor.learned
    source = learned.source._replace(name="birds/net", revision="a" * 40)
    ConceptExtractor(replace(learned, source=source)).save(tmp_path / "a.nbc")
    assert load(tmp_path / "a.nbc").learned.source == source
    (tmp_path / "pictures").mkdir()
    shutil.copy(birds.annotations.images[0], tmp_path / "pictures")
    command = [sys.executable, "-m", "neuralbasis", "concepts", "apply", "a.nbc", "pictures", "-o", "a.csv"]
    host = f"http://127.0.0.1:{hub.server_port}"
    environment = {**os.environ, "HF_ENDPOINT": host, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1"}
    found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "there is no folder 'birds/net'" in found.stderr
    assert "--download" in found.stderr
    assert hub.requested == []
    found = subprocess.run(
        [*command, "--download"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert f"/birds/net/resolve/{'a' * 40}/model.safetensors" in hub.requested
    assert not [path for path in hub.requested if "/resolve/main/" in path or path.endswith((".bin", ".py"))]
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 2


def test_network_paths_are_not_accessed(birds, tmp_path: Path) -> None:
    for name in (f"/{birds.checkpoint}", r"\\server\share"):
        with pytest.raises(FileNotFoundError, match="there is no folder"):
            Backbone.load(name, side=96)


def test_a_backbone_is_found_from_any_working_directory(birds, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(birds.checkpoint.parent)
    backbone = Backbone.load(birds.checkpoint.name, side=96)
    assert backbone.name == str(birds.checkpoint)
    found = replace(birds.extractor.learned, source=birds.extractor.learned.source._replace(name=backbone.name))
    ConceptExtractor(found).save(tmp_path / "a.nbc")
    monkeypatch.chdir(tmp_path)
    assert load("a.nbc").backbone.digest == birds.backbone.digest
    gone = found.source._replace(name=str(tmp_path / "gone"))
    ConceptExtractor(replace(found, source=gone)).save("b.nbc")
    with pytest.raises(FileNotFoundError, match=r"there is no folder '.*gone'.*or give the folder of the backbone"):
        load("b.nbc").apply(birds.annotations.images[:1])
    elsewhere = load("b.nbc", backbone=birds.backbone)
    assert elsewhere.apply(birds.annotations.images[:1]).scores.shape == (1, 38)


def test_an_unavailable_device_is_named() -> None:
    with pytest.raises(ValueError, match="the device 'nonsense' is not available; use 'cpu'"):
        Backbone(ResNetModel(shallow_net()), 64, device="nonsense")


WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
from neuralbasis.vision import {name}
"""


@pytest.mark.parametrize(("package", "name"), [("PIL", "read_picture"), ("transformers", "Backbone")])
def test_a_missing_extra_is_named(package: str, name: str) -> None:
    command = [sys.executable, "-c", WITHOUT.format(name=name), package]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "pip install 'neuralbasis[vision]'" in found.stderr.splitlines()[-1]
