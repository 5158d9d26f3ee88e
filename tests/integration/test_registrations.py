"""Registration files on the loop of the product: what is in force follows the directory."""

import shutil
from pathlib import Path

from interpose.hooks.dispatch.registrations import Registrations
from interpose.testing.eventually import eventually

TEXT = '{"remote-endpoint": "/run/a.sock", "runtime-hooks": ["PreRunPodSandbox"], "priority": %d}'


async def test_registrations_follow_the_directory_on_uvloop(scratch: Path) -> None:
    """The directory comes later, a file comes, changes and goes, the directory goes; nothing is left behind."""
    hooks = scratch / "runtime/hooks.d"
    told: list[tuple[int, ...]] = []
    registrations = Registrations(str(hooks))
    assert registrations.load() is False
    registrations.start(lambda: told.append(tuple(server.priority for server in registrations.servers)))
    hooks.mkdir(parents=True)
    (hooks / "a.json").write_text(TEXT % 1)
    await eventually(lambda: told[-1:] == [(1,)], "the first version")
    (hooks / "a.json").write_text(TEXT % 2)
    await eventually(lambda: told[-1:] == [(2,)], "the second version")
    (hooks / "a.json").write_text("{")
    (hooks / "b.json").write_text(TEXT % 3)
    await eventually(lambda: told[-1:] == [(2, 3)], "another file beside a bad one")
    shutil.rmtree(scratch / "runtime")
    await eventually(lambda: told[-1:] == [()], "the end of all")
    await registrations.close()
