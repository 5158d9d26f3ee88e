"""The plain executor as a program: for root with namespaces, for others with the host's file system."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from interpose.node.runtime.oci.runc import OciRuntime, find_executor
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.processes import closed_to, missing_programs, wait_for
from tests.support.node.bundles import busybox_rootfs, process, write_bundle

NOBODY = 65534
# Processes of a container are looked for on the whole machine, where other tests have containers too.
CONTAINER = uuid4().hex
Done = subprocess.CompletedProcess[str]


class Plain:
    """Calls the program as a given user and collects what containers write."""

    def __init__(self, folder: Path, *, user: int | None) -> None:
        self.folder = folder
        self.user = user
        self.cgroups = folder / "cgroup"
        self.cgroups.mkdir()
        self.rootfs = folder / "rootfs"
        busybox_rootfs(self.rootfs)
        root = os.geteuid() == 0 and user is None
        self.oci: OciRuntime = find_executor("plain", folder / "oci", cgroup_root=str(self.cgroups), rights=root)
        if user is not None:
            for place in (folder, *folder.rglob("*")):
                os.chown(place, user, user, follow_symlinks=False)

    def call(self, *words: str, stdin: str = "") -> Done:
        """Run a verb to its end; what it started may write on."""
        starts = words[0] in ("run", "exec")
        with (self.folder / "out").open("a") as out, (self.folder / "err").open("w") as err:
            return subprocess.run(
                [*self.oci.command, "--root", str(self.oci.root), *words],
                input=stdin,
                stdout=out if starts else subprocess.PIPE,
                stderr=err if starts else subprocess.PIPE,
                text=True,
                timeout=WAIT_LIMIT,
                check=False,
                user=self.user,
                group=self.user,
                extra_groups=None if self.user is None else [],
            )

    def run(self, *args: str, name: str = CONTAINER, edit: Callable[[dict[str, Any]], None] | None = None) -> Done:
        """Run a container."""
        bundle = write_bundle(self.folder / name, self.rootfs, process(*args), cgroup=f"/pods/{name}", memory=1 << 26)
        if edit is not None:
            config = json.loads((bundle / "config.json").read_text())
            edit(config)
            (bundle / "config.json").write_text(json.dumps(config))
        return self.call("run", "--detach", "--bundle", str(bundle), "--pid-file", str(self.folder / "pid"), name)

    def state(self, name: str = CONTAINER) -> dict[str, Any]:
        """What the program says about a container."""
        value: dict[str, Any] = json.loads(self.call("state", name).stdout)
        return value

    def output(self, lines: int) -> list[str]:
        """So many lines of what containers wrote."""

        def read() -> list[str] | None:
            found = (self.folder / "out").read_text().splitlines()
            return found if len(found) >= lines else None

        return wait_for(read, what=f"{lines} lines of output") or []


@pytest.fixture(params=["root", "user"])
def plain(request: pytest.FixtureRequest, scratch: Path) -> Iterator[Plain]:
    """The program, as root where we are root, and as somebody without rights."""
    yield from _made(request.param, scratch)


@pytest.fixture
def rooted(scratch: Path) -> Iterator[Plain]:
    """The program as root."""
    yield from _made("root", scratch)


@pytest.fixture
def rootless(scratch: Path) -> Iterator[Plain]:
    """The program as somebody without rights."""
    yield from _made("user", scratch)


def _made(who: str, scratch: Path) -> Iterator[Plain]:
    if why := missing_programs("busybox", root=who == "root"):
        pytest.skip(why)
    made = Plain(scratch, user=NOBODY if who == "user" and os.geteuid() == 0 else None)
    if made.user is not None and (why := closed_to(made.user)):
        pytest.skip(why)
    yield made
    for entry in (scratch / "oci").glob("*"):
        made.call("delete", "--force", entry.name)


def test_a_container_runs_and_is_gone(plain: Plain) -> None:
    """Its output, its pid, its state, its end."""
    done = plain.run("sh", "-c", "echo hello; exec sleep 1000")

    assert done.returncode == 0
    assert plain.output(1) == ["hello"]
    pid = int((plain.folder / "pid").read_text())
    assert (plain.state()["status"], plain.state()["pid"]) == ("running", pid)
    assert plain.call("kill", CONTAINER, "9").returncode == 0
    wait_for(lambda: plain.state()["status"] == "stopped", what="its end")
    assert plain.call("delete", CONTAINER).returncode == 0
    assert "does not exist" in plain.call("state", CONTAINER).stderr


def test_limits_are_shown_in_a_folder(plain: Plain) -> None:
    """Nobody is moved there; an update changes them; deleting removes them."""
    plain.run("sleep", "1000")
    folder = plain.cgroups / f"pods/{CONTAINER}"
    assert (folder / "memory.max").read_text() == str(1 << 26)

    done = plain.call("update", "--resources", "-", CONTAINER, stdin='{"cpu": {"shares": 1024}}')

    assert done.returncode == 0
    assert (folder / "cpu.weight").read_text() == "39"
    plain.call("delete", "--force", CONTAINER)
    assert not folder.exists()


def test_a_second_process(plain: Plain, scratch: Path) -> None:
    """It is where the first one is."""
    plain.run("sleep", "1000")
    described = scratch / "process.json"
    described.write_text(json.dumps(process("sh", "-c", "echo again $INTERPOSE_CONTAINER")))

    assert plain.call("exec", "--detach", "--process", str(described), CONTAINER).returncode == 0
    assert plain.output(1) == [f"again {CONTAINER}"]


def test_what_left_its_session_is_found(plain: Plain) -> None:
    """Deleting by force leaves nothing."""
    plain.run("sh", "-c", "busybox setsid sleep 4321 & echo up; exec sleep 4321")
    plain.output(1)
    pid = plain.state()["pid"]
    wait_for(lambda: len(_sleepers()) == 2, what="both processes")

    assert "not stopped" in plain.call("delete", CONTAINER).stderr
    assert plain.call("delete", "--force", CONTAINER).returncode == 0

    assert pid
    assert _sleepers() == []


def _sleepers() -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cmdline").read_bytes() == b"sleep\x004321\x00":
                found.append(entry.name)
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("/interpose-nope",), 'exec: "/interpose-nope": stat /interpose-nope'),
        (("nope",), "executable file not found in $PATH"),
    ],
)
def test_what_cannot_be_started_leaves_nothing(plain: Plain, args: tuple[str, ...], words: str) -> None:
    """The reason is runc's."""
    assert plain.run(*args).returncode == 1

    assert words in (plain.folder / "err").read_text()
    assert "does not exist" in plain.call("state", CONTAINER).stderr
    assert not (plain.cgroups / f"pods/{CONTAINER}").exists()


