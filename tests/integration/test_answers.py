# SPDX-License-Identifier: Apache-2.0
"""Wrong uses that come naturally, and the line that answers each: what is wrong, and what to write."""

from __future__ import annotations

import contextlib
import os
import pty
import shutil
import signal
import subprocess
import unittest
from collections.abc import Iterator
from pathlib import Path

# First, because it finds the modules of tests/data.
from refusals import REFUSED_SECONDS, Refusals

from ckpt_format import Record, encode_checkpoint
from command_tests import on_terminal
from mounted import (
    COMMAND_SECONDS,
    NOBODY,
    Settings,
    command,
    is_mounted,
    mounted,
    mountpoint_guard,
    one_line,
    processes_of,
    run,
    run_unittests,
    scratch,
    user_mount_problem,
    wait_until,
)

Words = list[str | Path]


class Answers(Refusals):
    def answer(self, words: Words, expected: str, code: int = 2) -> None:
        """The command line must end with this code and just this line."""
        result = run(*words, seconds=REFUSED_SECONDS)
        self.assertEqual((result.code, result.stdout), (code, ""), result.stderr)
        self.assertEqual(one_line(result), f"reshardfs: {expected}")
        self.assertFalse(is_mounted(self.mountpoint))
        self.assertEqual(processes_of(self.mountpoint), [])

    def mount_answer(self, options: Words, expected: str) -> None:
        """The same of mounting the set."""
        self.answer(["mount", self.made.source, self.mountpoint, *options], expected)


