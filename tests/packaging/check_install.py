# SPDX-License-Identifier: Apache-2.0
"""packaging/install.sh in a temporary prefix: every file is in its place and stripped, the installed
program runs and finds its maps, an upgrade removes what is no longer installed, and --uninstall
leaves nothing but what was there before."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import report

MANIFEST = "share/reshardfs/install_manifest.txt"
DOCUMENTS = ("README.md", "README.zh-CN.md", "CHANGELOG.md", "SECURITY.md", "LICENSE")
# Without its debugging information the program is a few MB.
MOST_BYTES = 20_000_000


class Installer:
    """Runs the script on a build, and collects what is wrong."""

    def __init__(self, root, build, prefix):
        self.root, self.build, self.prefix = root, Path(build), prefix
        self.cache = dict(re.findall(r"^(\w+):\w+=(.*)$", (self.build / "CMakeCache.txt").read_text(),
                                     re.MULTILINE))
        self.problems = []

    def script(self, *arguments, code=0):
        """@return standard output and standard error of install.sh."""
        done = subprocess.run([self.root / "packaging/install.sh", *arguments], text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode != code:  # nothing after this would be true
            report.finish([f"install.sh {' '.join(map(str, arguments))}: exit code {done.returncode}, "
                           f"not {code}: {done.stdout}{done.stderr}"], "")
        return done.stdout, done.stderr

    def install(self):
        return self.script("--prefix", self.prefix, "--build", self.build)[0]

    def uninstall(self):
        return self.script("--uninstall", "--prefix", self.prefix)[0]

    def expect(self, condition, problem):
        if not condition:
            self.problems.append(problem)

    def expect_equal(self, what, found, wanted):
        for name in sorted(set(found) ^ set(wanted)):
            self.problems.append(f"{what}: {'has' if name in found else 'lacks'} {name}")

    def run(self, program, *arguments):
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
        self.expect(done.returncode == 0, f"{program} {' '.join(arguments)}: {done.stderr}")
        return done.stdout


def tree(folder):
    """Everything below a folder, with a slash after directories."""
    return {str(path.relative_to(folder)) + ("/" if path.is_dir() and not path.is_symlink() else "")
            for path in folder.rglob("*")}


def wanted_files(installer):
    root, cache = installer.root, installer.cache
    version = re.search(r"^project\(reshardfs VERSION (\S+)", (root / "CMakeLists.txt").read_text(),
                        re.MULTILINE)[1]
    library = f"{cache.get('CMAKE_INSTALL_LIBDIR', 'lib')}/libreshardfs.so."
    documents = "share/doc/reshardfs/"
    yield from ("bin/reshardfs", "sbin/mount.reshardfs", "lib/systemd/system/reshardfs@.service",
                "lib/systemd/system-generators/reshardfs-generator", MANIFEST,
                library + version, library + version.rsplit(".", 1)[0],
                "share/bash-completion/completions/reshardfs", cache["RESHARDFS_ZSH_DIR"] + "/_reshardfs",
                "share/fish/vendor_completions.d/reshardfs.fish")
    yield from (f"{documents}examples/slurm/{name}" for name in ("export.sbatch", "prolog.sh", "epilog.sh"))
    yield from (documents + name for name in DOCUMENTS)
    yield from (f"{documents}{path.relative_to(root)}" for path in (root / "docs").rglob("*.*"))
    pages = (*(root / "man").glob("*.[1-8]"), *(installer.build / "packaging/manual").glob("*.[1-8]"))
    yield from (f"share/man/man{page.suffix[1:]}/{page.name}" for page in pages)
    yield "share/man/man1/reshardfs-mount.1"
    yield from (f"{documents}examples/{path.name}" for path in (root / "config").glob("*.toml"))
    yield from (f"{documents}examples/{folder}/{path.name}" for folder in ("prometheus", "grafana")
                for path in (root / "packaging/deploy" / folder).iterdir())
    yield from (f"{documents}examples/{path.relative_to(root / 'packaging/deploy')}"
                for path in (root / "packaging/deploy/kubernetes").rglob("*")
                if not path.is_dir() and path.suffix != ".pyc")
    yield from (f"share/reshardfs/maps/{path.relative_to(root / 'config/maps')}"
                for path in (root / "config/maps").rglob("*.toml"))


def check_binaries(installer):
    prefix, cache = installer.prefix, installer.cache
    for path in (prefix / "bin/reshardfs", *prefix.glob("lib*/libreshardfs.so.*.*.*")):
        sections = installer.run("readelf", "--sections", "--wide", str(path))
        for section in (".debug_info", ".symtab"):
            installer.expect(f" {section} " not in sections, f"{path}: has {section}")
        installer.expect(cache["RESHARDFS_SANITIZE"] or cache["CMAKE_BUILD_TYPE"] == "Debug"
                         or path.stat().st_size < MOST_BYTES, f"{path}: {path.stat().st_size} bytes")
    for name in ("sbin/mount.reshardfs", "lib/systemd/system-generators/reshardfs-generator"):
        link = prefix / name
        installer.expect(link.resolve() == prefix / "bin/reshardfs", f"{link}: leads to {link.resolve()}")


def check_program(installer):
    program = installer.prefix / "bin/reshardfs"
    built = installer.build / "bin/reshardfs"
    installer.expect(installer.run(program, "--version") == installer.run(built, "--version"),
                     "the installed program has another version")
    maps = installer.prefix / "share/reshardfs/maps"
    probe = maps / "zzz-probe.toml"
    shutil.copy(maps / "mindformers-llama.toml", probe)
    listed = installer.run(program, "map", "list")
    probe.unlink()
    installer.expect("zzz-probe" in listed, f"the installed program does not list the maps in {maps}")
    unit = (installer.prefix / "lib/systemd/system/reshardfs@.service").read_text()
    for command in re.findall(r"^Exec\w+=-?(\S+/reshardfs) ", unit, re.MULTILINE) or ["no command"]:
        installer.expect(command.replace(r"\x20", " ") == str(program), f"reshardfs@.service: runs {command}")


def check_fresh(installer):
    """Into a prefix that does not exist: all of it is the installation's."""
    output = installer.install()
    for told in (f"{installer.prefix}/bin/reshardfs", "reshardfs demo", "man reshardfs-tutorial"):
        installer.expect(told in output, f"install.sh does not name '{told}': {output}")
    found = tree(installer.prefix)
    installer.expect_equal("the prefix", {name for name in found if not name.endswith("/")},
                           set(wanted_files(installer)))
    listed = (installer.prefix / MANIFEST).read_text().splitlines()
    installer.expect_equal("the manifest", set(listed), found | {"/"})
    check_binaries(installer)
    check_program(installer)
    installer.expect("removed" in installer.uninstall(), "--uninstall does not name what it did")
    installer.expect(not installer.prefix.exists(), f"left: {installer.prefix}")
    installer.expect("not installed" in installer.uninstall(), "--uninstall twice: claims to remove")


