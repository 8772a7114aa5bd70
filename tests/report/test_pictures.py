"""Classes and pictures on the page: it shows the explanations, heat maps cover the picture, and the file is small."""

import base64
from io import BytesIO

import numpy as np
import pytest
from matplotlib.image import imread

from neuralbasis import AdditiveModel
from neuralbasis.encoding import Axis, Encoder, continuous_axis
from neuralbasis.explain import explain_class, explain_picture
from neuralbasis.model.shapes import Shape, TiedShape
from neuralbasis.report import page_model
from neuralbasis.report.thumbnails import encode_thumbnails
from tests.models import build_model, draw_numbers, name_columns, tie_model
from tests.report.pages import needs_browser, read_page, write_page

ABC = np.array(["a", "b", "c"])
HOSTILE = "<img src=x onerror='window.broken = 1'></script>"


def make_model(seed=0, tied=False, classes=ABC):
    rng = np.random.default_rng(seed)
    model = build_model(rng, n_outputs=3, link="mlogit", classes=classes)
    return tie_model(rng, model, range(0, len(model.shapes), 2)) if tied else model


def make_rows(model, n_rows=12, seed=0):
    return name_columns(model.encoder.axes, draw_numbers(np.random.default_rng(seed), model.encoder.axes, n_rows))


def photo(seed=0, height=60, width=80):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


def make_records(model, with_rows=True, n_terms=3):
    rows = make_rows(model) if with_rows else None
    examples = [photo(0), photo(1, 90, 30)]
    return [explain_class(model, label, rows, n_terms, examples) for label in model.classes.tolist()]


def make_picture(model, peak=(2, 1), **options):
    """Heat maps of all columns, each with one peak in a grid of 4 × 3."""
    heat = {axis.name: np.zeros((4, 3)) for axis in model.encoder.axes}
    for grid in heat.values():
        grid[peak] = 1.0
    return explain_picture(model, make_rows(model, 1), photo(2), heat, **options)


def write(folder, model, records, **options):
    return write_page(folder, model, pictures=records, **options)


def read_thumbnails(pictures, sides, max_bytes=10**9):
    """The pixels (height, width, 3) 0 … 255 of the thumbnails."""
    files = [base64.b64decode(address.split(",")[1]) for address in encode_thumbnails(pictures, sides, max_bytes)]
    return [np.rint(255 * imread(BytesIO(file), format="png")[..., :3]) for file in files]


def test_a_small_thumbnail_is_the_picture():
    for seed, size in ((0, (7, 5)), (1, (1, 1)), (2, (30, 64))):
        picture = photo(seed, *size)
        np.testing.assert_array_equal(read_thumbnails([picture], [64])[0], picture)


def test_a_shrunk_picture_has_the_means_of_merged_pixels():
    picture = photo(0, 40, 60)
    np.testing.assert_array_equal(read_thumbnails([picture], [60])[0], picture)
    blocks = picture.reshape(20, 2, 30, 2, 3).mean(axis=(1, 3))
    np.testing.assert_array_equal(read_thumbnails([picture], [30])[0], np.rint(blocks))
    assert read_thumbnails([picture], [7])[0].shape == (5, 7, 3)
    assert read_thumbnails([photo(0, 1, 400)], [40])[0].shape == (1, 40, 3)


def test_many_pictures_become_smaller_until_they_fit():
    def list_sides(pictures, max_bytes):
        return [max(read.shape) for read in read_thumbnails(pictures, (64, 32, 16), max_bytes)]

    few, many = [photo(0)] * 2, [photo(0)] * 9
    assert list_sides(few, 30_000) == [64] * 2
    assert list_sides(many, 30_000) == [32] * 9
    assert list_sides(many, 10) == [16] * 9  # the smallest


def test_policy_allows_images_only_with_pictures(tmp_path):
    model = make_model()
    plain, data, _ = read_page(write(tmp_path, model, ()))
    assert data["evidence"] is None
    assert "img-src" not in plain.policy
    blocks, _, _ = read_page(write(tmp_path, model, make_records(model)))
    assert "img-src data:; base-uri 'none'" in blocks.policy
    assert blocks.tags == plain.tags


