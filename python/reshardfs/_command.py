# SPDX-License-Identifier: Apache-2.0
"""Running the command `reshardfs`."""

from __future__ import annotations

import json
import numbers
import os
import selectors
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ._arguments import is_bool
from ._errors import Error, WrongType, of_message
from ._words import in_python

_BESIDE = Path(__file__).parent / "bin" / "reshardfs"
# So long a command that was interrupted may take to end by itself.
_GRACE_SECONDS = 0.1
_INTERVAL_SECONDS = 0.02
# Options that are one list, with commas between its items.
_LISTS = {"ranks", "stage_layers"}


def program() -> str:
    """The command: that of the package, or else the one on the PATH.

    Raises Error if there is none."""
    if os.access(_BESIDE, os.X_OK):
        return str(_BESIDE)
    found = shutil.which("reshardfs")
    if found is None:
        raise Error("there is no command 'reshardfs' on the PATH; install the package reshardfs",
                    "missing", hint="install the package reshardfs")
    return found


def checked(word: str) -> str:
    """As a command line can have it."""
    if "\0" in word:
        raise ValueError("embedded null byte")
    return word


def words_of(options: Mapping[str, Any]) -> list[str]:
    """Options of a command line, from names with '_' for '-'. None and False: not given; True: a flag; a
    list: given several times, save that ranks and stage_layers are one list."""
    words = []
    for name, value in options.items():
        key = "--" + name.replace("_", "-")
        if value is None or (is_bool(value) and not value):
            continue
        if is_bool(value):
            words.append(key)
        elif isinstance(value, (list, tuple, range, set, frozenset)):
            texts = [_word_of(name, item) for item in value]
            words += [f"{key}={','.join(texts)}"] if name in _LISTS else [f"{key}={text}" for text in texts]
        else:
            words.append(f"{key}={_word_of(name, value)}")
    return [checked(word) for word in words]


def _word_of(name: str, value: Any) -> str:
    if isinstance(value, numbers.Real):
        return str(value)
    if isinstance(value, (str, bytes, os.PathLike)):
        return os.fsdecode(value)
    raise WrongType(f"the option '{name}' is text, a number, a path or a list of these, not "
                    + type(value).__name__)


class _Run:
    """A command that runs. Its messages come through a descriptor of their own."""

    def __init__(self, words: Sequence[str], listen: Callable[[Mapping[str, Any]], None]) -> None:
        self._listen = listen
        self.error: Mapping[str, Any] | None = None
        self._texts = {"out": bytearray(), "err": bytearray(), "messages": bytearray()}
        messages, theirs = os.pipe()
        try:
            self._process = subprocess.Popen(
                [program(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                pass_fds=(theirs,), env={**os.environ, "RESHARDFS_MESSAGES": str(theirs)})
        except BaseException:
            os.close(messages)
            raise
        finally:
            os.close(theirs)
        assert self._process.stdout is not None and self._process.stderr is not None
        self._ends = {"out": self._process.stdout.fileno(), "err": self._process.stderr.fileno(),
                      "messages": messages}
        self._messages = messages

    def wait(self) -> int:
        """Until it has ended: what it left in the background may keep its pipes open."""
        try:
            with selectors.DefaultSelector() as selector:
                for name, end in self._ends.items():
                    os.set_blocking(end, False)
                    selector.register(end, selectors.EVENT_READ, name)
                code = None
                while code is None:
                    code = self._process.poll()
                    # Once more after its end: what it wrote last is in the pipes.
                    ready = selector.select(0 if code is not None else _INTERVAL_SECONDS)
                    for key, _ in ready:
                        if not self._take(key.data, key.fd):
                            selector.unregister(key.fd)
                return code
        except BaseException:
            self._end()
            raise
        finally:
            os.close(self._messages)
            for stream in (self._process.stdout, self._process.stderr):
                assert stream is not None
                stream.close()

    @property
    def out(self) -> bytes:
        return bytes(self._texts["out"])

    @property
    def complaint(self) -> str:
        text = self._texts["err"].decode(errors="replace").strip()
        return text.removeprefix("reshardfs: ")

    def _take(self, name: str, end: int) -> bool:
        """Takes all that is there. False: there will be no more."""
        text = self._texts[name]
        while True:
            try:
                part = os.read(end, 1 << 16)
            except BlockingIOError:
                part = None
            if not part:
                break
            text += part
        if name == "messages":
            *lines, rest = bytes(text).split(b"\n")
            text[:] = rest
            for line in lines:
                self._hear(json.loads(line))
        return part is None

    def _hear(self, message: Mapping[str, Any]) -> None:
        if "error" in message:
            self.error = message["error"]
        if "progress" in message:
            self._listen(message["progress"])

    def _end(self) -> None:
        """As Ctrl-C ends it; a command that does not hear is ended for it, and waited for elsewhere."""
        if self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            threading.Thread(target=self._process.wait, daemon=True).start()


def run(words: Sequence[str], listen: Callable[[Mapping[str, Any]], None] = lambda message: None,
        good: tuple[int, ...] = (0,)) -> tuple[int, bytes]:
    """Runs the command to its end: its exit code, and what it printed.

    Raises Error with its words for any other exit code than the good ones."""
    running = _Run(words, listen)
    code = running.wait()
    if code in good:
        return code, running.out
    if running.error is not None:
        raise of_message(running.error)
    if code < 0:
        raise Error(f"the command was ended by signal {-code}", "internal")
    kind = "bad input" if code == 2 else "io"
    raise Error(in_python(running.complaint) or f"the command ended with exit code {code}", kind)


def run_json(words: Sequence[str], good: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """What the command prints as JSON."""
    printed: dict[str, Any] = json.loads(run([words[0], "--json", *words[1:]], good=good)[1])
    return printed
