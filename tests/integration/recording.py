#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes docs/recording.svg, the terminal at the top of README.md, of what the commands print in a terminal:

    tests/integration/recording.py --binary build/release/bin/reshardfs >docs/recording.svg

The test `snippets` fails if the file is no longer what this prints. Lines appear one after the other, once; where
nothing moves, all are there."""

from __future__ import annotations

import argparse
import fcntl
import html
import os
import struct
import subprocess
import sys
import termios
import unittest

from mounted import parse_settings, scratch
from readme_sets import Sets
from shown_commands import COMMAND_SECONDS, Session

COMMANDS = (
    "ls zero3-run",
    "reshardfs mount zero3-run /mnt/m",
    "ls /mnt/m",
    "ls /mnt/m/hf",
    "reshardfs diff zero3-run /mnt/m/hf --exclude 'exp_avg*'",
    "reshardfs umount /mnt/m",
)
COLUMNS, ROWS = 80, 24
# Pixels.
CHARACTER, LINE, MARGIN, HEAD = 8.0, 21, 18, 34
# Seconds: to type a character, and between a command and what it prints, or what it printed and the next one.
TYPING, PAUSE = 0.035, 0.7
STYLE = """
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#1f2328;white-space:pre}
.page{fill:#f6f8fa;stroke:#d1d9e0}
.cover{fill:#f6f8fa}
.dot{fill:#c8d1da}
.sign{fill:#1a7f37;font-weight:600}
.command{font-weight:600}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}
.page{fill:#161b22;stroke:#3d444d}
.cover{fill:#161b22}
.dot{fill:#3d444d}
.sign{fill:#3fb950}
}
@keyframes appear{from{visibility:hidden}}
@keyframes typed{from{transform:none}}
.line{animation:appear 0s backwards}
.cover{transform-box:fill-box;transform-origin:100% 0;transform:scaleX(0);animation:typed 0s backwards}
@media (prefers-reduced-motion:reduce){.line,.cover{animation:none}}
"""


class Terminal(Session):
    """A session whose commands print to a terminal."""

    def outcome(self, placed: str, environment: dict[str, str]) -> tuple[int, str, str]:
        environment = {**environment, "QUOTING_STYLE": "literal", "TABSIZE": "0"}  # of ls, whatever the caller has
        ours, theirs = os.openpty()
        with os.fdopen(ours, "rb", buffering=0) as screen:
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", ROWS, COLUMNS, 0, 0))
            done = subprocess.run(["bash", "-c", placed], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
                                  cwd=self.directory, env=environment, check=False, timeout=COMMAND_SECONDS)
            os.write(theirs, b"\0")  # behind all that was printed, which a terminal keeps until it is read
            os.close(theirs)
            printed = b""
            while not printed.endswith(b"\0"):
                printed += screen.read(1 << 16)
        return done.returncode, printed[:-1].decode().replace("\r\n", "\n"), ""


def on_screen(printed: str) -> list[str]:
    """Lines as a terminal has them, which goes on in the next one where its width ends."""
    lines = [line.rstrip() for line in printed.splitlines()]
    return [line[at:at + COLUMNS] for line in lines for at in range(0, len(line), COLUMNS)]


def text_at(column: int, line: int, words: str, kind: str = "") -> str:
    """As wide as its characters in any font."""
    x, y = MARGIN + column * CHARACTER, HEAD + line * LINE + 15
    name = f' class="{kind}"' if kind else ""
    return (f'<text{name} x="{x:g}" y="{y}" textLength="{len(words) * CHARACTER:g}" xml:space="preserve">'
            f'{html.escape(words, quote=False)}</text>')


def drawn(shown: list[tuple[str, str]]) -> str:
    """The picture of (command, what it prints)."""
    parts, line, now = [], 0, PAUSE
    for command, printed in [*shown, ("", "")]:
        start, now = now, now + len(command) * TYPING
        parts += [f'<g class="line" style="animation-delay:{start:.2f}s">', text_at(0, line, "$", "sign")]
        x, y = MARGIN + 2 * CHARACTER, HEAD + line * LINE
        if command:  # what covers it goes away to the right
            parts += [text_at(2, line, command, "command"),
                      f'<rect class="cover" x="{x:g}" y="{y}" width="{len(command) * CHARACTER:g}" height="{LINE}" '
                      f'style="animation-delay:{start:.2f}s;animation-duration:{now - start:.2f}s;'
                      f'animation-timing-function:steps({len(command)})"/>']
        else:
            parts.append(f'<rect class="dot" x="{x:g}" y="{y + 3}" width="{CHARACTER:g}" height="16"/>')
        parts.append("</g>")
        line += 1
        if printed:
            now += PAUSE / 2
            parts.append(f'<g class="line" style="animation-delay:{now:.2f}s">')
            for words in on_screen(printed):
                parts.append(text_at(0, line, words))
                line += 1
            parts.append("</g>")
        now += PAUSE
    width, height = 2 * MARGIN + COLUMNS * CHARACTER, HEAD + line * LINE + MARGIN
    title = "reshardfs mounts what DeepSpeed saved"
    dots = "".join(f'<circle class="dot" cx="{x}" cy="17" r="5"/>' for x in (22, 40, 58))
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{title}" width="{width:g}" '
        f'height="{height}" viewBox="0 0 {width:g} {height}">', f"<title>{title}</title>", f"<style>{STYLE}</style>",
        f'<rect class="page" x=".5" y=".5" width="{width - 1:g}" height="{height - 1}" rx="8"/>', dots,
        *parts, "</svg>", ""])


def recording(sets: Sets) -> str:
    """The picture, of commands that are run now."""
    test = unittest.TestCase()
    session = Terminal(test, sets.directory_of("zero3-run"))
    try:
        return drawn([(command, session.print_of(command)) for command in COMMANDS])
    finally:
        test.doCleanups()


if __name__ == "__main__":
    parse_settings(argparse.ArgumentParser(description=__doc__,
                                           formatter_class=argparse.RawDescriptionHelpFormatter))
    with scratch() as top:
        sys.stdout.write(recording(Sets(top)))