class Misspelt(Answers):
    def test_options(self) -> None:
        for option, expected in (
            ("--src-stratgy", "mount has no option '--src-stratgy'; did you mean '--src-strategy'?"),
            ("--src_strategy=x", "mount has no option '--src_strategy'; did you mean "
             "'--src-strategy'?"),
            ("--dst-strat", "mount has no option '--dst-strat'; did you mean '--dst-strategy'?"),
            ("-src-strategy", "mount has no option '-src-strategy'; did you mean "
             "'--src-strategy'?"),
            ("-V", "mount has no option '-V'; did you mean '-v'?"),
            ("-x", "mount has no option '-x'; see 'reshardfs mount --help'"),
            ("--zzz", "mount has no option '--zzz'; see 'reshardfs mount --help'"),
            ("--checksum", "mount has no option '--checksum'; 'export' has it; see "
             "'reshardfs mount --help'"),
            ("--rank=1", "mount has no option '--rank'; 'plan' has it; see "
             "'reshardfs mount --help'"),
        ):
            with self.subTest(option):
                self.mount_answer([option], expected)

    def test_options_before_the_command(self) -> None:
        self.answer(["--verbose", "mount", self.made.source, self.mountpoint],
                    "there is no option '--verbose': options follow the command; run: reshardfs mount "
                    f"--verbose {self.made.source} {self.mountpoint}")
        self.answer(["--versoin"], "there is no option '--versoin'; did you mean '--version'?")

    def test_options_without_their_values(self) -> None:
        self.mount_answer(["--src-strategy"], "--src-strategy needs a value; it takes "
                          "FILE|DIR|SIZES|none; see 'reshardfs mount --help'")
        self.mount_answer(["--src-strategy", "--dst-strategy", "x"],
                          "--src-strategy needs a value, but '--dst-strategy' follows; it takes "
                          "FILE|DIR|SIZES|none; see 'reshardfs mount --help'")

    def test_help_goes_before_wrong_options(self) -> None:
        result = run("mount", "--src-stratgy", "x", "--help")
        self.assertEqual((result.code, result.stderr), (0, ""))
        self.assertIn("Usage: reshardfs mount", result.stdout)

    def test_commands(self) -> None:
        for words, expected in (
            (["mout"], "there is no command 'mout'; did you mean 'mount'?"),
            (["unmount"], "there is no command 'unmount'; did you mean 'umount'?"),
            (["convert"], "there is no command 'convert'; did you mean 'export'?"),
            (["strategy", "shwo"], "there is no command 'strategy shwo'; did you mean "
             "'strategy show'?"),
            (["map", "lst"], "there is no command 'map lst'; did you mean 'map list'?"),
            (["map", "xyz"], "there is no command 'map xyz'; the commands are list, check, show"),
            (["help", "mout"], "there is no command 'mout'; did you mean 'mount'?"),
        ):
            with self.subTest(words):
                self.answer(list(words), expected)

    def test_missing_commands(self) -> None:
        self.answer([], "a command is missing; 'reshardfs help' lists them")
        self.answer(["map"], "a command is missing; write reshardfs map list|check|show")
        self.answer([self.made.source, self.mountpoint],
                    f"there is no command '{self.made.source}'; run: reshardfs mount {self.made.source} "
                    f"{self.mountpoint}")
        self.answer([self.made.source],
                    f"there is no command '{self.made.source}'; run: reshardfs inspect {self.made.source}")

    def test_arguments(self) -> None:
        usage = "write reshardfs mount SOURCE MOUNTPOINT"
        self.answer(["mount"], f"SOURCE is missing; {usage}")
        self.answer(["mount", self.made.source], "MOUNTPOINT is missing; run: mkdir -p mnt && reshardfs mount "
                    f"{self.made.source} mnt")
        self.mount_answer(["a", "b"], f"2 arguments too many: 'a', 'b'; {usage}")
        self.answer(["hash"], "SOURCE is missing; write reshardfs hash SOURCE [FILE]")
        self.answer(["map", "list", "a"], "1 argument too many: 'a'; write reshardfs map list")
        self.answer(["map", "show", "x"],
                    "--source is missing; see 'reshardfs map show --help'")

    def test_values(self) -> None:
        for options, expected in (
            (["--format", "npz"], "--format does not take 'npz'; it takes ckpt, safetensors, torch"),
            (["--views", "rank"], "--views does not take 'rank'; did you mean 'ranks'?"),
            (["--log-level", "warn"], "--log-level does not take 'warn'; did you mean 'warning'?"),
            (["--read-ahead-kb", "x"],
             "--read-ahead-kb does not take 'x'; see 'reshardfs mount --help'"),
            (["--shard-size", "5XB"], "--shard-size: there is no unit 'xb'; write a size such as "
             "500MB, 5GB or 5GiB"),
            (["--align", "12"],
             "--align does not take '12'; it takes 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096"),
        ):
            with self.subTest(options):
                self.mount_answer(list(options), expected)
        self.answer(["export", self.made.source, "out", "--jobs", "0"],
                    "--jobs does not take '0'; it takes 1 to 1024")

    def test_mounts_of_a_file(self) -> None:
        file = self.made.directory / "f.toml"
        file.write_text("".join(f'[mount.{name}]\nsource = "s"\nmountpoint = "m"\n'
                                for name in ("tp4", "serve")))
        self.answer(["mount", "--config", file, "tp44"],
                    f"{file}: there is no [mount.tp44]; did you mean 'tp4'?")
        self.answer(["umount", "--config", file, "srve"],
                    f"{file}: there is no [mount.srve]; did you mean 'serve'?")
        self.answer(["mount", "--config", file, "other"],
                    f"{file}: there is no [mount.other]; name one of its mounts: serve, tp4")

    def test_mount_options(self) -> None:
        strategies = self.strategies()
        self.mount_answer([*strategies, "-o", "allow_oter"], "there is no mount option "
                          "'allow_oter'; did you mean 'allow_other'?")
        self.mount_answer([*strategies, "-o", "ro,foo"], "there is no mount option 'foo'; -o takes words of "
                          "mount(8) and FUSE, and long options as key=value; values with commas stand in a "
                          "file, config=FILE")
        for words in (["-o", "merged,views=ranks"], ["--views", "ranks", "-o", "merged"]):
            self.mount_answer([*strategies, *words], "there is no mount option 'merged'; -o takes words of "
                              "mount(8) and FUSE, and long options as key=value; values with commas stand in a "
                              "file, config=FILE")
        for sizes in (("--dst-strategy", "tp=2", "--dst-strategy", "pp=2"), ("-o", "dst_strategy=tp=2,dst_strategy=pp=2")):
            self.mount_answer(sizes, "--dst-strategy is given twice, as 'tp=2' and 'pp=2'; give all sizes in one: tp=2,pp=2")
        self.mount_answer(["-o", "src_stratgy=x"], "there is no mount option 'src_stratgy'; did you "
                          "mean 'src-strategy'?")

    def test_paths(self) -> None:
        source = self.made.source
        self.answer(["mount", source.with_name("scr"), self.mountpoint],
                    f"{source.with_name('scr')}: no such file or directory; did you mean "
                    f"'{source}'?")
        self.answer(["mount", source.with_name("scr") / "rank_0", self.mountpoint],
                    f"{source.with_name('scr') / 'rank_0'}: no such file or directory; did you mean "
                    f"'{source / 'rank_0'}'?")
        wrong = self.made.directory / "src_stratgy.ckpt"
        self.mount_answer(["--src-strategy", wrong], f"{wrong}: no such file or "
                          f"directory; did you mean '{self.made.src_strategy}'?")
        nowhere = self.made.directory / "a" / "b"
        self.answer(["mount", source, nowhere],
                    f"{nowhere}: the mount point does not exist; run: mkdir -p {nowhere} && "
                    f"reshardfs mount {source} {nowhere}")

    def test_parameters_and_files(self) -> None:
        right = "model.layers.0.attention.wq.weight"
        wrong = "model.layers.0.attention.wqq.weight"
        conversion = [self.made.source, *self.strategies()]
        for words, expected in (
            (["cat", *conversion, "--param", wrong],
             f"parameter '{wrong}': the conversion has no array with this name; did you mean "
             f"'{right}'?"),
            (["plan", *conversion, "--svg", self.made.directory / "p.svg", "--param", wrong],
             f"parameter '{wrong}': the target has no parameter of this name; did you mean "
             f"'{right}'?"),
            (["strategy", "show", self.made.src_strategy, "--param", wrong],
             f"parameter '{wrong}': the strategy does not lay it out; did you mean '{right}'?"),
            (["strategy", "show", self.made.src_strategy, "--param", "attention.wq"],
             "parameter 'attention.wq': the strategy does not lay it out; did you mean one of "
             f"'adam_m.{right}', '{right}'?"),
            (["cat", *conversion, "rank_0/checkpoint_1.ckpt"],
             "the conversion has no file 'rank_0/checkpoint_1.ckpt'; did you mean "
             "'rank_0/checkpoint_0.ckpt'?"),
        ):
            with self.subTest(words[0]):
                self.answer(list(words), expected)

    def test_umount(self) -> None:
        nothing = "nothing is mounted here; 'reshardfs status' lists what is mounted where"
        for words in (["umount"], ["reload"], ["status"], ["status", "--ready"]):
            self.answer([*words, ""], "the path of the mount point is empty")
        # Another mount, whose path is like it but for its directory, is not what was meant.
        with mounted(self.made.source, *self.strategies()) as other:
            self.assertEqual(other.name, self.mountpoint.name)
            for place in (self.mountpoint, other.with_name("no") / other.name):
                self.answer(["umount", place], f"{place}: {nothing}")

    def test_umount_of_the_source(self) -> None:
        result = run("mount", self.made.source, self.mountpoint, *self.strategies())
        self.assertEqual(result.code, 0, result.stderr)
        for path, hint in (
            (self.made.source, f"it is the source of a mount: reshardfs umount {self.mountpoint}"),
            (self.mountpoint.with_name("mn"), f"did you mean '{self.mountpoint}'?"),
            (f"{self.mountpoint}t/", f"did you mean '{self.mountpoint}'?"),
            (self.mountpoint.parent, f"did you mean '{self.mountpoint}'?"),
        ):
            with self.subTest(path):
                result = run("umount", path)
                self.assertEqual(result.code, 2)
                self.assertEqual(one_line(result),
                                 f"reshardfs: {path}: nothing is mounted here; {hint}")
        self.assertEqual(run("umount", self.mountpoint).code, 0)

    def test_steps(self) -> None:
        self.mount_answer([*self.strategies(), "--step", "100"],
                          f"{self.made.source}: no rank has a file of step '100'; available: 3_100; "
                          "did you mean '3_100'?")


