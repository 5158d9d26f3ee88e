"""An installation has the package and nothing of its tests; documented modules import with the extra they need."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PUBLIC = (
    "interpose.api.hook_pb2",
    "interpose.hookplugin",
    "interpose.policyplugin",
    "interpose.relay.api",
    "interpose.relay.interceptor",
    "interpose.testing.eventually",
    "interpose.testing.fakenode",
    "interpose.testing.fakeruntime",
    "interpose.testing.hookserver",
    "interpose.testing.pods",
    "interpose.testing.recordings",
)
WITH_TESTING = ("interpose.testing.grpcpeer", "interpose.testing.hookstack")
PROGRAMS = ("interpose", "cri-resmgr", "koord-runtime-proxy")


def pip(python: Path | str, *arguments: str) -> None:
    """Run pip with our pinned versions."""
    command = [str(python), "-m", "pip", "-q", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if "No matching distribution" in done.stderr or "Could not fetch" in done.stderr:
        pytest.skip(f"no package registry: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as for a release."""
    folder = tmp_path_factory.mktemp("wheel")
    pip(sys.executable, "wheel", "--no-deps", "-w", str(folder), str(ROOT))
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel: Path) -> Path:
    """An environment that has the wheel and what it depends on."""
    folder = wheel.parent / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin/python"
    pip(python, "install", "-c", "constraints.txt", str(wheel))
    return python


def imported(python: Path, module: str) -> subprocess.CompletedProcess[str]:
    """What becomes of an import outside of this checkout."""
    return subprocess.run(
        [python, "-c", f"import {module}"], capture_output=True, text=True, check=False, cwd=python.parent
    )


def test_nothing_that_belongs_to_the_tests_is_packaged(wheel: Path) -> None:
    """Only the package, its metadata, and of test support what others use."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"interpose"}
    assert sum(name.startswith("interpose/testing/") for name in names) < 40


@pytest.mark.parametrize("module", PUBLIC)
def test_documented_modules_need_no_extra(python: Path, module: str) -> None:
    """The dependencies of the package are enough."""
    done = imported(python, module)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_start(python: Path, program: str) -> None:
    """With their help."""
    done = subprocess.run([python.parent / program, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_extra_for_tests_brings_what_the_rest_needs(python: Path, wheel: Path) -> None:
    """Without it an import says what is missing."""
    for module in WITH_TESTING:
        assert "No module named 'grpc'" in imported(python, module).stderr
    pip(python, "install", "-c", "constraints.txt", f"{wheel}[testing]")
    for module in WITH_TESTING:
        done = imported(python, module)
        assert done.returncode == 0, done.stderr
