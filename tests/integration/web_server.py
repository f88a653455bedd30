# SPDX-License-Identifier: Apache-2.0
"""A web server that does what a test asks of it: serves a directory in byte ranges, and fails,
delays, lies and changes as told.
"""

from __future__ import annotations

import contextlib
import email.utils
import hashlib
import html
import json
import os
import random
import socket
import struct
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO

from network import Network


@dataclass
class Request:
    """What a rule gets to see."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    number: int  # of all requests, from 1 on
    handler: Handler

    @property
    def range(self) -> tuple[int, int] | None:
        """First and last byte; None without the header."""
        text = self.headers.get("range", "")
        if not text.startswith("bytes="):
            return None
        first, last = text[6:].split("-")
        return int(first), int(last)


# Answers a request itself and returns True, or leaves it to the server.
Rule = Callable[[Request], bool]


@dataclass
class Server:
    """A server that runs; the fields may be changed at any time."""

    root: Path
    rules: list[Rule] = field(default_factory=list)
    delay: float = 0.0  # seconds before each answer
    html: bool = False
    etags: str = "strong"  # or "weak" or "none"
    last_modified: bool = True
    conditions: bool = True  # If-Match and If-Unmodified-Since are heeded
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    bytes_sent: int = 0
    in_flight: int = 0
    lonely: int = 0  # requests that came while no other was under way

    def counts(self) -> Counter[str]:
        """Requests by method."""
        return Counter(request.method for request in self.requests)

    def ranges(self, name: str) -> list[tuple[int, int]]:
        """That were asked for of files whose path ends with a name."""
        return [request.range for request in self.requests
                if request.range and request.path.endswith(name)]


def etag_of(found: os.stat_result) -> str:
    text = f"{found.st_ino}-{found.st_mtime_ns}-{found.st_ctime_ns}-{found.st_size}"
    return hashlib.md5(text.encode()).hexdigest()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: WebServer

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, *_: object) -> None:
        pass

    def reset(self) -> None:
        """Ends the connection with a reset."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None,
               length: int | None = None) -> None:
        self.send_response_only(status)
        sent = {"Content-Length": str(len(body) if length is None else length), **(headers or {})}
        for name, value in sent.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
            with self.server.told.lock:
                self.server.told.bytes_sent += len(body)

    def do_GET(self) -> None:
        told = self.server.told
        parts = urllib.parse.urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        with told.lock:
            request = Request(self.command, urllib.parse.unquote(parts.path), parts.query, headers,
                              len(told.requests) + 1, self)
            told.requests.append(request)
            told.lonely += told.in_flight == 0
            told.in_flight += 1
        try:
            self.respond(request)
        finally:
            with told.lock:
                told.in_flight -= 1

    def respond(self, request: Request) -> None:
        told = self.server.told
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if told.delay:
                time.sleep(told.delay)
            if not any(rule(request) for rule in list(told.rules)):
                self.serve(request)

    do_HEAD = do_GET

    def serve(self, request: Request) -> None:
        told = self.server.told
        path = told.root / request.path.lstrip("/")
        if path.is_dir():
            if not request.path.endswith("/"):
                return self.answer(301, headers={"Location": self.path + "/"})
            return self.list(path)
        if not path.is_file() or request.path.endswith("/"):
            return self.answer(404, b"not here")
        # Opened once: a file that takes the name meanwhile must not be sent under this one's tag.
        with path.open("rb") as file:
            self.serve_file(request, file)

    def serve_file(self, request: Request, file: BinaryIO) -> None:
        told = self.server.told
        found = os.fstat(file.fileno())
        size = found.st_size
        tag = etag_of(found)
        etag = {"strong": f'"{tag}"', "weak": f'W/"{tag}"', "none": ""}[told.etags]
        date = email.utils.formatdate(found.st_mtime, usegmt=True)
        headers = {"ETag": etag, "Accept-Ranges": "bytes",
                   "Last-Modified": date if told.last_modified else ""}
        conditions = request.headers if told.conditions else {}
        wanted = conditions.get("if-match")
        if wanted is not None and wanted != etag:
            return self.answer(412)
        since = conditions.get("if-unmodified-since")
        if since is not None and since != date:
            return self.answer(412)
        if request.range is None:
            return self.answer(200, file.read(), headers)
        first, last = request.range
        if first >= size:
            return self.answer(416, headers={"Content-Range": f"bytes */{size}"})
        last = min(last, size - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        self.answer(206, b"", headers, length=last + 1 - first)
        if self.command != "HEAD":
            self.connection.sendfile(file, first, last + 1 - first)
            with told.lock:
                told.bytes_sent += last + 1 - first

    def list(self, path: Path) -> None:
        entries = sorted(path.iterdir())
        if self.server.told.html:
            rows = "".join(
                f'<a href="{urllib.parse.quote(e.name)}{"/" if e.is_dir() else ""}">'
                f"{html.escape(e.name)}</a>\n" for e in entries)
            page = f'<html><a href="?C=N">Name</a><a href="../">up</a><hr>{rows}</html>'
            return self.answer(200, page.encode(), {"Content-Type": "text/html"})
        listing = [{"name": e.name, "type": "directory" if e.is_dir() else "file"} for e in entries]
        return self.answer(200, json.dumps(listing).encode(), {"Content-Type": "application/json"})


class WebServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, told: Server, address: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__((address, port), Handler)
        self.told = told

    def handle_error(self, *_: object) -> None:
        pass  # a connection that the other side has ended


@contextlib.contextmanager
def serving(root: Path, behind: Network | None = None, port: int = 0,
            **fields: object) -> Iterator[Server]:
    """Serves a directory on a port of its own, of this machine or behind a link.
    @param port: of this machine; 0: any that is free."""
    told = Server(root, **fields)  # type: ignore[arg-type]
    server = (WebServer(told, port=port) if behind is None else
              behind.inside(lambda: WebServer(told, behind.address)))
    told.url = "http://{}:{}".format(*server.server_address)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# --- rules ------------------------------------------------------------------------------------


def sometimes(share: float, rule: Rule, seed: int = 1) -> Rule:
    """A rule for a share of the requests, the same ones in each run."""
    numbers = random.Random(seed)
    lock = threading.Lock()

    def chosen(request: Request) -> bool:
        with lock:
            hit = numbers.random() < share
        return hit and rule(request)

    return chosen


def of_ranges(rule: Rule) -> Rule:
    """A rule for requests of byte ranges alone."""
    return lambda request: request.range is not None and rule(request)


def status(number: int, headers: dict[str, str] | None = None) -> Rule:
    def answer(request: Request) -> bool:
        request.handler.answer(number, b"no", headers)
        return True

    return answer


def reset(request: Request) -> bool:
    request.handler.reset()
    return True


def cut(request: Request) -> bool:
    """A body that ends before its length."""
    handler = request.handler
    assert request.range is not None
    first, last = request.range
    path = handler.server.told.root / request.path.lstrip("/")
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        whole = file.read()
    size = len(whole)
    last = min(last, size - 1)
    part = whole[first:last + 1]
    handler.answer(206, part[:len(part) // 2],
                   {"Content-Range": f"bytes {first}-{last}/{size}", "ETag": f'"{etag_of(found)}"'},
                   length=len(part))
    handler.close_connection = True
    return True


def late(seconds: float) -> Rule:
    def wait(_: Request) -> bool:
        time.sleep(seconds)
        return False

    return wait