def check_upgrade(installer):
    """Over an older version, in a prefix that has files of others."""
    prefix = installer.prefix
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin/other").write_text("not ours")
    (prefix / "share/man").mkdir(parents=True)
    before = tree(prefix)
    installer.install()
    fresh = tree(prefix)
    (prefix / "share/reshardfs/old").mkdir()
    (prefix / "share/reshardfs/old/file").write_text("of an older version")
    (prefix / "share/reshardfs/maps/mine.toml").write_text("the administrator's")
    with open(prefix / MANIFEST, "a", encoding="utf-8") as manifest:
        manifest.write("share/reshardfs/old/\nshare/reshardfs/old/file\n")
    installer.install()
    installer.expect_equal("after an upgrade", tree(prefix), fresh | {"share/reshardfs/maps/mine.toml"})
    (prefix / "share/reshardfs/maps/mine.toml").unlink()
    installer.uninstall()
    installer.expect_equal("after --uninstall", tree(prefix), before)


def check_refusals(installer):
    (installer.prefix / "bin/reshardfs").write_text("by hand")
    for told, arguments in (("unknown argument '--purge'", ["--purge"]),
                            ("--prefix needs a directory", ["--prefix"]),
                            ("--build needs --prefix", ["--build", installer.build]),
                            # With no build, so that no mistake in the script can install it.
                            ("belongs to the distribution", ["--prefix", "/usr/", "--build", "/none"]),
                            ("was not installed by this script",
                             ["--uninstall", "--prefix", installer.prefix])):
        output, errors = installer.script(*arguments, code=1)
        installer.expect(not output and errors.count("\n") == 1 and told in errors,
                         f"install.sh {arguments}: {output}{errors}")


def main():
    arguments = report.arguments("build")
    with tempfile.TemporaryDirectory() as folder:
        installer = Installer(arguments.root, arguments.build, Path(folder).resolve() / "a prefix")
        check_fresh(installer)
        if not installer.problems:
            check_upgrade(installer)
            check_refusals(installer)
        report.finish(installer.problems, f"{len(list(wanted_files(installer)))} files")


main()
