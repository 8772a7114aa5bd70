"""Drawn birds in the folder format of CUB-200-2011, for running the concept examples without the photographs.

    draw_birds(folder, 500) -> images/, images.txt, classes.txt, parts/, attributes/, train_test_split.txt, …

A bird consists of coloured, patterned parts at known locations. It stands sideways (one wing, eye and leg are visible)
or faces the viewer (both are visible, back and nape are not). Species differ in their attributes, and single birds
deviate from their species. Labels have certainties like those of CUB's annotators: "not visible" if the part is hidden,
sometimes "guessing", which is often wrong. `drawn/part_boxes.txt`, which CUB does not have, lists the box of each part.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

PARTS = (
    "back", "beak", "belly", "breast", "crown", "forehead", "left eye", "left leg", "left wing", "nape", "right eye",
    "right leg", "right wing", "tail", "throat",
)  # fmt: skip
ATTRIBUTES = {  # CUB's names and a few of its values
    "bill_shape": ("dagger", "hooked", "cone"),
    "wing_color": ("blue", "brown", "yellow", "black", "red"),
    "breast_color": ("blue", "yellow", "black", "white", "red"),
    "back_color": ("brown", "grey", "green", "black"),
    "tail_shape": ("forked_tail", "rounded_tail", "pointed_tail"),
    "belly_color": ("yellow", "white", "red", "grey"),
    "size": ("small_(5_-_9_in)", "medium_(9_-_16_in)", "large_(16_-_32_in)"),
    "leg_color": ("orange", "black", "grey"),
    "bill_color": ("orange", "black", "yellow"),
    "crown_color": ("blue", "yellow", "black", "white", "red"),
    "wing_pattern": ("solid", "spotted", "striped"),
}
COLORS = {
    "blue": (45, 90, 200), "brown": (125, 78, 38), "yellow": (238, 208, 40), "black": (25, 25, 28),
    "red": (200, 36, 36), "white": (245, 245, 245), "grey": (140, 142, 146), "green": (60, 140, 66),
    "orange": (238, 132, 28),
}  # fmt: skip
SIZES = dict(zip(ATTRIBUTES["size"], (0.62, 0.76, 0.92), strict=True))  # height of a bird relative to the picture
CERTAINTIES = ("not visible", "guessing", "probably", "definitely")
HIDDEN, GUESSING, PROBABLY, DEFINITELY = range(1, 5)
DEVIATION = 0.08  # probability that an attribute is drawn at random instead of from the species
_LIST_FILES = ("images.txt", "image_class_labels.txt", "train_test_split.txt", "attributes/image_attribute_labels.txt")
_LOCATION_FILES = ("bounding_boxes.txt", "parts/part_locs.txt", "drawn/part_boxes.txt")
Appearance = dict[str, str]  # value of each attribute
Points = np.ndarray  # (n, 2): x to the right, y down


@dataclass
class Scene:
    """A bird on its canvas: the position of its unit square and the boxes of the parts drawn so far, in pixels."""

    draw: ImageDraw.ImageDraw
    origin: np.ndarray
    extent: float
    is_mirrored: bool
    boxes: dict[str, np.ndarray] = field(default_factory=dict)  # part -> left, top, right, bottom

    def to_pixels(self, points: Points) -> Points:
        points = np.asarray(points, dtype=float)
        if self.is_mirrored:
            points = points * (-1, 1) + (1, 0)
        return self.origin + self.extent * points

    def fill(self, part: str, points: Points, color: tuple[int, ...], outline: bool = True) -> None:
        """Draw a polygon given in the bird's unit square and extend the box of its part."""
        pixels = self.to_pixels(points)
        self.draw.polygon([tuple(p) for p in pixels], fill=color, outline=(40, 36, 34) if outline else None)
        self.add_box(part, pixels)

    def add_box(self, part: str, pixels: Points) -> None:
        """Extend the box of a part; a mirrored bird shows its other side."""
        if self.is_mirrored and part.startswith(("left", "right")):
            side, name = part.split()
            part = f"{'right' if side == 'left' else 'left'} {name}"
        low, high = pixels.min(axis=0), pixels.max(axis=0)
        if part in self.boxes:
            low, high = np.minimum(low, self.boxes[part][:2]), np.maximum(high, self.boxes[part][2:])
        self.boxes[part] = np.concatenate([low, high])


def ellipse(x: float, y: float, a: float, b: float, start: float = 0, stop: float = 360) -> Points:
    """Points of an ellipse, or of an arc between two angles in degrees, clockwise from the right."""
    angles = np.deg2rad(np.linspace(start, stop, 32))
    return np.stack([x + a * np.cos(angles), y + b * np.sin(angles)], axis=1)


