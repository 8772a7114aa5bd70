"""The wheel and the sdist: contents, version, the same bytes twice, and what an installed wheel does."""

from __future__ import annotations

import ast
import json
import re
import sys
import tarfile
import zipfile
from importlib.metadata import PathDistribution, packages_distributions
from pathlib import Path

import pytest

import neuralbasis
from neuralbasis import NeuralBasisRegressor
from tests.packaging.check_installation import make_table, make_target
from tests.packaging.environment import ROOT, Environment, build, copy_tree, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="environments of symbolic links")
CHECK = Path(__file__).with_name("check_installation.py")
PACKAGE = ROOT / "src/neuralbasis"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel"), "wheel")


@pytest.fixture(scope="module")
def sdist(tmp_path_factory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("sdist"), "sdist")


@pytest.fixture(scope="module")
def metadata(wheel):
    (folder,) = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" in name}
    return PathDistribution(zipfile.Path(wheel, f"{folder}/"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Environment:
    """The wheel beside everything that the running environment has."""
    environment = Environment(tmp_path_factory.mktemp("installed"))
    environment.install(wheel)
    return environment


def test_the_wheel_has_the_files_of_the_package_and_nothing_else(wheel) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    files = {f"neuralbasis/{path.relative_to(PACKAGE).as_posix()}" for path in PACKAGE.rglob("*.*")}
    files = {name for name in files if not re.search(r"__pycache__|\.nb[ic]$", name)}
    assert {name for name in names if name.startswith("neuralbasis/")} == files
    assert {"neuralbasis/py.typed", "neuralbasis/report/page.html", "neuralbasis/report/page.css"} <= names
    assert {"neuralbasis/report/page.js", "neuralbasis/export/program.c", "neuralbasis/export/program.py"} <= names
    rest = {name.split("/", 1)[1] for name in names - files}
    assert rest == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}


def test_the_sdist_has_the_source_its_tests_and_its_licence(sdist) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "PKG-INFO",
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "CITATION.cff",
        "conftest.py",
    } <= names
    assert {"src/neuralbasis/py.typed", "src/neuralbasis/report/page.css", "tests/packaging/environment.py"} <= names
    assert {name.split("/")[0] for name in names if "/" in name} == {"src", "tests", "examples"}


def test_the_metadata_tell_pypi_what_it_shows(metadata) -> None:
    found = metadata.metadata
    assert (found["Name"], found["License-Expression"], found["Requires-Python"]) == (
        "neuralbasis",
        "Apache-2.0",
        ">=3.10",
    )
    versions = {text.rpartition(" ")[2] for text in found.get_all("Classifier") if "Python :: 3." in text}
    assert versions == {"3.10", "3.11", "3.12", "3.13"}
    assert {text.split(",")[0] for text in found.get_all("Project-URL")} >= {
        "Source",
        "Documentation",
        "Changelog",
        "Issues",
    }


def test_links_of_the_readme_work_on_pypi(metadata) -> None:
    links = re.findall(r"\]\(([^)]+)\)", metadata.metadata.get_payload())
    assert [link for link in links if not link.startswith("https://")] == []
    homes = (
        "https://(?:raw.githubusercontent.com/neuralbasis/neuralbasis|github.com/neuralbasis/neuralbasis/blob)/main/"
    )
    own = [link.split("#")[0].split("/main/")[1] for link in links if re.match(homes, link)]
    assert len(own) > 10
    assert [path for path in own if not (ROOT / path).exists()] == []


def test_two_builds_have_the_same_bytes_and_the_sdist_gives_the_same_wheel(wheel, sdist, tmp_path) -> None:
    assert build(ROOT, tmp_path / "again", "sdist").read_bytes() == sdist.read_bytes()
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "source", **({"filter": "data"} if sys.version_info >= (3, 12) else {}))
    (source,) = (tmp_path / "source").iterdir()  # no repository: the version comes from PKG-INFO
    rebuilt = build(source, tmp_path / "rebuilt", "wheel")
    assert (rebuilt.name, rebuilt.read_bytes()) == (wheel.name, wheel.read_bytes())


def test_source_date_epoch_sets_the_date_of_every_file(tmp_path) -> None:
    for kind in ("wheel", "sdist"):
        build(copy_tree(tmp_path / f"source_{kind}"), tmp_path / "out", kind, SOURCE_DATE_EPOCH="1700000000")
    (wheel,), (sdist,) = (tmp_path / "out").glob("*.whl"), (tmp_path / "out").glob("*.tar.gz")
    assert {entry.date_time for entry in zipfile.ZipFile(wheel).infolist()} == {(2023, 11, 14, 22, 13, 20)}
    with tarfile.open(sdist) as archive:
        assert {entry.mtime for entry in archive} == {1_700_000_000}


