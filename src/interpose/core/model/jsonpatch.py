"""One operation of a JSON patch (RFC 6902), as it goes from the relay to the agent."""

from typing import NamedTuple


class PatchOperation(NamedTuple):
    """An operation at a path of a document; `value` is JSON text."""

    op: str
    path: str
    value: str = ""
