"""The image of the demo's pods: a shell and `sleep` of this machine, with the libraries they need.

So nothing has to be pulled, and it makes no difference whether the executor may give containers a root of their own.
"""

import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from interpose.node.runtime.images.manifests import linux_platform
from tests.support.node.image_files import docker_archive, entry, make_image, tar

IMAGE: Final = "shop/tools:1"
PROGRAMS: Final = ("sh", "sleep")
_LIBRARY: Final = re.compile(r"(?:=> )?(/\S+) \(0x")


def write_image(path: Path) -> None:
    """What `docker save` would write of it."""
    files = {f"bin/{name}": Path(found) for name in PROGRAMS if (found := shutil.which(name))}
    files |= {str(library).lstrip("/"): library for library in _libraries(files.values())}
    layer = tar(entry(name, data=file.read_bytes(), mode=0o755) for name, file in files.items())
    architecture = linux_platform(platform.machine()).architecture
    image = make_image([layer], compress=False, architecture=architecture, env=["PATH=/bin"])
    path.write_bytes(docker_archive({IMAGE: image}))


def _libraries(programs: Iterable[Path]) -> Iterator[Path]:
    """As the machine's `ldd` lists them. Without one, containers find the machine's own or do not start."""
    if shutil.which("ldd") is None:
        return
    for program in programs:
        listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
        yield from (Path(found) for found in _LIBRARY.findall(listed))
