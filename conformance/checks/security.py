"""Security contexts: users and groups, capabilities, what can be written and seen, privileges."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.bench import FOREVER
from conformance.checks.images import ALICE, DEFAULTS_IMAGE, GROUPS_IMAGE, PREDEFINED, SUID_IMAGE
from conformance.points import Point, refused
from interpose._pb import cri_pb2 as cri

if TYPE_CHECKING:
    from conformance.bench import Bench, Container

_DEFAULT = 0x00000000A80425FB
"""The capabilities that runtimes give a container if nothing is said."""
_NET_ADMIN, _SYS_ADMIN = 1 << 12, 1 << 21


def _uid(number: int) -> Any:
    return cri.Int64Value(value=number)


def _ids(bench: Bench, security: dict[str, Any], **fields: Any) -> list[str]:
    """uid, gid and groups of a container's first process."""
    line = "id -u; id -g; id -G"
    return bench.home.output("/bin/sh", "-c", line, security=security, **fields).splitlines()


def run_as_user(bench: Bench) -> None:
    assert _ids(bench, {"run_as_user": _uid(1001)})[:2] == ["1001", "0"]


def run_as_known_user(bench: Bench) -> None:
    assert _ids(bench, {"run_as_user": _uid(ALICE)})[:2] == [str(ALICE), str(ALICE)]


def run_as_username(bench: Bench) -> None:
    assert _ids(bench, {"run_as_username": "nobody"})[:2] == ["65534", "65534"]


def run_as_unknown_username(bench: Bench) -> None:
    pod = bench.home
    config = pod.configure(*FOREVER, security={"run_as_username": "no-such-user"})
    code = bench.code("CreateContainer", pod_sandbox_id=pod.id, config=config, sandbox_config=pod.config)
    assert code in ("INVALID_ARGUMENT", "UNKNOWN", "NOT_FOUND"), code


def run_as_group(bench: Bench) -> None:
    assert _ids(bench, {"run_as_user": _uid(1001), "run_as_group": _uid(1002)})[:2] == ["1001", "1002"]


def run_as_username_and_group(bench: Bench) -> None:
    assert _ids(bench, {"run_as_username": "nobody", "run_as_group": _uid(1002)})[:2] == ["65534", "1002"]


def group_alone(bench: Bench) -> None:
    pod = bench.home
    config = pod.configure(*FOREVER, security={"run_as_group": _uid(1002)})
    code, words = bench.status("CreateContainer", pod_sandbox_id=pod.id, config=config, sandbox_config=pod.config)
    assert code in ("INVALID_ARGUMENT", "UNKNOWN"), code
    assert "group" in words.lower()


def supplemental_groups(bench: Bench) -> None:
    assert {"1234", "5678"} <= set(_ids(bench, {"supplemental_groups": [1234, 5678]})[2].split())


def merged_groups(bench: Bench) -> None:
    security = {"supplemental_groups": [1234], "supplemental_groups_policy": cri.Merge}
    found = _ids(bench, security, image=GROUPS_IMAGE)
    assert found[:2] == [str(ALICE), str(ALICE)]
    assert {"1234", str(PREDEFINED)} <= set(found[2].split())


def strict_groups(bench: Bench) -> None:
    security = {"supplemental_groups": [1234], "supplemental_groups_policy": cri.Strict}
    found = _ids(bench, security, image=GROUPS_IMAGE)
    assert set(found[2].split()) == {str(ALICE), "1234"}


def writable(bench: Bench) -> None:
    assert bench.home.output("/bin/sh", "-c", "touch /file && ls /file") == "/file\n"


def read_only(bench: Bench) -> None:
    container = bench.container(*FOREVER, security={"readonly_rootfs": True})
    answer = container.exec("touch", "/file")
    assert answer.exit_code != 0
    assert b"Read-only file system" in answer.stderr
    container.shell("echo x >/dev/shm/file && echo x >/dev/null")


def own_layers(bench: Bench) -> None:
    pod = bench.home
    first, second = pod.run_container(), pod.run_container()
    first.shell("echo mine >/file; rm /bin/yes")
    assert second.exec("ls", "/file").exit_code != 0
    assert second.says("ls", "/bin/yes") == "/bin/yes\n"


