"""Packages that are installed for a test, as pip does it and without a registry."""

import subprocess
import sys
import tempfile
from pathlib import Path

from interpose.testing.eventually import WAIT_LIMIT

EXAMPLES = Path(__file__).parents[2] / "examples"


def install_example(name: str, folder: Path) -> None:
    """Install a package of `examples` into a folder, to be named in PYTHONPATH."""
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "source"  # the build leaves files beside its sources
        subprocess.run(["cp", "-r", EXAMPLES / name, copy], check=True)
        command = [sys.executable, "-m", "pip", "install", "-q", *offline, "--target", str(folder), str(copy)]
        subprocess.run(command, check=True, timeout=WAIT_LIMIT)


def pretend_package(folder: Path, name: str, version: str, entry_points: str) -> None:
    """Only the metadata of a package."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(entry_points)


def run_own_tests(name: str) -> None:
    """Run the tests of an example, which must be importable; AssertionError with what they print."""
    place = EXAMPLES / name
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(place)]
    done = subprocess.run(
        [*command, str(place / "tests")], capture_output=True, text=True, timeout=WAIT_LIMIT, check=False, cwd="/"
    )
    assert done.returncode == 0, done.stdout + done.stderr