@pytest.mark.parametrize("tied", [False, True])
def test_page_stores_the_explanations(tied, tmp_path):
    model = make_model(1, tied)
    records = make_records(model)
    _, data, _ = read_page(write(tmp_path, model, [*records, make_picture(model, label="b", actual="c")]))
    for own, record in zip(data["evidence"]["classes"], records, strict=True):
        assert (own["label"], own["rows"], own["rival"]) == (record.label, 12, record.rival)
        for side in ("for", "against"):
            leanings = record.raised_by if side == "for" else record.lowered_by
            assert [(term["name"], term["gain"]) for term in own[side]] == [(one.name, one.size) for one in leanings]
            assert [data["terms"][term["link"]]["name"] for term in own[side]] == [one.name for one in leanings]
        assert own["apart"] == [[one.name, one.size] for one in record.distinguished_by]
        assert len(own["examples"]) == 2
    (seen,) = data["evidence"]["pictures"]
    record = make_picture(model, label="b", actual="c")
    assert (seen["label"], seen["actual"], seen["grid"], seen["size"]) == ("b", "c", [4, 3], [80, 60])
    assert [term["contribution"] for term in seen["terms"]] == [term.contribution for term in record.terms]
    assert seen["others"] == len(model.shapes) - 8


def fine_axis(name, n_knots):
    return Axis(name, "continuous", np.linspace(0, 1, n_knots) ** 2, np.linspace(0, 1, n_knots))


def test_drawn_tables_have_fewer_knots(tmp_path):
    axis = fine_axis("x", 500)
    scores = np.zeros((502, 3))
    scores[1:-1, 0] = np.sin(7 * axis.knots)
    members = np.repeat(scores[:, None], 2, axis=1)
    shape = Shape((0,), (axis,), scores, np.zeros_like(scores), np.r_[3.0, np.ones(500), 0.0], members)
    model = AdditiveModel(Encoder((axis,)), np.zeros(3), (shape,), "mlogit", ABC)
    _, data, arrays = read_page(write(tmp_path, model, [explain_class(model, "a")]))
    (drawn,), (term,) = data["evidence"]["axes"], data["evidence"]["classes"][0]["for"]
    knots = arrays["exact"][drawn["knots"] :][: drawn["count"]]
    assert len(knots) == 96
    assert (knots[0], knots[-1]) == (0.0, 1.0)
    np.testing.assert_allclose(arrays["exact"][term["scores"] :][1:97], np.sin(7 * knots))
    start, low, step = term["weights"]
    weights = (low + step * arrays["steps"][start : start + 98]) ** 2
    assert weights.sum() == pytest.approx(503.0, rel=1e-4)
    assert (weights[0], weights[-1]) == pytest.approx((3.0, 0.0), rel=1e-4)
    n_members, start, low, step = term["members"]
    found = (low + step * arrays["steps"][start : start + 2 * 98]).reshape(n_members, 98)
    np.testing.assert_allclose(found[:, 1:-1], [np.sin(7 * knots)] * 2, atol=1e-4)


def many_classes(n_columns, n_classes, n_knots=300, n_members=4):
    """Tied classes, with as many concepts and classes as a data set of birds."""
    rng = np.random.default_rng(0)
    axes = [fine_axis(f"concept {i}", n_knots) for i in range(n_columns)]
    shapes = [
        TiedShape((i,), (axis,), rng.normal(size=(n_knots + 2, 1)), rng.normal(size=(1, n_members, n_classes)),
                  np.ones(n_knots + 2))
        for i, axis in enumerate(axes)
    ]  # fmt: skip
    classes = np.array([f"{k:03d}.Bird" for k in range(n_classes)])
    return AdditiveModel(Encoder(tuple(axes)), np.zeros(n_classes), tuple(shapes), "mlogit", classes)


