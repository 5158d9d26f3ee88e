"""Take away the places where something was mounted, and nothing behind them."""

import errno
import os


def remove_empty(path: str) -> None:
    """Remove a folder of folders whose leaves are empty. What holds anything stays, and is an OSError.

    For places where something was mounted: the kernel refuses to remove what still is, so nothing behind it can be hit.
    """
    try:
        entries = list(os.scandir(path))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            remove_empty(entry.path)
        elif entry.stat(follow_symlinks=False).st_size:
            raise OSError(errno.EBUSY, "is not the empty file that was made as a place to mount", entry.path)
        else:
            os.unlink(entry.path)  # noqa: PTH108
    os.rmdir(path)  # noqa: PTH106
