"""The page on this machine only, for whoever has its address."""

import json
import secrets
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from opto.view import script_json

from ._page import page
from ._side import Side


_MOST_BYTES = 1_000_000  # Of a question.


class Server(ThreadingHTTPServer):
    """Answers on localhost; the address has a token, without which nothing is given."""

    daemon_threads = True

    def __init__(self, sides: Sequence[Side], port: int = 0):
        """**Arguments:** `port`: 0 takes a free one.

        **Raises:** `ValueError` if the port is taken.
        """
        self.sides = tuple(sides)
        self.token = secrets.token_urlsafe(16)
        self.page = page(self.sides).encode()
        self.lock = threading.Lock()  # One answer after the other.
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise ValueError(f"port {port}: {error.strerror}") from None

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://127.0.0.1:{self.server_address[1]}/?token={self.token}"

    def answer(self, message: Any) -> dict[str, Any]:
        """The answer to a question of the page."""
        try:
            side = self.sides[int(message["side"])]
        except (IndexError, KeyError, TypeError, ValueError):
            return {"wrong": "a question names a side of the page"}
        with self.lock:
            return side.answer(message)


class _Handler(BaseHTTPRequestHandler):
    @property
    def ours(self) -> Server:
        return cast(Server, self.server)

    def do_GET(self) -> None:
        if self._allowed("/"):
            self._send(self.ours.page, "text/html; charset=utf-8")

    def do_POST(self) -> None:
        if not self._allowed("/answer"):
            return
        try:
            size = int(self.headers.get("Content-Length", ""))
            if not 0 <= size <= _MOST_BYTES:
                raise ValueError
            message = json.loads(self.rfile.read(size))
        except ValueError:
            self.send_error(400)
            return
        answer = script_json(self.ours.answer(message)).encode()
        self._send(answer, "application/json")

    def _allowed(self, path: str) -> bool:
        """Whether the question may be answered; a browser may send others' questions.

        A page of another site can reach this port under a name of its own, so the name
        of the host counts, too.
        """
        parts = urlsplit(self.path)
        port = self.ours.server_address[1]
        host = self.headers.get("Host", "")
        given = parse_qs(parts.query).get("token", [""])[0]
        known = secrets.compare_digest(given.encode(), self.ours.token.encode())
        if host not in (f"127.0.0.1:{port}", f"localhost:{port}") or not known:
            self.send_error(403, "open the whole address, with its token")
        elif parts.path != path:
            self.send_error(404)
        else:
            return True
        return False

    def _send(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Quiet: the terminal belongs to the user."""
