# SPDX-License-Identifier: Apache-2.0
"""`reshardfs report` and a mount's .reshardfs/report.html, in a real browser."""

from __future__ import annotations

import argparse
import html
import json
import os
import re
import socket
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from browser import Browser, browser, browser_problem  # noqa: E402
from ckpt_format import Record, encode_checkpoint  # noqa: E402
from command_tests import CommandTest  # noqa: E402
from make_large import make_large  # noqa: E402
from layouts import Layout  # noqa: E402
from mounted import (  # noqa: E402
    SKIP,
    Settings,
    command,
    fuse_problem,
    mounted,
    parse_binary,
    processes_of,
    scratch,
)
from picture_sets import HOSTILE, rows, small_set, trained_set, write_set  # noqa: E402

COUNT = "document.getElementById('count').textContent"
NAMES = "[...document.querySelectorAll('#body .name')].map(e => e.textContent)"
HINT = "[...document.querySelectorAll('.scroll')].map(e => getComputedStyle(e, '::before').content)"
# Of each rectangle, as it looks without any style sheet.
FILLS = """(() => { document.querySelectorAll('style').forEach(e => e.remove());
    return [...document.querySelectorAll('svg.pic rect')].map(e => getComputedStyle(e).fill); })()"""
SIZES = "[...document.querySelectorAll('#body td.right')].map(e => parseInt(e.title))"
PARAMETERS = 20_000
# Of loading and of searching 20,000 parameters; either takes a small part of a second when the
# machine has nothing else to do.
BOUND_SECONDS = 30.0


def command_of(page: str) -> str:
    """The command that the page states, as a shell takes it."""
    found = re.search(r'<code class="command">(.*?)</code>', page, re.DOTALL)
    assert found, "no command in the page"
    return html.unescape(re.sub("<[^>]*>", "", found.group(1)))


def table_of(page: str, name: str) -> list[list[str]]:
    """The cells of a table's body."""
    found = re.search(rf'<table class="plain" id="{name}".*?<tbody>(.*?)</tbody>', page, re.DOTALL)
    assert found, f"no table '{name}' in the page"
    return [[html.unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
            for row in found.group(1).split("</tr>") if row.strip()]


def human(size: int) -> str:
    """Bytes as the page has them."""
    if size < 1024:
        return f"{size} B"
    value, unit = float(size), -1
    while value >= 1023.95:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f} {('KiB', 'MiB', 'GiB')[unit]}"


def data_of(page: str) -> dict[str, list[object]]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found, "no data in the page"
    data: dict[str, list[object]] = json.loads(found.group(1))
    return data


class ReportTest(CommandTest):
    command = "report"

    def loads(self, page: Browser, path: Path) -> None:
        page.look()
        page.open(path.as_uri())
        self.assertEqual(page.complaints, [])
        self.assertEqual(page.requests, [path.as_uri()], "the page asks for something else")

    def search(self, page: Browser, text: str) -> str:
        page.value("search.value = ''; search.dispatchEvent(new Event('input')); search.focus()")
        if text:
            page.type(text)
        shown: str = page.value(COUNT)
        return shown


