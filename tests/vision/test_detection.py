"""Detection: equal to pycocotools on the same detections and to small cases computed by hand; all file formats; a
sparse model with listed pairs from files to mAP; errors name the file and the row."""

from __future__ import annotations

import contextlib
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, save_npz

from benchmarks.datasets.objects import draw_objects, find_frequent_pairs, make_world
from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor
from neuralbasis.cli import main
from neuralbasis.vision import detection
from tests.vision.detection_data import make_boxes, make_truth, write

coco = pytest.importorskip("pycocotools.coco")
cocoeval = pytest.importorskip("pycocotools.cocoeval")


def draw_pictures(seed: int, n_images: int = 12, n_classes: int = 4) -> tuple[dict, list[dict]]:
    """Annotations and detections in MS-COCO format: crowds, duplicates, equal scores, classes without an object."""
    rng = np.random.default_rng(seed)
    categories = [{"id": int(c), "name": f"object {c}"} for c in rng.permutation(np.arange(1, n_classes + 1)) * 3]
    images = [{"id": int(i)} for i in rng.permutation(n_images) + 100]
    annotations, found = [], []
    for image in images:
        for _ in range(rng.integers(0, 5)):
            box = np.r_[rng.uniform(0, 60, 2), rng.uniform(5, 40, 2)]
            category = categories[rng.integers(len(categories) - 1)]["id"]
            annotations.append({
                "id": len(annotations) + 1, "image_id": image["id"], "category_id": category, "bbox": box.tolist(),
                "area": float(box[2] * box[3] * 0.8), "iscrowd": int(rng.random() < 0.1),
            })  # fmt: skip
            for _ in range(rng.integers(0, 4)):
                moved = np.abs(box + rng.normal(0, 3, 4))
                label = category if rng.random() < 0.7 else categories[rng.integers(len(categories))]["id"]
                score = round(float(rng.random()), 1)
                found.append({"image_id": image["id"], "category_id": label, "bbox": moved.tolist(), "score": score})
    annotations.append({
        "id": len(annotations) + 1, "image_id": 100, "category_id": 3, "bbox": [0, 0, 9, 9], "area": 81, "iscrowd": 0,
    })  # fmt: skip
    found.append({"image_id": 100, "category_id": 3, "bbox": [0, 0, 9, 8], "score": 0.5})
    return {"images": images, "annotations": annotations, "categories": categories}, found


def evaluate_with_pycocotools(path, found: list[dict], thresholds) -> cocoeval.COCOeval:
    """pycocotools as its users call it, on all classes at once."""
    with contextlib.redirect_stdout(io.StringIO()):
        truth = coco.COCO(str(path))
        reference = cocoeval.COCOeval(truth, truth.loadRes(found), "bbox")
        reference.params.iouThrs = np.array(thresholds)
        reference.evaluate()
        reference.accumulate()
        reference.summarize()
    return reference