def test_the_version_comes_from_tags_if_there_are_any(tmp_path) -> None:
    source = copy_tree(tmp_path / "clone")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")

    def find_version(folder: Path) -> str:
        return run(sys.executable, "-m", "hatchling", "version", cwd=folder).strip()

    (base,) = re.findall(r'fallback-version = "([\d.]+)[.]dev0"', (source / "pyproject.toml").read_text("utf-8"))
    assert find_version(source) == f"{base}.dev0"  # a folder without history
    run(*git, "init", "-q", cwd=source)
    run(*git, "add", ".", cwd=source)
    run(*git, "commit", "-q", "-m", "first", cwd=source)
    assert find_version(source) == f"{base}.dev1"  # a clone without tags
    run(*git, "tag", "v1.7.0", cwd=source)
    assert find_version(source) == "1.7.0"
    run(*git, "commit", "-q", "--allow-empty", "-m", "later", cwd=source)
    assert find_version(source) == "1.7.1.dev1"
    run("git", "clone", "-q", "--depth=1", "--no-tags", source.as_uri(), tmp_path / "shallow")
    assert find_version(tmp_path / "shallow") == f"{base}.dev1"


def test_the_installed_wheel_fits_reads_and_knows_its_version(installed, wheel, tmp_path) -> None:
    version = wheel.name.split("-")[1]
    assert run(installed.bin / "neuralbasis", "--version") == f"neuralbasis, version {version}\n"
    # Compiled loops would be compiled again in a new place.
    quick = {"OMP_NUM_THREADS": "1", "NEURALBASIS_NUMBA": "0"}
    found = json.loads(run(installed.bin / "python", CHECK, cwd=tmp_path, **quick))
    assert Path(found["place"]).is_relative_to(installed.folder)
    assert found["neuralbasis"] == version


def test_a_saved_model_is_read_without_torch_and_scikit_learn(wheel, tmp_path) -> None:
    table = make_table()
    fitted = NeuralBasisRegressor(max_steps=60, outer_bags=2, interactions=[("size", "age")])
    model = fitted.fit(table, make_target(table)).model_
    model.save(tmp_path / "model.nbm")
    (tmp_path / "expected.json").write_text(json.dumps(model.scores(table).ravel().tolist()), encoding="utf-8")
    environment = Environment(tmp_path / "environment", {"numpy", "scipy", "narwhals", "threadpoolctl"})
    environment.install(wheel)
    command = (CHECK, "--model", tmp_path / "model.nbm", "--expected", tmp_path / "expected.json")
    found = json.loads(run(environment.bin / "python", *command, cwd=tmp_path))
    absent = {name for name, number in found.items() if number is None}
    assert absent == {"torch", "scikit-learn", "pyarrow", "click", "tqdm", "numba"}

    environment.link({"click", "pyarrow"})
    rows = {name: column[:3] for name, column in table.items()}
    lines = [",".join(rows), *(",".join(str(value) for value in row) for row in zip(*rows.values(), strict=True))]
    (tmp_path / "rows.csv").write_text("\n".join(lines).replace("nan", "") + "\n", encoding="utf-8")
    printed = run(environment.bin / "neuralbasis", "predict", "model.nbm", "rows.csv", cwd=tmp_path)
    assert [float(line) for line in printed.split()[1:]] == pytest.approx(model.predict(rows), rel=1e-12)


def test_every_package_that_is_imported_is_required_or_in_an_extra(metadata) -> None:
    named = {
        re.match(r"[\w.-]+", text)[0].lower()
        for text in metadata.requires
        if "extra == 'test'" not in text and "benchmarks" not in text
    }
    # A data frame is the user's own; `neuralbasis demo` compares with EBM and boosted trees if they are installed.
    named |= {"pandas", "polars", "interpret-core", "neuralbasis"}
    imported = {top for path in PACKAGE.rglob("*.py") for top in find_imports(path)} - sys.stdlib_module_names
    homes = packages_distributions()
    assert {
        name: homes.get(name) for name in imported if not named & {home.lower() for home in homes.get(name, [name])}
    } == {}


def find_imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("package", [neuralbasis, neuralbasis.export], ids=["root", "export"])
def test_editors_and_type_checkers_see_the_names_that_are_loaded_on_first_use(package) -> None:
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    found = {alias.asname for line in blocks[0].body if isinstance(line, ast.ImportFrom) for alias in line.names}
    assert found == set(package.__all__)
