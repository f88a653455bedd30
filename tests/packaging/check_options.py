# SPDX-License-Identifier: Apache-2.0
"""Every option that a message, a manual page or a document names is in the program's table: nothing
speaks of one that was renamed or dropped."""

import re

import program_help
import report

OPTION = r"(?<![\w-])--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)"
# Of other programs, in messages and pages that tell how to use them.
FOREIGN = {
    "array": "sbatch", "cap-add": "docker", "cap-drop": "docker", "device": "docker", "rm": "docker",
    "name": "docker", "preserve-fds": "podman", "ntasks": "srun", "nodes": "srun", "now": "systemctl",
    "install": "cmake", "build": "cmake", "target": "cmake", "uninstall": "setup.sh", "ckpt-format": "Megatron-Core",
    "load": "Megatron-LM", "dist-ckpt-strictness": "Megatron-LM", "load-format": "vLLM", "model-loader-extra-config": "vLLM",
    "safetensors-load-strategy": "vLLM", "custom-weight-loader": "SGLang", "no-deps": "pip",
    "tensor-parallel-size": "vLLM", "dist-ckpt-optim-fully-reshardable": "Megatron-LM",
    "qk-layernorm": "Megatron-LM", "transformer-impl": "Megatron-LM",
    "make-vocab-size-divisible-by": "Megatron-LM", "moe-layer-freq": "Megatron-LM",
    "hybrid-layer-pattern": "Megatron-LM", "finetune": "Megatron-LM",
    "mla-down-proj-fusion": "Megatron-LM", "ckpt-convert-format": "Megatron-LM", "ckpt-convert-save": "Megatron-LM",
    "loader": "Megatron-LM", "saver": "Megatron-LM", "take-over": "between two processes of a mount",
    "noop-layers": "MindSpeed-LLM",
    "create-namespace": "helm", "set": "helm", "namespace": "kubectl", "from-file": "kubectl", "dry-run": "kubectl",
    "filename": "kubectl", "ignore-daemonsets": "kubectl", "keep": "hand_over.py",
    "check": "package.sh", "allow-downgrades": "apt", "for": "package.sh", "machine": "package.sh",
    "find-links": "uvx", "no-index": "uvx",
    "src": "the beginning of several options", "safe": "the beginning of one of DeepSpeed's",
}


def texts_of(root):
    """(path, the part that may name options) of messages, pages and documents."""
    for path in (*(root / "src").rglob("*.cpp"), *(root / "src").rglob("*.h")):
        yield path, "\n".join(re.findall(r'"(?:[^"\\\n]|\\.)*"', path.read_text()))
    for path in (*root.glob("README*.md"), *(root / "docs").rglob("*.md"),
                 *(root / "config").rglob("*.toml")):
        yield path, path.read_text()
    for path in (*(root / "man").glob("*.*"), *(root / "man").glob("*/*.man")):
        page = re.sub(r"\bFl -(?=[a-z])", "--", path.read_text())
        # ".Fl -src-pattern , -src-prefix": several behind one macro.
        yield path, re.sub(r"(?<= , )-(?=[a-z]\w+)", "--", page)


def main():
    arguments = report.arguments("binary")
    known = {option.long_name for shown in program_help.all_commands(arguments.binary).values()
             for option in shown.options}
    known |= {option.long_name for option in program_help.read_help(arguments.binary, []).options}
    problems, count = [], 0
    for path, text in texts_of(arguments.root):
        names = set(re.findall(OPTION, text))
        count += len(names & known)
        problems += [f"{path.relative_to(arguments.root)}: there is no option --{name}"
                     for name in sorted(names - known - FOREIGN.keys())]
    report.finish(problems, f"{count} mentions of {len(known)} options")


main()