def draw_sideways(scene: Scene, looks: Appearance) -> None:
    """Draw a bird that looks to the left and shows its left side."""
    color = {name: COLORS[value] for name, value in looks.items() if value in COLORS}
    draw_tail(scene, looks, (0.72, 0.56), (0.27, 0.16))
    for x in (0.46, 0.56):
        scene.fill("left leg", [(x, 0.68), (x + 0.035, 0.68), (x + 0.03, 0.97), (x, 0.97)], color["leg_color"])
    scene.fill("back", ellipse(0.54, 0.53, 0.26, 0.19), color["back_color"])
    scene.fill("belly", ellipse(0.52, 0.60, 0.21, 0.135, 10, 170), color["belly_color"])
    scene.fill("nape", ellipse(0.33, 0.36, 0.10, 0.13), color["back_color"], outline=False)
    scene.fill("breast", ellipse(0.35, 0.55, 0.12, 0.15), color["breast_color"])
    draw_head(scene, color, 0.26, 0.27)
    scene.fill("throat", ellipse(0.25, 0.395, 0.08, 0.05), color["breast_color"], outline=False)
    draw_beak(scene, looks, (0.15, 0.27), (-1, 0))
    draw_wing(scene, looks, "left wing", 0.60, 0.47, 0.19, 0.12)
    draw_eye(scene, "left eye", 0.22, 0.27)
    back = ellipse(0.55, 0.36, 0.12, 0.04)
    scene.boxes.pop("back")
    scene.add_box("back", scene.to_pixels(back))


def draw_facing(scene: Scene, looks: Appearance) -> None:
    """Draw a bird that faces the viewer, with its left side on the right."""
    color = {name: COLORS[value] for name, value in looks.items() if value in COLORS}
    draw_tail(scene, looks, (0.5, 0.74), (0.0, 0.24))
    for part, x in (("right leg", 0.40), ("left leg", 0.57)):
        scene.fill(part, [(x, 0.76), (x + 0.035, 0.76), (x + 0.03, 0.98), (x, 0.98)], color["leg_color"])
    scene.fill("belly", ellipse(0.5, 0.66, 0.19, 0.16), color["belly_color"])
    scene.fill("breast", ellipse(0.5, 0.50, 0.17, 0.14), color["breast_color"])
    draw_wing(scene, looks, "right wing", 0.27, 0.56, 0.11, 0.19)
    draw_wing(scene, looks, "left wing", 0.73, 0.56, 0.11, 0.19)
    draw_head(scene, color, 0.5, 0.23)
    scene.fill("throat", ellipse(0.5, 0.37, 0.08, 0.04), color["breast_color"], outline=False)
    draw_eye(scene, "right eye", 0.44, 0.22)
    draw_eye(scene, "left eye", 0.56, 0.22)
    draw_beak(scene, looks, (0.5, 0.25), (0, 1))


def draw_head(scene: Scene, color: dict[str, tuple[int, ...]], x: float, y: float) -> None:
    scene.draw.polygon([tuple(p) for p in scene.to_pixels(ellipse(x, y, 0.125, 0.13))], fill=(170, 150, 128))
    scene.fill("crown", ellipse(x + 0.01, y - 0.02, 0.13, 0.12, 185, 355), color["crown_color"])
    scene.add_box("forehead", scene.to_pixels(ellipse(x - 0.08, y - 0.06, 0.04, 0.04)))


def draw_eye(scene: Scene, part: str, x: float, y: float) -> None:
    scene.fill(part, ellipse(x, y, 0.026, 0.026), (250, 250, 250))
    scene.fill(part, ellipse(x, y, 0.014, 0.014), (10, 10, 10), outline=False)


def draw_beak(scene: Scene, looks: Appearance, base: tuple[float, float], heading: tuple[int, int]) -> None:
    """Draw a long dagger, a hook that points down, or a short thick cone."""
    length, half, hook = {"dagger": (0.17, 0.028, 0.0), "hooked": (0.11, 0.05, 0.09), "cone": (0.085, 0.075, 0.0)}[
        looks["bill_shape"]
    ]
    ahead, aside = np.array(heading, dtype=float), np.array([heading[1], -heading[0]], dtype=float)  # (-1, 0) -> down
    tip = ahead * length
    points = [-aside * half, tip - aside * half * 0.3, tip + aside * hook, tip * 0.7 + aside * half * 0.5, aside * half]
    if not hook:
        points = [-aside * half, tip, aside * half]
    scene.fill("beak", np.array(base) + np.array(points), COLORS[looks["bill_color"]])


