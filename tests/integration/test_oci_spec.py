"""Specifications of ours carried out by runc: what a container can do and see is what was asked for."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interpose.cri.messages import cri
from interpose.node.runtime.cgroups import cgroups
from interpose.node.runtime.oci.devices import all_devices
from interpose.node.runtime.oci.inputs import read_host
from interpose.node.runtime.oci.spec_types import HostFacts, SpecError
from tests.support.node.oci_bundle import PARENT, PlainImage, Ran, busybox_tree, missing_for_runc, run_container

pytestmark = pytest.mark.skipif(bool(missing_for_runc()), reason=missing_for_runc())

Run = Callable[..., Ran]
CONTEXT = cri.LinuxContainerSecurityContext
OWN_PROCESSES = cri.NamespaceOption(pid=cri.NamespaceMode.CONTAINER)


@pytest.fixture(scope="module")
def host() -> HostFacts:
    return read_host(cgroup_version=cgroups.detect().version)


@pytest.fixture
def run(scratch: Path, host: HostFacts) -> Iterator[Run]:
    """Runs a shell line in a container with this security context and these other fields."""
    busybox_tree(scratch / "rootfs")

    def runs(line: str, *, image: PlainImage | None = None, context: CONTEXT | None = None, **fields: Any) -> Ran:
        context = context or CONTEXT()
        if not context.HasField("namespace_options"):
            context.namespace_options.CopyFrom(OWN_PROCESSES)
        resources = cri.LinuxContainerResources(oom_score_adj=1000, memory_limit_in_bytes=64 << 20)
        config = cri.ContainerConfig(
            command=["/bin/sh", "-c", line],
            linux=cri.LinuxContainerConfig(security_context=context, resources=resources),
            **fields,
        )
        return run_container(scratch, config, host=host, image=image)

    yield runs
    cgroups.detect().remove(PARENT)


def test_a_plain_container_has_processes_of_its_own(run: Run) -> None:
    """Its shell is process 1, it sees only itself, with the default capabilities and its variables."""
    done = run(
        "echo $$; echo $GREETING $PATH; grep Cap /proc/self/status", envs=[cri.KeyValue(key="GREETING", value=b"hi")]
    )
    assert done.code == 0, done.err
    first, second, *caps = done.out.splitlines()
    assert (first, second) == ("1", "hi /bin")
    values = dict(line.split(":\t") for line in caps)
    assert values["CapEff"] == "00000000a80425fb"
    assert values["CapInh"] == values["CapAmb"] == "0" * 16


def test_the_exit_code_is_the_programs(run: Run) -> None:
    """What the program says comes through."""
    assert run("exit 42").code == 42


def test_limits_are_in_the_cgroup(run: Run) -> None:
    """Memory limit and place in the tree are those of the configuration."""
    done = run(
        "cat /proc/self/cgroup; cat /sys/fs/cgroup/memory*/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null"
    )
    assert PARENT in done.out
    assert str(64 << 20) in done.out


def test_a_privileged_container_has_all_that_we_have(run: Run, host: HostFacts) -> None:
    """All our capabilities, the host's devices, a /sys that can be written, and mounts."""
    done = run(
        "grep CapEff /proc/self/status; mount -t tmpfs none /tmp && echo mounted; grep ' /sys ' /proc/mounts; ls /dev",
        context=CONTEXT(privileged=True, masked_paths=["/proc/kcore"]),
    )
    assert done.code == 0, done.err
    assert bin(int(done.out.split()[1], 16)).count("1") == len(host.capabilities)
    assert "mounted" in done.out
    assert "sysfs rw" in done.out.replace("/sys sysfs", "sysfs")
    top = {one.path.removeprefix("/dev/") for one in all_devices() if one.path.count("/") == len(("dev", "name"))}
    assert top <= set(done.out.split())


def test_sys_is_read_only_and_mounts_are_refused(run: Run) -> None:
    """What privileged containers may is refused to others."""
    done = run("grep ' /sys ' /proc/mounts; mount -t tmpfs none /tmp || echo refused")
    assert "sysfs ro" in done.out.replace("/sys sysfs", "sysfs")
    assert "refused" in done.out


def test_a_read_only_root_takes_no_files(run: Run) -> None:
    """Nor do the sandbox's files; /dev/shm does."""
    done = run("touch /x || echo refused; touch /dev/shm/x && echo shared", context=CONTEXT(readonly_rootfs=True))
    assert done.out.split() == ["refused", "shared"]


def test_users_by_number_with_groups(run: Run) -> None:
    """uid, gid and supplemental groups are the configuration's; capabilities are not in effect."""
    context = CONTEXT(
        run_as_user=cri.Int64Value(value=1234), run_as_group=cri.Int64Value(value=55), supplemental_groups=[7, 8]
    )
    done = run("id; grep CapEff /proc/self/status", context=context)
    assert done.out.splitlines()[0].startswith("uid=1234 gid=55")
    assert "groups=7,8,55" in done.out
    assert "CapEff:\t0000000000000000" in done.out


