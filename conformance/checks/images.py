"""The images that points use, made from the static busybox of this machine: no registry is needed to have them."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.lab.images import FOREVER, PAUSE_IMAGE
from tests.support.lab.processes import LabError
from tests.support.node.image_files import MadeImage, docker_archive, entry, layer, make_image, tar

if TYPE_CHECKING:
    from collections.abc import Mapping

IMAGE = "localhost/conformance/busybox:1"
DEFAULTS_IMAGE = "localhost/conformance/defaults:1"
GROUPS_IMAGE = "localhost/conformance/groups:1"
SUID_IMAGE = "localhost/conformance/suid:1"
APPLETS = (
    *("awk", "brctl", "cat", "chmod", "chown", "cut", "dd", "dmesg", "echo", "env", "false", "find", "grep", "head"),
    *("hostname", "httpd", "id", "ip", "kill", "ls", "md5sum", "mkdir", "mknod", "mount", "nc", "netstat", "nslookup"),
    *("pidof", "ping", "printf", "ps", "pwd", "readlink", "rm", "sed", "seq", "sh", "sleep", "sort", "stat", "stty"),
    *(
        "sync",
        "sysctl",
        "tail",
        "tee",
        "test",
        "top",
        "touch",
        "tr",
        "true",
        "tty",
        "umount",
        "unshare",
        "usleep",
        "wc",
        "wget",
        "yes",
    ),
)
ALICE = 1000
PREDEFINED = 50000
"""The group that only the image's own /etc/group gives to alice."""
_FILES: Mapping[str, str] = {
    "etc/passwd": f"root::0:0:root:/:/bin/sh\nalice:x:{ALICE}:{ALICE}::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n",
    "etc/group": f"root:x:0:\nalice:x:{ALICE}:\nnobody:x:65534:\npredefined:x:{PREDEFINED}:alice\n",
}
_TRAP = "trap 'echo asked; exit 3' USR1; echo $COLOR; pwd; ls /data; while true; do sleep 0.1; done"


def made_images() -> dict[str, MadeImage]:
    """All of them by name, the image of containerd's sandboxes included."""
    program = shutil.which("busybox")
    if program is None:
        raise LabError("not installed: busybox (the static build)")
    busybox = Path(program).read_bytes()
    base = _base(busybox)
    suid = tar([entry("sbin", tarfile.DIRTYPE), entry("sbin/busybox", data=busybox, mode=0o4755)])
    data = layer({"data/": 0o755, "data/seed": "seed\n", "srv/": 0o755})
    common: dict[str, Any] = {"compress": False, "env": ["PATH=/bin"]}
    return {
        PAUSE_IMAGE: make_image([base], cmd=list(FOREVER), **common),
        IMAGE: make_image([base], cmd=list(FOREVER), labels={"role": "test"}, **common),
        GROUPS_IMAGE: make_image([base], cmd=list(FOREVER), user="alice", **common),
        SUID_IMAGE: make_image([base, suid], cmd=list(FOREVER), labels={"role": "suid"}, **common),
        DEFAULTS_IMAGE: make_image(
            [base, data],
            compress=False,
            entrypoint=["/bin/sh", "-c"],
            cmd=[_TRAP],
            env=["PATH=/bin", "COLOR=blue"],
            working_dir="/srv",
            volumes={"/data": {}},
            stop_signal="SIGUSR1",
        ),
    }


def write_archive(path: Path) -> None:
    """A docker archive with all images."""
    path.write_bytes(docker_archive(made_images()))


def _base(busybox: bytes) -> bytes:
    folders = ("bin", "dev", "etc", "proc", "sys", "tmp", "mnt")
    entries = [entry(name, tarfile.DIRTYPE, mode=0o1777 if name == "tmp" else 0o755) for name in folders]
    entries.append(entry("bin/busybox", data=busybox, mode=0o755))
    entries += [entry(f"bin/{name}", tarfile.SYMTYPE, linkname="busybox") for name in APPLETS]
    entries += [entry(name, data=text.encode()) for name, text in _FILES.items()]
    return tar(entries)
