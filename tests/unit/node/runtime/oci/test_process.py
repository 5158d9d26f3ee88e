"""The process of a container."""

from typing import Any

import pytest

from interpose.cri.messages import cri
from interpose.node.runtime.oci.process import DEFAULT_PATH, arguments, environment, process
from interpose.node.runtime.oci.spec_types import HostFacts, SandboxFacts, SpecError
from interpose.node.runtime.oci.users import ResolvedUser
from tests.support.node.oci_bundle import PlainImage

SANDBOX = SandboxFacts(id="s", config=cri.PodSandboxConfig(hostname="pod"), pause_pid=1)
IMAGE = PlainImage(entrypoint=("entry",), cmd=("cmd",), env=(), working_dir="/srv")
PROFILE = cri.SecurityProfile


def _process(host: HostFacts | None = None, oom: int = 0, **context: Any) -> dict[str, Any]:
    linux = cri.LinuxContainerConfig(
        security_context=cri.LinuxContainerSecurityContext(**context),
        resources=cri.LinuxContainerResources(oom_score_adj=oom),
    )
    user = ResolvedUser(uid=1, gid=2, groups=(2, 3))
    given = {"bounding": ["CAP_KILL"]}
    config = cri.ContainerConfig(linux=linux, tty=True)
    return process(config, SANDBOX, IMAGE, user, host=host or HostFacts(), capabilities=given)


@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [
        ([], [], ["entry", "cmd"]),
        ([], ["a"], ["entry", "a"]),
        (["c"], [], ["c"]),
        (["c"], ["a"], ["c", "a"]),
    ],
)
def test_what_is_run(command: list[str], args: list[str], expected: list[str]) -> None:
    """A command replaces all of the image's, arguments its arguments."""
    assert arguments(cri.ContainerConfig(command=command, args=args), IMAGE) == expected


def test_nothing_to_run() -> None:
    """Neither here nor there."""
    with pytest.raises(SpecError, match="command: is empty"):
        arguments(cri.ContainerConfig(), PlainImage(cmd=()))


def test_zero_bytes_are_refused() -> None:
    """No program can be given them."""
    with pytest.raises(SpecError, match="zero byte"):
        arguments(cri.ContainerConfig(command=["a\0b"]), IMAGE)


def test_the_environment_in_its_order() -> None:
    """Ours, the image's, the configuration's: the last word counts. A terminal has a TERM."""
    config = cri.ContainerConfig(
        tty=True, envs=[cri.KeyValue(key="B", value=b"2"), cri.KeyValue(key="A", value=b"x=y")]
    )
    found = environment(config, SANDBOX, PlainImage(env=("A=1", "B=1", "odd", "=x", "HOSTNAME=h")), HostFacts())
    assert found == [f"PATH={DEFAULT_PATH}", "HOSTNAME=h", "TERM=xterm", "A=x=y", "B=2"]


def test_values_are_bytes() -> None:
    """What is not text survives; a text is fine as well."""
    config = cri.ContainerConfig(envs=[cri.KeyValue(key="A", value=b"\xff")])
    (value,) = [one for one in environment(config, SANDBOX, IMAGE, HostFacts()) if one.startswith("A=")]
    assert value.encode("utf-8", "surrogateescape") == b"A=\xff"


def test_a_configuration_of_an_older_protocol_has_texts() -> None:
    """They are taken as they are."""

    class Pair:
        key, value = "A", "text"

    class Config:
        tty, envs = False, (Pair(),)

    assert "A=text" in environment(Config(), SANDBOX, IMAGE, HostFacts())


def test_the_machines_name_without_one_of_the_pod() -> None:
    """As programs expect it."""
    sandbox = SandboxFacts(id="s", config=cri.PodSandboxConfig(), pause_pid=1)
    assert "HOSTNAME=node" in environment(cri.ContainerConfig(), sandbox, IMAGE, HostFacts(hostname="node"))


