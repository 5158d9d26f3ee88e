"""Our own registration file: written when we can answer, kept as it should be, removed when we leave.

Only the file of our name is touched, and unless somebody asks for that, it is removed only if it leads to our socket.
A directory that is missing or cannot be written to is a problem that is told once and tried again, never the end of the
program. Who serves no hook point has no registration.
"""

import logging
import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple

from interpose.errors import ConfigError
from interpose.hooks.api.hookpoint import FailurePolicy, HookPoint
from interpose.hooks.api.registration import (
    DEFAULT_PRIORITY,
    EVERY_POD,
    SUFFIX,
    HookServer,
    Selector,
    parse_registration,
    render_registration,
)
from interpose.host.atomic_file import replace_at
from interpose.log import RateLimited

_log = logging.getLogger(__name__)
_MODE: Final = 0o644
_DIRECTORY_MODE: Final = 0o755
# Far above any registration; a larger file is somebody else's.
_MOST_BYTES: Final = 1 << 16


class _RegistrationContent(NamedTuple):
    text: str
    mode: int


_UNREADABLE: Final = _RegistrationContent("", 0)  # no file one could read


class Registrar:
    """One registration. `write` begins it, `check` is called now and then, `close` or `deregister` ends it."""

    def __init__(
        self,
        directory: str | Path,
        name: str,
        *,
        endpoint: str,
        hooks: Collection[HookPoint],
        failure_policy: FailurePolicy = FailurePolicy.IGNORE,
        priority: int = DEFAULT_PRIORITY,
        timeout: float | None = None,
        selector: Selector = EVERY_POD,
    ) -> None:
        self.path = Path(directory) / f"{name}{SUFFIX}"
        self.problem = ""  # why it is not registered; empty if it is, or shall not be
        self.rewritten = 0  # how often somebody deleted or changed the file
        self._server = HookServer(
            name=name,
            file=str(self.path),
            endpoint=endpoint,
            hooks=frozenset(hooks),
            failure_policy=failure_policy,
            priority=priority,
            timeout=timeout,
            selector=selector,
        )
        self._text = render_registration(self._server)
        self._wanted = False
        self._written = False
        self._limited = RateLimited(_log)  # somebody may change it at every look

    @property
    def is_registered(self) -> bool:
        """Whether the file was as it should be when we last looked."""
        return self._wanted and self._written and not self.problem

    @property
    def registered_endpoint(self) -> str:
        """The socket that the file under our name leads to; empty if there is none or nobody could read it."""
        try:
            return parse_registration((self._read_file() or _UNREADABLE).text, str(self.path)).server.endpoint
        except (ConfigError, OSError):
            return ""

    def write(self) -> bool:
        """Register. Whether the file is as it should be now; if not, `check` tries again."""
        if not self._server.hooks:
            # A file without hook points registers nothing; one from before says what is not true any more.
            extra = {"kv": {"file": str(self.path)}}
            _log.warning("No enabled plugin uses a hook point, not registering", extra=extra)
            return self.remove()
        self._wanted = True
        return self.check()

    def check(self) -> bool:
        """Put the file right if it is not; does nothing before `write` and after the end."""
        if not self._wanted:
            return False
        try:
            found = self._read_file()
            if found != _RegistrationContent(self._text, _MODE):
                self._log_replacement(found)
                self._replace()
        except OSError as error:
            self._log_problem(f"{error.strerror or error}")
            return False
        if self.problem or not self._written:
            _log.info("Registered", extra={"kv": {"file": str(self.path), "endpoint": self._server.endpoint}})
        self.problem = ""
        self._written = True
        return True

    def remove(self, *, force: bool = False) -> bool:
        """Remove the file if it leads to our socket, or whatever it says; whether it is gone."""
        self._wanted = False
        self.problem = ""
        try:
            found = self._read_file()
            if found is not None and not force and not self._is_ours(found):
                _log.warning(
                    "Registration file belongs to another hook server, not removed",
                    extra={"kv": {"file": str(self.path)}},
                )
                return False
            if found is not None:
                self.path.unlink(missing_ok=True)
                _log.info("Registration removed", extra={"kv": {"file": str(self.path)}})
        except OSError as error:
            self._log_problem(f"{error.strerror or error}")
            return False
        return True

    def close(self) -> None:
        """A clean exit. Under Fail the registration stays: calls shall wait for us, not pass without us."""
        if self._wanted and self._server.failure_policy is FailurePolicy.IGNORE:
            self.remove()
        self._wanted = False

    def deregister(self) -> bool:
        """For good, whatever the policy is and whatever the file says; whether it is gone."""
        return self.remove(force=True)

    # -- the file

    def _read_file(self) -> _RegistrationContent | None:
        """What stands there under our name; None if nothing does."""
        try:
            # Neither a device nor a pipe shall hold us up. A link is not followed: it is not what we write.
            fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NOCTTY)
        except FileNotFoundError:
            return None
        except OSError:
            return _UNREADABLE
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                return _UNREADABLE
            with open(fd, "rb", closefd=False) as file:
                return _RegistrationContent(
                    file.read(_MOST_BYTES).decode(errors="replace"), stat.S_IMODE(found.st_mode)
                )
        finally:
            os.close(fd)

    def _is_ours(self, found: _RegistrationContent) -> bool:
        try:
            return parse_registration(found.text, str(self.path)).server.endpoint == self._server.endpoint
        except ConfigError:
            return False

    def _replace(self) -> None:
        """In one step, so that nobody ever reads half of it."""
        directory = self.path.parent
        if not directory.is_dir():
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(_DIRECTORY_MODE)  # whatever the umask is
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # The dispatcher ignores names that begin with a dot. The name is fixed: a file there was left by a kill.
            temporary = f".{self.path.name}.new"
            replace_at(descriptor, self.path.name, self._text.encode(), temporary=temporary, mode=_MODE)
        finally:
            os.close(descriptor)

    def _log_replacement(self, found: _RegistrationContent | None) -> None:
        if self._written:
            self.rewritten += 1
            text = "Registration is gone, written again" if found is None else "Registration was changed, written again"
            self._limited.log(logging.WARNING, text, file=str(self.path))
        elif found is not None and not self._is_ours(found):
            _log.warning("Replacing a registration file of another hook server", extra={"kv": {"file": str(self.path)}})

    def _log_problem(self, reason: str) -> None:
        """Told when it begins, and again when it is another problem."""
        problem = f"file {self.path}: {reason}"
        if problem != self.problem:
            _log.error(
                "Failed to maintain the registration file", extra={"kv": {"file": str(self.path), "err": reason}}
            )
        self.problem = problem