def draw_tail(scene: Scene, looks: Appearance, base: tuple[float, float], heading: tuple[float, float]) -> None:
    ahead = np.array(heading)
    aside = np.array([-ahead[1], ahead[0]]) * 0.42
    shapes = {  # coordinates along the tail and across it
        "forked_tail": [(0, -0.5), (1.05, -1.1), (0.55, 0), (1.05, 1.1), (0, 0.5)],
        "pointed_tail": [(0, -0.6), (1.1, 0), (0, 0.6)],
        "rounded_tail": [(0, -0.6), *(ellipse(0.7, 0, 0.35, 0.85, -90, 90)), (0, 0.6)],
    }
    points = [along * ahead + side * aside for along, side in shapes[looks["tail_shape"]]]
    scene.fill("tail", np.array(base) + np.array(points), COLORS[looks["back_color"]])


def draw_wing(scene: Scene, looks: Appearance, part: str, x: float, y: float, a: float, b: float) -> None:
    """Draw an ellipse with stripes or spots, light on dark colours and dark on light ones."""
    color = COLORS[looks["wing_color"]]
    mark = (20, 20, 20) if sum(color) > 330 else (240, 240, 240)
    scene.fill(part, ellipse(x, y, a, b), color)
    along, across = (a, b) if a > b else (b, a)
    for offset in np.linspace(-0.66, 0.66, 4) if looks["wing_pattern"] != "solid" else ():
        reach = 0.86 * across * np.sqrt(1 - offset**2)
        if looks["wing_pattern"] == "striped":
            marks = [np.array([(offset * along + dx, dy) for dx, dy in stripe(0.075 * along, reach)])]
        else:
            marks = [ellipse(offset * along, dy, 0.09 * along, 0.09 * along) for dy in (-0.5 * reach, 0.5 * reach)]
        for points in marks:
            points = points if a > b else points[:, ::-1]
            scene.fill(part, np.array([x, y]) + points, mark, outline=False)


def stripe(half: float, reach: float) -> list[tuple[float, float]]:
    return [(-half, -reach), (half, -reach), (half, reach), (-half, reach)]


def draw_scenery(size: int, rng: np.random.Generator) -> Image.Image:
    """A gradient with leaves of random colours, which prevents the background from predicting a concept."""
    top, bottom = rng.uniform(110, 225, (2, 3))
    shade = np.linspace(0, 1, size)[:, None, None]
    image = Image.fromarray(np.uint8(np.broadcast_to(top * (1 - shade) + bottom * shade, (size, size, 3))), "RGB")
    draw = ImageDraw.Draw(image)
    for _ in range(rng.integers(4, 10)):
        x, y, a, b = rng.uniform(0, size, 2).tolist() + rng.uniform(0.02, 0.10, 2).tolist()
        points = ellipse(x, y, a * size, b * size)
        draw.polygon([tuple(p) for p in points], fill=tuple(int(c) for c in rng.uniform(40, 240, 3)))
    return image


def draw_bird(looks: Appearance, size: int, rng: np.random.Generator) -> tuple[Image.Image, dict[str, np.ndarray]]:
    """A picture and the boxes (left, top, right, bottom) of its visible parts."""
    fine = 2 * size  # drawn at twice the size and reduced for smooth edges
    image = draw_scenery(fine, rng)
    extent = fine * SIZES[looks["size"]] * rng.uniform(0.94, 1.06)
    origin = rng.uniform(0, 1, 2) * max(fine - extent, 0)
    is_facing = rng.random() < 0.3
    scene = Scene(ImageDraw.Draw(image), origin, extent, bool(not is_facing and rng.random() < 0.5))
    (draw_facing if is_facing else draw_sideways)(scene, looks)
    pixels = np.asarray(image.resize((size, size), Image.Resampling.BOX), dtype=float)
    noisy = pixels * rng.uniform(0.9, 1.1) + rng.normal(0, 4, pixels.shape)
    boxes = {part: np.clip(box / 2, 0, size - 1) for part, box in scene.boxes.items()}
    return Image.fromarray(np.uint8(np.clip(noisy, 0, 255)), "RGB"), boxes


def draw_species(n_classes: int, rng: np.random.Generator) -> list[Appearance]:
    """Attribute values of each species; with enough species, every value occurs."""
    columns = {}
    for name, values in ATTRIBUTES.items():
        repeated = np.resize(rng.permutation(len(values)), n_classes)
        columns[name] = [values[k] for k in rng.permutation(repeated)]
    return [{name: column[k] for name, column in columns.items()} for k in range(n_classes)]


def vary(looks: Appearance, rng: np.random.Generator) -> Appearance:
    """A bird of a species, with random deviations."""
    return {
        name: str(rng.choice(ATTRIBUTES[name])) if rng.random() < DEVIATION else value for name, value in looks.items()
    }


