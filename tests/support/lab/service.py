"""What programs share that run as processes of tests: a child, and its log when a test fails.

Invariant: no process outlives the `with` block, also if it does not start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from tests.support.lab.processes import Child, LabError

if TYPE_CHECKING:
    from pathlib import Path


class Service:
    """One program; its paths stay the same over restarts. The `with` block starts and ends it."""

    name: ClassVar[str]
    """For people."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._child: Child | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, failure: type[BaseException] | None = None, *_: object) -> None:
        if self._child is not None:
            self._child.stop()
        if failure is not None:  # the folder does not outlive the test, but pytest shows what is printed
            for file in self.shown():
                print(f"--- {file} ---\n{file.read_text(errors='replace') if file.exists() else 'missing'}")

    def start(self) -> None:
        """Start a process and wait until it serves."""
        raise NotImplementedError

    def shown(self) -> tuple[Path, ...]:
        """Files that tell why a test failed."""
        return (self.log,)

    @property
    def child(self) -> Child:
        if self._child is None:
            raise LabError(f"{self.name} was not started")
        return self._child

    def kill(self) -> None:
        """Without a chance to tidy up."""
        self.child.kill()

    def stop(self) -> None:
        """As a service manager does; it must end well."""
        code = self.child.stop()
        if code != 0:
            raise self.child.error(f"ended with {code} when it was told to stop")
