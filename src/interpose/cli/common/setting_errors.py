"""Errors of the system with the name of the setting that caused them."""

from collections.abc import Iterator
from contextlib import contextmanager

from interpose.errors import ConfigError, SocketInUseError


@contextmanager
def name_setting_in_errors(**paths: str) -> Iterator[None]:
    """Errors inside name the setting: `about_setting(admin_listen=path)` is about --admin-listen.

    Of several settings it is the one whose path the error is about; if it is about none of them it stays as it is.
    """
    try:
        yield
    except ConfigError as error:
        flag = _flag(paths, error)
        raise ConfigError([f"{flag}{problem}" for problem in error.problems]) from error
    except SocketInUseError as error:
        error.args = (f"{_flag(paths, error)}{error}",)
        raise
    except OSError as error:
        if error.strerror is None:
            raise OSError(f"{_flag(paths, error)}{error}") from error
        file = "" if error.filename is None else f"{error.filename}: "
        raise OSError(error.errno, f"{_flag(paths, error)}{file}{error.strerror}") from error


def _flag(paths: dict[str, str], error: Exception) -> str:
    names = list(paths) if len(paths) == 1 else [name for name, path in paths.items() if path in str(error)]
    return "".join(f"--{name.replace('_', '-')}: " for name in names[:1])