def test_an_id_is_used_once(plain: Plain) -> None:
    """The first one is not touched."""
    plain.run("sleep", "1000")
    shutil.rmtree(plain.folder / CONTAINER)

    assert plain.run("sleep", "1000").returncode == 1
    assert "exists already" in (plain.folder / "err").read_text()
    assert plain.state()["status"] == "running"


def test_what_is_not_isolated_is_said(plain: Plain) -> None:
    """As the runtime says it."""
    assert json.loads(plain.call("features").stdout)["not_isolated"] == list(plain.oci.not_isolated)


def test_errors_go_to_the_log(plain: Plain) -> None:
    """As JSON, as runc does it."""
    log = plain.folder / "log.json"

    subprocess.run([*plain.oci.command, "--log", str(log), "state", "nope"], check=False, capture_output=True)

    assert json.loads(log.read_text())["level"] == "error"


def test_root_has_its_own_file_system_and_processes(rooted: Plain) -> None:
    """The image is its root, it is process 1, and volumes are there, read-only if so asked."""
    volume = rooted.folder / "volume"
    volume.mkdir()
    (volume / "file").write_text("content\n")

    def edit(config: dict[str, Any]) -> None:
        config["mounts"].append(
            {"destination": "/data/v", "type": "bind", "source": str(volume), "options": ["rbind", "ro"]}
        )

    script = "ls /; echo $$; cat /data/v/file; echo x > /data/v/file || echo refused; echo y > /new && echo written"
    rooted.run("sh", "-c", script, edit=edit)

    lines = rooted.output(11)
    assert lines[-4:] == ["1", "content", "refused", "written"]
    assert "work" not in lines
    assert (rooted.rootfs / "new").exists()


def test_root_can_give_up_rights(rooted: Plain) -> None:
    """User, groups, capabilities, no new privileges, read-only root."""

    def edit(config: dict[str, Any]) -> None:
        config["root"]["readonly"] = True
        config["process"] |= {
            "user": {"uid": 1000, "gid": 1001, "additionalGids": [7]},
            "noNewPrivileges": True,
            "capabilities": {"bounding": ["CAP_NET_BIND_SERVICE"]},
            "rlimits": [{"type": "RLIMIT_NOFILE", "soft": 100, "hard": 200}],
        }

    script = "id -u; id -G; grep -E 'CapBnd|CapEff|NoNewPrivs' /proc/self/status; ulimit -n; touch /x; echo $?"
    rooted.run("busybox", "sh", "-c", script, edit=edit)

    lines = [line.split()[-1] for line in rooted.output(7)]
    assert lines[0] == "1000"
    assert lines[2:] == ["0000000000000000", "0000000000000400", "1", "100", "1"]


def test_root_hides_what_shall_be_hidden(rooted: Plain) -> None:
    """Masked files are empty, read-only ones cannot be written, devices are there."""

    def edit(config: dict[str, Any]) -> None:
        config["linux"] |= {"maskedPaths": ["/proc/kcore", "/etc"], "readonlyPaths": ["/proc/sys"]}

    script = (
        "cat /proc/kcore | wc -c; ls /etc | wc -l; echo 1 > /proc/sys/vm/swappiness || echo refused; ls -1 /dev/null"
    )
    rooted.run("busybox", "sh", "-c", script, edit=edit)

    assert rooted.output(4)[-4:] == ["0", "0", "refused", "/dev/null"]


def test_an_unknown_namespace_is_refused(rooted: Plain) -> None:
    """Nothing that was asked for is left out in silence."""
    done = rooted.run("true", edit=lambda config: config["linux"]["namespaces"].append({"type": "user"}))

    assert done.returncode == 1
    assert "'user' is not supported" in (rooted.folder / "err").read_text()


def test_others_get_the_images_programs_first(rootless: Plain) -> None:
    """Then the host's; the working directory is the image's."""
    rootless.run("sh", "-c", "cat /proc/$$/exe | wc -c; pwd; exec sleep 1000")
    rootless.run(sys.executable, "-c", "print('host')", name=f"{CONTAINER}-2")

    lines = rootless.output(3)
    assert str((rootless.rootfs / "bin/busybox").stat().st_size) in lines
    assert str(rootless.rootfs) in lines
    assert "host" in lines