@pytest.mark.parametrize("thresholds", [detection.THRESHOLDS, detection.COCO_THRESHOLDS], ids=["paper", "coco"])
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_scores_of_boxes_equal_pycocotools(seed, thresholds, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    truth, found = draw_pictures(seed)
    path, boxes = write(folder / "truth.json", truth), write(folder / "found.json", found)
    annotations = detection.read_annotations(path)
    result = detection.evaluate(None, detection.read_boxes(boxes), annotations, thresholds)
    reference = evaluate_with_pycocotools(path, found, thresholds)
    precision = reference.eval["precision"][:, :, :, 0, -1]  # all areas, 100 detections
    assert result.mean_average_precision == pytest.approx(precision[precision > -1].mean(), abs=1e-9)
    if thresholds == detection.COCO_THRESHOLDS:
        assert result.mean_average_precision == pytest.approx(reference.stats[0], abs=1e-9)
    expected = np.where(precision.mean(axis=1) < 0, np.nan, precision.mean(axis=1))
    np.testing.assert_allclose(result.precision, expected, atol=1e-9)
    recall = reference.eval["recall"][:, :, 0, -1]
    np.testing.assert_allclose(result.recall, np.where(recall < 0, np.nan, recall), atol=1e-9)
    assert result.classes == tuple(f"object {c}" for c in sorted(c["id"] for c in truth["categories"]))


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_every_box_is_a_detection_of_every_class(seed, tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(seed)
    truth, found = draw_pictures(seed)
    path = write(folder / "truth.json", truth)
    boxes = detection.read_boxes(write(folder / "found.json", found))
    scores = rng.dirichlet(np.ones(4), len(boxes)).round(2)
    categories = sorted(c["id"] for c in truth["categories"])
    detections = [
        {**one, "category_id": c, "score": float(scores[row, k])}
        for row, one in enumerate(found) for k, c in enumerate(categories)
    ]  # fmt: skip
    annotations = detection.read_annotations(path)
    reference = evaluate_with_pycocotools(path, detections, detection.THRESHOLDS)
    expected = reference.eval["precision"][:, :, :, 0, -1]
    result = detection.evaluate(scores, boxes, annotations)
    assert result.mean_average_precision == pytest.approx(expected[expected > -1].mean(), abs=1e-9)
    by_name = {f"object {c}": scores[:, k] for k, c in enumerate(categories)} | {"background": np.zeros(len(boxes))}
    np.testing.assert_array_equal(detection.evaluate(by_name, boxes, annotations).precision, result.precision)


@pytest.mark.parametrize("first_id", [0, 1])  # pycocotools treats an annotation with id 0 as no match
def test_three_boxes_by_hand(first_id, tmp_path):
    """A match at every overlap, a miss, a match up to an overlap of 0.6: the curve has steps at recalls 1/2 and 1."""
    truth = make_truth([[0, 0, 10, 10], [50, 50, 10, 10]], first_id=first_id)
    annotations = detection.read_annotations(write(tmp_path / "t.json", truth))
    boxes = make_boxes([[0, 0, 10, 10], [80, 80, 5, 5], [50, 50, 10, 6]])
    found = detection.evaluate(np.array([[0.9], [0.8], [0.7]]), boxes, annotations)
    both, first = (51 + 50 * 2 / 3) / 101, 51 / 101
    np.testing.assert_allclose(found.by_threshold, [both] * 3 + [first] * 6, atol=1e-9)  # 0.5, 0.55 and 0.6
    assert found.mean_average_precision == pytest.approx((3 * both + 6 * first) / 9, abs=1e-9)
    np.testing.assert_allclose(found.recall[:, 0], [1.0] * 3 + [0.5] * 6)


def test_boxes_in_a_crowd_are_ignored(tmp_path):
    truth = make_truth([[0, 0, 10, 10], [40, 40, 60, 60]], crowd=[0, 1])
    annotations = detection.read_annotations(write(tmp_path / "t.json", truth))
    boxes = make_boxes([[50, 50, 5, 5], [60, 60, 5, 5], [0, 0, 10, 10]])
    found = detection.evaluate(np.array([[0.9], [0.8], [0.7]]), boxes, annotations)
    assert found.mean_average_precision == pytest.approx(1.0, abs=1e-9)
    assert detection.assign(boxes, annotations).tolist() == ["crowd", "crowd", "cup"]


def test_detection_lists_its_figures(tmp_path, capsys):
    truth = make_truth([[0, 0, 10, 10], [50, 50, 10, 10]], [1, 2])
    annotations = detection.read_annotations(write(tmp_path / "t.json", truth))
    found = detection.evaluate({"cup": np.array([0.9])}, make_boxes([[0, 0, 10, 10]]), annotations)
    np.testing.assert_allclose(found.by_class, [1.0, 0.0], atol=1e-9)  # no scores for beds
    assert found.data()["mAP"] == pytest.approx(0.5, abs=1e-9)
    assert found.data()["by_threshold"]["0.55"] == pytest.approx(0.5, abs=1e-9)
    assert found.to_rows()[1] == {"class": "bed", "average_precision": 0.0, "recall": 0.0, "n_annotated": 1}
    assert found.to_pandas().shape == (2, 4)
    assert str(found).splitlines()[0] == "mAP 0.5000   1 boxes, 1 images, 2 classes"
    assert json.loads(json.dumps(found.data())) == found.data()
    assert capsys.readouterr().out == ""  # the output of pycocotools is suppressed


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), overlap=st.sampled_from([0.3, 0.5, 0.7]))
def test_boxes_are_assigned_the_class_they_overlap_most(seed, overlap, tmp_path_factory):
    rng, folder = np.random.default_rng(seed), tmp_path_factory.mktemp("pictures")
    objects = np.c_[rng.uniform(0, 30, (5, 2)), rng.uniform(2, 30, (5, 2))]
    labels = rng.integers(1, 3, 5).tolist()
    annotations = detection.read_annotations(write(folder / "t.json", make_truth(objects.tolist(), labels)))
    box = np.c_[rng.uniform(0, 30, (9, 2)), rng.uniform(2, 30, (9, 2))]
    low = np.maximum(box[:, None, :2], objects[:, :2])
    high = np.minimum(box[:, None, :2] + box[:, None, 2:], objects[:, :2] + objects[:, 2:])
    inside = (high - low).clip(min=0).prod(axis=2)
    iou = inside / (box[:, 2:].prod(axis=1)[:, None] + objects[:, 2:].prod(axis=1) - inside)
    names = np.array(["", "cup", "bed"])[labels]
    expected = np.where(iou.max(axis=1) >= overlap, names[iou.argmax(axis=1)], "background")
    assert detection.assign(make_boxes(box), annotations, overlap).tolist() == expected.tolist()


