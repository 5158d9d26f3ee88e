"""Filters of system calls, AppArmor and SELinux; and the groups of everything about security."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.bench import FOREVER
from conformance.checks import namespaces, security
from conformance.points import Group, Need, Point
from interpose._pb import cri_pb2 as cri

if TYPE_CHECKING:
    from conformance.bench import Bench, Container

_APPARMOR = Need(
    words="AppArmor",
    met=lambda: (switch := Path("/sys/module/apparmor/parameters/enabled")).exists() and switch.read_text()[:1] == "Y",
)
_NO_APPARMOR = Need(words="a machine without AppArmor", met=lambda: not _APPARMOR.met(), usual=True)
_SELINUX = Need(words="SELinux", met=lambda: Path("/sys/fs/selinux/enforce").exists())
_SYS_ADMIN = cri.Capability(add_capabilities=["SYS_ADMIN"])
_PROFILE = cri.SecurityProfile


def _blocked(bench: Bench, *calls: str) -> str:
    """A file with a profile that refuses these system calls."""
    file = bench.folder() / "profile.json"
    rule = {"names": list(calls), "action": "SCMP_ACT_ERRNO"}
    file.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}))
    return str(file)


def _seccomp(container: Container) -> str:
    lines = container.says("grep", "Seccomp:", "/proc/1/status")
    return lines.split()[1]


def _hostname_can_be_set(bench: Bench, **context: Any) -> bool:
    container = bench.pod(network=cri.POD, hostname="before").run_container(*FOREVER, security=context)
    return bool(container.exec("hostname", "after").exit_code == 0)


def said_nothing(bench: Bench) -> None:
    assert _seccomp(bench.container()) == "0"


def unconfined(bench: Bench) -> None:
    profile = _PROFILE(profile_type=_PROFILE.Unconfined)
    assert _seccomp(bench.container(*FOREVER, security={"seccomp": profile})) == "0"


def runtime_default(bench: Bench) -> None:
    profile = _PROFILE(profile_type=_PROFILE.RuntimeDefault)
    container = bench.container(*FOREVER, security={"seccomp": profile})
    assert _seccomp(container) == "2"
    assert container.exec("unshare", "-U", "true").exit_code != 0


def localhost(bench: Bench) -> None:
    profile = _PROFILE(profile_type=_PROFILE.Localhost, localhost_ref=_blocked(bench, "chmod", "fchmodat"))
    container = bench.container(*FOREVER, security={"seccomp": profile})
    answer = container.exec("chmod", "400", "/tmp")
    assert answer.exit_code != 0
    assert b"not permitted" in answer.stderr


def deprecated_localhost(bench: Bench) -> None:
    path = f"localhost/{_blocked(bench, 'chmod', 'fchmodat')}"
    container = bench.container(*FOREVER, security={"seccomp_profile_path": path})
    assert container.exec("chmod", "400", "/tmp").exit_code != 0


def deprecated_default(bench: Bench) -> None:
    assert _seccomp(bench.container(*FOREVER, security={"seccomp_profile_path": "runtime/default"})) == "2"


def without_prefix(bench: Bench) -> None:
    _refused(bench, seccomp_profile_path=_blocked(bench, "chmod"))


def no_file(bench: Bench) -> None:
    profile = _PROFILE(profile_type=_PROFILE.Localhost, localhost_ref=str(bench.folder() / "missing.json"))
    _refused(bench, seccomp=profile)


def _refused(bench: Bench, **context: Any) -> None:
    pod = bench.home
    config = pod.configure(*FOREVER, security=context)
    code = bench.code("CreateContainer", pod_sandbox_id=pod.id, config=config, sandbox_config=pod.config)
    assert code in ("INVALID_ARGUMENT", "UNKNOWN"), code


def hostname_unconfined(bench: Bench) -> None:
    profile = _PROFILE(profile_type=_PROFILE.Unconfined)
    assert _hostname_can_be_set(bench, seccomp=profile, capabilities=_SYS_ADMIN)


def hostname_blocked(bench: Bench) -> None:
    profile = _PROFILE(profile_type=_PROFILE.Localhost, localhost_ref=_blocked(bench, "sethostname"))
    assert not _hostname_can_be_set(bench, seccomp=profile, capabilities=_SYS_ADMIN)


def hostname_privileged(bench: Bench) -> None:
    profile = _PROFILE(profile_type=_PROFILE.Localhost, localhost_ref=_blocked(bench, "sethostname"))
    pod = bench.pod(network=cri.POD, hostname="before", security={"privileged": True})
    container = pod.run_container(*FOREVER, security={"privileged": True, "seccomp": profile})
    assert container.exec("hostname", "after").exit_code == 0


def hostname_default(bench: Bench) -> None:
    profile = _PROFILE(profile_type=_PROFILE.RuntimeDefault)
    assert not _hostname_can_be_set(bench, seccomp=profile)


def hostname_default_admin(bench: Bench) -> None:
    profile = _PROFILE(profile_type=_PROFILE.RuntimeDefault)
    assert _hostname_can_be_set(bench, seccomp=profile, capabilities=_SYS_ADMIN)


def no_apparmor(bench: Bench) -> None:
    _refused(bench, apparmor=_PROFILE(profile_type=_PROFILE.Localhost, localhost_ref="some-profile"))


def apparmor_unconfined(bench: Bench) -> None:
    profile = _PROFILE(profile_type=_PROFILE.Unconfined)
    container = bench.container(*FOREVER, security={"apparmor": profile})
    assert container.says("cat", "/proc/1/attr/current").split() == ["unconfined"]


def apparmor_not_loaded(bench: Bench) -> None:
    profile = _PROFILE(profile_type=_PROFILE.Localhost, localhost_ref="no-such-profile")
    pod = bench.pod()
    config = pod.configure(*FOREVER, security={"apparmor": profile})
    request = {"pod_sandbox_id": pod.id, "config": config, "sandbox_config": pod.config}
    if bench.code("CreateContainer", **request) == "OK":
        found = bench.call("ListContainers", filter=cri.ContainerFilter(pod_sandbox_id=pod.id)).containers[0]
        assert bench.code("StartContainer", container_id=found.id) != "OK"


def apparmor_default(bench: Bench) -> None:
    profile = _PROFILE(profile_type=_PROFILE.RuntimeDefault)
    assert bench.home.output("/bin/echo", "runs", security={"apparmor": profile}) == "runs\n"


def selinux_label(bench: Bench) -> None:
    options = cri.SELinuxOption(user="system_u", role="system_r", type="container_t", level="s0:c1,c2")
    container = bench.container(*FOREVER, security={"selinux_options": options})
    assert container.says("cat", "/proc/1/attr/current").rstrip("\0\n") == "system_u:system_r:container_t:s0:c1,c2"


SECCOMP = (
    Point(name="seccomp: nothing said is unconfined", check=said_nothing),
    Point(name="seccomp: Unconfined", check=unconfined),
    Point(name="seccomp: RuntimeDefault filters", check=runtime_default),
    Point(name="seccomp: Localhost", check=localhost),
    Point(name="seccomp: localhost/ in the deprecated field", check=deprecated_localhost),
    Point(name="seccomp: runtime/default in the deprecated field", check=deprecated_default),
    Point(name="seccomp: a profile without localhost/ in the deprecated field is refused", check=without_prefix),
    Point(name="seccomp: a profile that is not there is refused", check=no_file),
    Point(name="seccomp: Unconfined with SYS_ADMIN may set the hostname", check=hostname_unconfined),
    Point(name="seccomp: a profile can forbid it", check=hostname_blocked),
    Point(name="seccomp: a privileged container has none", check=hostname_privileged),
    Point(name="seccomp: RuntimeDefault forbids setting the hostname", check=hostname_default),
    Point(name="seccomp: RuntimeDefault with SYS_ADMIN allows it", check=hostname_default_admin),
)

GROUPS = (
    Group(
        name="Security Context",
        about="critest: 39 specs",
        points=(*namespaces.POINTS, *security.POINTS, *SECCOMP),
    ),
    Group(
        name="AppArmor",
        about="critest: 9 specs",
        points=(
            Point(name="a profile is refused where there is no AppArmor", check=no_apparmor, need=_NO_APPARMOR),
            Point(
                name="RuntimeDefault runs everywhere; there is no profile of the runtime's own", check=apparmor_default
            ),
            Point(name="Unconfined", check=apparmor_unconfined, need=_APPARMOR),
            Point(name="a profile that is not loaded is refused", check=apparmor_not_loaded, need=_APPARMOR),
        ),
    ),
    Group(
        name="SELinux",
        about="critest: specs only where SELinux is on",
        points=(Point(name="the label of the configuration", check=selinux_label, need=_SELINUX),),
    ),
)
