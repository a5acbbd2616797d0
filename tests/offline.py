"""No test leaves this machine: whoever connects, or looks up a name, elsewhere than here fails at once."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from typing import Any

import pytest

_METHODS = ("connect", "connect_ex", "sendto", "sendmsg")
_LOOKUPS = ("getaddrinfo", "gethostbyname", "gethostbyname_ex")


class Offline:
    """What was tried. A test that swallowed the failure is failed afterwards."""

    def __init__(self) -> None:
        self.attempts: list[str] = []
        self.on = True

    def install(self) -> None:
        for name in _METHODS:
            setattr(socket.socket, name, self._guarded(name, getattr(socket.socket, name)))
        for name in _LOOKUPS:
            setattr(socket, name, self._guarded(name, getattr(socket, name)))

    def _guarded(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*given: Any, **more: Any) -> Any:
            place = _place(name, given, more)
            if self.on and not _is_here(place, lookup=name in _LOOKUPS):
                self.attempts.append(f"{name} {place!r}")
                # Not an `Exception`: nothing that handles failing connections can take it for one.
                pytest.fail(f"a test reached for the network: {self.attempts[-1]}")
            return call(*given, **more)

        return guarded


def _place(name: str, given: tuple[Any, ...], more: dict[str, Any]) -> Any:
    """The host that a call names; None: it names none."""
    if name in _LOOKUPS:
        return given[0] if given else more.get("host")
    if name == "sendmsg":
        address = given[4] if len(given) > 4 else None
    elif name == "sendto":
        address = given[-1]
    else:
        address = given[1]
    return address[0] if isinstance(address, tuple) else None  # a name in the file system is here


def _is_here(host: Any, *, lookup: bool) -> bool:
    text = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    if text is None or text in ("", "localhost"):
        return True
    try:
        address = ipaddress.ip_address(str(text).partition("%")[0])
    except ValueError:
        return False
    return lookup or address.is_loopback  # an address is looked up without asking anybody


offline = Offline()
