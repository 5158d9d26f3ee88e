"""The points of `conformance` tried on our runtime: what the page says of it is what it does.

All points of one runtime are tried beside each other before the first test looks; each test is one point.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.checks.differences import CONTAINERD, PLAIN
from conformance.checks.images import write_archive
from conformance.judge import judge_all
from conformance.points import PASSES, Finding, Kind, Verdict
from conformance.registry import Shelf, open_shelf
from conformance.table import named_points
from conformance.world import World, write_network
from tests.support.lab.containerd import Containerd
from tests.support.lab.cri import CriClient
from tests.support.lab.installations import chosen
from tests.support.lab.processes import missing_programs
from tests.support.lab.runtime import Runtime
from tests.support.net.subnets import reserved_subnet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# The first test of a runtime waits for all points of it.
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

THOROUGH = bool(os.environ.get("INTERPOSE_THOROUGH"))
POINTS = dict(named_points())
# What is about cgroups.
SYSTEMD = ("handshake-runtimeconfig", "container-oom", "podsandbox-c", "resources-", "stats-", "execsync-in-")


def some(every: int, *always: str) -> list[str]:
    """A part of the points where all of them would take too long."""
    return [name for number, name in enumerate(POINTS) if THOROUGH or number % every == 0 or name in always]


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What the points came to, and what was left on the machine when all pods were gone."""

    findings: Mapping[str, Finding]
    left: Mapping[str, list[str]]

    def check(self, name: str, verdict: Verdict) -> None:
        """The finding is what a table says; what needs another machine is skipped."""
        finding = self.findings[name]
        if finding.kind is Kind.UNTRIED:
            pytest.skip(f"needs {finding.words}")
        assert finding.fits(verdict), f"{finding.kind.value} {finding.code} {finding.words}"


