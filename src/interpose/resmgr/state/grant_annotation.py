"""The note a container carries about what it was granted: an annotation in its create request.

It lives as long as the container, in the runtime, so a restart that finds no state file still knows the grants.
Variables and command are not in it: the container has them. A note that is damaged, of another version or of another
program counts as none; reading never fails. Pure.
"""

import json
from dataclasses import replace
from typing import Any, Final, NamedTuple

from interpose.core.model.resources import empty_map
from interpose.core.policy.decision import Grant
from interpose.core.policy.request import Amounts, Request
from interpose.resmgr.state.codec import (
    Fields,
    amounts_from_plain,
    amounts_to_plain,
    grant_from_plain,
    grant_to_plain,
    number,
    text,
)

__all__ = [
    "ANNOTATION",
    "GrantNote",
    "amounts_from_plain",
    "amounts_to_plain",
    "grant_from_plain",
    "grant_note",
    "grant_to_plain",
    "read_note",
]

ANNOTATION: Final = "interpose/grant"
VERSION: Final = 1
MAX_NOTE: Final = 64 * 1024  # characters; the most scattered sets of CPUs and memory nodes there can be fit in


class GrantNote(NamedTuple):
    """The grant of a container, the policy that made it, and the amounts it was made for."""

    policy: str
    grant: Grant
    amounts: Amounts


def grant_note(policy: str, request: Request, grant: Grant) -> str:
    """The annotation of a container that is granted this."""
    plain: dict[str, Any] = {
        **grant_to_plain(replace(grant, envs=empty_map(), command=None)),
        "version": VERSION,
        "policy": policy,
        "amounts": amounts_to_plain(request.amounts),
    }
    return json.dumps(plain, separators=(",", ":"), sort_keys=True)


def read_note(note: str) -> GrantNote | None:
    """Read the annotation of a container; None if it cannot be read."""
    if len(note) > MAX_NOTE:
        return None
    try:
        plain = json.loads(note)
        fields = Fields(plain, "note")
        if fields.get("version", number) != VERSION:
            return None
        found = grant_from_plain(plain, "note")
        return GrantNote(
            policy=fields.get("policy", text),
            grant=replace(found, envs=empty_map(), command=None),
            amounts=fields.get("amounts", amounts_from_plain),
        )
    except (ValueError, RecursionError):
        return None
