"""What we may ask of the kernel."""

import os
import shutil
import subprocess
import sys

import pytest

from interpose.node.runtime.shim.syscalls import may_isolate
from tests.support.lab.processes import closed_to

NOBODY = 65534
ASK = "from interpose.node.runtime.shim.syscalls import may_isolate; print(may_isolate())"


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
def test_root_of_a_container_may_not_isolate() -> None:
    """Root without the capability for it is as good as anybody."""
    bound = ["setpriv", "--bounding-set=-sys_admin", sys.executable, "-c", ASK]

    assert subprocess.run(bound, capture_output=True, text=True, check=True).stdout == "False\n"


def test_others_may_not_isolate() -> None:
    """Whatever the machine."""
    if why := closed_to(NOBODY):
        pytest.skip(why)
    done = subprocess.run([sys.executable, "-c", ASK], user=NOBODY, capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


def test_it_is_known_of_this_process() -> None:
    """Without a file of ours: the kernel says it."""
    assert may_isolate() in (True, False)
