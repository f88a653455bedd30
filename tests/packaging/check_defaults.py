# SPDX-License-Identifier: Apache-2.0
"""No default stands for a number that is unknown, in the layers that decide where bytes lie: it is
stated, proven, or refused (base/known.h)."""

import re

import report

LAYERS = ("modelmap", "checkpoint", "strategy", "guess", "plan", "conversion")
NUMBER = r"-?(?:\d+|true|false|\w+\{\d*\})"
DEFAULTS = re.compile(rf"value_or\({NUMBER}\)"                     # x.value_or(1)
                      rf"|\?\s*\*\w+(?:->\w+|\.\w+)*\s*:\s*{NUMBER}\b"  # x ? *x : 1
                      rf"|has_value\(\)\s*\?[^:;?]+:\s*{NUMBER}\b")     # x.has_value() ? f(*x) : 1
# File and code that may have one, with the reason.
JUSTIFIED = {
    ("src/modelmap/mapping_rules.cpp", "key.push_back(value ? *value : -1);"):
        "a key of a cache, in which -1 stands for unknown",
    ("src/checkpoint/whole/index_statement.cpp", "ties_embeddings().value_or(false)"):
        "a total that counts a tensor twice is accepted only if config.json says that it is tied",
    ("src/checkpoint/shards/shard_shapes.cpp", "end.value_or(0)"):
        "an overflow, which the line before notes as wrong",
    ("src/checkpoint/shards/shard_shapes.cpp", "joined.bytes().value_or(0)"):
        "of a tensor that is noted as wrong, which ends the proof",
    ("src/strategy/derive/sized_strategy.cpp",
     "const auto size_of = [](const std::optional<std::int64_t>& size) { return size.value_or(1); };"):
        "a way to share tensors that --dst-strategy does not name is documented not to be taken",
    ("src/strategy/derive/derive.cpp", "data_(sizes.data.value_or(1)),"):
        "a size that --dst-strategy leaves out of the target is documented to be 1",
    ("src/guess/guess_shapes.cpp", "known_number(*first.whole->unit, variables_[map]).value_or(0)"):
        "0 units stand for an unknown number there",
    ("src/guess/guess_shapes.cpp", 'number("mtp_layers", variables_.back()).value_or(0)'):
        "a config.json that states layers and no such key has none",
}


def lines_of(text):
    """Numbers and lines, without comments."""
    for number, line in enumerate(text.splitlines(), 1):
        yield number, line.split("//")[0]


def main():
    root = report.arguments().root
    problems, used, count = [], set(), 0
    for layer in LAYERS:
        sources = [path for path in (root / "src" / layer).rglob("*") if path.suffix in (".h", ".cpp")]
        for path in sorted(sources):
            count += 1
            name = str(path.relative_to(root))
            for number, line in lines_of(path.read_text()):
                if not DEFAULTS.search(line):
                    continue
                reasons = {key for key in JUSTIFIED if key[0] == name and key[1] in line}
                used |= reasons
                if not reasons:
                    problems.append(f"{name}:{number}: a default for an unknown number: {line.strip()}")
    for file, code in sorted(JUSTIFIED.keys() - used):
        problems.append(f"{file} does not have '{code}' any more: remove it from the list")
    report.finish(problems, f"{count} files checked")


main()