@pytest.mark.parametrize(("key", "value"), [("", b"1"), ("A=B", b"1"), ("A", b"\0")])
def test_variables_that_are_none(key: str, value: bytes) -> None:
    """Number and name are told, the value is not."""
    with pytest.raises(SpecError, match=r"envs\[0\]"):
        environment(cri.ContainerConfig(envs=[cri.KeyValue(key=key, value=value)]), SANDBOX, IMAGE, HostFacts())


def test_who_and_where() -> None:
    """User, groups, terminal, folder and capabilities."""
    found = _process(no_new_privs=True)
    assert found["user"] == {"uid": 1, "gid": 2, "additionalGids": [2, 3]}
    assert (found["cwd"], found["terminal"], found["noNewPrivileges"]) == ("/srv", True, True)
    assert found["capabilities"] == {"bounding": ["CAP_KILL"]}
    assert "apparmorProfile" not in found
    assert "selinuxLabel" not in found


def test_the_folder_of_the_configuration_comes_first() -> None:
    """Then the image's, then the root."""
    config = cri.ContainerConfig(working_dir="/w")
    more: dict[str, Any] = {"host": HostFacts(), "capabilities": {}}
    assert process(config, SANDBOX, IMAGE, ResolvedUser(), **more)["cwd"] == "/w"
    assert process(cri.ContainerConfig(), SANDBOX, PlainImage(), ResolvedUser(), **more)["cwd"] == "/"


@pytest.mark.parametrize(("wanted", "lowest", "expected"), [(-997, -1000, -997), (-997, 0, 0), (5, 0, 5)])
def test_scores_are_no_lower_than_we_can(wanted: int, lowest: int, expected: int) -> None:
    """Who may not lower them keeps what we have."""
    assert _process(HostFacts(lowest_oom_score=lowest), oom=wanted)["oomScoreAdj"] == expected


def test_scores_out_of_range() -> None:
    """The value is named."""
    with pytest.raises(SpecError, match="oom_score_adj: 1001"):
        _process(oom=1001)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"apparmor": PROFILE(profile_type=PROFILE.RuntimeDefault)}, None),
        ({"apparmor": PROFILE(profile_type=PROFILE.Unconfined)}, None),
        ({"apparmor": PROFILE(profile_type=PROFILE.Localhost, localhost_ref="mine")}, "mine"),
        ({"apparmor_profile": "runtime/default"}, None),
        ({"apparmor_profile": "unconfined"}, None),
        ({"apparmor_profile": "localhost/mine"}, "mine"),
        ({"apparmor_profile": "localhost/mine", "privileged": True}, None),
    ],
)
def test_apparmor_profiles(fields: dict[str, Any], expected: str | None) -> None:
    """One that is loaded, by either field."""
    assert _process(HostFacts(apparmor=True), **fields).get("apparmorProfile") == expected


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"apparmor_profile": "localhost/mine"}, "no AppArmor"),
        ({"apparmor_profile": "mine"}, "is not a profile"),
        ({"apparmor": PROFILE(profile_type=PROFILE.Localhost)}, "is not known"),
        ({"apparmor": PROFILE(profile_type=9)}, "is not known"),  # type: ignore[arg-type]
    ],
)
def test_apparmor_profiles_that_cannot_be(fields: dict[str, Any], problem: str) -> None:
    """A profile asked for by name is not quietly left out."""
    with pytest.raises(SpecError, match=problem):
        _process(**fields)


def test_selinux_labels() -> None:
    """Where there is SELinux and a type is given; not for privileged ones."""
    options = cri.SELinuxOption(type="t", level="s0:c1")
    host = HostFacts(selinux=True)
    assert _process(host, selinux_options=options)["selinuxLabel"] == "system_u:system_r:t:s0:c1"
    assert "selinuxLabel" not in _process(host)
    assert "selinuxLabel" not in _process(selinux_options=options)
    assert "selinuxLabel" not in _process(host, selinux_options=options, privileged=True)
