"""deploy/Dockerfile, as far as it can be looked at without building it."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from interpose import __version__

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def lines() -> list[list[str]]:
    """Instructions as words; what goes on over several lines is one."""
    text = (ROOT / "deploy/Dockerfile").read_text()
    joined = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    return [line.split() for line in joined.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    """What pyproject.toml says."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def copied(lines: list[list[str]]) -> set[str]:
    """Files and directories that the build takes from here."""
    return {name for words in lines if words[0] == "COPY" and not words[1].startswith("--from") for name in words[1:-1]}


def test_what_is_copied_is_there(lines: list[list[str]], project: dict[str, Any]) -> None:
    """And it is all that building the package needs."""
    names = copied(lines)

    assert all((ROOT / name).exists() for name in names)
    assert {project["project"]["readme"], *project["project"]["license-files"], "pyproject.toml"} <= names
    assert all(
        package.startswith("src/") for package in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    )


def test_what_is_copied_is_not_ignored(lines: list[list[str]]) -> None:
    """Everything else stays out of the context: .dockerignore lets in what is copied, and nothing more."""
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]

    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == copied(lines)
    assert any(fnmatch("src/interpose/__pycache__", rule) for rule in rules)


def test_the_versions_are_those_of_the_tests(lines: list[list[str]], project: dict[str, Any]) -> None:
    """Every dependency that goes into the image is pinned; Python is one that we say we support."""
    pinned = {
        line.partition("==")[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().split()
    }
    wanted = [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["certs"]]
    [install] = [" ".join(words) for words in lines if "install" in words]
    [python] = [words[1].partition("=")[2] for words in lines if words[:1] == ["ARG"] and "PYTHON" in words[1]]

    assert "--constraint constraints.txt" in install
    assert "'.[certs]'" in install
    for dependency in wanted:
        assert re.split(r"[<>=]", dependency)[0].lower() in pinned
    assert f"Programming Language :: Python :: {python}" in project["project"]["classifiers"]


def test_the_image_runs_the_program_as_nobody(lines: list[list[str]], project: dict[str, Any]) -> None:
    """Only what was installed comes along, and the entry point is one of its scripts."""
    last = max(index for index, words in enumerate(lines) if words[0] == "FROM")
    final = [" ".join(words) for words in lines[last:]]

    assert final[0].startswith("FROM python:")
    assert "USER 65532:65532" in final
    assert 'ENTRYPOINT ["/opt/interpose/bin/interpose"]' in final
    assert "interpose" in project["project"]["scripts"]
    assert [line for line in final if line.startswith("COPY")] == ["COPY --from=builder /opt/interpose /opt/interpose"]


def test_manifests_use_this_version(deploy: Path, lines: list[list[str]]) -> None:
    """Image tags in kustomizations and the label of the image."""
    tags = {
        tag
        for path in (deploy / "kustomize").rglob("*.yaml")
        for tag in re.findall(r"(?:image: interpose:|newTag: )(\S+)", path.read_text())
    }

    assert tags == {__version__}
    assert ["ARG", f"VERSION={__version__}"] in lines
