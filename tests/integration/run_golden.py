# SPDX-License-Identifier: Apache-2.0
"""Mounts every golden case and compares what it shows with what MindSpore's converter wrote.

Prints one line a case; exit code 1 if one fails, 77 if nothing can be mounted here.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import unittest
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

from ckpt_format import Record, by_name, decode_checkpoint  # noqa: E402
from conversion import convert  # noqa: E402
from golden_cases import (  # noqa: E402
    BY_CONTENT,
    CONVERSION_APIS,
    GOLDEN,
    MUST_FAIL,
    MUST_WORK,
    Case,
    load_cases,
)
from mounted import (  # noqa: E402
    COMMAND_SECONDS,
    SKIP,
    MountFailed,
    Result,
    Settings,
    is_mounted,
    mounted,
    mountpoint_guard,
    one_line,
    parse_settings,
    processes_of,
    rank_files,
    run,
    scratch,
)
from object_store import object_store  # noqa: E402
from strategy_files import Strategy, read_strategy  # noqa: E402
from web_server import serving  # noqa: E402


ONE_FORM = "--one-form"


def check(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


# --- how the contents of two files are compared ----------------------------------------------


def first_difference(got: bytes, want: bytes) -> str:
    """Where two files part, and in which parameter."""
    at = len(os.path.commonprefix([got, want]))
    window = slice(max(0, at - 4), at + 12)
    text = f"{len(got)} bytes, expected {len(want)}; "
    text += f"byte {at}: {got[window].hex()} for {want[window].hex()}"
    try:
        names = [r.name for r in decode_checkpoint(got)], [r.name for r in decode_checkpoint(want)]
    except (ValueError, IndexError) as error:
        return f"{text}; not readable: {error}"
    if names[0] != names[1]:
        text += f"; the order of records differs: {names[0]} for {names[1]}"
    return text


def same_bytes(got: bytes, want: bytes) -> None:
    if got != want:
        raise AssertionError(first_difference(got, want))


def same_file(got: bytes, want: bytes) -> None:
    """Of any format."""
    at = len(os.path.commonprefix([got, want]))
    check(got == want, f"{len(got)} bytes, expected {len(want)}; byte {at} differs")


def same_records(got: dict[str, Record], want: dict[str, Record]) -> None:
    missing, surplus = sorted(want.keys() - got.keys()), sorted(got.keys() - want.keys())
    check(not missing and not surplus, f"missing {missing}, too many {surplus}")
    for name, record in want.items():
        check(got[name] == record, f"'{name}' differs: {got[name]} for {record}"[:400])


def same_content(got: bytes, want: bytes) -> None:
    same_records(by_name(got), by_name(want))


def same_but_for_nan(got: bytes, want: bytes) -> None:
    """The original loses NaN payloads of bfloat16; everything else is equal byte for byte."""
    check(len(got) == len(want), first_difference(got, want))
    mine, theirs = decode_checkpoint(got), decode_checkpoint(want)
    check([(r.name, r.type, r.shape) for r in mine] == [(r.name, r.type, r.shape) for r in theirs],
          "the records differ")
    for a, b in zip(mine, theirs):
        if a.type == "BFloat16":
            left, right = a.array(), b.array()
            nan = ((left & 0x7F80) == 0x7F80) & ((left & 0x7F) != 0)
            check(bool(((left == right) | nan & (right == 0x7FC0)).all()), f"'{a.name}' differs")
        else:
            check(a == b, f"'{a.name}' differs")


def comparison(case: Case) -> Callable[[bytes, bytes], None]:
    if case.name in BY_CONTENT:
        return same_content
    if case.output_format != "ckpt":
        return same_file
    return same_but_for_nan if case.name == "bf16_nan_and_4byte" else same_bytes


# --- cases -------------------------------------------------------------------------------------


def strategy_options(src: Path | None, dst: Path | None) -> list[str | Path]:
    options: list[str | Path] = ["--src-strategy", src] if src else []
    return [*options, "--dst-strategy", dst or "none"]


def case_options(case: Case, src: Path | None, dst: Path | None) -> list[str | Path]:
    common = ("--prefix", case.prefix, "--unmatched", "source", "--format", case.output_format)
    return [*strategy_options(src, dst), *common, *case.options]


def variants(case: Case) -> list[tuple[str, Path | None, Path | None]]:
    """The ordinary strategies first, then each other form of either. With --one-form one of them, which
    the case's name chooses: all forms have their turn in some case."""
    src, dst = case.strategy_variants("src"), case.strategy_variants("dst")
    out = [("", src[0][1], dst[0][1])]
    out += [(f"source strategy as {form}: ", path, dst[0][1]) for form, path in src[1:]]
    out += [(f"target strategy as {form}: ", src[0][1], path) for form, path in dst[1:]]
    return [out[zlib.crc32(case.name.encode()) % len(out)]] if ONE_FORM in sys.argv else out


