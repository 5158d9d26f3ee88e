"""Kills a process at each step of its work on a store of images, and says what the next one finds.

    python -m tests.support.node.image_kill ROOT import FILE|pull REF|rm REF [EVERY]

A step is a call that changes a file system. For each, a process begins anew, is killed there, and another one opens the
store, does the same to its end, and reports a line of JSON. Ends with the first process that nobody had to kill.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from interpose.node.runtime.images.manifests import linux_platform
from interpose.node.runtime.images.store import LocalImageStore

_STEPS = frozenset(
    f"os.{name}"
    for name in ("mkdir", "rename", "remove", "rmdir", "link", "symlink", "chmod", "chown", "truncate", "setxattr")
)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def _is_step(event: str, arguments: tuple[Any, ...]) -> bool:
    if event == "open":
        return isinstance(arguments[2], int) and bool(arguments[2] & _WRITES)
    return event in _STEPS


def kill_at(number: int) -> None:
    """Kill this process at its so-and-so-manieth step."""
    left = number

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if _is_step(event, arguments):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


async def _work(root: Path, what: str, which: str) -> None:
    store = LocalImageStore(root, platform=linux_platform("x86_64"), durable=False)
    try:
        await asyncio.to_thread(store.load)
        if what == "import":
            await store.import_file(which)
        elif what == "pull":
            await store.pull(which)
        else:
            await store.remove(which)
    finally:
        await store.close()


async def _look(root: Path) -> dict[str, Any]:
    """What a process finds that comes after."""
    store = LocalImageStore(root, platform=linux_platform("x86_64"), durable=False)
    store.load()
    images = await store.list()
    layers = {str(path.parent.name) for image in images for path in store.layers(image)}
    found = {
        "images": [image.id for image in images],
        "whole": all(path.is_dir() for image in images for path in store.layers(image)),
        "strays": sorted({path.name for path in (root / "layers").iterdir()} - layers),
        "configs": len(list((root / "configs").iterdir())),
    }
    await store.close()
    return found | {"work": [path.name for path in (root / "work").iterdir()]}


def _in_process(work: Any) -> int:
    """Do something in a process of its own; how it ended."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(1 if sys.exc_info()[0] else 0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _copy(source: Path, target: Path) -> None:
    """With devices, which shutil would read."""
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


def main(root: Path, what: str, which: str, every: str = "1") -> int:
    """Kill and look until nobody had to be killed; at all steps, or at every so-and-so-manieth."""
    before = root.with_name("before")
    root.mkdir(parents=True, exist_ok=True)
    _copy(root, before)
    number, code = 0, -1
    while code:
        number += int(every)
        shutil.rmtree(root)
        _copy(before, root)
        at = number

        def doomed(at: int = at) -> None:
            kill_at(at)
            asyncio.run(_work(root, what, which))

        def after() -> None:
            found = asyncio.run(_look(root))
            asyncio.run(_work(root, what, which))
            print(json.dumps(found | {"then": asyncio.run(_look(root))}), flush=True)

        code = _in_process(doomed)
        if code not in (0, -signal.SIGKILL) or _in_process(after):
            print(json.dumps({"step": number, "code": code}), flush=True)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:5]))