def write_boxes(folder, numbers, images, features) -> dict:
    """The same boxes in all formats: name -> arguments of `read_boxes`."""
    names = {"image_id": images, **{name: numbers[:, d] for d, name in enumerate("xywh")}}
    table = pa.table({**names, **{f"f{d}": features[:, d] for d in range(features.shape[1])}})
    pq.write_table(table, folder / "boxes.parquet")
    pa.csv.write_csv(table, folder / "boxes.csv")
    pq.write_table(table.select(["f0", "f1", "f2"]), folder / "features.parquet")
    save_npz(folder / "features.npz", csr_array(features))
    np.save(folder / "features.npy", features)
    records = [{"image_id": int(i), "bbox": box} for i, box in zip(images, numbers.tolist(), strict=True)]
    write(folder / "boxes.json", records)
    return {
        "parquet": (folder / "boxes.parquet",), "csv": (str(folder / "boxes.csv"),),
        "json, npz": (folder / "boxes.json", folder / "features.npz"),
        "json, npy": (folder / "boxes.json", str(folder / "features.npy")),
        "csv, parquet": (folder / "boxes.csv", folder / "features.parquet"),
        "json, array": (folder / "boxes.json", features),
    }  # fmt: skip


@pytest.fixture(scope="module")
def cups(tmp_path_factory):
    """A folder with boxes of cups, beds and background, separated by the first feature; and a model of them."""
    import pyarrow.csv  # noqa: F401

    folder, rng = tmp_path_factory.mktemp("cups"), np.random.default_rng(0)
    n = 240
    images, numbers = rng.integers(0, 40, n), np.c_[rng.uniform(0, 500, (n, 2)), rng.uniform(20, 60, (n, 2))].round(1)
    label = rng.integers(0, 3, n)
    features = np.c_[label + rng.normal(0, 0.2, n), rng.random((n, 2))].round(3)
    annotations = [
        {"id": i, "image_id": int(images[i]), "category_id": int(label[i]), "bbox": numbers[i].tolist()}
        for i in range(n) if label[i] > 0
    ]  # fmt: skip
    categories = [{"id": 1, "name": "cup"}, {"id": 2, "name": "bed"}]
    truth = {"images": [{"id": i} for i in range(40)], "annotations": annotations, "categories": categories}
    write(folder / "truth.json", truth)
    formats = write_boxes(folder, numbers, images, features)
    boxes = detection.read_boxes(*formats["json, npy"])
    y = detection.assign(boxes, detection.read_annotations(folder / "truth.json"))
    model = NeuralBasisClassifier(max_steps=60, outer_bags=2, interactions=0, feature_names=["f0", "f1", "f2"])
    model.fit(boxes.X, y)
    return folder, formats, model


