"""Paths inside a root file system, seen from outside: links are followed as if that folder were /."""

import os
import stat

TYPE_CHECKING = False  # importing typing costs more than this program does
if TYPE_CHECKING:
    from collections.abc import Sequence

_LINKS = 40
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def inside(root: str, path: str) -> str:
    """The host path of a container's path; never outside of root. Parts that do not exist are kept as they are."""
    done: list[str] = []
    todo = [part for part in reversed(path.split("/")) if part not in ("", ".")]
    links = 0
    while todo:
        part = todo.pop()
        if part == "..":
            done = done[:-1]
            continue
        host_path = "/".join([root, *done, part])
        try:
            target = os.readlink(host_path)  # noqa: PTH115
        except OSError:
            done.append(part)
            continue
        links += 1
        if links > _LINKS:
            raise OSError(f"{path}: too many links")
        if target.startswith("/"):
            done = []
        todo += [name for name in reversed(target.split("/")) if name not in ("", ".")]
    return "/".join([root, *done])


def search_path(env: "Sequence[str]") -> str:
    """The PATH of an environment."""
    return next((entry[5:] for entry in env if entry.startswith("PATH=")), PATH)


def find_program(name: str, env: "Sequence[str]", cwd: str, root: str = "") -> str:
    """The file of a program, inside `root` if that is given; FileNotFoundError or PermissionError in runc's words."""
    if "/" in name:
        candidates = [name if name.startswith("/") else f"{cwd}/{name}"]
    else:
        candidates = [f"{folder or '.'}/{name}" for folder in search_path(env).split(":")]
    denied = False
    for candidate in candidates:
        host_path = inside(root, candidate) if root else candidate
        try:
            mode = os.stat(host_path).st_mode  # noqa: PTH116
        except OSError:
            continue
        if stat.S_ISREG(mode) and mode & 0o111:
            return host_path
        denied = True
    if denied:
        raise PermissionError(f'exec: "{name}": permission denied')
    if "/" in name:
        raise FileNotFoundError(f'exec: "{name}": stat {name}: no such file or directory')
    raise FileNotFoundError(f'exec: "{name}": executable file not found in $PATH')
