"""Calls of a recording that are found by its indexes: one of a million without reading the others.

They come as they would if everything were read: in the order in which they ended; those that never did come behind the
others of their relay process.
"""

from collections.abc import Callable, Iterator
from typing import Final

from interpose.dump.model.call import Flow
from interpose.dump.model.subject import Subjects
from interpose.dump.recording.reader import Entry, Recording

# More are faster to get by reading everything once, and would be too many to hold.
MOST: Final = 100


def found(recording: Recording, wanted: Callable[[int], bool], last: int | None = None) -> Iterator[Flow] | None:
    """The calls with the numbers that are wanted, the last ones of them.

    None if that is better done by reading everything, or an index leads nowhere.
    """
    if all(file.rows() is None for file in reversed(recording.files)):
        return None
    subjects = Subjects()
    entries = [one for one in recording.entries(subjects.identify, subjects.learn) if wanted(one.number)]
    if (len(entries) if last is None else last) > MOST:
        return None
    runs = _runs(recording)
    entries.sort(key=lambda entry: _order(entry, runs))
    chosen = entries if last is None else entries[-last:]
    # Who wrote the index knew best whom a call is about.
    flows = [recording.flow(entry, None if entry.subject else subjects.identify) for entry in chosen]
    return None if None in flows else (flow for flow in flows if flow is not None)


def _order(entry: Entry, runs: list[int]) -> tuple[int, bool, int, int]:
    """What calls are sorted by. Those that have no end keep the order in which they began."""
    place = entry.places[-1]
    over = entry.code is not None
    return runs[place.file], not over, place.file if over else 0, place.end


def _runs(recording: Recording) -> list[int]:
    """For each file a number that grows with each change of the relay process."""
    runs: list[int] = []
    for index, file in enumerate(recording.files):
        changed = index > 0 and file.session != recording.files[index - 1].session
        runs.append(runs[-1] + changed if runs else 0)
    return runs
