"""Python starts with this: an address that is not this machine's is written down, and refused.

It stands on PYTHONPATH while the bridges are checked, in every process that they start. A
program that is no Python, or one that ignores its environment, is not seen: for those
there is the network of their own in which scripts/check_bridges.py runs them.
"""

import os
import sys
from typing import Any

HERE = ("127.", "::1", "localhost", "0.0.0.0", "::", "")


# event -> where the host stands among its arguments: in an address, or by itself
ADDRESSED = {"connect": 1, "sendto": 1, "sendmsg": 1, "getnameinfo": 0}
NAMED = ("getaddrinfo", "gethostbyname", "gethostbyaddr")


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    kind, _, call = event.partition(".")
    if kind != "socket":
        return
    if call in ADDRESSED:
        address = arguments[ADDRESSED[call]]
        if not isinstance(address, tuple):  # a socket in the file system, or none
            return
        host = address[0] or ""
    elif call in NAMED:
        host = arguments[0] or ""
    else:
        return
    host = host.decode() if isinstance(host, bytes) else str(host)
    if host.startswith("127.") or host in HERE or host in OWN_NAMES:
        return
    with open(os.environ["OUTSIDE"], "a", encoding="utf-8") as log:
        log.write(f"{event} {host}\n")
    raise OSError(f"the check allows no outside address: {host}")


if "OUTSIDE" in os.environ:
    OWN_NAMES = set(filter(None, os.environ.get("OWN_NAMES", "").split()))
    sys.addaudithook(watch)