def test_all_formats_of_boxes_are_equal(cups):
    folder, formats, model = cups
    annotations = detection.read_annotations(folder / "truth.json")
    found = {
        name: detection.evaluate(model, detection.read_boxes(*paths), annotations) for name, paths in formats.items()
    }
    best = found.pop("csv")
    assert best.mean_average_precision > 0.95
    for name, other in found.items():
        np.testing.assert_array_equal(other.precision, best.precision, err_msg=name)
    of_model = detection.evaluate(model.model_, detection.read_boxes(*formats["parquet"]), annotations)
    np.testing.assert_array_equal(of_model.precision, best.precision)


def test_the_command_line_gives_the_same_figures(cups):
    folder, formats, model = cups
    model.save(folder / "cups.nbm")
    expected = detection.evaluate(
        model, detection.read_boxes(*formats["csv"]), detection.read_annotations(folder / "truth.json")
    )
    given = [str(folder / name) for name in ("cups.nbm", "boxes.parquet", "truth.json")]
    given.insert(2, "--detection")
    found = CliRunner().invoke(main, ["evaluate", *given, "--json"])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["mAP"] == pytest.approx(expected.mean_average_precision, abs=1e-12)
    given[1] = str(folder / "boxes.csv")
    assert f"mAP {expected.mean_average_precision:.4f}" in CliRunner().invoke(main, ["evaluate", *given]).stdout
    given[1] = str(folder / "boxes.json")
    for name in ("features.npz", "features.npy", "features.parquet"):
        again = CliRunner().invoke(main, ["evaluate", *given, "--features", str(folder / name), "--json"])
        assert again.exit_code == 0, again.output
        assert json.loads(again.stdout) == json.loads(found.stdout)
    failed = CliRunner().invoke(main, ["evaluate", *given])
    assert failed.exit_code == 1
    assert "--features" in failed.stderr
    given[1] = str(folder / "boxes.csv")
    for wrong, words in (
        (["--box-columns", "x,y"], "must name four columns"),
        (["--target", "y"], "leave --target and --weights out"),
        (["--image-column", "picture"], "has no column 'picture'"),
    ):
        failed = CliRunner().invoke(main, ["evaluate", *given, *wrong])
        assert failed.exit_code in (1, 2)
        assert words in failed.stderr


def test_sparse_features_with_listed_pairs(tmp_path):
    """A wide model with a hundred listed pairs reaches a precision well above chance."""
    world = make_world(500, 45, 0.95, 10)
    table = draw_objects(world, 1500, seed=1)
    rng, n = np.random.default_rng(0), len(table.y)
    numbers, images = np.c_[rng.uniform(0, 900, (n, 2)), rng.uniform(20, 60, (n, 2))], rng.integers(0, 300, n)
    objects = [i for i in range(n) if table.y[i] > 0]  # class 0 is the background
    truth = {
        "images": [{"id": i} for i in range(300)],
        "categories": [{"id": k, "name": f"object {k}"} for k in range(1, 45)],
        "annotations": [
            {"id": i, "image_id": int(images[i]), "category_id": int(table.y[i]), "bbox": numbers[i].tolist()}
            for i in objects
        ],
    }
    annotations = detection.read_annotations(write(tmp_path / "t.json", truth))
    boxes = detection.Boxes("boxes", images, numbers, table.X)
    y = detection.assign(boxes, annotations)
    assert (y == np.where(table.y > 0, np.char.add("object ", table.y.astype(str)), "background")).mean() > 0.97
    pairs = [tuple(pair) for pair in find_frequent_pairs(table.X, 100).tolist()]
    model = NeuralBasisClassifier(interactions=pairs, network__max_epochs=4, random_state=0).fit(boxes.X, y)
    assert model.model_.is_wide
    assert len(model.model_.shapes) == 600
    found = detection.evaluate(model, boxes, annotations)
    model.save(tmp_path / "objects.nbm")
    save_npz(tmp_path / "features.npz", table.X)
    rows = zip(images.tolist(), numbers.tolist(), strict=True)
    write(tmp_path / "boxes.json", [{"image_id": image, "bbox": box} for image, box in rows])
    model_file, box_file, features, truth_file = (
        str(tmp_path / name) for name in ("objects.nbm", "boxes.json", "features.npz", "t.json")
    )
    command = ["evaluate", model_file, box_file, "--features", features, "--detection", truth_file, "--json"]
    again = CliRunner().invoke(main, command)
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["mAP"] == pytest.approx(found.mean_average_precision, abs=1e-12)
    chance = detection.evaluate(rng.random((n, 44)), boxes, annotations)
    assert found.mean_average_precision > 5 * chance.mean_average_precision


