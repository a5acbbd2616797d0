"""File permissions that bind the superuser, too, so that the same tests run whoever starts them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Generator
from contextlib import contextmanager

_VERSION_3 = 0x20080522
_DAC_OVERRIDE, _DAC_READ_SEARCH = 1 << 1, 1 << 2


@contextmanager
def ordinary_rights() -> Generator[None]:
    """In this thread the superuser may open only what its permissions allow."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice 32 bits
    _call(libc.capget(header, sets))
    before = sets[0]
    sets[0] = before & ~(_DAC_OVERRIDE | _DAC_READ_SEARCH)
    _call(libc.capset(header, sets))
    try:
        yield
    finally:
        sets[0] = before
        _call(libc.capset(header, sets))


def _call(status: int) -> None:
    if status:
        raise OSError(ctypes.get_errno(), "capabilities cannot be changed")
