"""Run one attack of the table from some connections, each of which comes back when it was cut.

`python -m tests.support.hostile.attackrun SOCKET NAME CONNECTIONS SECONDS` prints what happened as JSON.
"""

import json
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.hostile.attacks import ATTACKS, AttackRow
from tests.support.hostile.peer import CutError, HostilePeer, SpentError

# Nobody gains by coming back faster, and a proxy that refuses at once would be asked thousands of times.
_PAUSE = 0.01


@dataclass(kw_only=True)
class AttackOutcome:
    """What became of an attack."""

    connections: int = 0
    cut: int = 0
    sent: int = 0


class AttackRun:
    """Connections that run the same attack side by side until the time is up."""

    def __init__(self, row: AttackRow, path: Path, *, connections: int, seconds: float) -> None:
        self.outcome = AttackOutcome()
        self._row = row
        self._path = path
        self._until = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, name=row.name) for _ in range(connections)]

    def run(self) -> AttackOutcome:
        """Begin, and wait for the end."""
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()
        return self.outcome

    def _run(self) -> None:
        while time.monotonic() < self._until:
            self._once()
            time.sleep(_PAUSE)

    def _once(self) -> None:
        sent, cut = 0, False
        try:
            with HostilePeer(self._path, until=self._until) as peer:
                try:
                    self._row.attack(peer)
                finally:
                    sent = peer.sent
        except CutError:
            cut = True
        except SpentError:
            pass
        with self._lock:
            self.outcome.connections += 1
            self.outcome.cut += cut
            self.outcome.sent += sent


def row_of(name: str) -> AttackRow:
    """The attack of this name."""
    for row in ATTACKS:
        if row.name == name:
            return row
    raise SystemExit(f"no attack {name}; there are {', '.join(row.name for row in ATTACKS)}")


if __name__ == "__main__":
    _, socket_path, chosen, count, length = sys.argv
    attack_run = AttackRun(row_of(chosen), Path(socket_path), connections=int(count), seconds=float(length))
    print(json.dumps(asdict(attack_run.run())))
