"""Life of containers: create, start, stop, remove, commands in them, volumes, devices, logs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.bench import FOREVER, Container, LogLine, eventually
from conformance.checks.images import DEFAULTS_IMAGE
from conformance.points import Group, Point
from interpose._pb import cri_pb2 as cri

if TYPE_CHECKING:
    from conformance.bench import Bench

_STUBBORN = "trap '' TERM; echo ready; while true; do sleep 0.05; done"
_POLITE = "trap 'echo asked; exit 7' TERM; echo ready; while true; do sleep 0.05; done"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}(Z|[+-]\d\d:\d\d)")


def create(bench: Bench) -> None:
    container = bench.home.create()
    found = bench.call("ListContainers", filter=cri.ContainerFilter(id=container.id)).containers
    assert [(entry.id, entry.state) for entry in found] == [(container.id, cri.CONTAINER_CREATED)]
    assert container.status().state == cri.CONTAINER_CREATED


def start(bench: Bench) -> None:
    status = bench.container().status()
    assert status.state == cri.CONTAINER_RUNNING
    assert 0 < status.created_at <= status.started_at
    assert status.finished_at == 0


def stop(bench: Bench) -> None:
    container = bench.container("/bin/sh", "-c", _POLITE)
    eventually(container.text, "the container to be ready")
    container.stop(60)
    status = container.status()
    assert (status.state, status.exit_code) == (cri.CONTAINER_EXITED, 7)
    assert [line.text for line in logged(container, 2)] == ["ready", "asked"]
    assert status.started_at < status.finished_at


def stop_at_once(bench: Bench) -> None:
    container = bench.container("/bin/sh", "-c", _POLITE)
    container.stop(0)
    status = container.status()
    assert (status.state, status.exit_code) == (cri.CONTAINER_EXITED, 137)


def stop_stubborn(bench: Bench) -> None:
    container = bench.container("/bin/sh", "-c", _STUBBORN)
    eventually(container.text, "the container to be ready")
    container.stop(1)
    status = container.status()
    assert (status.state, status.exit_code) == (cri.CONTAINER_EXITED, 137)
    assert status.finished_at - status.started_at > 900_000_000


def stop_signal(bench: Bench) -> None:
    line = "trap 'echo quit; exit 5' QUIT; trap '' TERM; echo ready; while true; do sleep 0.05; done"
    container = bench.container("/bin/sh", "-c", line, stop_signal=cri.SIGNAL_SIGQUIT)
    eventually(container.text, "the container to be ready")
    assert container.status().stop_signal == cri.SIGNAL_SIGQUIT
    container.stop(60)
    assert container.status().exit_code == 5


def image_defaults(bench: Bench) -> None:
    pod = bench.home
    container = pod.create_configured(pod.configure(image=DEFAULTS_IMAGE)).start()
    eventually(lambda: container.text().count("\n") >= 3, "the container to be ready")
    assert container.text().split() == ["blue", "/srv", "seed"]
    container.stop(60)
    assert container.status().exit_code == 3


def arguments(bench: Bench) -> None:
    pod = bench.home
    config = pod.configure(image=DEFAULTS_IMAGE, args=["echo given"])
    container = pod.create_configured(config).start()
    assert container.ended().exit_code == 0
    assert [line.text for line in logged(container, 1)] == ["given"]


def remove_created(bench: Bench) -> None:
    container = bench.home.create()
    container.remove()
    assert bench.code("ContainerStatus", container_id=container.id) == "NOT_FOUND"


def remove_stopped(bench: Bench) -> None:
    container = bench.container()
    container.stop()
    container.remove()
    assert not bench.call("ListContainers", filter=cri.ContainerFilter(id=container.id)).containers


def remove_running(bench: Bench) -> None:
    container = bench.container()
    container.remove()
    assert bench.code("ContainerStatus", container_id=container.id) == "NOT_FOUND"
    assert not container.cgroup_file("memory", "cgroup.procs").exists()


def next_attempt(bench: Bench) -> None:
    pod = bench.pod()
    first = pod.run_container("/bin/false", name="main")
    assert first.ended().exit_code == 1
    second = pod.run_container("/bin/true", name="main", attempt=1)
    assert second.ended().exit_code == 0
    found = bench.call("ListContainers", filter=cri.ContainerFilter(pod_sandbox_id=pod.id)).containers
    assert sorted(entry.metadata.attempt for entry in found) == [0, 1]


def ends(bench: Bench) -> None:
    pod = bench.home
    done = pod.run_container("/bin/true").ended()
    assert (done.exit_code, done.reason) == (0, "Completed")
    failed = pod.run_container("/bin/sh", "-c", "exit 42").ended()
    assert (failed.exit_code, failed.reason) == (42, "Error")
    assert failed.created_at < failed.started_at
    assert failed.created_at < failed.finished_at


def no_program(bench: Bench) -> None:
    container = bench.home.create("/no/such/program")
    code, words = bench.status("StartContainer", container_id=container.id)
    assert code == "UNKNOWN"
    assert "no such file" in words.lower()
    status = container.status()
    assert status.state == cri.CONTAINER_EXITED
    assert status.exit_code in (127, 128)
    assert status.reason == "StartError"
    assert status.message


def process(bench: Bench) -> None:
    envs = [cri.KeyValue(key="WORD", value=b"a b=c"), cri.KeyValue(key="BYTES", value=b"\xc3\xa9")]
    shown = bench.home.output("/bin/sh", "-c", 'echo "$WORD $BYTES"; pwd', envs=envs, working_dir="/tmp")
    assert shown == "a b=c é\n/tmp\n"


def made_folder(bench: Bench) -> None:
    assert bench.home.output("/bin/pwd", working_dir="/not/there/yet") == "/not/there/yet\n"


def volume(bench: Bench) -> None:
    folder = bench.folder()
    (folder / "file").write_text("from the node\n")
    mounts = [cri.Mount(host_path=str(folder), container_path="/mnt/volume")]
    container = bench.container(*FOREVER, mounts=mounts)
    assert container.says("cat", "/mnt/volume/file") == "from the node\n"
    container.shell("echo from within >/mnt/volume/other")
    assert (folder / "other").read_text() == "from within\n"
    shown = container.status().mounts
    assert [(mount.host_path, mount.container_path) for mount in shown] == [(str(folder), "/mnt/volume")]


def volume_by_link(bench: Bench) -> None:
    folder = bench.folder()
    (folder / "real").mkdir()
    (folder / "real/file").write_text("found\n")
    (folder / "link").symlink_to(folder / "real")
    mounts = [cri.Mount(host_path=str(folder / "link"), container_path="/mnt/volume")]
    assert bench.container(*FOREVER, mounts=mounts).says("cat", "/mnt/volume/file") == "found\n"


def volume_not_there(bench: Bench) -> None:
    missing = bench.folder() / "a/b"
    mounts = [cri.Mount(host_path=str(missing), container_path="/mnt/volume")]
    bench.container(*FOREVER, mounts=mounts).shell("touch /mnt/volume/file")
    assert (missing / "file").exists()


def volume_of_one_file(bench: Bench) -> None:
    file = bench.folder() / "hosts"
    file.write_text("10.0.0.1 other\n")
    mounts = [cri.Mount(host_path=str(file), container_path="/etc/hosts")]
    assert bench.container(*FOREVER, mounts=mounts).says("cat", "/etc/hosts") == "10.0.0.1 other\n"


def device(bench: Bench) -> None:
    wanted = [cri.Device(host_path="/dev/null", container_path="/dev/other", permissions="rw")]
    container = bench.container(*FOREVER, devices=wanted)
    assert container.says("stat", "-c", "%t:%T", "/dev/other") == "1:3\n"
    container.shell("echo x >/dev/other")


def no_other_devices(bench: Bench) -> None:
    container = bench.container()
    answer = container.exec("/bin/sh", "-c", "mknod /dev/disk b 259 0 && head -c 1 /dev/disk")
    assert answer.exit_code != 0
    assert b"not permitted" in answer.stderr


def logged(container: Container, lines: int) -> list[LogLine]:
    """The log once it has so many lines; some runtimes finish it after the container has ended."""
    return list(eventually(lambda: len(found := container.log()) >= lines and found, f"{lines} lines in the log"))


def log(bench: Bench) -> None:
    container = bench.container("/bin/sh", "-c", "echo out; echo err >&2; printf unfinished")
    assert container.ended().exit_code == 0
    lines = logged(container, 3)
    assert all(_TIME.fullmatch(line.time) for line in lines)
    assert [(line.tag, line.text) for line in lines if line.stream == "stderr"] == [("F", "err")]
    assert [line.text for line in lines if line.stream == "stdout"] == ["out", "unfinished"]


def long_lines(bench: Bench) -> None:
    container = bench.container("/bin/sh", "-c", "head -c 40000 /dev/zero | tr '\\0' x; echo; echo short")
    assert container.ended().exit_code == 0
    lines = logged(container, 4)
    assert [len(line.text) for line in lines] == [16384, 16384, 40000 - 2 * 16384, 5]
    assert [line.tag for line in lines] == ["P", "P", "F", "F"]


def log_of_terminal(bench: Bench) -> None:
    container = bench.container("/bin/sh", "-c", "test -t 0 && echo terminal; echo err >&2", tty=True)
    assert container.ended().exit_code == 0
    lines = logged(container, 2)
    assert {line.stream for line in lines} == {"stdout"}
    assert [line.text.rstrip("\r") for line in lines] == ["terminal", "err"]


def named_terminal(bench: Bench) -> None:
    assert bench.home.output("tty", tty=True).startswith("/dev/pts/")


def reopen(bench: Bench) -> None:
    container = bench.container("/bin/sh", "-c", "n=0; while true; do echo $n; n=$((n + 1)); usleep 5000; done")
    path = Path(container.pod.config.log_directory) / container.config.log_path
    eventually(container.log, "something in the log")
    old = path.rename(path.with_suffix(".old"))
    bench.call("ReopenContainerLog", container_id=container.id)
    assert path.exists()
    size = old.stat().st_size
    eventually(container.log, "something in the new log")
    assert old.stat().st_size == size
    container.stop()
    numbers = [int(line.rsplit(" ", 1)[1]) for file in (old, path) for line in file.read_text().splitlines()]
    assert numbers == list(range(len(numbers)))


def reopen_stopped(bench: Bench) -> None:
    container = bench.home.create()
    assert bench.code("ReopenContainerLog", container_id=container.id) in ("UNKNOWN", "FAILED_PRECONDITION")


def no_log(bench: Bench) -> None:
    pod = bench.home
    config = pod.configure("/bin/echo", "unheard")
    config.log_path = ""
    assert pod.create_configured(config).start().ended().exit_code == 0


GROUPS = (
    Group(
        name="Container",
        about="critest: 18 specs",
        points=(
            Point(name="a container that was created is listed as CREATED", check=create),
            Point(name="a container that was started is RUNNING, with its times", check=start),
            Point(name="stopping asks with TERM and waits; the exit code is the program's", check=stop),
            Point(name="stopping without grace kills at once", check=stop_at_once),
            Point(name="stopping kills when the grace is over", check=stop_stubborn),
            Point(name="stopping uses the signal of the configuration", check=stop_signal),
            Point(name="entry point, environment, folder, volume, stop signal of the image", check=image_defaults),
            Point(name="args replace those of the image and keep its entry point", check=arguments),
            Point(name="removing a created container", check=remove_created),
            Point(name="removing a stopped container", check=remove_stopped),
            Point(name="removing a running container ends it", check=remove_running),
            Point(name="a further attempt of the same name beside the old one", check=next_attempt),
            Point(name="exit codes with the reasons Completed and Error", check=ends),
            Point(name="a program that is not there is told by StartContainer and status", check=no_program),
            Point(name="environment and working folder of the configuration", check=process),
            Point(name="a working folder that is not there is made", check=made_folder),
            Point(name="a folder of the node as volume", check=volume),
            Point(name="a volume whose host path is a link", check=volume_by_link),
            Point(name="a volume whose host path is not there is made", check=volume_not_there),
            Point(name="a single file as volume, over one of the runtime's own", check=volume_of_one_file),
            Point(name="a device of the node under another name", check=device),
            Point(name="devices that were not asked for cannot be used", check=no_other_devices),
            Point(name="the log has time, stream, tag and line; a last line without end counts", check=log),
            Point(name="lines longer than 16 KiB come in parts", check=long_lines),
            Point(name="the log of a terminal is one stream", check=log_of_terminal),
            Point(name="a terminal has a name in the container", check=named_terminal),
            Point(name="ReopenContainerLog after a rename loses and doubles no line", check=reopen),
            Point(name="ReopenContainerLog of a container that does not run is refused", check=reopen_stopped),
            Point(name="a container without log path runs", check=no_log),
        ),
    ),
)