class Mistaken(Answers):
    """Words that are right, and mean something else."""

    def test_swapped_places(self) -> None:
        for checkpoint in (self.made.source, self.source(0)):
            with self.subTest(checkpoint.name):
                self.answer(["mount", self.mountpoint, checkpoint, *self.strategies()],
                            f"SOURCE and MOUNTPOINT look swapped: {self.mountpoint} is empty and "
                            f"{checkpoint} is a checkpoint; run: reshardfs mount {checkpoint} "
                            f"{self.mountpoint} {' '.join(map(str, self.strategies()))}")

    def test_places_inside_the_mount_point(self) -> None:
        link = self.made.directory / "link"
        link.symlink_to(self.mountpoint)
        log = self.made.directory / "log"
        log.symlink_to(self.mountpoint / "log")
        for option, place in (("log-file", self.mountpoint / "log"), ("log-file", link / "log"), ("log-file", log),
                              ("cache-dir", self.mountpoint / "a/cache"), ("cache-dir", self.mountpoint)):
            with self.subTest(option=option, place=place):
                self.answer(["mount", self.made.source, self.mountpoint, *self.strategies(), f"--{option}", place],
                            f"{place}: lies inside the mount point {self.mountpoint}, which would hide it; "
                            f"choose a --{option} outside")
                self.assertEqual(list(self.mountpoint.iterdir()), [])

    def test_inputs_inside_the_mount_point(self) -> None:
        """A process that takes the mount over after a crash would wait for its own answer."""
        names, strategy = self.mountpoint / "names.json", self.mountpoint / "src.ckpt"
        names.write_text("{}")
        strategy.write_bytes(self.made.src_strategy.read_bytes())
        before = sorted(self.mountpoint.iterdir())
        for option, place in (("src-strategy", strategy), ("src-strategy", self.mountpoint), ("name-map", names)):
            with self.subTest(option=option, place=place):
                self.answer(["mount", self.made.source, self.mountpoint, "--nonempty", f"--{option}", place],
                            f"{place}: lies inside the mount point {self.mountpoint}, which would hide it; "
                            f"choose a --{option} outside")
                self.assertEqual(sorted(self.mountpoint.iterdir()), before)

    def test_an_empty_mount_point_beside_a_log(self) -> None:
        for option in ("log-file", "cache-dir"):
            self.assertIn("the path of the mount point is empty", self.refused_words(
                ["mount", self.made.source, "", *self.strategies(), f"--{option}", self.made.directory / "new"]))

    def test_an_empty_source_is_not_swapped(self) -> None:
        empty = self.made.directory / "empty"
        empty.mkdir()
        line = self.refused_words(
            ["mount", empty, self.mountpoint], str(empty), "is an empty directory")
        self.assertNotIn("swapped", line)

    def test_checkpoint_as_strategy(self) -> None:
        what = "is a checkpoint, not a strategy"
        answer = f"{what}; name the strategy file that the training job wrote (strategy_ckpt_config)"
        source, strategy = self.made.source, self.made.src_strategy
        for checkpoint in (self.source(0), source):
            self.mount_answer(["--dst-strategy", checkpoint], f"{checkpoint}: {answer}")
            # The one that fits lies beside the checkpoint.
            self.mount_answer(["--src-strategy", checkpoint], f"{checkpoint}: {what}; run: reshardfs mount "
                              f"{source} {self.mountpoint} --src-strategy {strategy}")
        self.answer(["strategy", "show", self.source(0)], f"{self.source(0)}: {answer}")
        self.answer(["strategy", "show", source], f"{source}: {what}; run: reshardfs strategy show {strategy}")

    def test_strategy_as_checkpoint(self) -> None:
        strategy = self.made.src_strategy
        self.answer(["mount", strategy, self.mountpoint],
                    f"{strategy}: is a strategy, not a checkpoint; run: reshardfs mount {self.made.source} "
                    f"{self.mountpoint} --src-strategy {strategy}")

    def plain_files(self, count: int) -> Path:
        """A directory as training on one device leaves it, with a strategy beside the files."""
        directory = self.made.directory / f"plain_{count}"
        directory.mkdir()
        for number in range(1, count + 1):
            shutil.copy(self.source(0), directory / f"net-{number}_100.ckpt")
        shutil.copy(self.made.src_strategy, directory / "strategy.ckpt")
        return directory

    def test_plain_files(self) -> None:
        pattern = "if each is one rank's, give their pattern with --src-pattern"
        several, one = self.plain_files(7), self.plain_files(1)
        names = ", ".join(f"'net-{number}_100.ckpt'" for number in range(1, 6))
        self.answer(["mount", several, self.mountpoint],
                    f"{several}: 7 checkpoints here: {names} and 2 more; name one; {pattern}")
        self.answer(["inspect", one],
                    f"{one}: has one checkpoint, 'net-1_100.ckpt'; run: reshardfs inspect {one}/net-1_100.ckpt")

    def test_no_checkpoint(self) -> None:
        foreign = "name a .ckpt or .safetensors file, or a directory of them"
        for name, data, expected in (
            ("a.ckpt", b"Dear reader,\nthis is a text.\n",
             f"is a text file, not a checkpoint; {foreign}"),
            ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
             f"is a PNG image, not a checkpoint; {foreign}"),
            ("b.ckpt", b"\xfe" * 100,
             "is no checkpoint file: it begins with the bytes fe fe fe fe fe fe fe fe, unlike "
             f"MindSpore's .ckpt files and safetensors files; {foreign}"),
            ("b.safetensors", b"\xfe" * 100, "is not a safetensors file: it states a header of "
             "18374403900871474942 bytes; the limit is 100000000"),
            ("empty.ckpt", b"", "is not a checkpoint: it is empty; copy it again"),
        ):
            with self.subTest(name):
                path = self.made.directory / name
                path.write_bytes(data)
                self.answer(["mount", path, self.mountpoint], f"{path}: {expected}")

    def test_half_a_checkpoint_is_one(self) -> None:
        """A copy that was cut off is damaged, and no other kind of file."""
        path = self.made.directory / "half.ckpt"
        data = self.source(0).read_bytes()
        path.write_bytes(data[:len(data) // 2])
        line = self.refused_words(["mount", path, self.mountpoint], "damaged or not complete")
        self.assertNotIn("not a", line)

    def test_sizes_that_divide_nothing(self) -> None:
        parameter = "model.tok_embeddings.embedding_weight"
        for sizes, text in (("tp=3", "tp=3"), ("dp=2, mp=16", "mp=16")):
            with self.subTest(sizes):
                self.mount_answer(
                    ["--src-strategy", self.made.src_strategy, "--dst-strategy", sizes],
                    f"parameter '{parameter}': {text} does not divide 8, dimension 0 of its shape "
                    "[8, 4]; 2 and 4 fit every parameter")

    def test_the_sizes_that_fit_do(self) -> None:
        for sizes in ("tp=2", "tp=4"):
            words: Words = ["--src-strategy", self.made.src_strategy, "--dst-strategy", sizes]
            result = run("mount", "--check-only", self.made.source, self.mountpoint, *words)
            self.assertEqual(result.code, 0, result.stderr)

    def test_sizes_without_equals(self) -> None:
        self.mount_answer(["--dst-strategy", "tp4,dp2"], "there is no strategy file 'tp4,dp2'; "
                          "sizes are written with '=': did you mean '--dst-strategy tp=4,dp=2'?")

    def test_cast_without_quotes(self) -> None:
        self.mount_answer(["--cast", "fp32-"], "the cast 'fp32-' ends where the shell took a '>' "
                          "as a redirection; quote it: --cast 'fp32->bf16'")
        script = f'"{Settings.binary}" mount "$@" --cast fp32->fp16'
        words = ["sh", "-c", script, "sh", self.made.source, self.mountpoint, *self.strategies()]
        done = subprocess.run(words, cwd=self.made.directory, capture_output=True, text=True,
                              timeout=COMMAND_SECONDS, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, "reshardfs: the cast 'fp32-' ends where the shell took "
                         "'>fp16' as a redirection; quote it: --cast 'fp32->fp16'\n")

    def test_size_without_unit(self) -> None:
        self.mount_answer(["--shard-size", "5"], "--shard-size 5 means 5 bytes; write 5GB or 5MB, "
                          "or 5B if bytes are meant")
        for size in ("5B", "4kB", "1000000"):
            with self.subTest(size):
                self.works("--shard-size", size)

    def test_one_of_each(self) -> None:
        """Counts of one, which are not in the plural."""
        directory = self.made.directory / "whole"
        directory.mkdir()
        path = directory / "w.ckpt"
        path.write_bytes(encode_checkpoint([Record("w", "Float32", (1,), bytes(4))]))
        result = run("inspect", path)
        self.assertIn("in 1 file, 1 parameter\n", result.stdout)
        result = run("strategy", "check", self.made.src_strategy)
        self.assertRegex(result.stdout, r"^strategy: 1 stage of 4 devices, \d+ layouts\n$")


class Help(Answers):
    def test_is_that_of_the_option(self) -> None:
        for words in ([], ["mount"], ["strategy"], ["strategy", "show"], ["help"]):
            with self.subTest(words):
                short, long = run("help", *words), run(*words, "-h")
                self.assertEqual((short.code, short.stderr), (0, ""))
                self.assertIn(" ".join(["Usage: reshardfs", *words]), short.stdout)
                self.assertEqual(short.stdout, long.stdout)


class SuccessLine(Answers):
    def line(self, *options: str) -> list[str]:
        """What a terminal shows of mounting the set, which is unmounted again."""
        try:
            return on_terminal("mount", self.made.source, self.mountpoint, *self.strategies(),
                               *options)
        finally:
            self.assertEqual(run("umount", self.mountpoint).code, 0)

    def test_on_a_terminal(self) -> None:
        ends = f"unmount with: reshardfs umount {self.mountpoint}"
        count = len(self.made.expected(0))
        begins = f"mounted at {self.mountpoint}: "
        self.assertEqual(self.line(), [f"{begins}merged, rank_{{0,1}}, strategy, unified; 2 ranks, {count} parameters; "
                                       f"{ends}"])
        self.assertEqual(self.line("--ranks", "1"), [f"{begins}merged, rank_1, strategy, unified; 1 of 2 ranks, {count} "
                                                     f"parameters; {ends}"])
        self.assertEqual(self.line("--step", "all"), [f"{begins}all complete steps; {ends}"])
        for quiet in ("-q", "--log-level=error"):
            self.assertEqual(self.line(quiet), [])

    def test_in_the_foreground(self) -> None:
        ours, theirs = pty.openpty()
        words = [Settings.binary, "mount", "-f", self.made.source, self.mountpoint,
                 *self.strategies()]
        process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL,
                                   stdout=theirs, stderr=subprocess.PIPE)
        os.close(theirs)
        try:
            line = b""
            while not line.endswith(b"\n"):
                line += os.read(ours, 4096)
        finally:
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=COMMAND_SECONDS)
            os.close(ours)
        self.assertEqual((process.returncode, errors), (0, b""))
        count = len(self.made.expected(0))
        self.assertEqual(line.decode(), f"mounted at {self.mountpoint}: merged, rank_{{0,1}}, strategy, unified; "
                         f"2 ranks, {count} parameters; Ctrl-C unmounts\r\n")

    def test_not_in_a_script(self) -> None:
        result = run("mount", self.made.source, self.mountpoint, *self.strategies())
        self.assertEqual((result.code, result.stdout, result.stderr), (0, "", ""))
        self.assertEqual(run("umount", self.mountpoint).code, 0)