def test_a_page_of_two_hundred_classes_is_small(tmp_path):
    model = many_classes(60, 200)
    records = [
        explain_class(model, label, pictures=[photo(k, 96, 96)] * 2) for k, label in enumerate(model.classes[:50])
    ]
    path = write(tmp_path, model, records)
    _, data, _ = read_page(path)
    assert len(data["evidence"]["classes"]) == 50
    assert len(data["terms"]) == page_model.MAX_TABLES // (302 * 200) < 60
    assert data["hidden"] == 60 - len(data["terms"])
    strongest = np.sort(model.importances())[::-1]
    np.testing.assert_allclose([term["importance"] for term in data["terms"]], strongest[: len(data["terms"])])
    assert path.stat().st_size < 25e6


def test_rows_of_a_large_model_keep_their_scores(tmp_path, monkeypatch):
    monkeypatch.setattr(page_model, "MAX_TABLES", 4 * 302 * 5)
    model = many_classes(9, 5)
    rows = {f"concept {i}": np.array([0.1, 0.8]) for i in range(9)}
    _, data, _ = read_page(write(tmp_path, model, (), X=rows))
    assert (len(data["terms"]), data["hidden"], data["wide"]) == (4, 5, False)
    shown = [model.term_names.index(term["name"]) for term in data["terms"]]
    rest = np.delete(model.contributions(rows), shown, axis=1).sum(axis=1)
    np.testing.assert_allclose([row["rest"] for row in data["rows"]], rest, atol=1e-9)


def test_wrong_explanations_are_errors(tmp_path):
    model = make_model()
    with pytest.raises(TypeError, match=r"pictures must contain results of explain\.explain_class .* got ndarray"):
        write(tmp_path, model, [photo()])
    other = build_model(np.random.default_rng(1), ("continuous",), (1,), 3, "mlogit", ABC)
    with pytest.raises(ValueError, match=r"ClassExplanation\('a', 0 rows\) of another model"):
        write(tmp_path, model, [explain_class(other, "a")])
    assert list(tmp_path.iterdir()) == []


@needs_browser
@pytest.mark.parametrize("tied", [False, True])
def test_classes_are_shown_and_chosen(tied, open_page):
    model = make_model(2, tied)
    records = make_records(model)
    page = open_page(model, pictures=records)
    assert page.read("#class option") == ["a", "b", "c"]
    for place in (0, 2):
        page.set("#class", place)
        page.show("#classes")
        found = records[place]
        for section, leanings in (("raised-by", found.raised_by), ("lowered-by", found.lowered_by)):
            assert page.read(f"#{section} h3") == [one.name for one in leanings]
            assert page.figures(f"#{section} data") == [one.size for one in leanings]
        assert page.count("#classes .sketches svg") >= 3
        assert (
            page.run("Math.max(...[...document.querySelectorAll('.sketches .card')].map((c) => c.offsetHeight))") < 300
        )
        assert found.rival in page.read("#apart")[0]
    page.click("#next-class")
    assert page.read("#raised-by h3") == [one.name for one in records[0].raised_by]
    page.click("#previous-class")
    assert page.run("document.getElementById('class').value") == "2"


@needs_browser
def test_examples_are_drawn(open_page):
    model = make_model()
    page = open_page(model, pictures=make_records(model, with_rows=False))
    sizes = page.run(
        "[...document.querySelectorAll('#examples img')].map((one) => [one.naturalWidth, one.naturalHeight])"
    )
    assert sizes == [[80, 60], [30, 90]]
    assert "training rows that the term makes more likely to be of the class" in page.read("#class-note")[0]
    assert page.read("#apart") == [""]


@needs_browser
def test_curves_show_the_scores_of_the_class(open_page):
    axis = continuous_axis("wing", np.arange(9.0))
    scores = np.random.default_rng(0).normal(size=(11, 3))
    shape = Shape((0,), (axis,), scores, np.zeros_like(scores), np.ones(11))
    model = AdditiveModel(Encoder((axis,)), np.zeros(3), (shape,), "mlogit", ABC)
    page = open_page(model, pictures=[explain_class(model, "b")])
    page.show("#classes")
    drawn = page.run("document.querySelector('.sketches .curve').getAttribute('d')")
    heights = np.array([float(point.split()[1]) for point in drawn[1:].split("L")])[1:-1]
    assert np.corrcoef(heights, scores[1:-1, 1])[0, 1] == pytest.approx(-1.0, abs=1e-3)  # pixels count downwards