class Page(ReportTest):
    def test_search_sort_and_details(self) -> None:
        with scratch() as root, browser(root) as page:
            path = root / "report.html"
            self.says(0, *small_set(root), "-O", str(path))
            self.loads(page, path)
            total = 4 + len(HOSTILE)
            self.assertEqual(page.value(COUNT), f"{total} parameters")
            self.assertEqual(page.value(f"{NAMES}.length"), total)

            self.assertEqual(self.search(page, "model WQ"), f"1 of {total}")
            self.assertEqual(page.value(NAMES), ["model.wq"])
            self.assertEqual(self.search(page, ""), f"{total} parameters")

            sort = "document.querySelector('#table th[data-column=size] button').click()"
            page.value(sort)
            falling = page.value(SIZES)
            self.assertEqual(falling, sorted(falling, reverse=True))
            self.assertEqual(page.value(NAMES)[0], "model.wo")
            page.value(sort)
            self.assertEqual(page.value(SIZES), sorted(falling))
            self.assertEqual(
                page.value("document.querySelector('th[aria-sort]').getAttribute('aria-sort')"),
                "ascending")

            self.search(page, "model.wq")
            page.value("document.querySelector('#body .name').click()")
            self.assertTrue(page.value("document.getElementById('details').open"))
            details = page.value("document.getElementById('details').innerText")
            self.assertIn("cut 8 \u00d7 1", details)
            self.assertIn("cut 1 \u00d7 4", details)
            self.assertIn("0-7", details)
            self.assertIn("Source: cut 8 \u00d7 1", details)
            self.assertIn("Target: cut 1 \u00d7 4", details)
            pictures = "document.querySelectorAll('#parameter-pictures svg.pic')"
            titles = f"(n => [...{pictures}[n].querySelectorAll('title')].map(e => e.textContent))"
            self.assertEqual(page.value(titles + "(0)"),
                             [f"[{8 * s}:{8 * s + 8}, 0:32] source rank {s}" for s in range(8)])
            self.assertEqual(
                page.value(titles + "(1)"),
                [f"[{8 * s}:{8 * s + 8}, {8 * d}:{8 * d + 8}] target rank {d} \u2190 source rank {s}"
                 for s in range(8) for d in range(4)])
            self.assertEqual(
                page.value("[...document.querySelectorAll('#parameter-pictures .words tbody tr')]"
                           ".map(row => [...row.cells].map(e => e.textContent))"),
                [[str(d), f"[{8 * s}:{8 * s + 8}, {8 * d}:{8 * d + 8}]", str(s)]
                 for d in range(4) for s in range(8)])
            self.assertEqual(page.complaints, [])

    def large_report(self, root: Path, **sizes: int) -> Path:
        path = root / "report.html"
        make_large(root, **sizes)
        self.says(0, str(root / "src"), "--src-strategy", str(root / "src.ckpt"),
                  "--dst-strategy", str(root / "dst.ckpt"), "-O", str(path))
        return path

    def test_every_parameter_has_pictures(self) -> None:
        with scratch() as root, browser(root) as page:
            self.loads(page, self.large_report(root, dp=2, tp=2, stages=2, parameters=60, dst_dp=1, dst_tp=4))
            shown = page.value("""[...document.querySelectorAll('#body .name')].map(button => {
                button.click();
                const titles = [...document.querySelectorAll('#parameter-pictures svg.pic title')];
                const ranks = document.getElementById('parameter-facts').lastChild.textContent;
                document.getElementById('details').close();
                return [button.textContent, ranks, titles.map(e => e.textContent)]; })""")
            self.assertEqual(len(shown), 60)
            for name, ranks, titles in shown:
                with self.subTest(name=name):
                    first, _, last = ranks.partition("-")
                    expected = set(range(int(first), int(last or first) + 1))
                    named = {int(t.rpartition(" ")[2]) for t in titles if "target rank" in t}
                    self.assertEqual(named, expected)

    def test_the_browsers_own_search_finds_every_row(self) -> None:
        with scratch() as root, browser(root) as page:
            self.loads(page, self.large_report(root, dp=1, tp=2, stages=1, parameters=600, dst_dp=1, dst_tp=2))
            last = page.value(f"{NAMES}.at(-1)")
            self.assertTrue(page.value(f"window.find('{last}')"))
            self.assertTrue(page.value("document.getElementById('find-note').hidden"))

    def test_pictures_keep_their_colors_without_a_style_sheet(self) -> None:
        with scratch() as root, browser(root) as page:
            path = root / "report.html"
            self.says(0, *small_set(root), "-O", str(path))
            self.loads(page, path)
            page.value("document.querySelector('#body .name').click()")
            fills = page.value(FILLS)
            self.assertGreater(len(fills), 100)
            self.assertNotIn("rgb(0, 0, 0)", fills)

    def test_a_narrow_window_tells_that_more_is_beside(self) -> None:
        with scratch() as root, browser(root) as page:
            path = root / "report.html"
            self.says(0, *small_set(root), "-O", str(path))
            self.loads(page, path)
            settled = "new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))"
            page.value(settled)
            self.assertFalse(any("Scroll" in text for text in page.value(HINT)))
            page.look(width=420)
            page.value(settled)
            self.assertTrue(page.value(HINT)[0].startswith('"Scroll sideways'))
            width = page.value("document.documentElement.scrollWidth")
            self.assertLessEqual(width, 420, "the page itself is wider than the window")

    def test_names_are_text(self) -> None:
        with scratch() as root, browser(root) as page:
            path = root / "report.html"
            self.says(0, *small_set(root), "-O", str(path))
            self.loads(page, path)
            self.assertLessEqual(set(HOSTILE), set(page.value(NAMES)))
            self.assertNotIn("broken", page.value("document.title"))
            # The page's own: the data, and its script.
            self.assertEqual(page.value("document.scripts.length"), 2)
            self.assertEqual(page.value("document.querySelectorAll('main b').length"), 0)

    def test_the_policy_forbids_what_the_page_does_not_need(self) -> None:
        with scratch() as root, browser(root) as page:
            path = root / "report.html"
            self.says(0, *small_set(root), "-O", str(path))
            self.loads(page, path)
            page.value("""(() => { const s = document.createElement('script');
                s.textContent = 'document.title = "broken"'; document.body.append(s); })()""")
            self.assertNotEqual(page.value("document.title"), "broken")
            self.assertEqual(page.value("fetch('data:,x').then(() => 'got it', () => 'refused')"),
                             "refused")
            self.assertTrue(any("Content Security Policy" in line for line in page.complaints),
                            page.complaints)

    def test_the_keyboard_is_enough(self) -> None:
        with scratch() as root, browser(root) as page:
            path = root / "report.html"
            self.says(0, *small_set(root), "-O", str(path))
            self.loads(page, path)
            page.key("/", 191, "/")
            page.type("model.wo")
            self.assertEqual(page.value(NAMES), ["model.wo"])
            page.key("Tab", 9)   # the rows
            for _ in range(8):   # seven headings, and the first name
                page.key("Tab", 9)
            self.assertEqual(page.value("document.activeElement.textContent"), "model.wo")
            page.key("Enter", 13, "\r")
            self.assertTrue(page.value("document.getElementById('details').open"))
            page.key("Escape", 27)
            self.assertFalse(page.value("document.getElementById('details').open"))
            self.search(page, "model.w")
            focused = "document.activeElement.textContent || document.activeElement.id"
            for key, code, expected in (("ArrowDown", 40, "model.wq"), ("ArrowDown", 40, "model.wo"),
                                        ("ArrowDown", 40, "model.wo"), ("ArrowUp", 38, "model.wq"),
                                        ("ArrowUp", 38, "search")):
                page.key(key, code)
                self.assertEqual(page.value(focused), expected)
            unnamed = page.value("""[...document.querySelectorAll('input, button, svg, dialog')]
                .filter(e => !e.closest('[aria-hidden=true]'))
                .filter(e => !(e.labels?.length || e.ariaLabel || e.textContent.trim())).length""")
            self.assertEqual(unnamed, 0)

    def test_light_and_dark_differ(self) -> None:
        with scratch() as root, browser(root) as page:
            path = root / "report.html"
            self.says(0, *small_set(root), "-O", str(path))
            self.loads(page, path)
            colours = "[document.body, document.querySelector('.pic .t')].map(e => {" \
                      "const s = getComputedStyle(e); return [s.color, s.backgroundColor, s.fill]})"
            light = page.value(colours)
            page.look(dark=True)
            for before, after in zip(light, page.value(colours)):
                self.assertNotEqual(before, after)

    def test_it_has_no_reads(self) -> None:
        with scratch() as root:
            arguments = small_set(root)
            page = self.says(0, *arguments, "-O", "-")
            self.assertNotIn('id="reads"', page)
            self.refused(2, *arguments, words=("--output",))


