"""The whole specification."""

import json
from dataclasses import replace
from typing import Any

import pytest

from interpose.cri.messages import cri
from interpose.node.runtime.oci import capabilities
from interpose.node.runtime.oci.spec import container_spec, exec_process
from interpose.node.runtime.oci.spec_types import HostFacts, OciDevice, SandboxFacts, SpecError
from interpose.node.runtime.oci.users import ResolvedUser
from tests.support.node.oci_bundle import PlainImage

HOST = HostFacts(
    capabilities=capabilities.ALL,
    architectures=("SCMP_ARCH_X86_64",),
)
NULL = OciDevice(path="/dev/null2", kind="c", major=1, minor=3, mode=0o666, access="r")


def _sandbox(*namespaces: str) -> SandboxFacts:
    config = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name="web", namespace="ns", uid="u"),
        linux=cri.LinuxPodSandboxConfig(cgroup_parent="/kubepods/pod1"),
    )
    return SandboxFacts(id="s1", config=config, pause_pid=77, namespaces=frozenset(namespaces))


def _spec(
    sandbox: SandboxFacts | None = None, host: HostFacts = HOST, pid: int = 1, target: int | None = None, **fields: Any
) -> dict[str, Any]:
    context = cri.LinuxContainerSecurityContext(**fields.pop("context", {}))
    context.namespace_options.pid = pid  # type: ignore[assignment]
    linux = cri.LinuxContainerConfig(security_context=context, resources=fields.pop("resources", None))
    devices = fields.pop("devices", ())
    config = cri.ContainerConfig(linux=linux, metadata=cri.ContainerMetadata(name="main"), **fields)
    return container_spec(
        config,
        sandbox or _sandbox(),
        PlainImage(),
        ResolvedUser(),
        host=host,
        container_id="c1",
        rootfs="/r",
        devices=devices,
        target_pid=target,
    )


def _namespaces(spec: dict[str, Any]) -> dict[str, str]:
    return {one["type"]: one.get("path", "") for one in spec["linux"]["namespaces"]}


def test_it_is_a_document() -> None:
    """That JSON can carry, with root, cgroup and the common annotations."""
    spec = json.loads(json.dumps(_spec(context={"readonly_rootfs": True}, image=cri.ImageSpec(image="i"))))
    assert spec["ociVersion"] == "1.0.2"
    assert spec["root"] == {"path": "/r", "readonly": True}
    assert spec["linux"]["cgroupsPath"] == "/kubepods/pod1/c1"
    assert "hostname" not in spec
    assert "rlimits" not in spec["process"]
    assert spec["annotations"] == {
        "io.kubernetes.cri.container-type": "container",
        "io.kubernetes.cri.container-name": "main",
        "io.kubernetes.cri.image-name": "i",
        "io.kubernetes.cri.sandbox-id": "s1",
        "io.kubernetes.cri.sandbox-name": "web",
        "io.kubernetes.cri.sandbox-namespace": "ns",
        "io.kubernetes.cri.sandbox-uid": "u",
    }


def test_with_systemd_processes_are_in_the_scope_itself() -> None:
    """crun has one more cgroup in it unless it is told."""
    sandbox = _sandbox()
    sandbox.config.linux.cgroup_parent = "/kubepods.slice/kubepods-pod1.slice"
    spec = _spec(sandbox, replace(HOST, cgroup_driver="systemd"))
    assert spec["linux"]["cgroupsPath"] == "kubepods-pod1.slice:cri-interpose:c1"
    assert spec["annotations"]["run.oci.systemd.subgroup"] == ""


def test_namespaces_of_the_holder() -> None:
    """Those it has; the rest is the host's. On v2 a view of the cgroups of its own."""
    found = _namespaces(_spec(_sandbox("network", "ipc", "uts")))
    assert found == {
        "mount": "",
        "network": "/proc/77/ns/net",
        "ipc": "/proc/77/ns/ipc",
        "uts": "/proc/77/ns/uts",
        "pid": "",
        "cgroup": "",
    }
    assert set(_namespaces(_spec(host=HostFacts(cgroup_version=1)))) == {"mount", "pid"}
    assert "cgroup" not in _namespaces(_spec(context={"privileged": True}))


