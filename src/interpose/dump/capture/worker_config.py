"""What the scribe is to do, as the relay tells it: one value that travels as JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """Where dumps and recordings go. Empty: nowhere."""

    rules: tuple[str, ...] = ()  # of the dump
    file: str = ""  # for the dump
    empty_file: bool = True  # what is in it is gone
    log: bool = True  # the dump goes to the log, too
    log_format: str = "text"
    count_period: float = 60.0
    redact: str = "default"
    record: str = ""
    record_size: int = 64 << 20
    record_files: int = 4

    def text(self) -> str:
        """To be read by `read_orders`."""
        return json.dumps(asdict(self))


def read_orders(text: str) -> Orders:
    """The other side of `Orders.text`."""
    values: Mapping[str, Any] = json.loads(text)
    return Orders(**{**values, "rules": tuple(values["rules"])})