class Unmounting(Answers):
    def setUp(self) -> None:
        super().setUp()
        if os.geteuid() != 0 or shutil.which("unshare") is None:
            self.skipTest("needs root and unshare")

    def daemon(self) -> int:
        """The process of a new mount."""
        result = run("mount", self.made.source, self.mountpoint, *self.strategies())
        self.assertEqual(result.code, 0, result.stderr)
        (pid,) = processes_of(self.mountpoint)
        return pid

    @contextlib.contextmanager
    def other_namespace(self) -> Iterator[int]:
        """A process with its own copy of the mounts there are now."""
        process = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c",
             "echo ready; read end"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdin and process.stdout
        try:
            if process.stdout.readline() != "ready\n":
                self.skipTest("no private mount namespace here")
            yield process.pid
        finally:
            process.communicate("\n", timeout=COMMAND_SECONDS)

    def unmount(self, expected: str) -> None:
        result = run("umount", self.mountpoint)
        self.assertEqual((result.code, result.stdout), (0, ""))
        self.assertEqual(one_line(result), f"reshardfs: {self.mountpoint}: unmounted here, but "
                         f"{expected} lives on until it is unmounted there, too")

    def test_another_namespace(self) -> None:
        daemon = self.daemon()
        with self.other_namespace() as process:
            self.unmount(f"another mount namespace still has it: that of process {process} (sh), "
                         f"at {self.mountpoint}; its daemon, process {daemon},")
            self.assertEqual(processes_of(self.mountpoint), [daemon])
        self.assertTrue(wait_until(lambda: not processes_of(self.mountpoint)))

    def test_bind_mount(self) -> None:
        daemon = self.daemon()
        other = self.made.directory / "other"
        other.mkdir()
        with mountpoint_guard(other):
            command("mount", "--bind", self.mountpoint, other)
            self.unmount(f"it is still mounted at {other}; its daemon, process {daemon},")
            result = run("umount", other)
            self.assertEqual((result.code, result.stderr), (0, ""))
        self.assertTrue(wait_until(lambda: not processes_of(self.mountpoint)))