def test_whose_processes_are_seen() -> None:
    """Its own, the pod's, the machine's, another container's."""
    assert _namespaces(_spec(pid=1))["pid"] == ""
    assert _namespaces(_spec(_sandbox("pid"), pid=0))["pid"] == "/proc/77/ns/pid"
    assert "pid" not in _namespaces(_spec(pid=2))
    assert _namespaces(_spec(pid=3, target=88))["pid"] == "/proc/88/ns/pid"


@pytest.mark.parametrize(
    ("pid", "problem"), [(0, "not made with"), (3, "no such container that runs"), (9, "9 is not known")]
)
def test_processes_that_cannot_be_seen(pid: int, problem: str) -> None:
    """The field is named."""
    with pytest.raises(SpecError, match=f"namespace_options.pid: .*{problem}"):
        _spec(pid=pid)


def test_devices_and_their_rules() -> None:
    """All are refused but those asked for, with their rights."""
    linux = _spec(devices=(NULL,))["linux"]
    assert [one["path"] for one in linux["devices"]] == ["/dev/null2"]
    assert linux["resources"]["devices"] == [
        {"allow": False, "access": "rwm"},
        {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "r"},
    ]


def test_privileged_containers_may_use_all_devices() -> None:
    """And have no filter, no masks."""
    context = {"privileged": True, "masked_paths": ["/m"], "readonly_paths": ["/r"], "seccomp": cri.SecurityProfile()}
    linux = _spec(context=context, devices=(NULL,))["linux"]
    assert [one["path"] for one in linux["devices"]] == ["/dev/null2"]
    assert linux["resources"]["devices"] == [{"allow": True, "access": "rwm"}]
    assert (linux["maskedPaths"], linux["readonlyPaths"]) == ([], [])
    assert "seccomp" not in linux


def test_masks_and_filter_as_asked() -> None:
    """Nothing of ours is added: who wants /proc unmasked gets it."""
    linux = _spec(context={"masked_paths": ["/m"], "readonly_paths": ["/r"], "seccomp": cri.SecurityProfile()})["linux"]
    assert (linux["maskedPaths"], linux["readonlyPaths"]) == (["/m"], ["/r"])
    assert linux["seccomp"]["defaultAction"] == "SCMP_ACT_ERRNO"
    assert _spec()["linux"]["maskedPaths"] == []


def test_the_roots_propagation() -> None:
    """Only where a mount needs it."""
    mount = cri.Mount(container_path="/c", host_path="/a", propagation=cri.MountPropagation.PROPAGATION_BIDIRECTIONAL)
    assert _spec(mounts=[mount])["linux"]["rootfsPropagation"] == "rshared"
    assert "rootfsPropagation" not in _spec()["linux"]


def test_resources_are_in_it() -> None:
    """As `specresources` has them."""
    found = _spec(resources=cri.LinuxContainerResources(cpu_shares=5))["linux"]["resources"]
    assert found["cpu"] == {"shares": 5}


def test_user_namespaces_are_refused() -> None:
    """Those of the node are none."""
    options = cri.NamespaceOption(userns_options=cri.UserNamespace(mode=cri.NamespaceMode.POD))
    with pytest.raises(SpecError, match="user namespaces"):
        _spec(context={"namespace_options": options})
    options.userns_options.mode = cri.NamespaceMode.NODE
    assert _spec(context={"namespace_options": options})


def test_device_interface_is_refused() -> None:
    """We would not know what it means."""
    with pytest.raises(SpecError, match="CDI_devices"):
        _spec(CDI_devices=[cri.CDIDevice(name="a/b=c")])


def test_one_more_process_is_as_the_first() -> None:
    """With another command, and a terminal of its own."""
    spec = _spec(context={"no_new_privs": True})
    found = exec_process(spec, ["ls"], tty=False)
    assert (found["args"], found["terminal"], found["noNewPrivileges"]) == (["ls"], False, True)
    assert found["env"] == spec["process"]["env"]
    on_terminal = exec_process(spec, ["ls"], tty=True)
    assert on_terminal["env"][-1] == "TERM=xterm"
    assert exec_process({"process": on_terminal}, ["ls"], tty=True)["env"].count("TERM=xterm") == 1
    assert spec["process"]["args"] == ["/bin/sh"]


def test_no_command_is_no_process() -> None:
    """Refused here, not by the OCI runtime."""
    with pytest.raises(SpecError, match="cmd: is empty"):
        exec_process(_spec(), [], tty=False)