def test_category_ids_are_ids_and_mapping_keys_are_names(tmp_path):
    """Category 1 of a detector is the class with that id, although another class is named "1"."""
    truth = make_truth([[0, 0, 10, 10], [50, 50, 10, 10]], [1, 2])
    truth["categories"] = [{"id": 1, "name": "0"}, {"id": 2, "name": "1"}]
    annotations = detection.read_annotations(write(tmp_path / "t.json", truth))
    found = [
        {"image_id": 7, "category_id": 1, "bbox": [0, 0, 10, 10], "score": 0.9},
        {"image_id": 7, "category_id": 2, "bbox": [50, 50, 10, 10], "score": 0.9},
    ]
    result = detection.evaluate(None, detection.read_boxes(write(tmp_path / "f.json", found)), annotations)
    assert result.mean_average_precision == pytest.approx(1.0, abs=1e-9)
    assert detection.assign(make_boxes([[50, 50, 10, 10]]), annotations).tolist() == ["1"]
    by_name = detection.evaluate({"1": [1.0]}, make_boxes([[50, 50, 10, 10]]), annotations)
    np.testing.assert_allclose(by_name.by_class, [0.0, 1.0], atol=1e-9)


def test_labels_and_scores_may_be_lists(tmp_path):
    annotations = detection.read_annotations(write(tmp_path / "t.json", make_truth([[0, 0, 10, 10]])))
    boxes = make_boxes([[0, 0, 10, 10], [50, 50, 5, 5]], label=["cup", "cup"], score=[0.9, 0.8])
    assert detection.evaluate(None, boxes, annotations).mean_average_precision == pytest.approx(1.0, abs=1e-9)
    assert boxes.take([1]).label.tolist() == ["cup"]


@pytest.mark.parametrize("first", [139, "000000000139"])
def test_ids_match_however_they_are_written(cups, first, tmp_path):
    """Leading zeros, a decimal point, more digits than a float represents: in Python and on the command line."""
    folder, _, model = cups
    truth = json.loads((folder / "truth.json").read_text())
    truth["images"] = [{"id": first}, {"id": 9007199254740993}, {"id": 9007199254740992}]
    truth["annotations"] = [{"image_id": first, "category_id": 1, "bbox": [0, 0, 10, 10]}]
    annotations = detection.read_annotations(write(tmp_path / "t.json", truth))
    model.save(tmp_path / "cups.nbm")
    for written, known in (
        (["139", "000000000139"], str(first)),
        (["139.0"], str(first)),
        (["9007199254740993"], "9007199254740993"),
    ):
        lines = ["image_id,x,y,w,h,f0,f1,f2", *(f"{text},0,0,10,10,1.0,0.5,0.5" for text in written)]
        (tmp_path / "boxes.csv").write_text("\n".join(lines))
        boxes = detection.read_boxes(tmp_path / "boxes.csv")
        found = annotations.find_images(boxes.image.tolist(), boxes.place)
        assert [annotations.images[index] for index in found] == [known] * len(written)
        command = [str(tmp_path / name) for name in ("cups.nbm", "boxes.csv", "t.json")]
        command.insert(2, "--detection")
        run = CliRunner().invoke(main, ["evaluate", *command, "--json"])
        assert run.exit_code == 0, run.output
        expected = detection.evaluate(model, boxes, annotations).mean_average_precision
        assert json.loads(run.stdout)["mAP"] == pytest.approx(expected, abs=1e-12)


