"""The names of gRPC's status codes. Pure: a table and a look-up that knows an answer for every number."""

from typing import Final

# The place in the list is the number.
NAMES: Final = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)


def code_name(code: int) -> str:
    """`INTERNAL` for 13; a number that has no name gives `CODE_99`."""
    return NAMES[code] if 0 <= code < len(NAMES) else f"CODE_{code}"