def annotate(looks: Appearance, visible: set[str], rng: np.random.Generator) -> list[tuple[int, int]]:
    """Labels of an annotator: (is present, certainty) of every value of every attribute."""
    labels = []
    for name, values in ATTRIBUTES.items():
        part = "beak" if name.startswith("bill") else name.rsplit("_", 1)[0]
        is_visible = part == "size" or any(other.split()[-1] == part for other in visible)
        certainty = int(rng.choice([GUESSING, PROBABLY, DEFINITELY], p=[0.06, 0.14, 0.8])) if is_visible else HIDDEN
        value = str(rng.choice(values)) if certainty == GUESSING and rng.random() < 0.5 else looks[name]
        labels += [(int(is_visible and value == other), certainty) for other in values]
    return labels


def attribute_names() -> list[str]:
    return [f"has_{name}::{value}" for name, values in ATTRIBUTES.items() for value in values]


def draw_birds(
    folder: str | Path, n_images: int, n_classes: int = 10, size: int = 128, seed: int = 0, train_share: float = 0.6
) -> Path:
    """Draw birds and write them in the format of CUB_200_2011.

    Parameters
    ----------
    folder : folder to write
    n_images : number of pictures
    n_classes : number of species
    size : width and height of a picture in pixels
    seed : seed of all random choices
    train_share : share of the pictures in the training split

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     folder = draw_birds(folder, n_images=4, n_classes=2, size=96)
    ...     (folder / "images.txt").read_text().splitlines()[0]
    '1 001.Drawn_bird/Drawn_bird_0001.jpg'
    """
    folder, rng = Path(folder), np.random.default_rng(seed)
    species = draw_species(n_classes, rng)
    names = [f"{k + 1:03d}.Drawn_bird" for k in range(n_classes)]
    lines: dict[str, list[str]] = {path: [] for path in (*_LIST_FILES, *_LOCATION_FILES)}
    for name in names:
        (folder / "images" / name).mkdir(parents=True, exist_ok=True)
    for number in range(1, n_images + 1):
        label = (number - 1) * n_classes // n_images  # CUB's images are listed class by class
        looks = vary(species[label], rng)
        image, boxes = draw_bird(looks, size, rng)
        path = f"{names[label]}/Drawn_bird_{number:04d}.jpg"
        image.save(folder / "images" / path, quality=92)
        lines["images.txt"].append(f"{number} {path}")
        lines["image_class_labels.txt"].append(f"{number} {label + 1}")
        lines["train_test_split.txt"].append(f"{number} {int(rng.random() < train_share)}")
        _write_locations(lines, number, boxes)
        lines["attributes/image_attribute_labels.txt"] += [
            f"{number} {k + 1} {present} {certainty} {rng.uniform(1, 20):.3f}"
            for k, (present, certainty) in enumerate(annotate(looks, set(boxes), rng))
        ]
    lines["classes.txt"] = _number_lines(names)
    lines["parts/parts.txt"] = _number_lines(PARTS)
    lines["attributes/attributes.txt"] = _number_lines(attribute_names())
    lines["attributes/certainties.txt"] = _number_lines(CERTAINTIES)
    for path, text in lines.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    return folder


def _number_lines(names: tuple[str, ...] | list[str]) -> list[str]:
    return [f"{k + 1} {name}" for k, name in enumerate(names)]


def _write_locations(lines: dict[str, list[str]], number: int, boxes: dict[str, np.ndarray]) -> None:
    """Add the box of the bird, the centre of each part (0 0 0 if it is hidden), and the box of each part."""
    corners = np.array(list(boxes.values()))
    low, high = corners[:, :2].min(axis=0), corners[:, 2:].max(axis=0)
    lines["bounding_boxes.txt"].append(f"{number} {_format_numbers([*low, *(high - low)])}")
    for k, part in enumerate(PARTS):
        if part not in boxes:
            lines["parts/part_locs.txt"].append(f"{number} {k + 1} 0.0 0.0 0")
            continue
        box = boxes[part]
        lines["parts/part_locs.txt"].append(f"{number} {k + 1} {_format_numbers((box[:2] + box[2:]) / 2)} 1")
        lines["drawn/part_boxes.txt"].append(f"{number} {k + 1} {_format_numbers([*box[:2], *(box[2:] - box[:2])])}")


def _format_numbers(numbers: np.ndarray | list[float]) -> str:
    return " ".join(f"{value:.1f}" for value in numbers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--size", type=int, default=224, help="width and height in pixels")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw_birds(options.folder, options.images, options.classes, options.size, options.seed)
    print(f"{options.folder}: {options.images} pictures of {options.classes} species")


if __name__ == "__main__":
    main()