@unittest.skipIf(user_mount_problem(), user_mount_problem())
class OrdinaryUser(Answers):
    """What fusermount3 refuses is one line, with what to do."""

    def setUp(self) -> None:
        super().setUp()
        self.program = self.made.directory / "reshardfs"
        shutil.copy(Settings.binary, self.program)
        command("chown", "-R", f"{NOBODY}:{NOBODY}", self.made.directory)

    def test_no_list_of_mounts(self) -> None:
        """As in a minimal system, shown by a mount namespace whose /etc has none."""
        upper, work = self.made.directory / "upper", self.made.directory / "work"
        for directory in (upper, work):
            directory.mkdir()
        script = ('mount -t overlay overlay -o "lowerdir=/etc,upperdir=$0,workdir=$1" /etc || exit 77\n'
                  'rm -f /etc/mtab\nshift\nexec "$@"')
        words = ["unshare", "--mount", "--propagation", "slave", "sh", "-c", script, upper, work, "setpriv",
                 f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", self.program, "mount", self.made.source,
                 self.mountpoint, *self.strategies()]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                              timeout=COMMAND_SECONDS, check=False)
        if done.returncode == 77:
            self.skipTest(f"no overlay of /etc: {done.stderr}")
        self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)
        self.assertIn("there is no /etc/mtab, without which fusermount3 cannot unmount", done.stderr)
        self.assertIn("ln -s /proc/self/mounts /etc/mtab", done.stderr)
        self.assertFalse(is_mounted(self.mountpoint))
        self.assertEqual(processes_of(self.mountpoint), [])

    def user_answer(self, mountpoint: Path, options: list[str], expected: str) -> None:
        words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                 self.program, "mount", self.made.source, mountpoint, *self.strategies(), *options]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                              timeout=COMMAND_SECONDS, check=False)
        self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)
        self.assertEqual(done.stderr, f"reshardfs: {mountpoint}: cannot mount here: fusermount3: "
                         f"{expected}\n")
        self.assertFalse(is_mounted(mountpoint))

    def test_mount_point_of_another_user(self) -> None:
        os.chown(self.mountpoint, 0, 0)
        self.mountpoint.chmod(0o755)
        for options in ([], ["--foreground"]):
            self.user_answer(self.mountpoint, options, "user has no write access to mountpoint "
                             f"{self.mountpoint}; choose a mount point that you own")

    def test_allow_other(self) -> None:
        if "user_allow_other" in Path("/etc/fuse.conf").read_text().splitlines():
            self.skipTest("users may allow others here")
        self.user_answer(self.mountpoint, ["--allow-other"], "option allow_other only allowed if "
                         '"user_allow_other" is set in /etc/fuse.conf; add user_allow_other to '
                         "that file as root, or leave allow_other out")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    run_unittests()