HEAT_MAPS = """() => [...document.querySelectorAll("#heat-maps figure")].map((figure) => {
  const canvas = figure.querySelector("canvas"), grid = [canvas.height, canvas.width];
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const boxes = [canvas, figure.querySelector("img")].map((node) => node.getBoundingClientRect())
    .map((box) => [box.x, box.y, box.right, box.bottom]);
  const strengths = Array.from({ length: data.length / 4 }, (_, i) => data[4 * i + 3]);
  return { grid, strengths, boxes, peak: [...data.slice(4 * strengths.indexOf(Math.max(...strengths)))].slice(0, 3) };
})"""


@needs_browser
@pytest.mark.parametrize("width", [390, 1280])
def test_heat_covers_its_part_of_the_picture(width, open_page):
    model = make_model(4)
    record = make_picture(model, peak=(2, 1), label="a")
    page = open_page(model, pictures=[record], width=width)
    page.show("#heat-maps")
    found = page.run(HEAT_MAPS, 0)
    assert len(found) == len(record.terms)
    for seen, term in zip(found, record.terms, strict=True):
        assert seen["grid"] == [4, 3]
        np.testing.assert_allclose(seen["boxes"][0], seen["boxes"][1], atol=0.6)  # the grid covers the whole picture
        expected = np.zeros(12)
        expected[2 * 3 + 1] = round(0.8 * 255)
        np.testing.assert_allclose(seen["strengths"], expected, atol=1)
        assert (seen["peak"][0] > seen["peak"][2]) == (term.contribution > 0)  # red raises, blue lowers


@needs_browser
def test_bars_of_a_picture_add_up_to_its_score(open_page):
    model = make_model(4)
    records = [make_picture(model, label="a", n_terms=5), make_picture(model, actual="b")]
    page = open_page(model, pictures=records)
    assert page.read("#picture option") == [f"1: {records[0].row.prediction}", "2: b"]
    for place, record in enumerate(records):
        page.set("#picture", place)
        values = page.figures("#picture-bars data")
        assert values[-1] == pytest.approx(sum(values[:-1]), abs=1e-9)
        assert values[-1] == pytest.approx(record.row.scores[record.output])
        names = [term.name for term in record.terms]
        assert page.read("#picture-bars .name")[1 : 1 + len(names)] == names
        assert page.run("document.querySelector('#photo img').naturalWidth") == 80


@needs_browser
@pytest.mark.parametrize("width", [390, 820, 1280])
def test_no_width_scrolls_sideways(width, open_page):
    model = make_model(0, classes=np.array(["a" * 90, "b " * 60, "c"]))
    records = [*make_records(model, n_terms=9), make_picture(model)]
    page = open_page(model, pictures=records, width=width, dark=width < 800)
    for section in ("classes", "pictures", "heat-maps"):
        page.show(f"#{section}")
        assert page.run("document.documentElement.scrollWidth <= innerWidth"), section


@needs_browser
def test_hostile_names_do_nothing(open_page):
    axis = continuous_axis(HOSTILE, np.arange(9.0))
    scores = np.random.default_rng(0).normal(size=(11, 3))
    shape = Shape((0,), (axis,), scores, np.zeros_like(scores), np.ones(11))
    model = AdditiveModel(Encoder((axis,)), np.zeros(3), (shape,), "mlogit", np.array([HOSTILE, "b", "c"]))
    row = {HOSTILE: [1.0]}
    records = [explain_class(model, HOSTILE, row, pictures=[photo()])]
    records.append(explain_picture(model, row, photo(), {HOSTILE: np.eye(2)}, actual=HOSTILE))
    page = open_page(model, pictures=records)
    page.show("#pictures")
    assert page.run("typeof window.broken") == "undefined"
    assert page.count("img") == 3  # the example, the picture, and the picture under the heat map
    assert HOSTILE in page.read("#picture-bars .name")


@needs_browser
def test_pages_without_pictures_hide_both_sections(open_page):
    page = open_page(make_model())
    shown = page.run("[...document.querySelectorAll('section')].filter((one) => !one.hidden).map((one) => one.id)")
    assert shown == ["overview", "terms", "whatif", "files"]
