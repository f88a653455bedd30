# SPDX-License-Identifier: Apache-2.0
"""Options that select nothing of the checkpoint are refused, with the name that was meant; and with
--allow-unmatched they are warnings."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import unittest
import zlib
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "data"))

import numpy as np  # noqa: E402
from ckpt_format import encode_checkpoint, record_of  # noqa: E402
from format_files import write_safetensors  # noqa: E402
from layouts import Layout  # noqa: E402
from mounted import Settings, mounted, mountpoint_guard, one_line, run, run_unittests, scratch  # noqa: E402
from strategy_files import Strategy, write_protobuf  # noqa: E402

Words = Sequence[str | Path]
NAMES = ("model.embed.weight", "model.layers.0.wq.weight", "model.layers.0.norm.weight",
         "adam_m.model.layers.0.wq.weight")
TYPES = {"F32": "<f4", "BF16": "<u2"}


def write_model(path: Path, names: Sequence[str] = NAMES, types: dict[str, str] | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for number, name in enumerate(names):
        kind = (types or {}).get(name, "F32")
        tensors[name] = (kind, np.full((4, 2), number, TYPES[kind]))
    write_safetensors(path, tensors)
    return path


class Unmatched(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = self.enterContext(scratch())
        self.model = write_model(self.directory / "model.safetensors")

    def refused(self, *words: str | Path, says: Words, code: int = 2) -> str:
        result = run(*words)
        self.assertEqual(result.code, code, result)
        line = one_line(result)
        for word in says:
            self.assertIn(str(word), line)
        return line

    def export(self, *options: str | Path, says: Words, source: Path | None = None) -> None:
        """Refused; and with --allow-unmatched the same is a warning."""
        source = source or self.model
        self.refused("export", source, self.directory / "out", *options,
                     says=[*says, "--allow-unmatched"])
        self.assertFalse((self.directory / "out").exists())
        result = run("export", source, self.directory / "allowed", *options, "--allow-unmatched",
                     "--force")
        self.assertEqual(result.code, 0, result)
        for word in says:
            self.assertIn(str(word), result.stderr)

    def exported(self, *options: str | Path, source: Path | None = None) -> Path:
        out = self.directory / "good"
        shutil.rmtree(out, ignore_errors=True)
        result = run("export", source or self.model, out, *options, "--force")
        self.assertEqual((result.code, result.stderr), (0, ""), result)
        return out


class Globs(Unmatched):
    def test_cast(self) -> None:
        self.export("--cast", "modle.*:fp32->bf16",
                    says=["--cast 'modle.*:fp32->bf16'", "--cast 'model.*:fp32->bf16'"])
        self.exported("--cast", "model.*:fp32->bf16")

    def test_cast_of_a_type_that_is_not_there(self) -> None:
        self.export("--cast", "fp64->bf16", says=["Float64", "Float32", NAMES[0]])
        self.export("--cast", "model.*:bf16->fp32", says=["BFloat16", "Float32"])

    def test_cast_behind_one_that_takes_all(self) -> None:
        self.export("--cast", "fp32->bf16", "--cast", "*.norm.*:fp32->fp16",
                    says=["--cast '*.norm.*:fp32->fp16'", "before it"])
        self.exported("--cast", "*.norm.*:fp32->fp16", "--cast", "fp32->bf16")

    def test_cast_of_what_is_left_out(self) -> None:
        self.export("--exclude", "adam_*", "--cast", "adam_*:fp32->bf16", says=["not shown", NAMES[3]])

    def test_include(self) -> None:
        self.export("--include", "model.*", "--include", "modle.layers.1.*",
                    says=["--include 'modle.layers.1.*'", "model.layers.0"])
        self.refused("export", self.model, self.directory / "out", "--include", "modle.*",
                     says=["--include 'model.*'", NAMES[0]])

    def test_exclude(self) -> None:
        self.export("--exclude", "adam.m.*", says=["--exclude 'adam_m.*'", NAMES[3]])
        self.export("--exclude", "embed.weight", says=["--exclude '*embed.weight'"])
        self.exported("--exclude", "adam_m.*")

    def test_nothing_is_near(self) -> None:
        self.export("--exclude", "completely.different.*", says=["the nearest name is '"])

    def test_state_prefix(self) -> None:
        self.export("--state-prefix", "adamm.", says=["--state-prefix 'adamm.'", "--state-prefix adam_m"])
        self.exported("--state-prefix", "adam_m.")

    def test_name_map(self) -> None:
        names = self.directory / "names.json"
        names.write_text(json.dumps({"model.embd.weight": "tok.weight", NAMES[1]: "q"}))
        self.export("--name-map", names, says=["--name-map", names, "model.embd.weight", NAMES[0]])
        names.write_text(json.dumps({NAMES[0]: "tok.weight"}))
        self.exported("--name-map", names)

    def test_src_join(self) -> None:
        for rank in range(2):
            write_model(self.directory / f"ranks/rank_{rank}/net.safetensors")
        ranks = self.directory / "ranks"
        self.export("--src-join", "*.embd.*", says=["--src-join '*.embed.*'"], source=ranks)
        joined = run("export", ranks, self.directory / "joined", "--src-join", "*.embed.*")
        self.assertEqual(joined.code, 0, joined)
        self.assertIn("unknown whether", joined.stderr)  # how many ranks there were

    def test_globs_are_of_the_new_names(self) -> None:
        names = self.directory / "names.json"
        names.write_text(json.dumps({NAMES[0]: "tok.weight"}))
        self.export("--name-map", names, "--exclude", NAMES[0], says=[NAMES[0], "matches no parameter"])
        self.exported("--name-map", names, "--exclude", "tok.*")

    def test_every_command_that_converts(self) -> None:
        mountpoint = self.directory / "mnt"
        mountpoint.mkdir()
        for words in (["mount", self.model, mountpoint, "--check-only"],
                      ["hash", self.model], ["cat", self.model, "rank_0/checkpoint_0.safetensors"],
                      ["plan", self.model], ["report", self.model, "-O", self.directory / "page"]):
            with self.subTest(words[0]):
                self.refused(*words, "--exclude", "modle.*", says=["--exclude 'model.*'"])


class Strategies(Unmatched):
    """Two ranks, which cut rows."""

    RULES = '[devices]\naxes = ["tp=2"]\n'
    GOOD = RULES + '[[rule]]\nmatch = "*w"\ncut = ["tp", ""]\n[[rule]]\nmatch = "*norm"\n'

    def setUp(self) -> None:
        super().setUp()
        self.source = self.directory / "src"
        self.write(self.source, range(2), ("w", "norm"))
        self.rules = self.directory / "rules.toml"

    def write(self, root: Path, ranks: Sequence[int], names: Sequence[str]) -> None:
        for rank in ranks:
            file = root / f"rank_{rank}/net.ckpt"
            file.parent.mkdir(parents=True)
            shapes = {"w": (2, 4), "norm": (4,)}
            file.write_bytes(encode_checkpoint(
                [record_of(name, "Float32", np.full(shapes.get(name, (4,)), 1 + (rank if name == "w" else 0),
                                                    "<f4")) for name in names]))

    def strict(self, text: str, *says: str) -> None:
        """For a source and for a target."""
        self.rules.write_text(text)
        self.refused("export", self.source, self.directory / "out", "--src-strategy", self.rules,
                     says=[self.rules, *says])
        (self.directory / "good.toml").write_text(self.GOOD)
        words = ["export", self.source, self.directory / "out", "--src-strategy",
                 self.directory / "good.toml", "--dst-strategy", self.rules]
        self.refused(*words, says=[self.rules, *says])
        allowed = run(*words, "--allow-unmatched")
        self.assertEqual(allowed.code, 0, allowed)
        for word in says:
            if word != "optional = true":
                self.assertIn(word, allowed.stderr)

    def test_a_rule(self) -> None:
        self.strict(self.GOOD + '[[rule]]\nmatch = "*nrom.weight"\n', "line 8", "'*nrom.weight'",
                    "optional = true")

    def test_one_glob_of_a_rule(self) -> None:
        self.strict(self.RULES + '[[rule]]\nmatch = ["*w", "*wq"]\ncut = ["tp", ""]\n'
                                 '[[rule]]\nmatch = "norm"\n', "line 3", "'*wq'")

    def test_a_rule_behind_others(self) -> None:
        self.strict(self.GOOD + '[[rule]]\nmatch = "w"\ncut = ["", "tp"]\n', "line 8", "rules before it")

    def test_layers(self) -> None:
        text = self.GOOD.replace('tp=2"]', 'tp=2"]\nstages = 1')
        self.strict(text + '[[layers]]\nmatch = "layer.{n}."\nsplit = [4]\n', "line 9", "layer.{n}.")

    def test_optional(self) -> None:
        for text in (self.GOOD + '[[rule]]\nmatch = "adam*"\noptional = true\n',
                     self.GOOD.replace('tp=2"]', 'tp=2"]\noptional = true') + '[[rule]]\nmatch = "adam*"\n'):
            self.rules.write_text(text)
            self.exported("--src-strategy", self.rules, source=self.source)
            self.exported("--src-strategy", self.rules, "--dst-strategy", self.rules, source=self.source)
            check = run("strategy", "check", self.rules, "--source", self.source)
            self.assertEqual(check.code, 0, check)

    def test_other_commands(self) -> None:
        self.rules.write_text(self.GOOD + '[[rule]]\nmatch = "wq"\n')
        for words in (["verify", self.source, "--src-strategy", self.rules],
                      ["inspect", self.source, "--src-strategy", self.rules],
                      ["diff", self.source, self.source, "--a-strategy", self.rules],
                      ["strategy", "show", self.rules, "--source", self.source]):
            with self.subTest(words[0]):
                self.refused(*words, says=["line 8", "'wq'"])
        check = run("strategy", "check", self.rules, "--source", self.source)
        self.assertEqual(check.code, 1, check)
        self.assertIn("line 8: the rule 'wq' matches no parameter", check.stdout)

    def test_files_of_mindspore_may_list_more(self) -> None:
        strategy = Strategy([{"w": Layout((2,), ((0,), ()), 0), "gone": Layout((2,), ((0,), ()), 0)}])
        write_protobuf(strategy, self.directory / "src.ckpt")
        result = run("export", self.source, self.directory / "more", "--src-strategy",
                     self.directory / "src.ckpt")
        self.assertEqual(result.code, 0, result)
        self.assertIn("a strategy lists 1 parameter that the checkpoint does not have: 'gone'", result.stderr)
        # So may rules that were made of one.
        made = run("strategy", "convert", self.directory / "src.ckpt", "-O", self.rules)
        self.assertEqual(made.code, 0, made)
        self.rules.write_text(self.rules.read_text().replace('"error"', '"replicate"'))
        self.exported("--src-strategy", self.rules, source=self.source)

    def test_join_and_a_strategy(self) -> None:
        self.rules.write_text(self.GOOD)
        for words in (["export", self.source, self.directory / "out"], ["verify", self.source]):
            self.refused(*words, "--src-strategy", self.rules, "--src-join", "w",
                         says=["--src-join", "leave"])

    def test_a_stage_whose_files_are_elsewhere(self) -> None:
        """A node has the files of its own stage alone: what is named may be in those of another."""
        source = self.directory / "stages"
        self.write(source, range(2), ("w", "norm"))
        self.rules.write_text(self.RULES.replace('tp=2"]', 'tp=2"]\nstages = 2') +
                              '[[rule]]\nmatch = "w"\ncut = ["tp", ""]\nstage = 0\n'
                              '[[rule]]\nmatch = "norm"\nstage = 0\n'
                              '[[rule]]\nmatch = "head"\ncut = ["tp", ""]\nstage = 1\n')
        result = run("export", source, self.directory / "out", "--src-strategy", self.rules,
                     "--exclude", "head")
        self.assertEqual(result.code, 2, result)
        self.assertIn("source rank 2,3 is missing", result.stderr)
        self.assertNotIn("matches no parameter", result.stderr)


class Checks(Unmatched):
    def test_inspect(self) -> None:
        self.refused("inspect", self.model, "--include", "modle.*", code=1,
                     says=["--include 'model.*'"])
        self.assertEqual(run("inspect", self.model, "--include", "modle.*").stdout.count("model.embed"), 0)
        both = run("inspect", self.model, "--include", "modle.*", "--include", "adam*")
        self.assertEqual(both.code, 1, both)
        self.assertIn(NAMES[3], both.stdout)
        self.refused("inspect", self.model, "--exclude", "modle.*", says=["--exclude 'model.*'"])
        self.refused("inspect", self.model, "--include", "adam*", "--weights-only", code=1,
                     says=["no parameter"])
        allowed = run("inspect", self.model, "--include", "modle.*", "--allow-unmatched", "--json")
        self.assertEqual(allowed.code, 0, allowed)
        self.assertEqual(json.loads(allowed.stdout)["parameters"], [])

    def test_inspect_json_and_stats(self) -> None:
        found = run("inspect", self.model, "--include", "modle.*", "--json")
        self.assertEqual(found.code, 1, found)
        self.assertEqual(json.loads(found.stdout)["parameters"], [])
        self.assertEqual(run("inspect", self.model, "--include", "modle.*", "--stats").code, 1)

    def test_verify(self) -> None:
        for option in ("--include", "--exclude", "--src-join"):
            self.refused("verify", self.model, option, "modle.*", says=[f"{option} 'model.*'"])
        self.refused("verify", self.model, "--state-prefix", "adamm.", says=["--state-prefix adam_m"])
        self.refused("verify", self.model, "--include", "adam*", "--weights-only", says=["left to check"])
        self.assertEqual(run("verify", self.model, "--include", "model.*").code, 0)
        allowed = run("verify", self.model, "--exclude", "modle.*", "--allow-unmatched")
        self.assertEqual(allowed.code, 0, allowed)
        self.assertIn("modle.*", allowed.stderr)

    def test_diff(self) -> None:
        words = ["diff", self.model, self.model]
        for option in ("--include", "--exclude"):
            self.refused(*words, option, "modle.*", says=[f"{option} 'model.*'"])
        self.refused(*words, "--a-join", "modle.*", says=["--a-join"])
        names = self.directory / "names.json"
        names.write_text(json.dumps({"model.embd.weight": "x"}))
        self.refused(*words, "--name-map", names, says=["model.embd.weight", NAMES[0]])
        self.refused(*words, "--include", "adam*", "--weights-only", says=["left to compare"])
        # In one of them is enough.
        other = write_model(self.directory / "other.safetensors", NAMES[:3])
        self.assertEqual(run("diff", other, self.model, "--exclude", "adam*").code, 0)
        self.assertEqual(run("diff", self.model, other, "--exclude", "adam*").code, 0)


class Files(Unmatched):
    """Options about files that this checkpoint does not have, or that nothing reads."""

    def test_crcs_to_check(self) -> None:
        result = run("inspect", self.model, "--check-crc")
        self.assertEqual(result.code, 0, result)
        self.assertIn("no file of the checkpoint has a CRC", result.stderr)

    def test_crcs_of_some_files(self) -> None:
        record = encode_checkpoint([record_of("w", "Float32", np.zeros(4, "<f4"))])
        for rank, trailer in ((0, b""), (1, b"crc_num" + zlib.crc32(record).to_bytes(10, "big"))):
            file = self.directory / f"set/rank_{rank}/net.ckpt"
            file.parent.mkdir(parents=True)
            file.write_bytes(record + trailer)
        result = run("inspect", self.directory / "set", "--check-crc")
        self.assertEqual(result.code, 0, result)
        self.assertIn("--check-crc: CRC good in 1 file, none in 1 file, such as ", result.stderr)
        self.assertIn("rank_0/net.ckpt", result.stderr)

    def test_a_configuration_that_nothing_reads(self) -> None:
        config = self.directory / "config.json"
        config.write_text("{}")
        self.export("--model-config", config, says=["--model-config", "--map", "--views"])
        self.exported("--model-config", config, "--views", "hf")
        for words in (("inspect", self.model), ("verify", self.model),
                      ("strategy", "check", self.directory / "none.ckpt")):
            self.refused(*words, "--model-config", config, says=["--model-config without --map"])
        self.refused("diff", self.model, self.model, "--b-model-config", config,
                     says=["--b-model-config without --b-map"])

    def test_a_key_for_what_is_not_encrypted(self) -> None:
        key = self.directory / "key"
        key.write_bytes(bytes(range(16)))
        for words in (("inspect", self.model), ("export", self.model, self.directory / "out"),
                      ("diff", self.model, self.model), ("verify", self.model)):
            option = "--a-dec-key-file" if words[0] == "diff" else "--dec-key-file"
            result = run(*words, option, key)
            self.assertEqual(result.code, 2, result)
            self.assertIn("not encrypted", result.stderr)


class Views(Unmatched):
    def test_options_of_views_that_are_not_shown(self) -> None:
        for options, says in ((("--views", "merged", "--params"), "--params"),
                              (("--views", "merged", "--ranks", "0"), "--ranks"),
                              (("--dcp-shards", "2"), "--dcp-shards"),
                              (("--views", "dcp-hf", "--dcp-release", "1.13"), "--dcp-release"),
                              (("--views", "params", "--shard-size", "1GB"), "--shard-size"),
                              (("--views", "hub", "--format", "ckpt"), "--format"),
                              (("--views", "hub", "--crc"), "--crc"),
                              (("--views", "merged-ckpt", "--metadata", "pt"), "--metadata"),
                              (("--views", "params", "--align", "64"), "--align"),
                              (("--views", "unified", "--prefix", "x"), "--prefix")):
            with self.subTest(options):
                self.export(*options, says=[says, "--views"])

    def test_a_file_of_options_may_serve_other_commands(self) -> None:
        config = self.directory / "options.toml"
        config.write_text('dcp-shards = 2\nshard-size = "1GB"\n')
        self.exported("--config", config)
        config.write_text('exclude = ["modle.*"]\n')
        self.refused("export", self.model, self.directory / "out", "--config", config,
                     says=["--exclude 'model.*'"])
        config.write_text('exclude = ["modle.*"]\nallow-unmatched = true\n')
        self.assertEqual(run("export", self.model, self.directory / "out", "--config", config).code, 0)


class Steps(Unmatched):
    """The newest step counts; others are shown, with a warning in the log."""

    def setUp(self) -> None:
        super().setUp()
        self.steps = self.directory / "steps"
        for step, names in ((1, ("w", "adam_m.w")), (2, ("w", "late"))):
            file = self.steps / f"rank_0/net-{step}_1.ckpt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(encode_checkpoint(
                [record_of(name, "Float32", np.full((4,), step, "<f4")) for name in names]))

    def test_of_the_newest(self) -> None:
        with mounted(self.steps, "--step", "all", "--exclude", "late") as mountpoint:
            for step in ("1_1", "2_1"):
                self.assertEqual(os.listdir(mountpoint / f"steps/{step}/rank_0"), ["checkpoint_0.ckpt"])

    def test_of_an_older_one(self) -> None:
        mountpoint = self.directory / "mnt"
        mountpoint.mkdir()
        with mountpoint_guard(mountpoint):
            self.refused("mount", self.steps, mountpoint, "--step", "all", "--exclude", "adam*",
                         says=["--exclude 'adam*'"])
        with mounted(self.steps, "--step", "all", "--exclude", "adam*", "--allow-unmatched") as shown:
            self.assertEqual(len(os.listdir(shown / "steps")), 2)


class Suggestions(Unmatched):
    def test_what_is_suggested_works(self) -> None:
        """Pasted into a shell, it selects something."""
        for option, text in (("--exclude", "modle.*"), ("--exclude", "embed.weight"),
                             ("--include", "model.layers.O.*"), ("--exclude", "Adam_m.*"),
                             ("--cast", "model.layer.*:fp32->bf16")):
            with self.subTest(text):
                line = one_line(run("export", self.model, self.directory / "out", option, text))
                self.assertIn("did you mean ", line)
                suggested = line.split("did you mean ")[1].split("? ")[0]
                self.assertTrue(suggested.startswith(option))
                words = [Settings.binary, "export", self.model, self.directory / "suggested", "--force"]
                done = subprocess.run(f"{shlex.join(map(str, words))} {suggested}", shell=True,
                                      capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, (suggested, done.stderr))


if __name__ == "__main__":
    run_unittests()
