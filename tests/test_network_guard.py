"""The watch under which the bridges are checked: outside addresses are told and refused."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from tests.pages import ROOT

GUARD = ROOT / "checks" / "bridges" / "guard"


class Guard(unittest.TestCase):
    def run_watched(self, code: str) -> tuple[str, str]:
        """(what a watched Python prints, the outside addresses it asked for)."""
        with tempfile.TemporaryDirectory() as folder:
            outside = Path(folder, "outside")
            outside.touch()
            told = {"PYTHONPATH": str(GUARD), "OUTSIDE": str(outside)}
            done = subprocess.run(
                [sys.executable, "-c", f"import socket\n{code}"],
                env={**os.environ, **told},
                capture_output=True,
                text=True,
            )
            self.assertEqual(done.stderr, "")
            return done.stdout.strip(), outside.read_text(encoding="utf-8").strip()

    def test_a_name_is_not_even_looked_up(self):
        printed, outside = self.run_watched(
            "try: socket.getaddrinfo('hub.example', 443)\n"
            "except OSError as error: print(error)"
        )
        self.assertIn("allows no outside address: hub.example", printed)
        self.assertEqual(outside, "socket.getaddrinfo hub.example")

    def test_an_address_is_not_connected_to(self):
        printed, outside = self.run_watched(
            "try: socket.socket().connect(('192.0.2.1', 80))\n"
            "except OSError as error: print(error)"
        )
        self.assertIn("192.0.2.1", printed)
        self.assertEqual(outside, "socket.connect 192.0.2.1")

    def test_nor_by_any_other_call(self):
        for call, event in (
            ("socket.socket(type=socket.SOCK_DGRAM).sendto(b'', {})", "sendto"),
            (
                "socket.socket(type=socket.SOCK_DGRAM).sendmsg([b''], [], 0, {})",
                "sendmsg",
            ),
            ("socket.gethostbyname({}[0])", "gethostbyname"),
            ("socket.gethostbyaddr({}[0])", "gethostbyaddr"),
            ("socket.getnameinfo({}, 0)", "getnameinfo"),
        ):
            with self.subTest(event):
                asked = call.format("('192.0.2.1', 80)")
                printed, outside = self.run_watched(
                    f"try: {asked}\nexcept OSError as error: print(error)"
                )
                self.assertIn("allows no outside address: 192.0.2.1", printed)
                self.assertEqual(outside, f"socket.{event} 192.0.2.1")

    def test_a_child_is_watched_too(self):
        child = "import socket; socket.getaddrinfo('hub.example', 1)"
        _, outside = self.run_watched(
            "import subprocess, sys\n"
            f"subprocess.run([sys.executable, '-c', {child!r}], stderr=subprocess.DEVNULL)"
        )
        self.assertEqual(outside, "socket.getaddrinfo hub.example")

    def test_this_machine_may_talk_to_itself(self):
        printed, outside = self.run_watched(
            "server = socket.create_server(('127.0.0.1', 0))\n"
            "socket.create_connection(server.getsockname())\n"
            "print(socket.getaddrinfo('localhost', 1)[0][1] > 0)"
        )
        self.assertEqual((printed, outside), ("True", ""))


if __name__ == "__main__":
    unittest.main()
