# SPDX-License-Identifier: Apache-2.0
"""nginx with a directory that it lists, over HTTP and over HTTPS with a certificate of the tests'
own. Where it is not installed, whoever asks for it is skipped.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import unittest
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from object_store import answers, end, free_port, until

PROGRAMS = ("nginx", "openssl")


@dataclass(frozen=True)
class Nginx:
    http: str  # URL without a slash at its end
    https: str
    authority: Path  # the certificate that the other one is signed with


def openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=60)


def make_certificates(directory: Path) -> None:
    """ca.pem, and srv.pem of this host that it has signed."""
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=testCA",
            "-keyout", directory / "ca.key", "-out", directory / "ca.pem")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost",
            "-keyout", directory / "srv.key", "-out", directory / "srv.csr")
    names = directory / "names"
    names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", directory / "srv.csr", "-CA", directory / "ca.pem",
            "-CAkey", directory / "ca.key", "-CAcreateserial", "-days", "30",
            "-out", directory / "srv.pem", "-extfile", names)


@contextlib.contextmanager
def nginx(root: Path, listing: str = "json") -> Iterator[Nginx]:
    """Serves a directory. @param listing: how directories are listed, "json" or "html"."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        raise unittest.SkipTest(f"not installed: {', '.join(missing)}")
    directory = Path(tempfile.mkdtemp(prefix="reshardfs-test-"))
    server: subprocess.Popen[bytes] | None = None
    try:
        make_certificates(directory)
        (directory / "tmp").mkdir()
        plain, secure = free_port(), free_port()
        places = "".join(f"{kind}_temp_path {directory}/tmp;\n" for kind in
                         ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (directory / "nginx.conf").write_text(f"""
user root; worker_processes 2; pid {directory}/nginx.pid; error_log {directory}/error.log;
daemon off;
events {{ worker_connections 512; }}
http {{
  access_log off; root {root}; default_type application/octet-stream;
  {places}
  sendfile on; keepalive_requests 100000; autoindex on; autoindex_format {listing};
  server {{
    listen 127.0.0.1:{plain}; listen 127.0.0.1:{secure} ssl; server_name localhost;
    ssl_certificate {directory}/srv.pem; ssl_certificate_key {directory}/srv.key;
    location /down/ {{ return 302 http://127.0.0.1:{plain}/set/; }}
  }}
}}
""")
        server = subprocess.Popen(
            ["nginx", "-c", str(directory / "nginx.conf"), "-e", str(directory / "error.log")],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        started = Nginx(f"http://127.0.0.1:{plain}", f"https://localhost:{secure}",
                        directory / "ca.pem")
        until(lambda: answers(started.http), what="nginx")
        yield started
    finally:
        if server is not None:
            end(server, 10)
        shutil.rmtree(directory, ignore_errors=True)