def test_areas_are_ignored(tmp_path):
    """Some files have -1 or text there; pycocotools would drop such boxes."""
    for area in (-1, 1e12, "unknown", None):
        truth = make_truth([[0, 0, 10, 10], [50, 50, 10, 10]])
        for annotation in truth["annotations"]:
            annotation["area"] = area
        annotations = detection.read_annotations(write(tmp_path / "t.json", truth))
        found = detection.evaluate(np.ones((1, 1)), make_boxes([[0, 0, 10, 10]]), annotations)
        np.testing.assert_allclose(found.recall, 0.5)


def test_no_boxes_give_precision_zero(cups, tmp_path):
    folder, _, model = cups
    annotations = detection.read_annotations(folder / "truth.json")
    none = detection.read_boxes(write(tmp_path / "none.json", []))
    assert detection.assign(none, annotations).tolist() == []
    empty = detection.Boxes("none", np.empty(0), np.empty((0, 4)), X=np.empty((0, 3)))
    for scores, boxes in ((None, none), (np.empty((0, 2)), none), ({"cup": []}, none), (model, empty)):
        found = detection.evaluate(scores, boxes, annotations)
        assert (found.mean_average_precision, found.n_boxes, found.recall.max()) == (0.0, 0, 0.0)
        assert str(found).startswith("mAP 0.0000   0 boxes")


def test_labels_and_scores_of_a_table_are_evaluated(tmp_path):
    truth = make_truth([[0, 0, 10, 10], [50, 50, 10, 10]], [1, 2])
    annotations = detection.read_annotations(write(tmp_path / "t.json", truth))
    lines = ["image_id,x,y,w,h,class,confidence,red", "7,0,0,10,10,cup,0.9,1", "7,50,50,10,10,cup,0.8,2"]
    (tmp_path / "found.csv").write_text("\n".join(lines))
    boxes = detection.read_boxes(tmp_path / "found.csv", label="class", score="confidence")
    assert (boxes.label.tolist(), boxes.score.tolist(), boxes.X.column_names) == (["cup", "cup"], [0.9, 0.8], ["red"])
    np.testing.assert_allclose(detection.evaluate(None, boxes, annotations).by_class, [1.0, 0.0], atol=1e-9)


def test_mismatched_inputs_are_refused(cups, tmp_path):
    folder, formats, model = cups
    annotations = detection.read_annotations(folder / "truth.json")
    boxes = detection.read_boxes(*formats["json, npy"])
    unlisted = detection.Boxes("late.csv", np.array([3, 77]), np.ones((2, 4)))
    with pytest.raises(ValueError, match=r"late.csv: row 2 refers to image '77', which is not in .*truth.json"):
        detection.assign(unlisted, annotations)
    settings = {"max_steps": 2, "outer_bags": 1, "interactions": 0}
    sofas = NeuralBasisClassifier(**settings).fit(boxes.X, np.where(np.arange(len(boxes)) % 2, "cup", "sofa"))
    with pytest.raises(ValueError, match=r"the model: unknown class 'sofa' .*; expected 'background' or a class"):
        detection.evaluate(sofas, boxes, annotations)
    regression = NeuralBasisRegressor(**settings).fit(boxes.X, boxes.X[:, 0])
    for values in (regression, regression.model_):
        with pytest.raises(ValueError, match="needs a classifier, but this model is a regression"):
            detection.evaluate(values, boxes, annotations)
    with pytest.raises(ValueError, match=r"scores must have shape \(240, 2\).* got \(240, 3\)"):
        detection.evaluate(np.ones((240, 3)), boxes, annotations)
    with pytest.raises(ValueError, match="the score of row 1 must be a finite number"):
        detection.evaluate(np.full((240, 2), np.nan), boxes, annotations)
    with pytest.raises(ValueError, match="has no labels and scores"):
        detection.evaluate(None, boxes, annotations)
    with pytest.raises(ValueError, match="has no features for the model"):
        detection.evaluate(model, detection.read_boxes(folder / "boxes.json"), annotations)
    only_crowds = detection.read_annotations(write(tmp_path / "t.json", make_truth([[0, 0, 1, 1]], crowd=[1])))
    with pytest.raises(ValueError, match="nothing to evaluate"):
        detection.evaluate(np.ones((1, 1)), make_boxes([[0, 0, 1, 1]]), only_crowds)
