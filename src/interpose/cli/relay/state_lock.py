"""One relay at a time writes the state of policies: the lock on that file in the state directory.

A relay with a policy does not start while another one has it. One without a policy leaves the file of another that runs
alone. A successor gets the lock of its predecessor, so there is no moment without an owner.
"""

import errno
import logging
import os
from pathlib import Path

from interpose.cli.relay.policy_wanted import is_policy_configured, state_path
from interpose.config.relay.settings import PolicySettings
from interpose.host.atomic_file import replace_file
from interpose.host.file_lock import FileLock
from interpose.relay.restart.takeover import HeldLock

_log = logging.getLogger(__name__)


class StateLock:
    """The lock on the state file: free until `claim` or `inherit`, held from then to `release`."""

    def __init__(self, settings: PolicySettings) -> None:
        self._folder = Path(settings.state_dir)
        self._configured = is_policy_configured(settings)
        self._lock: FileLock | None = None
        self._released = False
        self.path = f"{state_path(settings)}.lock"

    def claim(self, *, patience: float = 2.0) -> bool:
        """Take it. False if another relay has it and this one has no policy; with a policy that is a BlockingIOError.

        A directory in which no lock can be made does not stop a relay: it cannot remember anything there either.
        """
        try:
            self._take(patience)
        except BlockingIOError as error:
            if self._configured:
                raise
            _log.info("State of a policy is left alone", extra={"kv": {"why": error.strerror}})
            return False
        except OSError as error:
            kv = {"setting": "policy.state_dir", "file": self.path, "err": str(error)}
            _log.error("State directory cannot be locked", extra={"kv": kv})
        return True

    def inherit(self, lock: HeldLock | None) -> bool:
        """Go on with the lock of a predecessor; else as `claim`. It is signed when the predecessor has left."""
        if lock is not None and lock.path == self.path:
            self._lock = FileLock(lock.descriptor)
            return True
        if lock is not None:
            os.close(lock.descriptor)
        return self.claim()

    def _take(self, patience: float) -> None:
        if self._lock is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = FileLock.take(Path(self.path), self._refusal, timeout=patience)

    def _refusal(self, owner: str) -> str:
        return f"policy.state_dir (--state-dir) {str(self._folder)!r}: in use by another relay (process {owner})"

    @property
    def held(self) -> HeldLock | None:
        """The lock to hand to a successor; None if it is not held."""
        return None if self._lock is None else HeldLock(self.path, self._lock.descriptor)

    def sign(self) -> None:
        """Write our process id into the file, for the messages of relays that are refused."""
        if self._lock is not None:
            self._lock.write_owner()

    def write(self, path: str, data: bytes) -> None:
        """As `replace_file`, and only with the lock: where it could not be made before, it is tried again."""
        if self._released:
            raise BlockingIOError(errno.EAGAIN, "the state is another relay's now", path)
        self._take(0)
        replace_file(path, data)

    def release(self) -> None:
        """Unlock the file, and refuse all later writes. May be repeated."""
        self._released = True
        if self._lock is not None:
            self._lock.release()
            self._lock = None