class ManyParameters(ReportTest):
    def test_it_stays_quick(self) -> None:
        with scratch() as root, browser(root) as page:
            source = root / "ckpt" / "rank_0" / "net-1_1.ckpt"
            source.parent.mkdir(parents=True)
            source.write_bytes(encode_checkpoint(
                [Record(f"model.layers.{i // 10}.part.{i % 10}.weight", "Float32", (1 + i % 7, 2),
                        bytes(8 * (1 + i % 7))) for i in range(PARAMETERS)]))
            path = root / "report.html"
            self.says(0, str(root / "ckpt"), "-O", str(path))
            self.assertLess(path.stat().st_size, 4 << 20)
            begun = time.monotonic()
            self.loads(page, path)
            loaded = time.monotonic()
            self.assertEqual(page.value(COUNT), "20,000 parameters")
            self.assertLess(page.value("document.querySelectorAll('#body tr').length"), 100)
            self.assertFalse(page.value("document.getElementById('find-note').hidden"))
            ready = time.monotonic()
            self.assertEqual(self.search(page, "layers.77.part.3"), "1 of 20,000")
            self.assertTrue(page.value("document.getElementById('find-note').hidden"))
            searched = time.monotonic()
            print(f"loaded in {loaded - begun:.2f} s, searched in {searched - ready:.2f} s, "
                  f"{path.stat().st_size} bytes", file=sys.stderr)
            self.assertLess(loaded - begun, BOUND_SECONDS)
            self.assertLess(searched - ready, BOUND_SECONDS)

            self.search(page, "")
            page.value("document.getElementById('rows').scrollTop = 1e9")
            page.value("new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")
            self.assertEqual(page.value(f"{NAMES}.at(-1)"), "model.layers.1999.part.9.weight")


