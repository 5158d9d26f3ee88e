"""Subnets for the pods of a test: two runs of the tests on one machine never have the same."""

import contextlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_subnet() -> Iterator[str]:
    """The first three numbers of a /24 (`10.231.7.`), this process's own inside of the block.

    The name of an abstract socket is the reservation: the kernel drops it with the process.
    """
    for number in range(256):
        subnet = f"10.231.{number}."
        with socket.socket(socket.AF_UNIX) as reservation:
            with contextlib.suppress(OSError):
                reservation.bind(f"\0interpose-test-subnet-{subnet}")
            if reservation.getsockname():
                yield subnet
                return
    raise RuntimeError("all subnets of 10.231.0.0/16 are reserved by tests that run")
