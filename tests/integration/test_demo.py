"""The demo as a person runs it."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from interpose.model.cgroup import Level, Parameter
from interpose.testing import demo
from interpose.testing.demoreport import STARTED, Spot
from interpose.testing.lab.relay import program


@pytest.mark.parametrize("columns", [80, 120])
def test_the_demo_shows_values_reasons_and_that_all_comes_back(columns: int) -> None:
    """It ends well, stays within the width of the terminal, and says who wants what and why."""
    done = subprocess.run(
        [sys.executable, "-m", "interpose.testing.demo"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "COLUMNS": str(columns)},
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert max(map(len, done.stdout.splitlines())) <= columns
    text = " ".join(done.stdout.split())
    started, _, rest = text.partition("2. A Guaranteed pod comes")
    arrived, _, rest = rest.partition("3. nodeslo.yaml is edited")
    changed, _, rest = rest.partition("4. ConfigMap kube-system/cri-resmgr-config is edited")
    configured, _, rest = rest.partition("5. shop/orders ends")
    left, _, rest = rest.partition("6. The hook server stops")
    restored, _, recorded = rest.partition("7. The relay has recorded all calls")
    assert "cpu.shares pod, container 2 -> 1536 BatchResource: CPU request 1500m in annotation" in started
    assert "cpuset.cpus container any -> 2-5 policy static: 4 CPUs of its own" in arrived
    assert "cpuset.cpus container any -> 0-1,6-15 policy static: shares CPUs" in arrived
    assert "$ interpose explain shop/orders/main" in arrived
    assert "CPUs 2-5 2-5 2-5" in arrived
    assert "│ 2A 3A│ 4A 5A│" in arrived
    assert "cpu.bvt_warp_ns pod 2 -> 1 GroupIdentity: LS: lsClass.cpuQOS.groupIdentity 1" in changed
    assert "cpu.cfs_quota_us pod, container 150000 -> unlimited BatchResource: cpuSuppressPolicy cfsQuota" in changed
    assert "- CPU: 0-15 + CPU: 0-7" in configured
    assert "web cpuset.cpus container 0-1,6-15 -> 0-1,6-7" in configured
    assert "InterposeConfigured False ConfigRejected" in configured
    assert "AvailableResource: is not a known key, did you mean AvailableResources?" in configured
    assert "web cpuset.cpus container 0-1,6-7 -> 0-1,6-15" in configured
    assert "web cpuset.cpus container 0-1,6-15 -> any" in left
    assert "reports cpu.shares pod, container 1536 -> 2" in restored
    assert recorded.count(" CreateContainer ") == 3
    assert "WRONG" not in text


def test_what_is_kept_is_a_recording_and_a_page(scratch: Path) -> None:
    """The command that the demo prints shows the same calls, of which the page has all; --keep makes the folder."""
    folder = scratch / "new" / "demo"
    done = subprocess.run(
        [sys.executable, "-m", "interpose.testing.demo", "--keep", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    (command,) = [line for line in done.stdout.splitlines() if line.startswith("  $ interpose dump show ")]
    words = shlex.split(command)
    shown = subprocess.run(
        [program(), *words[2:]], cwd=folder, capture_output=True, text=True, check=True, timeout=30
    ).stdout.splitlines()
    assert ["CreateContainer" in line for line in shown] == [False, True, True, True]
    page = (folder / "demo.html").read_text()
    assert "CreateContainer" in page
    assert "RemovePodSandbox" in page
    assert f"interpose dump live {folder}/demo.crirec\n" in done.stdout


def test_a_value_that_is_not_as_promised_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, and the exit code says so."""
    monkeypatch.setattr(demo, "STARTED", {**STARTED, Spot("web", Level.POD, Parameter.CPU_BVT): 0})

    assert demo.main() == 1
    text = capsys.readouterr().out
    assert "WRONG: started: cpu.bvt_warp_ns of pod web is 2, not 0\n" in text
    assert text.endswith("Something is wrong, see above.\n")


def test_a_program_that_does_not_start_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its last words are shown."""
    monkeypatch.setattr(demo, "program", lambda: shutil.which("false"))

    assert demo.main() == 1
    assert "ended with 1" in capsys.readouterr().out
