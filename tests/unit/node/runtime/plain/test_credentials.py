"""Capabilities as bits."""

import pytest

from interpose.node.runtime.plain.credentials import mask


@pytest.mark.parametrize(
    ("names", "bits"),
    [
        (["CAP_CHOWN"], 1),
        (["CAP_NET_BIND_SERVICE", "KILL"], 1 << 10 | 1 << 5),
        (["CAP_CHECKPOINT_RESTORE"], 1 << 40),
        (["CAP_OF_TOMORROW"], 0),
        (None, 0),
    ],
)
def test_capabilities_have_the_kernels_numbers(names: list[str] | None, bits: int) -> None:
    """Names we do not know are left out: nobody gets more than was asked for."""
    assert mask(names) == bits
