"""Where everything of the demo is: one folder, with a node in it whose cgroups are plain files."""

import os
from pathlib import Path
from typing import Final, NamedTuple

from examples.demo.image import write_image
from examples.demo.parts import BEFORE, CPUS, LATER, MACHINE, RESIDENTS, edit
from interpose.core.topology.synthetic import parse_text
from interpose.testing.kernel.cgroup import FakeKernel
from tests.support.lab.relay import program
from tests.support.policy.sysfs_tree import write_sysfs

IMAGE_FILE: Final = "tools.tar"
MANIFESTS: Final = "pods"
# The hierarchies of the fake kernel, by the names that they have here.
_HIERARCHIES: Final = {"cpu,cpuacct": "cpu", "cpuset": "cpuset", "memory": "memory"}
_OF_PROCESSES: Final = ("cgroup.procs", "tasks")  # nobody is moved in a folder of plain files


class Places(NamedTuple):
    """The demo's folder."""

    folder: Path

    @property
    def cri(self) -> Path:
        """The socket of the relay."""
        return self.folder / "cri.sock"

    @property
    def runtime(self) -> Path:
        """The socket of the runtime."""
        return self.folder / "runtime.sock"

    @property
    def state(self) -> Path:
        """The runtime's folder for what runs."""
        return self.folder / "run"

    @property
    def relay_admin(self) -> Path:
        """The admin socket of the relay."""
        return self.folder / "relay-admin.sock"

    @property
    def admin(self) -> Path:
        """The admin socket of the hook server."""
        return self.folder / "hookserver-admin.sock"

    @property
    def agent_admin(self) -> Path:
        """The admin socket of the agent."""
        return self.folder / "agent-admin.sock"

    @property
    def kubeconfig(self) -> Path:
        """How the agent finds the API server."""
        return self.folder / "kubeconfig"

    @property
    def nodeslo(self) -> Path:
        """The node's policy."""
        return self.folder / "nodeslo.yaml"

    @property
    def manifests(self) -> Path:
        """Manifests of the pods that shall run."""
        return self.folder / MANIFESTS

    @property
    def host(self) -> Path:
        """What stands for the root of the host."""
        return self.folder / "host"

    @property
    def cgroups(self) -> Path:
        """What stands for /sys/fs/cgroup."""
        return self.host / "sys/fs/cgroup"

    def prepare(self) -> None:
        """Directories and files that a node has, and manifests: those of the first pods where they count."""
        (self.folder / "hookserver.d").mkdir(mode=0o755)
        boot = self.host / "proc/sys/kernel/random/boot_id"
        boot.parent.mkdir(parents=True)
        boot.write_text("0d3a8ae1-6f3c-4e5c-9d2b-3a7c1d9f0b42\n")
        write_sysfs(parse_text(MACHINE), self.host)
        write_cgroups(self.cgroups)
        edit(self.nodeslo, BEFORE)
        write_image(self.folder / IMAGE_FILE)
        self.manifests.mkdir()
        for pod in RESIDENTS:
            (self.manifests / f"{pod.name}.yaml").write_text(pod.manifest)
        for name, manifest in LATER.items():
            (self.folder / f"{name}.yaml").write_text(manifest)

    def environment(self) -> dict[str, str]:
        """All paths of the programs, so that their command lines are as short as on a node."""
        folder = self.folder
        return {
            "PATH": f"{program().parent}:{os.environ.get('PATH', os.defpath)}",
            "INTERPOSE_LISTEN": str(self.cri),
            "INTERPOSE_RUNTIME_ENDPOINT": str(self.runtime),
            "INTERPOSE_ADMIN_LISTEN": str(self.relay_admin),
            "INTERPOSE_HOOKS_DIR": str(folder / "hookserver.d"),
            "INTERPOSE_HOST_ROOT": str(self.host),
            "INTERPOSE_STATE_DIR": str(folder / "state"),
            "INTERPOSE_CONFIG_SOCKET": str(folder / "config.sock"),
            "INTERPOSE_RUNTIME_LISTEN": str(self.runtime),
            "INTERPOSE_RUNTIME_ROOT": str(folder / "root"),
            "INTERPOSE_RUNTIME_STATE": str(self.state),
            "INTERPOSE_RUNTIME_CGROUP_ROOT": str(self.cgroups),
            "INTERPOSE_RUNTIME_CNI_CONF_DIR": str(folder / "no-cni"),
            "INTERPOSE_RUNTIME_ADMIN_LISTEN": "none",
            "INTERPOSE_POD_RUNTIME_ENDPOINT": str(self.cri),
            "INTERPOSE_POD_ROOT": str(folder / "manager"),
            "INTERPOSE_POD_LOG_ROOT": str(folder / "logs"),
            "INTERPOSE_POD_CGROUP_MOUNT": str(self.cgroups),
            "INTERPOSE_AGENT_KUBECONFIG": str(self.kubeconfig),
            "INTERPOSE_AGENT_CONFIG_SOCKET": str(folder / "config.sock"),
            "INTERPOSE_AGENT_AGENT_SOCKET": str(folder / "agent.sock"),
            "INTERPOSE_AGENT_ADMIN_LISTEN": str(self.agent_admin),
            "INTERPOSE_AGENT_NODE_STATE_FILE": str(folder / "node/state.json"),
            "INTERPOSE_HOOKSERVER_LISTEN": str(folder / "hooks.sock"),
            "INTERPOSE_HOOKSERVER_NODESLO": str(self.nodeslo),
            "INTERPOSE_HOOKSERVER_RUNTIME_ENDPOINT": str(self.cri),
            "INTERPOSE_HOOKSERVER_ADMIN_LISTEN": str(self.admin),
            "INTERPOSE_HOOKSERVER_HOOKS_DIR": str(folder / "hookserver.d"),
            "INTERPOSE_HOOKSERVER_STATE_DIR": str(folder / "state"),
            "INTERPOSE_HOOKSERVER_KUBELET_STATE_DIR": str(folder / "kubelet"),
            "INTERPOSE_HOOKSERVER_CGROUP_ROOT": str(self.cgroups),
            "INTERPOSE_HOOKSERVER_PROC_ROOT": str(self.host / "proc"),
            "INTERPOSE_HOOKSERVER_SYS_ROOT": str(self.host / "sys"),
        }


def write_cgroups(root: Path) -> None:
    """Version 1, whose files are named as the values are, of a kernel that knows bvt; `.new` is what new ones have."""
    kernel = FakeKernel(1, CPUS, "0", bvt=True)
    kernel.make("any")
    for hierarchy, name in _HIERARCHIES.items():
        for directory, place in (("", root / name), ("any", root / name / ".new")):
            place.mkdir(parents=True)
            for file, text in kernel.contents(directory, hierarchy).items():
                if file not in _OF_PROCESSES:
                    (place / file).write_text(text)


_OTHERS: Final = ("INTERPOSE_", "CONTAINER_RUNTIME_", "IMAGE_SERVICE_", "LISTEN_", "NOTIFY_", "WATCHDOG_")


def forget_settings() -> None:
    """Settings of the shell are for others."""
    for name in [name for name in os.environ if name.startswith(_OTHERS)]:
        del os.environ[name]
