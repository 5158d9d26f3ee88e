"""What the dump worker is told survives the way."""

from interpose.dump.capture.worker_config import WorkerConfig, read_config


def test_orders_are_read_as_they_were_written() -> None:
    """Every field, with text of any kind."""
    config = WorkerConfig(
        rules=("reset,full:.*", "off:Version"), file='/a "b"/ü', log=False, record="/r", redact="strict"
    )
    assert read_config(config.text()) == config
