"""The demo as a person runs it."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from examples.demo import __main__ as demo
from examples.demo import programs as demoprograms
from examples.demo import story
from examples.demo.node import processes_of
from examples.demo.report import Spot, Values, wrong_values
from interpose.core.model.cgroup import Level, Parameter
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.processes import closed_to
from tests.support.lab.relay import program

COMMAND = (sys.executable, "-u", "-m", "examples.demo")
NOBODY = 65534


def told(place: Path, columns: int, *options: str, user: int | None = None) -> subprocess.CompletedProcess[str]:
    """A whole run, with its scratch folder in that place."""
    env = {**os.environ, "COLUMNS": str(columns), "TMPDIR": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [*COMMAND, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_LIMIT, user=user, env=env)


@pytest.fixture
def place(scratch: Path) -> Path:
    """Where scratch folders come, for whoever it runs as."""
    scratch.chmod(0o755)
    folder = scratch / "tmp"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def test_the_demo_shows_values_reasons_and_that_all_comes_back(place: Path, scratch: Path) -> None:
    """It ends well, stays within the terminal, says who wants what, and leaves nothing but what is to be kept.

    The command that it prints last shows the same calls, of which the page has all; --keep makes the folder.
    """
    folder = scratch / "new" / "demo"
    done = told(place, 80, "--keep", str(folder))

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    shown, _, kept = done.stdout.partition(f"  {folder}/demo.html is the same")
    assert max(map(len, shown.splitlines())) <= 80
    text = " ".join(done.stdout.split())
    started, _, rest = text.partition("2. One that fails is started again")
    failed, _, rest = rest.partition("3. A Guaranteed pod comes")
    arrived, _, rest = rest.partition("4. nodeslo.yaml is edited")
    changed, _, rest = rest.partition("5. ConfigMap kube-system/cri-resmgr-config is edited")
    configured, _, rest = rest.partition("6. shop/orders ends")
    left, _, rest = rest.partition("7. The hook server stops")
    restored, _, recorded = rest.partition("8. The relay has recorded all calls")
    assert "$ interpose pod ls NAMESPACE NAME UP STATUS RESTARTS AGE shop reports 1/1 Running 0" in started
    assert "cpu.shares container 2 -> 1536 BatchResource: CPU request 1500m in annotation" in started
    assert "shop mailer 0/1 CrashLoopBackOff 1" in failed
    assert "$ interpose pod logs shop/mailer cannot reach the mail server" in failed
    assert "(back-off 10 s)" in failed
    assert "web cpuset.cpus container any -> 0-1,6-15" in arrived
    assert "orders cpuset.cpus container any -> 2-5 policy static: 4 CPUs of its own" in arrived
    assert "'echo $NVIDIA_VISIBLE_DEVICES' 2 $" in arrived
    assert "│ 2A 3A│ 4A 5A│" in arrived
    assert "cpu.bvt_warp_ns pod 2 -> 1 GroupIdentity: LS: lsClass.cpuQOS.groupIdentity 1" in changed
    assert "cpu.cfs_quota_us pod, container 150000 -> unlimited BatchResource: cpuSuppressPolicy cfsQuota" in changed
    assert "- CPU: 0-15 + CPU: 0-7" in configured
    assert "web cpuset.cpus container 0-1,6-15 -> 0-1,6-7" in configured
    assert "InterposeConfigured False ConfigRejected" in configured
    assert "AvailableResource: is not a known key, did you mean AvailableResources?" in configured
    assert "web cpuset.cpus container 0-1,6-15 -> any" in left
    assert "reports cpu.shares container 1536 -> 2" in restored
    assert recorded.count(" CreateContainer ") >= 5
    assert "WRONG" not in text
    assert list(place.iterdir()) == []
    assert processes_of(place) == []
    (command,) = [line for line in done.stdout.splitlines() if line.startswith("  $ interpose dump show ")]
    words = shlex.split(command)
    listed = subprocess.run(
        [program(), *words[2:]], cwd=folder, capture_output=True, text=True, check=True, timeout=WAIT_LIMIT
    ).stdout.splitlines()
    assert ["CreateContainer" in line for line in listed[1:]] == [True] * recorded.count(" CreateContainer ")
    page = (folder / "demo.html").read_text()
    assert "CreateContainer" in page
    assert "RemovePodSandbox" in page
    assert f"interpose dump live {folder}/demo.crirec\n" in kept


def test_it_needs_no_root(place: Path) -> None:
    """Nor a narrow terminal."""
    if why := closed_to(NOBODY):
        pytest.skip(why)
    done = told(place, 120, user=NOBODY)

    assert done.returncode == 0, done.stdout + done.stderr
    assert 80 < max(map(len, done.stdout.splitlines())) <= 120
    assert list(place.iterdir()) == []
    assert processes_of(place) == []


@pytest.mark.parametrize("moment", ["  $ interpose pod run", "3. A Guaranteed pod comes"])
def test_who_has_seen_enough_can_stop_it(place: Path, moment: str) -> None:
    """In the middle, also twice: no process and no file is left."""
    env = {**os.environ, "TMPDIR": str(place)}
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env) as running:
        assert running.stdout is not None
        said = []
        for line in running.stdout:
            said.append(line)
            if line.startswith(moment):
                running.send_signal(signal.SIGINT)
            if line.startswith("Stopping"):
                running.send_signal(signal.SIGINT)
                break
        rest = running.stdout.read()

    assert rest == "Nothing of it runs any more.\n", "".join(said)
    assert running.returncode == 130
    assert list(place.iterdir()) == []
    assert processes_of(place) == []


def test_a_value_that_is_not_as_promised_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, and the exit code says so."""

    def promised_otherwise(when: str, found: Values, promised: Values) -> list[str]:
        wrong = {Spot("web", Level.POD, Parameter.CPU_BVT): 0} if when == "started" else {}
        return wrong_values(when, found, {**promised, **wrong})

    monkeypatch.setattr(story, "wrong_values", promised_otherwise)

    assert demo.main() == 1
    text = capsys.readouterr().out
    assert "WRONG: started: cpu.bvt_warp_ns of pod web is 2, not 0\n" in text
    assert text.endswith("Something is wrong, see above.\n")


def test_a_program_that_does_not_start_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its last words are shown."""
    monkeypatch.setattr(demoprograms, "program", lambda: shutil.which("false"))

    assert demo.main() == 1
    assert "ended with 1" in capsys.readouterr().out
