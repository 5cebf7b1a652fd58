"""Python starts with this: an address that is not this machine's is written down, and refused.

It stands on PYTHONPATH while the bridges are checked, in every process that they start.
"""

import os
import sys
from typing import Any

HERE = ("127.", "::1", "localhost", "0.0.0.0", "::", "")


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect":
        address = arguments[1]
    elif event == "socket.getaddrinfo":
        address = arguments[:2]
    else:
        return
    if not isinstance(address, tuple):  # a socket in the file system
        return
    host = address[0] or ""
    host = host.decode() if isinstance(host, bytes) else str(host)
    if host.startswith("127.") or host in HERE or host in OWN_NAMES:
        return
    with open(os.environ["OUTSIDE"], "a", encoding="utf-8") as log:
        log.write(f"{event} {host}\n")
    raise OSError(f"the check allows no outside address: {host}")


if "OUTSIDE" in os.environ:
    OWN_NAMES = set(filter(None, os.environ.get("OWN_NAMES", "").split()))
    sys.addaudithook(watch)