def check_tree(case: Case, mountpoint: Path, ranks: list[int]) -> dict[int, Path]:
    files = rank_files(mountpoint)
    check(sorted(files) == ranks, f"ranks {sorted(files)}, expected {ranks}")
    for rank, path in files.items():
        wanted = f"{case.prefix}{rank}.{case.output_format}"
        check(path.name == wanted, f"rank_{rank} holds '{path.name}', expected '{wanted}'")
    return files


def run_expected(case: Case) -> None:
    """The case has expected files: all forms of its strategies must give them."""
    compare = comparison(case)
    expected = case.expected_files()
    check(bool(expected), "the case has no expected files")
    for form, src, dst in variants(case):
        try:
            with mounted(case.source, *case_options(case, src, dst)) as mountpoint:
                files = check_tree(case, mountpoint, sorted(expected))
                for rank, path in expected.items():
                    try:
                        compare(files[rank].read_bytes(), path.read_bytes())
                    except AssertionError as error:
                        raise AssertionError(f"rank {rank}: {error}") from None
        except AssertionError as error:
            raise AssertionError(f"{form}{error}") from None
    check_needed_ranks(case)


def check_needed_ranks(case: Case) -> None:
    for rank, needed in (case.needed_ranks or {}).items():
        for unmatched in ((), ("--unmatched", "source")):
            options = strategy_options(case.strategy("src"), case.strategy("dst"))
            words = ("--rank", str(rank), "--json", *options, *case.options, *unmatched)
            try:
                check_plan(case, run("plan", case.source, *words), rank, needed)
            except AssertionError as error:
                raise AssertionError(f"plan --rank {rank} {' '.join(unmatched)}: {error}") from None


def check_plan(case: Case, result: Result, rank: int, needed: list[int]) -> None:
    check(result.code == 0, f"exit code {result.code}: {result.stderr.strip()}")
    plan = json.loads(result.stdout)
    check(plan["rank"] == rank, f"it is about rank {plan['rank']}")
    check(plan["needed_ranks"] == needed, f"needs {plan['needed_ranks']}, expected {needed}")
    listed = [source["rank"] for source in plan["sources"]]
    check(listed == needed, f"its sources are the ranks {listed}, expected {needed}")
    for source in plan["sources"]:
        check(source["bytes"] > 0, f"0 bytes of rank {source['rank']}")
        where = local(source["file"])
        check((case.source / where).is_file(), f"no such file: {source['file']}")


def local(shown: str) -> str:
    """A path that the program shows of a source."""
    if Settings.served and shown.startswith(Settings.served[1] + "/"):
        return str(Settings.served[0]) + shown.removeprefix(Settings.served[1])
    return shown


def run_by_meaning(case: Case) -> None:
    """The original fails on the case, so the naive conversion says what is right."""
    for form, src, dst in variants(case):
        expected = convert(
            case.read_source(),
            read_strategy(src) if src else None,
            read_strategy(dst) if dst else None,
        )
        with mounted(case.source, *case_options(case, src, dst)) as mountpoint:
            files = check_tree(case, mountpoint, sorted(expected))
            for rank, destination in expected.items():
                try:
                    same_records(by_name(files[rank].read_bytes()),
                                 {record.name: record for record in destination.records})
                except AssertionError as error:
                    raise AssertionError(f"{form}rank {rank}: {error}") from None


