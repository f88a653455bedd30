# SPDX-License-Identifier: Apache-2.0
"""A directory on a server, mounted with sshfs: a network file system whose server a test can restart. Its protocol
(SFTP) runs over plain TCP on the loopback device, so that no keys and no sshd are needed."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from mounted import COMMAND_SECONDS, is_mounted, wait_until

PROGRAM = Path("/usr/lib/openssh/sftp-server")


def why_not() -> str | None:
    if shutil.which("sshfs") is None:
        return "sshfs is not installed"
    return None if PROGRAM.exists() else "openssh-sftp-server is not installed"


class SftpServer:
    """Each connection has a process of its own, which knows the files that are open."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._acceptor: threading.Thread | None = None
        self.port = 0
        self.start()

    def start(self) -> None:
        listener = socket.create_server(("127.0.0.1", self.port), reuse_port=True)
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._acceptor = threading.Thread(target=self._accept, args=(listener,))
        self._acceptor.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, self._lock:
                self._processes.append(subprocess.Popen([str(PROGRAM)], stdin=connection, stdout=connection,
                                                        stderr=subprocess.DEVNULL))

    def stop(self) -> None:
        """As a machine that is switched off: connections end, and new ones are refused."""
        if self._listener is not None and self._acceptor is not None:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._acceptor.join(COMMAND_SECONDS)
            self._listener = self._acceptor = None
        with self._lock:
            for process in self._processes:
                process.kill()
                process.wait()
            self._processes.clear()


@contextlib.contextmanager
def sshfs(server: SftpServer, directory: Path, mountpoint: Path) -> Iterator[Path]:
    mountpoint.mkdir()
    with subprocess.Popen(["sshfs", "-f", "-o", f"directport={server.port},reconnect,dir_cache=no",
                           f"127.0.0.1:{directory}", str(mountpoint)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            assert wait_until(lambda: is_mounted(mountpoint), COMMAND_SECONDS), "sshfs has not mounted"
            yield mountpoint
        finally:
            subprocess.run(["umount", "-l", mountpoint], timeout=COMMAND_SECONDS, check=False)
            process.terminate()