class Figures(ReportTest):
    def test_the_table_is_the_checkpoint(self) -> None:
        with scratch() as root:
            arguments = small_set(root)
            data = data_of(self.says(0, *arguments, "-O", "-"))
            at = data["name"].index("model.wq")
            self.assertEqual(data["size"][at], 64 * 32 * 4)
            self.assertEqual(data["shapes"][data["shape"][at]], "[64, 32]")
            self.assertEqual(data["cuts"][data["source"][at]], "cut 8 \u00d7 1")
            self.assertEqual(data["cuts"][data["target"][at]], "cut 1 \u00d7 4")
            self.assertEqual(data["rank_lists"][data["kind"][at]], "0-7")
            self.assertEqual(set(HOSTILE) - set(data["name"]), set())


    def test_totals_are_those_of_the_layouts(self) -> None:
        with scratch() as root:
            layouts = trained_set()
            arguments = [*write_set(root, layouts), "--cast", "model.*:fp32->bf16"]
            rows_of_types = table_of(self.says(0, *arguments, "-O", "-"), "totals")
            bytes_of: dict[str, dict[bool, list[int]]] = {}
            for name, (shape, _, _) in layouts.items():
                is_state = name.startswith("adam_")
                kind, element = ("Float32", 4) if is_state else ("BFloat16", 2)
                own = bytes_of.setdefault(kind, {False: [], True: []})
                own[is_state].append(element * shape[0] * shape[1])
            expected = []
            for kind, both in [*sorted(bytes_of.items()), ("All types", {
                    state: [n for own in bytes_of.values() for n in own[state]]
                    for state in (False, True)})]:
                columns = (both[False], both[True], both[False] + both[True])
                expected.append([kind, *(text for own in columns
                                         for text in (str(len(own)), human(sum(own))))])
            self.assertEqual(rows_of_types, expected)

    def test_files_are_those_of_an_export(self) -> None:
        with scratch() as root:
            for case, options in enumerate(([], ["--format", "ckpt,safetensors", "--params"],
                                            ["--ranks", "1,3", "--prefix", "net_", "--crc"])):
                arguments = [*write_set(root / str(case), trained_set()), *options]
                files = table_of(self.says(0, *arguments, "-O", "-"), "files")
                out = root / f"out{case}"
                command(Settings.binary, "export", arguments[0], out, *arguments[1:], "-q")
                self.assertEqual(
                    {path: int(size.replace(",", "")) for path, _, size in files},
                    {str(file.relative_to(out)): file.stat().st_size
                     for file in out.glob("rank_*/*.*")})

    def test_an_example_is_a_weight_that_is_cut(self) -> None:
        with scratch() as root:
            page = self.says(0, *write_set(root, trained_set()), "-O", "-")
            names = re.findall(r'<h3><button[^>]*>(.*?)</button></h3>', page)
            self.assertEqual([name.replace("<wbr>", "") for name in names],
                             ["model.w1", "model.w2", "model.table"])

    def test_no_two_source_ranks_have_one_color(self) -> None:
        with scratch() as root:
            layouts = {"w": ((64, 8), rows(64), rows(2)), "v": ((9, 8), Layout((64,), ((), ())),
                                                               Layout((2,), ((), ())))}
            page = self.says(0, *write_set(root, layouts), "-O", "-")
            data = data_of(page)
            number = data["slices_of"][data["kind"][data["name"].index("w")]]
            drawn = re.findall(r'<rect [^>]* fill="(.*?)"><title>\[.*?\] source rank (\d+)</title>',
                               page.partition(f'<template id="source-{number}">')[2].partition("</template>")[0])
            self.assertEqual([rank for _, rank in drawn], [str(rank) for rank in range(64)])
            self.assertEqual(len({fill for fill, _ in drawn}), 64)

    def test_host_path_and_command(self) -> None:
        with scratch() as root:
            odd = root / "it's a $HOME\n\u202e dir"
            odd.mkdir()
            arguments = write_set(odd, trained_set())
            options = ["--include", "model.*", "--include", "*.w1", "--ranks", "0-1,3",
                       "--format", "ckpt,safetensors", "--align", "64", "--state-prefix", "x y.",
                       "--allow-unmatched"]
            page = self.says(0, *arguments, *options, "-q", "-O", "-")
            self.assertIn(f"<dd>{socket.gethostname()}</dd>", page)
            # Without an option that the caller's shell would fill in.
            line = command_of(page)
            self.assertNotIn("\n", line)
            self.assertIn("--step 1_1", line)
            repeated = root / "repeated"
            repeated.mkdir()
            subprocess.run(["bash", "-c", line], cwd=repeated, check=True, timeout=60,
                           env=os.environ | {"PATH": f"{Settings.binary.parent}:{os.environ['PATH']}"})
            again = (repeated / "report.html").read_text()
            self.assertEqual(data_of(again), data_of(page))
            self.assertEqual(command_of(again), line)
            self.assertEqual(table_of(again, "files"), table_of(page, "files"))

    def test_the_page_of_a_relative_source_has_its_full_path(self) -> None:
        with scratch() as root:
            arguments = write_set(root, trained_set())
            page = subprocess.run([Settings.binary, "report", "ckpt", *arguments[1:], "-O", "-"],
                                  cwd=root, check=True, capture_output=True, text=True).stdout
            self.assertIn(f"<dd>{root}/ckpt</dd>", page)
            self.assertTrue(command_of(page).startswith(f"reshardfs report {root}/ckpt "))


