"""Keeps parts of libraries out of a relay that they would load and a relay never uses.

OpenSSL costs 5 MB, and a relay speaks over local sockets only. asyncio and hashlib are made for a Python without it.
uvloop is not: it takes nine names of the module `ssl` when it is imported, to compare with them where a caller asks for
TLS. It gets a module that has only those. Whoever imports `ssl` afterwards gets the real one; an event loop that is
asked for TLS refuses.

protobuf's message classes in Python cost 1.3 MB, and are there for machines where it has none in C.
"""

import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final, NoReturn

from interpose.cli.common.deferred_module import DeferredModule, defer

_ERRORS: Final = ("SSLError", "SSLWantReadError", "SSLSyscallError", "SSLZeroReturnError", "CertificateError")
_NUMBERS: Final = ("SSL_ERROR_WANT_READ", "SSL_ERROR_WANT_WRITE", "SSL_ERROR_SYSCALL")
# Modules that have what hashlib takes from OpenSSL otherwise, until Python 3.11 and since.
_OWN_HASHES: Final = (("_md5",), ("_sha1",), ("_sha256", "_sha2"), ("_sha512", "_sha2"), ("_sha3",), ("_blake2",))
_PYTHON_MESSAGES: Final = "google.protobuf.internal.python_message"


def leave_out_openssl() -> None:
    """Load asyncio and uvloop without OpenSSL. Does nothing if either asyncio or `ssl` is loaded by now, or if this
    Python has its hashes from OpenSSL alone, as that of some distributions."""
    if "asyncio" in sys.modules or "ssl" in sys.modules or not _has_own_hashes():
        return
    # None: `import` answers that there is no such module.
    sys.modules["_hashlib"] = None  # type: ignore[assignment]
    sys.modules["ssl"] = None  # type: ignore[assignment]
    try:
        import asyncio  # noqa: F401

        sys.modules["ssl"] = _ssl_of_uvloop()
        import uvloop  # noqa: F401
    finally:
        del sys.modules["ssl"]


def _has_own_hashes() -> bool:
    return all(any(find_spec(module) is not None for module in either) for either in _OWN_HASHES)


def leave_out_python_messages() -> None:
    """Call it before protobuf is imported. If something wants these classes after all, they are loaded then."""
    defer(_PYTHON_MESSAGES)


def _ssl_of_uvloop() -> ModuleType:
    """The module `ssl` as uvloop sees it. Another version may ask for more, and gets that from the real one."""
    module = DeferredModule("ssl")
    names: dict[str, Any] = {name: type(name, (OSError,), {}) for name in _ERRORS}
    names |= dict.fromkeys(_NUMBERS, -1)
    names |= {"SSLContext": type("SSLContext", (), {}), "MemoryBIO": _refuse, "create_default_context": _refuse}
    for name, value in names.items():
        setattr(module, name, value)
    return module


def _refuse(*_: object) -> NoReturn:
    raise RuntimeError("This event loop was loaded without TLS")
