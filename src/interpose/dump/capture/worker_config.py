"""The configuration of the dump worker: one value that the relay passes on as JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
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
        """The configuration as JSON, for `read_config`."""
        return json.dumps(asdict(self))


def read_config(text: str) -> WorkerConfig:
    """The configuration that `WorkerConfig.text` wrote."""
    values: Mapping[str, Any] = json.loads(text)
    return WorkerConfig(**{**values, "rules": tuple(values["rules"])})