def refused(words: tuple[str, ...], source: Path, options: list[str | Path]) -> None:
    """Exit code 2, one line that says what it is about, nothing mounted, nobody left."""
    with scratch() as directory:
        mountpoint = directory / "mnt"
        mountpoint.mkdir()
        with mountpoint_guard(mountpoint):
            result = run("mount", source, mountpoint, *options, seconds=COMMAND_SECONDS)
            check(result.code == 2, f"exit code {result.code}, expected 2: {result.stderr.strip()}")
            line = one_line(result)
            check(any(word in line for word in words), f"none of {words} is in: {line}")
            check(not is_mounted(mountpoint), "something is mounted")
            check(not processes_of(mountpoint), "a process was left")


def run_must_fail(case: Case) -> None:
    for form, src, dst in variants(case):
        try:
            refused(MUST_FAIL[case.name], case.source, case_options(case, src, dst))
        except AssertionError as error:
            raise AssertionError(f"{form}{error}") from None


def run_load_distributed(case: Case) -> None:
    """The original loads into a network: what it has no parameter for is not in its output."""
    _, src, dst = variants(case)[0]
    strategy = read_strategy(dst) if dst else Strategy()
    with mounted(case.source, *case_options(case, src, dst)) as mountpoint:
        for rank, path in rank_files(mountpoint).items():
            got = by_name(path.read_bytes())
            want = by_name(case.expected_files()[rank].read_bytes())
            same_records({name: got[name] for name in want.keys() & got.keys()}, want)
            laid = {name for name in got if name in strategy}
            check(laid == want.keys(), f"rank {rank}: {laid ^ want.keys()}")


def run_crc_files(case: Case) -> None:
    """Whole-model files with a CRC trailer: a damaged one is refused only where that is asked."""
    with mounted(case.source / "good.safetensors", "--check-crc") as mountpoint:
        same_tensors(rank_files(mountpoint)[0].read_bytes(),
                     (case.source / "good.safetensors").read_bytes())
    refused(("bad.safetensors",), case.source / "bad.safetensors", ["--check-crc"])
    with mounted(case.source / "none.ckpt", "--crc") as mountpoint:
        check(rank_files(mountpoint)[0].read_bytes() == (case.source / "good.ckpt").read_bytes(),
              "the CRC trailer differs")
    for path in (case.source / "good.ckpt", case.source / "none.ckpt"):
        for options in ((), ("--check-crc",)):
            with mounted(path, *options, "--dst-strategy", "none") as mountpoint:
                same_content(rank_files(mountpoint)[0].read_bytes(), path.read_bytes())
    bad = case.source / "bad.ckpt"
    with mounted(bad, "--dst-strategy", "none") as mountpoint:
        same_content(rank_files(mountpoint)[0].read_bytes(), bad.read_bytes())
    refused(("bad.ckpt",), bad, ["--check-crc", "--dst-strategy", "none"])


def run_strings_file(case: Case) -> None:
    path = case.source / "net.ckpt"
    with mounted(path, "--dst-strategy", "none") as mountpoint:
        got = by_name(rank_files(mountpoint)[0].read_bytes())
    same_records(got, by_name(path.read_bytes()))
    for name, value in case.description["loaded"].items():
        if isinstance(value, str):
            text = got[name].content.decode("utf-32-le").rstrip("\0")
            check(text == value, f"'{name}' reads as {text!r}, expected {value!r}")


def run_unified(case: Case) -> None:
    """What the original writes into one directory, byte for byte."""
    for form, src, _ in variants(case):
        with mounted(case.source, "--src-strategy", src or "none") as mountpoint:
            expected = sorted(path.name for path in (case.directory / "dst").iterdir())
            got = sorted(os.listdir(mountpoint / "unified"))
            check(got == expected, f"{form}unified/ holds {got}, expected {expected}")
            for name in expected:
                mine = (mountpoint / "unified" / name).read_bytes()
                theirs = (case.directory / "dst" / name).read_bytes()
                # The original copies what the source's metadata says of the source.
                stale = b',"remove_redundancy":"True"', b'"remove_redundancy":"True",'
                try:
                    if any(text in theirs for text in stale):
                        same_tensors(mine, theirs)
                    else:
                        same_file(mine, theirs)
                except AssertionError as error:
                    raise AssertionError(f"{form}{name}: {error}") from None


