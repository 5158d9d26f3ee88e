"""The note in a pod's folder of how its manager last saw it: why its containers wait, for whoever looks later, also
when no manager is there any more. Blocking: call from a thread."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

from interpose.host.atomic_file import replace_file
from interpose.node.pods.status.summary import LastStatus, from_document, to_document

_NAME: Final = "status"
_LARGEST: Final = 1 << 20


def read_last_status(folder: str) -> LastStatus | None:
    """What is noted in a pod's folder; None if nothing is, or nothing that can be understood."""
    try:
        with Path(folder, _NAME).open("rb") as file:
            return from_document(json.loads(file.read(_LARGEST)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def write_last_status(folder: str, status: LastStatus) -> None:
    """Note it, unless it is what was noted before. The caller has the pod's lock. OSError if it cannot be written."""
    known = read_last_status(folder)
    if known is None or replace(status, since=known.since) != known:
        replace_file(f"{folder}/{_NAME}", json.dumps(to_document(status)).encode(), mode=0o600)