class OfAMount(ReportTest):
    def test_its_files_and_its_command(self) -> None:
        problem = fuse_problem()
        if problem:
            self.skipTest(problem)
        with scratch() as root:
            arguments = write_set(root, trained_set())
            options = [*arguments[1:], "--unmatched", "replicate", "--ranks", "0,2"]
            with mounted(Path(arguments[0]), *options, "--file-mode", "0440") as mountpoint:
                page = (mountpoint / ".reshardfs" / "report.html").read_text()
                self.assertEqual(
                    {path: int(size.replace(",", "")) for path, _, size in table_of(page, "files")},
                    {str(file.relative_to(mountpoint)): file.stat().st_size
                     for file in mountpoint.glob("rank_*/*")})
            line = command_of(page)
            self.assertNotIn("--file-mode", line, "report has no such option")
            subprocess.run(["bash", "-c", line], cwd=root, check=True, timeout=60,
                           env=os.environ | {"PATH": f"{Settings.binary.parent}:{os.environ['PATH']}"})
            self.assertEqual(data_of((root / "report.html").read_text()), data_of(page))

    def test_it_tells_of_the_reads_so_far(self) -> None:
        problem = fuse_problem()
        if problem:
            self.skipTest(problem)
        with scratch() as root, browser(root) as page:
            arguments = small_set(root)
            with mounted(Path(arguments[0]), *arguments[1:]) as mountpoint:
                report = mountpoint / ".reshardfs" / "report.html"
                before = report.read_text()
                self.assertIn('id="reads"', before)
                read = len((mountpoint / "rank_0" / "checkpoint_0.ckpt").read_bytes())
                self.assertNotIn("report.html", os.listdir(mountpoint))
                self.loads(page, report)  # reads as much as stat tells
                shown = page.value("document.getElementById('reads').innerText")
                self.assertIn("Delivered to programs", shown)
                self.assertNotIn("Delivered to programs\n0 B", shown)
                self.assertGreater(read, 0)
                self.assertEqual(page.value(COUNT), f"{4 + len(HOSTILE)} parameters")
                self.assertEqual(report.stat().st_size, len(before.encode()))
                copy = root / "report.html"
                command("cp", report, copy)
                self.assertEqual(copy.stat().st_size, len(before.encode()))
                status = json.loads((mountpoint / ".reshardfs" / "status.json").read_text())
                self.assertIn(status["source"], report.read_text())

    def test_it_is_not_held_in_memory(self) -> None:
        problem = fuse_problem()
        if problem:
            self.skipTest(problem)
        with scratch() as root:
            make_large(root, dp=2, tp=2, stages=1, parameters=PARAMETERS, dst_dp=1, dst_tp=2)
            with mounted(root / "src", "--src-strategy", root / "src.ckpt",
                         "--dst-strategy", root / "dst.ckpt") as mountpoint:
                (daemon,) = processes_of(mountpoint)

                def resident() -> int:
                    words = Path(f"/proc/{daemon}/statm").read_text().split()
                    return int(words[1]) * os.sysconf("SC_PAGE_SIZE")

                report = mountpoint / ".reshardfs" / "report.html"
                size = len(report.read_bytes())
                self.assertGreater(size, 1 << 20)

                def open_it(times: int) -> None:
                    for _ in range(times):
                        self.assertEqual(report.stat().st_size, len(report.read_bytes()))

                open_it(20)  # each of the daemon's threads keeps some memory for its next work
                before = resident()
                open_it(40)
                self.assertLess(resident() - before, 20 * size, "40 pages were not given back")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tests", nargs="*", help="Class or Class.test; default: all")
    arguments = parse_binary(parser)
    problem = browser_problem()
    if problem:
        print(f"skipped: {problem}")
        sys.exit(SKIP)
    unittest.main(argv=[sys.argv[0], "-v", *arguments.tests])


if __name__ == "__main__":
    main()
