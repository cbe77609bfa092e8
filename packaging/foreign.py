"""Makes a small store of each machine that becalm supports, with clang and Debian's C library for it, and
has becalm index it and fix it: the binary must have the audit module of each machine. The machine's
own loader then loads the program with the index, under an emulator, and must take its answers.

    packaging/foreign.py BECALM FOLDER
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

# The machine, clang's target, the linker's flag, the loader, the emulator.
MACHINES = [
    ("x86_64", "x86_64-linux-gnu", "-fuse-ld=lld", "/lib64/ld-linux-x86-64.so.2", None),
    ("aarch64", "aarch64-linux-gnu", "-fuse-ld=lld", "ld-linux-aarch64.so.1", "aarch64"),
    ("arm", "arm-linux-gnueabihf", "-fuse-ld=lld", "ld-linux-armhf.so.3", "arm"),
    ("i386", "i686-linux-gnu", "-fuse-ld=lld", "ld-linux.so.2", "i386"),
    ("riscv64", "riscv64-linux-gnu", "-fuse-ld=lld", "ld-linux-riscv64-lp64d.so.1", "riscv64"),
    ("ppc64le", "powerpc64le-linux-gnu", "-fuse-ld=lld", "ld64.so.2", "ppc64le"),
    ("s390x", "s390x-linux-gnu", "--ld-path=s390x-linux-gnu-ld", "ld64.so.1", "s390x"),
]


def run(*command, statuses=(0,), **variables):
    ran = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C", **variables},
    )
    assert ran.returncode in statuses, f"{command}: {ran.stderr}{ran.stdout}"
    return ran.stdout


def made(store, target, linker, loader):
    """A program of a package that needs a library of another one, behind an empty directory."""
    folder = store / "libc/lib"
    folder.mkdir(parents=True)
    shutil.copy2(Path("/usr") / target / "lib" / loader, folder)
    loader = folder / Path(loader).name
    clang = ["clang", f"--target={target}", linker, "-nostdlib", "-fPIC", "-ffreestanding"]
    empty, library, program = (store / name for name in ("empty/lib", "library/lib", "tool/bin"))
    for folder in (empty, library, program):
        folder.mkdir(parents=True)
    (store / "l.c").write_text("int answer(void) { return 42; }\n")
    (store / "p.c").write_text("int answer(void); void _start(void) { answer(); for (;;); }\n")
    file = library / "libanswer.so.1"
    run(*clang, "-shared", "-Wl,-soname,libanswer.so.1", "-o", str(file), str(store / "l.c"))
    tool = program / "tool"
    run(
        *clang, "-pie", f"-Wl,--dynamic-linker={loader}", "-Wl,--enable-new-dtags",
        f"-Wl,-rpath,{empty}:{library}", "-o", str(tool), str(store / "p.c"), str(file),
    )
    (store / "l.c").unlink()
    (store / "p.c").unlink()
    return tool


def starts(becalm, tool, index, emulator):
    """Lookups that the index answers when the loader loads the program, and misses that are left."""
    log = index.with_suffix(".log")
    command = [f"qemu-{emulator}-static"] if emulator else []
    # The loader prints what it has loaded and ends.
    variables = {"LD_TRACE_LOADED_OBJECTS": "1", "LD_AUDIT": str(index), "BECALM": f"log:{log}"}
    listed = run(*command, str(tool), **variables)
    assert "library/lib/libanswer.so.1" in listed, listed
    (image,) = json.loads(run(becalm, "trace", "--json", "--from", str(log)))["images"]
    return image["answered"], image["missed_opens"]


def main():
    becalm, folder = sys.argv[1], Path(sys.argv[2]).absolute()
    shutil.rmtree(folder, ignore_errors=True)
    for machine, *how, emulator in MACHINES:
        store = folder / machine
        tool = made(store, *how)
        where = ["--store", str(store)]
        index = folder / f"{machine}.so"
        report = json.loads(run(becalm, "index", "--json", *where, str(store), "-o", str(index)))
        assert report["edges"] > 0, report
        differences = json.loads(run(becalm, "verify", "--json", str(index)))["indexes"][0]["differences"]
        assert not differences, differences
        # The index is an audit module: an object of the program's machine with the loader's entry points.
        loaded = starts(becalm, tool, index, emulator)
        assert loaded == (1, 0), f"{machine}: {loaded}"
        before, module = tool.read_bytes(), index.read_bytes()
        same = module[4:6] == before[4:6] and module[18:20] == before[18:20]
        assert same, f"{machine}: the module of another machine"
        assert b"\0la_objsearch\0" in module, machine
        run(becalm, "fix", "--with", "farm", *where, "--libc", "glibc-2.36", str(store / "tool"), statuses=(0, 1))
        assert tool.read_bytes() != before, f"{machine}: fix changed nothing"
        run(becalm, "undo", str(store / "tool"))
        assert tool.read_bytes() == before, f"{machine}: undo"
    names = ", ".join(machine for machine, *_ in MACHINES)
    print(f"packages: index, a start with it, fix and undo in stores of {names}", file=sys.stderr)


main()
