"""What the scribe is told survives the way."""

from interpose.dump.capture.worker_config import Orders, read_orders


def test_orders_are_read_as_they_were_written() -> None:
    """Every field, with text of any kind."""
    orders = Orders(rules=("reset,full:.*", "off:Version"), file='/a "b"/ü', log=False, record="/r", redact="strict")
    assert read_orders(orders.text()) == orders
