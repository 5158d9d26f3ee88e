"""The paths of a runtime's files, for all parts. Pure but for `prepare`.

`root` outlives a restart of the machine, `state` does not: sockets, pid files and bundles mean nothing after one.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimePaths:
    """The folders of one runtime."""

    root: Path
    state: Path

    @property
    def images(self) -> Path:
        return self.root / "images"

    @property
    def rootfs(self) -> Path:
        return self.root / "rootfs"

    @property
    def network(self) -> Path:
        return self.root / "network"

    @property
    def oci(self) -> Path:
        """The state of the OCI runtime."""
        return self.state / "oci"

    @property
    def sandboxes(self) -> Path:
        return self.state / "sandboxes"

    @property
    def containers(self) -> Path:
        return self.state / "containers"

    @property
    def cgroups(self) -> Path:
        """Notes of the parent cgroups that the runtime created."""
        return self.state / "cgroups"

    def sandbox(self, sandbox_id: str) -> Path:
        """The shim's folder, with the files of the sandbox."""
        return self.sandboxes / sandbox_id

    def bundle(self, container_id: str) -> Path:
        """The bundle folder of a container, for the OCI runtime."""
        return self.containers / container_id

    def exit_file(self, container_id: str) -> Path:
        """The exit record of a container, written by the shim."""
        return self.bundle(container_id) / "exit.json"

    def prepare(self) -> None:
        """Make the folders, for their owner alone."""
        for folder in (self.root, self.state, self.oci, self.sandboxes, self.containers, self.cgroups):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
