"""critest, the conformance tests of cri-tools, on our runtime: where it is on the PATH.

Its images come from a registry on loopback that has the busybox of this machine under every name, so only specs that
need no more than a shell are run. With the real images, by hand: docs/conformance.md.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.checks.images import IMAGE, made_images
from conformance.registry import open_shelf
from conformance.world import write_network
from tests.support.lab.processes import missing_programs
from tests.support.lab.runtime import Runtime
from tests.support.net.subnets import reserved_subnet

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

SPECS = r"PodSandbox runtime should support|Runtime info|Idempotence"
LIMIT = 800  # seconds; only against hanging


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short-named folder."""
    made = Path(tempfile.mkdtemp(prefix="interpose-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_specs_that_need_no_more_than_a_shell(folder: Path) -> None:
    """All of them pass, those about metrics included."""
    if reason := missing_programs("critest", "runc", "busybox", root=True):
        pytest.skip(f"no critest: {reason}")
    place = folder / "r"
    with ExitStack() as stack:
        subnet = stack.enter_context(reserved_subnet())
        write_network(place / "cni", f"{subnet}0/24")
        shelf = stack.enter_context(open_shelf())
        running = stack.enter_context(Runtime(place))
        shelf.open.otherwise = made_images()[IMAGE]
        done = subprocess.run(
            [
                "critest",
                f"-runtime-endpoint=unix://{running.socket}",
                f"-registry-prefix={shelf.open.host}",
                f"-ginkgo.focus={SPECS}",
                "-ginkgo.no-color",
            ],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
    assert "Ran 0 of" not in done.stdout