def test_users_of_the_image_by_name(run: Run, scratch: Path) -> None:
    """The image's passwd and group files say who a name is."""
    (scratch / "rootfs/etc/passwd").write_text("web:x:33:44::/srv:/bin/sh\n")
    (scratch / "rootfs/etc/group").write_text("extra:x:99:web\n")
    done = run("echo $HOME; id -u; id -g; id -G", image=PlainImage(user="web"))
    assert done.out.splitlines() == ["/srv", "33", "44", "44 99"]


def test_a_passwd_that_links_to_the_host_is_the_images(run: Run, scratch: Path) -> None:
    """A link in the image leads nowhere outside: the host's users are not known in it."""
    passwd = scratch / "rootfs/etc/passwd"
    passwd.unlink()
    passwd.symlink_to("../../../../../../../etc/shadow")
    with pytest.raises(SpecError, match="daemon"):
        run("id", image=PlainImage(user="daemon"))


def test_capabilities_added_and_dropped(run: Run) -> None:
    """ALL dropped and one added leaves that one."""
    caps = cri.Capability(drop_capabilities=["ALL"], add_capabilities=["NET_BIND_SERVICE"])
    done = run("grep CapEff /proc/self/status", context=CONTEXT(capabilities=caps))
    assert int(done.out.split()[1], 16) == 1 << 10


def test_ambient_capabilities_are_for_other_users(run: Run) -> None:
    """A user that is not root has them in effect."""
    caps = cri.Capability(add_ambient_capabilities=["NET_BIND_SERVICE"])
    done = run("grep CapEff /proc/self/status", context=CONTEXT(capabilities=caps, run_as_user=cri.Int64Value(value=9)))
    assert int(done.out.split()[1], 16) == 1 << 10


@pytest.mark.parametrize(("kind", "works"), [(0, False), (1, True)])
def test_the_default_filter_refuses_new_namespaces(run: Run, kind: int, works: bool) -> None:
    """User namespaces need no capability: only the filter is in the way."""
    profile = cri.SecurityProfile(profile_type=kind)  # type: ignore[arg-type]
    done = run("grep ^Seccomp: /proc/self/status; unshare -r true && echo made", context=CONTEXT(seccomp=profile))
    assert f"Seccomp:\t{0 if works else 2}" in done.out
    assert ("made" in done.out) is works, done.err


def test_a_filter_from_a_file(run: Run, scratch: Path) -> None:
    """A profile of the administrator is what is in force."""
    file = scratch / "profile.json"
    rule = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}
    file.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}))
    profile = cri.SecurityProfile(profile_type=cri.SecurityProfile.Localhost, localhost_ref=str(file))
    done = run("mkdir /tmp/a || echo refused; touch /tmp/b && echo made", context=CONTEXT(seccomp=profile))
    assert done.out.split() == ["refused", "made"]


def test_masked_and_read_only_paths(run: Run) -> None:
    """A masked file is empty, a read-only one cannot be written."""
    line = "wc -c < /proc/timer_list; echo 1 > /proc/sys/kernel/printk || echo refused"
    done = run(line, context=CONTEXT(masked_paths=["/proc/timer_list"], readonly_paths=["/proc/sys"]))
    assert done.out.split() == ["0", "refused"], done.err


def test_no_new_privileges(run: Run) -> None:
    """The kernel knows it."""
    assert "NoNewPrivs:\t1" in run("grep NoNewPrivs /proc/self/status", context=CONTEXT(no_new_privs=True)).out


def test_mounts_of_the_configuration(run: Run, scratch: Path) -> None:
    """Read-only and not, through a link, and into a folder that has to be made."""
    (scratch / "data").mkdir()
    (scratch / "data/file").write_text("there\n")
    (scratch / "link").symlink_to(scratch / "data")
    mounts = [
        cri.Mount(container_path="/ro", host_path=str(scratch / "link"), readonly=True),
        cri.Mount(container_path="/rw/deep", host_path=str(scratch / "made")),
    ]
    done = run("cat /ro/file; touch /ro/x || echo refused; echo done > /rw/deep/x", mounts=mounts)
    assert done.out.split() == ["there", "refused"], done.err
    assert (scratch / "made/x").read_text() == "done\n"


def test_a_recursive_read_only_mount(run: Run, scratch: Path) -> None:
    """What is asked for is what runc is told: writing is refused."""
    (scratch / "data").mkdir()
    mount = cri.Mount(container_path="/ro", host_path=str(scratch / "data"), readonly=True, recursive_read_only=True)
    done = run("touch /ro/x || echo refused", mounts=[mount])
    assert done.out.split() == ["refused"], done.err


def test_devices_of_the_configuration(run: Run) -> None:
    """A device under another name, with the rights that were given; others cannot be made."""
    device = cri.Device(host_path="/dev/zero", container_path="/dev/nothing", permissions="r")
    done = run("head -c 3 /dev/nothing | wc -c; echo x > /dev/nothing || echo refused", devices=[device])
    assert done.out.split()[0] == "3", done.err