def selected(request: pytest.FixtureRequest, function: str) -> dict[str, object]:
    """The points that this run of pytest wants of a test function."""
    names = [item.callspec.params["name"] for item in request.session.items if item.originalname == function]  # type: ignore[attr-defined]
    return {name: POINTS[name] for name in names}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A short-named folder that containers of other users may look into."""
    made = Path(tempfile.mkdtemp(prefix="interpose-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def shelf() -> Iterator[Shelf]:
    """Registries with images."""
    with open_shelf() as opened:
        yield opened


@pytest.fixture(scope="module")
def archives(folder: Path) -> list[Path]:
    """The images of all points."""
    path = folder / "images.tar"
    write_archive(path)
    return [path]


def try_points(
    points: dict[str, object],
    socket: Path,
    folder: Path,
    shelf: Shelf,
    version: str = "v1",
    *,
    home: bool = True,
    systemd: bool = False,
) -> dict[str, Finding]:
    """Try points on the runtime at a socket."""
    seen = folder / f"seen-{version}"
    seen.mkdir(mode=0o755, exist_ok=True)
    with CriClient(socket, version) as client:
        world = World(socket=socket, client=client, folder=seen, shelf=shelf, systemd=systemd)
        return judge_all(points, world, home=home)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def ours(folder: Path, archives: list[Path]) -> Iterator[Runtime]:
    """Our runtime, with runc."""
    if reason := Runtime.missing():
        pytest.skip(f"no runtime: {reason}")
    place = folder / "r"
    with reserved_subnet() as subnet:
        write_network(place / "cni", f"{subnet}0/24")
        with Runtime(place) as running:
            running.import_archives(archives)
            yield running


@pytest.fixture(scope="module")
def v1(request: pytest.FixtureRequest, ours: Runtime, folder: Path, shelf: Shelf) -> Tried:
    """Points tried on our runtime."""
    points = selected(request, test_our_runtime.__name__)
    findings = try_points(points, ours.socket, folder, shelf)
    return Tried(findings=findings, left=ours.leftovers())


@pytest.fixture(scope="module")
def v1alpha2(request: pytest.FixtureRequest, ours: Runtime, folder: Path, shelf: Shelf) -> Tried:
    """The same over the older version of the API."""
    points = selected(request, test_our_runtime_over_v1alpha2.__name__)
    findings = try_points(points, ours.socket, folder, shelf, "v1alpha2")
    return Tried(findings=findings, left=ours.leftovers())


@pytest.fixture(scope="module")
def plain(request: pytest.FixtureRequest, folder: Path, archives: list[Path], shelf: Shelf) -> Tried:
    """Points tried on our runtime without runc."""
    if reason := missing_programs("busybox", root=True):
        pytest.skip(f"no runtime: {reason}")
    place = folder / "p"
    points = selected(request, test_our_runtime_without_runc.__name__)
    with reserved_subnet() as subnet:
        write_network(place / "cni", f"{subnet}0/24")
        with Runtime(place, executor="plain") as running:
            running.import_archives(archives)
            findings = try_points(points, running.socket, folder, shelf)
            return Tried(findings=findings, left=running.leftovers())


@pytest.fixture(scope="module", params=["runc", "crun"])
def by_systemd(request: pytest.FixtureRequest, folder: Path, archives: list[Path], shelf: Shelf) -> Tried:
    """Points tried where systemd makes the cgroups."""
    executor = request.param
    if reason := missing_programs(executor, "busybox", "systemctl", root=True):
        pytest.skip(f"no runtime: {reason}")
    if not Path("/run/systemd/system").is_dir():
        pytest.skip("systemd does not run here")
    place = folder / f"s{executor}"
    points = selected(request, test_our_runtime_with_systemd.__name__)
    with reserved_subnet() as subnet:
        write_network(place / "cni", f"{subnet}0/24")
        with Runtime(place, "--cgroup-driver", "systemd", executor=executor) as running:
            running.import_archives(archives)
            findings = try_points(points, running.socket, folder, shelf, systemd=True)
            return Tried(findings=findings, left=running.leftovers())


@pytest.fixture(scope="module")
def of_containerd(request: pytest.FixtureRequest, folder: Path, archives: list[Path], shelf: Shelf) -> Tried:
    """Points tried on containerd."""
    if reason := Containerd.missing():
        pytest.skip(f"no containerd: {reason}")
    if chosen().version()[:2] != (1, 6):
        pytest.skip("the table of differences is about containerd 1.6")
    place = folder / "c"
    points = selected(request, test_containerd.__name__)
    with reserved_subnet() as subnet:
        write_network(place / "cni", f"{subnet}0/24")
        with Containerd(place) as running:
            running.import_archives(archives)
            # With dozens of containers in one pod its shim loses track of the sandbox now and then.
            findings = try_points(points, running.socket, folder, shelf, home=False)
        return Tried(findings=findings, left={})


@pytest.mark.parametrize("name", POINTS)
def test_our_runtime(v1: Tried, name: str) -> None:
    """Each point is what its table says."""
    v1.check(name, POINTS[name].ours)


def test_nothing_is_left(v1: Tried) -> None:
    """After all points there is neither a mount nor a process nor a folder of a pod."""
    assert v1.left == {}


@pytest.mark.parametrize("name", some(9))
def test_our_runtime_over_v1alpha2(v1alpha2: Tried, name: str) -> None:
    """The older version of the API makes no difference."""
    v1alpha2.check(name, POINTS[name].ours)


@pytest.mark.parametrize("name", some(9, *PLAIN))
def test_our_runtime_without_runc(plain: Tried, name: str) -> None:
    """The plain executor, as root, does less: no more and no less than the table says."""
    plain.check(name, PLAIN.get(name, POINTS[name].ours))


@pytest.mark.parametrize("name", [name for name in POINTS if THOROUGH or name.startswith(SYSTEMD)])
def test_our_runtime_with_systemd(by_systemd: Tried, name: str) -> None:
    """Who makes the cgroups makes no difference."""
    by_systemd.check(name, POINTS[name].ours)


@pytest.mark.parametrize("name", some(9, *CONTAINERD))
def test_containerd(of_containerd: Tried, name: str) -> None:
    """containerd 1.6 is what the interface says, but for the differences that are known.

    It shows that the checks ask for what runtimes do, and not for what ours happens to do.
    """
    of_containerd.check(name, CONTAINERD.get(name, PASSES))
