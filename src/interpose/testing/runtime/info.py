"""The `info` map of verbose answers: JSON as containerd writes it, read by whoever rebuilds state after a restart.

`config` is the create-time request with the field names of the protocol, `runtimeSpec` the OCI view of what is in
force now. Environment values are shown as text, which is what runtimes in the field do.
"""

import json
from typing import Any

from interpose._pb import cri_pb2 as cri
from interpose.cri.message_json import message_to_json
from interpose.testing.runtime.state import FakeContainer, FakeSandbox


def container_info(container: FakeContainer, sandbox: FakeSandbox, systemd: bool) -> dict[str, str]:
    """What ContainerStatus adds when asked to be verbose."""
    return _info(
        {
            "sandboxID": container.sandbox_id,
            "pid": container.pid,
            "removing": False,
            "snapshotKey": container.id,
            "snapshotter": "overlayfs",
            "runtimeType": "io.containerd.runc.v2",
            "config": message_to_json(container.config),
            "runtimeSpec": {
                "ociVersion": "1.2.0",
                "process": {
                    "args": [*container.config.command, *container.config.args],
                    "env": [f"{env.key}={_text(env.value)}" for env in container.config.envs],
                    "cwd": container.config.working_dir or "/",
                    "oomScoreAdj": container.resources.oom_score_adj,
                },
                "annotations": {
                    "io.kubernetes.cri.container-type": "container",
                    "io.kubernetes.cri.container-name": container.config.metadata.name,
                    "io.kubernetes.cri.sandbox-id": container.sandbox_id,
                    "io.kubernetes.cri.sandbox-name": sandbox.config.metadata.name,
                    "io.kubernetes.cri.sandbox-namespace": sandbox.config.metadata.namespace,
                    "io.kubernetes.cri.sandbox-uid": sandbox.config.metadata.uid,
                },
                "linux": {
                    "resources": oci_resources(container.resources),
                    "cgroupsPath": _cgroups_path(sandbox, container.id, systemd),
                },
            },
        }
    )


def sandbox_info(sandbox: FakeSandbox, systemd: bool) -> dict[str, str]:
    """What PodSandboxStatus adds when asked to be verbose."""
    return _info(
        {
            "pid": sandbox.pid if sandbox.ready else 0,
            "processStatus": "running" if sandbox.ready else "deleted",
            "netNamespaceClosed": not sandbox.ready,
            "image": "registry.k8s.io/pause:3.10",
            "runtimeHandler": sandbox.runtime_handler,
            "runtimeType": "io.containerd.runc.v2",
            "config": message_to_json(sandbox.config),
            "runtimeSpec": {
                "ociVersion": "1.2.0",
                "annotations": {"io.kubernetes.cri.container-type": "sandbox"},
                "linux": {
                    "resources": oci_resources(sandbox.resources),
                    "cgroupsPath": _cgroups_path(sandbox, sandbox.id, systemd),
                },
            },
        }
    )


def oci_resources(resources: cri.LinuxContainerResources) -> dict[str, Any]:
    """Resources in the words of the OCI runtime specification; what is not set is left out."""
    cpu = {
        "shares": resources.cpu_shares,
        "quota": resources.cpu_quota,
        "period": resources.cpu_period,
        "cpus": resources.cpuset_cpus,
        "mems": resources.cpuset_mems,
    }
    memory = {"limit": resources.memory_limit_in_bytes, "swap": resources.memory_swap_limit_in_bytes}
    parts: dict[str, Any] = {
        "cpu": {key: value for key, value in cpu.items() if value},
        "memory": {key: value for key, value in memory.items() if value},
        "hugepageLimits": [{"pageSize": limit.page_size, "limit": limit.limit} for limit in resources.hugepage_limits],
        "unified": dict(resources.unified),
    }
    return {key: value for key, value in parts.items() if value}


def _info(document: dict[str, Any]) -> dict[str, str]:
    return {"info": json.dumps(document)}


def _cgroups_path(sandbox: FakeSandbox, object_id: str, systemd: bool) -> str:
    parent = sandbox.config.linux.cgroup_parent
    if systemd:
        return f"{parent.rsplit('/', 1)[-1]}:cri-containerd:{object_id}"
    return f"{parent}/{object_id}"


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
