"""How mounts take part in each other, mounts that cannot be written to, and running out of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.bench import FOREVER, Container, machine
from conformance.points import Group, Point
from interpose._pb import cri_pb2 as cri

if TYPE_CHECKING:
    from pathlib import Path

    from conformance.bench import Bench

_ADMIN = {"privileged": True}


def _shared(bench: Bench) -> Path:
    """A folder that is a mount of its own, shared with whoever is given it."""
    folder = bench.folder()
    bench.mount("--bind", str(folder), str(folder))
    machine("mount", "--make-shared", str(folder))
    return folder


def _container(bench: Bench, folder: Path, propagation: int) -> Container:
    mounts = [cri.Mount(host_path=str(folder), container_path="/mnt/v", propagation=propagation)]  # type: ignore[arg-type]
    return bench.pod(security=_ADMIN).run_container(*FOREVER, mounts=mounts, security=_ADMIN)


def _mount_visibility(bench: Bench, propagation: int) -> tuple[bool, bool]:
    """Whether the container sees a later mount of the node, and the node one of the container."""
    folder = _shared(bench)
    for name in ("ours", "theirs"):
        (folder / name).mkdir()
    container = _container(bench, folder, propagation)
    bench.mount("-t", "tmpfs", "tmpfs", str(folder / "ours"))
    (folder / "ours/file").touch()
    inward = container.exec("test", "-e", "/mnt/v/ours/file").exit_code == 0
    container.shell("mount -t tmpfs tmpfs /mnt/v/theirs && touch /mnt/v/theirs/file")
    outward = (folder / "theirs/file").exists()
    if outward:
        bench.later(machine, "umount", str(folder / "theirs"))
    return inward, outward


def private(bench: Bench) -> None:
    assert _mount_visibility(bench, cri.PROPAGATION_PRIVATE) == (False, False)


def slave(bench: Bench) -> None:
    assert _mount_visibility(bench, cri.PROPAGATION_HOST_TO_CONTAINER) == (True, False)


def bidirectional(bench: Bench) -> None:
    assert _mount_visibility(bench, cri.PROPAGATION_BIDIRECTIONAL) == (True, True)


def _with_inner(bench: Bench, **fields: object) -> Container:
    """A container with a folder that has another mount in it."""
    folder = _shared(bench)
    (folder / "inner").mkdir()
    bench.mount("-t", "tmpfs", "tmpfs", str(folder / "inner"))
    mounts = [cri.Mount(host_path=str(folder), container_path="/mnt/v", **fields)]  # type: ignore[arg-type]
    return bench.container(*FOREVER, mounts=mounts)


def _can_write(container: Container, path: str) -> bool:
    answer = container.exec("touch", path)
    assert answer.exit_code == 0 or b"Read-only" in answer.stderr
    return bool(answer.exit_code == 0)


def read_only(bench: Bench) -> None:
    container = _with_inner(bench, readonly=True)
    assert not _can_write(container, "/mnt/v/file")
    assert _can_write(container, "/mnt/v/inner/file")


def recursive(bench: Bench) -> None:
    container = _with_inner(bench, readonly=True, recursive_read_only=True)
    assert not _can_write(container, "/mnt/v/file")
    assert not _can_write(container, "/mnt/v/inner/file")


def announced(bench: Bench) -> None:
    assert all(handler.features.recursive_read_only_mounts for handler in bench.call("Status").runtime_handlers)
    assert bench.call("Status").runtime_handlers


def _refused(bench: Bench, **fields: object) -> None:
    pod, folder = bench.home, bench.folder()
    mount = cri.Mount(host_path=str(folder), container_path="/mnt/v", recursive_read_only=True, **fields)  # type: ignore[arg-type]
    code = bench.code(
        "CreateContainer", pod_sandbox_id=pod.id, config=pod.configure(mounts=[mount]), sandbox_config=pod.config
    )
    assert code in ("INVALID_ARGUMENT", "UNKNOWN"), code


def recursive_alone(bench: Bench) -> None:
    _refused(bench, readonly=False)


def recursive_slave(bench: Bench) -> None:
    _refused(bench, readonly=True, propagation=cri.PROPAGATION_HOST_TO_CONTAINER)


def recursive_bidirectional(bench: Bench) -> None:
    _refused(bench, readonly=True, propagation=cri.PROPAGATION_BIDIRECTIONAL)


def out_of_memory(bench: Bench) -> None:
    limit = 16 << 20
    resources = {"memory_limit_in_bytes": limit, "memory_swap_limit_in_bytes": limit}
    # A single process that keeps what it reads: awk's string grows until the kernel ends it.
    greedy = 'BEGIN { s = sprintf("%1000000s", "x"); while (1) { t = t s } }'
    status = bench.home.run_container("awk", greedy, resources=resources).ended()
    assert (status.exit_code, status.reason) == (137, "OOMKilled")


GROUPS = (
    Group(
        name="Container Mount Propagation",
        about="critest: 3 specs",
        points=(
            Point(name="private: neither sees later mounts of the other", check=private),
            Point(name="host to container: the container sees those of the node", check=slave),
            Point(name="bidirectional: each sees those of the other", check=bidirectional),
        ),
    ),
    Group(
        name="Container Mount Readonly",
        about="critest: 5 specs",
        points=(
            Point(name="a read-only mount leaves mounts in it writable", check=read_only),
            Point(name="a recursive read-only mount does not", check=recursive),
            Point(name="runtime handlers announce recursive read-only mounts", check=announced),
            Point(name="recursive without readonly is refused", check=recursive_alone),
            Point(name="recursive with propagation from the host is refused", check=recursive_slave),
            Point(name="recursive with bidirectional propagation is refused", check=recursive_bidirectional),
        ),
    ),
    Group(
        name="Container OOM",
        about="critest: 1 spec",
        points=(Point(name="a container over its limit has the reason OOMKilled and code 137", check=out_of_memory),),
    ),
)
