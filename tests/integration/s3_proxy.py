# SPDX-License-Identifier: Apache-2.0
"""Stands between a program and an S3 server, passes on what it is given, and makes it fail."""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECONDS = 60


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def is_part(self) -> bool:
        return self.method == "PUT" and "partNumber=" in self.path

    @property
    def is_completion(self) -> bool:
        return self.method == "POST" and "uploadId=" in self.path


@dataclass
class Answer:
    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""


class Dropped(Exception):
    """The connection is closed without an answer."""


Pass = Callable[[Request], Answer]
# Given a request, and what passes it on. May raise Dropped.
Fault = Callable[[Request, Pass], Answer]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are written apart
    server: Proxy

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = Request(self.command, self.path, dict(self.headers.items()), body)
        try:
            answer = self.server.fault(request, self.server.pass_on)
        except Dropped:
            self.close_connection = True
            return
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        length = dict(answer.headers).get("Content-Length") if self.command == "HEAD" else None
        self.send_header("Content-Length", length or str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

    def log_message(self, *_: object) -> None:
        """Says nothing."""


class Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, upstream: str, fault: Fault) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.upstream = upstream.removeprefix("http://")
        self.fault = fault

    def pass_on(self, request: Request) -> Answer:
        # With the Host header that was signed.
        connection = http.client.HTTPConnection(self.upstream, timeout=SECONDS)
        with contextlib.closing(connection):
            connection.request(request.method, request.path, request.body or None, request.headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.getheaders(), answer.read())

    def handle_error(self, *_: object) -> None:
        """A program that was killed is no fault of the server."""


@contextlib.contextmanager
def proxy(upstream: str, fault: Fault) -> Iterator[str]:
    """@return its endpoint"""
    server = Proxy(upstream, fault)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