def same_tensors(got: bytes, want: bytes) -> None:
    """Two safetensors files, but for their metadata."""
    headers, data = [], []
    for file in (got, want):
        length = int.from_bytes(file[:8], "little")
        header = json.loads(file[8:8 + length])
        header.pop("__metadata__")
        headers.append(list(header.items()))
        data.append(file[8 + length:])
    check(headers[0] == headers[1], "the headers differ")
    check(data[0] == data[1], "the tensors differ")


def run_load_distributed_safetensors(case: Case) -> None:
    _, _, dst = variants(case)[0]
    options = ("--prefix", case.prefix, "--unmatched", "source")
    with mounted(case.directory / "unified", "--dst-strategy", dst, *options) as mountpoint:
        files = rank_files(mountpoint)
        for rank, path in case.expected_files().items():
            same_file(files[rank].read_bytes(), path.read_bytes())


def run_merge(case: Case) -> None:
    """merge_sliced_parameter; without a strategy it joins along dimension 0, and turns bfloat16
    into float32."""
    _, src, _ = variants(case)[0]
    options = ["--src-strategy", src] if src else ["--src-join", "*", "--cast", "bf16->fp32",
                                                       "--allow-unmatched"]
    with mounted(case.source, "--prefix", case.prefix, *options) as mountpoint:
        same_bytes((mountpoint / "merged" / f"{case.prefix}merged.ckpt").read_bytes(),
                   (case.directory / "dst/merged.ckpt").read_bytes())


def run_encrypted(case: Case) -> None:
    plain = (case.directory / "dst/plain.ckpt").read_bytes()
    for name, key in case.description["keys_hex"].items():
        path = case.source / name
        refused(("encrypted",), path, [])
        with scratch() as directory:
            right, wrong = directory / "key", directory / "wrong"
            right.write_bytes(bytes.fromhex(key["key"]))
            wrong.write_text("00" * (len(key["key"]) // 2) + "\n")
            for file in (right, wrong):
                file.chmod(0o600)
            mode = ("--dec-mode", key["mode"])
            with mounted(path, "--dec-key-file", right, *mode) as mountpoint:
                got = rank_files(mountpoint)[0].read_bytes()
                same_bytes(got, plain)
            refused((name,), path, ["--dec-key-file", wrong, *mode])


def runner_of(case: Case) -> Callable[[Case], None]:
    special = {"crc_files": run_crc_files, "strings_file": run_strings_file,
               "load_distributed_ckpt": run_load_distributed,
               "load_distributed_safetensors": run_load_distributed_safetensors,
               "encrypted": run_encrypted}
    by_api = {"merge_sliced_parameter": run_merge, "unified_safetensors": run_unified}
    if case.name in special:
        return special[case.name]
    if case.api in by_api:
        return by_api[case.api]
    if case.api not in CONVERSION_APIS:
        raise AssertionError(f"nothing knows how to run a case of api '{case.api}'")
    if case.name in MUST_FAIL:
        return run_must_fail
    return run_by_meaning if case.name in MUST_WORK else run_expected


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help="names; default: all")
    parser.add_argument("--served", choices=("http", "s3"), help="read the cases from a server")
    parser.add_argument(ONE_FORM, action="store_true", help="each case with one form of its strategies")
    args = parse_settings(parser)
    try:
        with served_cases(args.served):
            return run_cases(args.cases)
    except unittest.SkipTest as reason:
        print(f"skipped: {reason}")
        return SKIP


@contextlib.contextmanager
def served_cases(server: str | None) -> Iterator[None]:
    """The program reads sources and strategies from a server of this kind."""
    with contextlib.ExitStack() as stack:
        if server == "http":
            Settings.served = (GOLDEN, stack.enter_context(serving(GOLDEN)).url)
        elif server == "s3":
            store = stack.enter_context(object_store())
            store.upload("golden", GOLDEN, prefix="sets/")
            Settings.served = (GOLDEN, "s3://golden/sets")
            Settings.environment = store.environment
        yield


def run_cases(names: list[str]) -> int:
    passed = failed = 0
    for case in load_cases():
        if names and case.name not in names:
            continue
        try:
            runner_of(case)(case)
        except (AssertionError, MountFailed, OSError, KeyError, ValueError) as error:
            failed += 1
            print(f"FAIL {case.name}: {type(error).__name__}: {error}", flush=True)
        else:
            passed += 1
            print(f"ok   {case.name}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
