"""What every test shares: how hard the property tests try, that a run can be interrupted, and who left something open.

`fast` is the default: few examples and always the same ones, so that a run says the same twice. The nightly run sets
HYPOTHESIS_PROFILE=deep.
"""

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

import interpose.testing  # noqa: F401 - before anybody imports grpc

# A shell ignores SIGINT for what it runs in the background, and Python leaves it so.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("fast", max_examples=50, derandomize=True, deadline=None, database=None)
settings.register_profile(
    "deep", max_examples=1000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


@pytest.fixture(autouse=True, scope="module")
def _nothing_left_open() -> Iterator[None]:
    """A socket or transport that a module leaves open fails a test of this module, not one that happens to run when the
    garbage collector finds it."""
    yield
    gc.collect()