def _capabilities(container: Container) -> dict[str, int]:
    lines = container.says("grep", "Cap", "/proc/1/status").splitlines()
    return {name: int(value, 16) for name, _, value in (line.partition(":") for line in lines)}


def default_capabilities(bench: Bench) -> None:
    found = _capabilities(bench.container())
    assert found["CapEff"] == found["CapPrm"] == found["CapBnd"] == _DEFAULT
    assert found["CapInh"] == found["CapAmb"] == 0


def privileged(bench: Bench) -> None:
    container = bench.pod(network=cri.POD, security={"privileged": True}).run_container(
        *FOREVER, security={"privileged": True}
    )
    found = _capabilities(container)
    ours = {name: int(value, 16) for name, _, value in (line.partition(":") for line in _own_status())}
    assert found["CapEff"] == ours["CapPrm"] & ours["CapBnd"]
    container.says("ip", "link", "set", "lo", "down")
    container.shell("mkdir /x && mount -t tmpfs tmpfs /x")
    assert "Seccomp:\t0" in container.says("cat", "/proc/1/status")
    container.shell("test -e /dev/kmsg -o -e /dev/mem -o -e /dev/fuse")


def _own_status() -> list[str]:
    return [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Cap")]


def not_privileged(bench: Bench) -> None:
    container = bench.pod(network=cri.POD).run_container()
    assert container.exec("ip", "link", "set", "lo", "down").exit_code != 0
    assert container.exec("mount", "-t", "tmpfs", "tmpfs", "/mnt").exit_code != 0


def added_capability(bench: Bench) -> None:
    security = {"capabilities": cri.Capability(add_capabilities=["NET_ADMIN"])}
    container = bench.pod(network=cri.POD).run_container(*FOREVER, security=security)
    assert _capabilities(container)["CapEff"] == _DEFAULT | _NET_ADMIN
    container.says("ip", "link", "set", "lo", "down")


def dropped_capability(bench: Bench) -> None:
    security = {"capabilities": cri.Capability(drop_capabilities=["CHOWN"])}
    container = bench.container(*FOREVER, security=security)
    assert _capabilities(container)["CapBnd"] == _DEFAULT & ~1
    assert container.exec("chown", "1", "/tmp").exit_code != 0


def all_added(bench: Bench) -> None:
    container = bench.container(*FOREVER, security={"capabilities": cri.Capability(add_capabilities=["ALL"])})
    assert _capabilities(container)["CapEff"] & _SYS_ADMIN


def all_dropped(bench: Bench) -> None:
    security = {"capabilities": cri.Capability(add_capabilities=["NET_BIND_SERVICE"], drop_capabilities=["ALL"])}
    found = _capabilities(bench.container(*FOREVER, security=security))
    assert found["CapEff"] == found["CapBnd"] == 1 << 10


def ambient(bench: Bench) -> None:
    capabilities = cri.Capability(add_ambient_capabilities=["NET_BIND_SERVICE"])
    security = {"run_as_user": _uid(ALICE), "capabilities": capabilities}
    container = bench.container(*FOREVER, security=security)
    assert _capabilities(container)["CapAmb"] == 1 << 10
    assert _capabilities(container)["CapEff"] == 1 << 10


def unknown_capability(bench: Bench) -> None:
    pod = bench.home
    config = pod.configure(*FOREVER, security={"capabilities": cri.Capability(add_capabilities=["NO_SUCH"])})
    code = bench.code("CreateContainer", pod_sandbox_id=pod.id, config=config, sandbox_config=pod.config)
    assert code in ("INVALID_ARGUMENT", "UNKNOWN"), code


def masked(bench: Bench) -> None:
    security = {"masked_paths": ["/etc/passwd", "/srv", "/not/there"]}
    container = bench.container(*FOREVER, image=DEFAULTS_IMAGE, security=security)
    assert container.says("cat", "/etc/passwd") == ""
    assert container.says("ls", "-A", "/srv") == ""
    assert container.exec("touch", "/srv/file").exit_code != 0


def read_only_paths(bench: Bench) -> None:
    container = bench.container(*FOREVER, security={"readonly_paths": ["/tmp"]})
    answer = container.exec("touch", "/tmp/file")
    assert answer.exit_code != 0
    assert b"Read-only file system" in answer.stderr


def _escalation(bench: Bench, no_new_privs: bool) -> Any:
    security = {"run_as_user": _uid(ALICE), "no_new_privs": no_new_privs}
    container = bench.container(*FOREVER, image=SUID_IMAGE, security=security)
    assert f"NoNewPrivs:\t{int(no_new_privs)}" in container.says("cat", "/proc/self/status")
    return container.exec("/sbin/busybox", "su", "root", "-c", "id -u")


def escalation(bench: Bench) -> None:
    answer = _escalation(bench, False)
    assert (answer.exit_code, answer.stdout) == (0, b"0\n")


def no_escalation(bench: Bench) -> None:
    answer = _escalation(bench, True)
    assert (answer.exit_code, answer.stdout) != (0, b"0\n")


def user_namespace(bench: Bench) -> None:
    mapping = cri.IDMapping(host_id=100_000, container_id=0, length=65_536)
    users = cri.UserNamespace(mode=cri.POD, uids=[mapping], gids=[mapping])
    pod = bench.pod(security={"namespace_options": cri.NamespaceOption(userns_options=users)})
    assert pod.output("cat", "/proc/self/uid_map").split() == ["0", "100000", "65536"]


def host_user_namespace(bench: Bench) -> None:
    users = cri.UserNamespace(mode=cri.NODE)
    pod = bench.pod(security={"namespace_options": cri.NamespaceOption(userns_options=users)})
    assert pod.output("cat", "/proc/self/uid_map").split() == ["0", "0", str(2**32 - 1)]


def mapped_mount(bench: Bench) -> None:
    mapping = cri.IDMapping(host_id=100_000, container_id=0, length=65_536)
    mount = cri.Mount(
        host_path=str(bench.folder()), container_path="/mnt/v", uidMappings=[mapping], gidMappings=[mapping]
    )
    assert bench.container(*FOREVER, mounts=[mount]).says("stat", "-c", "%u", "/mnt/v") == "100000\n"


def oom_score(bench: Bench) -> None:
    container = bench.container(*FOREVER, resources={"oom_score_adj": 907})
    assert container.says("cat", "/proc/1/oom_score_adj") == "907\n"


POINTS = (
    Point(name="run_as_user, unknown to the image", check=run_as_user),
    Point(name="run_as_user, with the group of the image's passwd file", check=run_as_known_user),
    Point(name="run_as_username", check=run_as_username),
    Point(name="an unknown run_as_username is refused", check=run_as_unknown_username),
    Point(name="run_as_group with run_as_user", check=run_as_group),
    Point(name="run_as_group with run_as_username", check=run_as_username_and_group),
    Point(name="run_as_group without a user is refused", check=group_alone),
    Point(name="supplemental_groups", check=supplemental_groups),
    Point(name="supplementalGroupsPolicy Merge adds the image's groups", check=merged_groups),
    Point(name="supplementalGroupsPolicy Strict leaves them out", check=strict_groups),
    Point(name="the root file system can be written to", check=writable),
    Point(name="readonly_rootfs", check=read_only),
    Point(name="containers of one image do not see each other's files", check=own_layers),
    Point(name="the usual capabilities if nothing is said", check=default_capabilities),
    Point(name="privileged: all capabilities, devices, mounts, no seccomp", check=privileged),
    Point(name="not privileged: neither network nor mounts can be changed", check=not_privileged),
    Point(name="a capability is added", check=added_capability),
    Point(name="a capability is dropped", check=dropped_capability),
    Point(name="ALL is added", check=all_added),
    Point(name="ALL is dropped, one is added", check=all_dropped),
    Point(name="ambient capabilities for a user", check=ambient),
    Point(name="an unknown capability is refused", check=unknown_capability),
    Point(name="masked_paths, a file and a folder", check=masked),
    Point(name="readonly_paths", check=read_only_paths),
    Point(name="no_new_privs false: a setuid program works", check=escalation),
    Point(name="no_new_privs true: it does not", check=no_escalation),
    Point(name="oom_score_adj", check=oom_score),
    Point(name="user namespace of the node", check=host_user_namespace),
    Point(
        name="user namespace of the pod",
        check=user_namespace,
        ours=refused("UNIMPLEMENTED", "there are no user namespaces; Status does not announce them"),
    ),
    Point(
        name="id mapped mounts",
        check=mapped_mount,
        ours=refused("INVALID_ARGUMENT", "they are for user namespaces, which are not there"),
    ),
)
