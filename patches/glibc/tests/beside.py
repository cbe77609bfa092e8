#!/usr/bin/env python3
"""Compares loaders that read notes with one that does not, on the programs of a lab store.

    beside.py --store STORE --loader NAME=LD.SO… --becalm BECALM --patchelf PATCHELF

The store is copied and the copy mounted over it in a mount namespace of its own, once for each writer of
notes: none, patchelf (--build-resolution-cache) and becalm (fix --with note). Each loader then lists
each program (ld.so --list) under strace, and under callgrind with --instructions. The libraries and
their order must be those that the plain loader lists in the store without notes.

A loader's libc.so.6 is in the folder of the loader.

After that each loader starts small programs with notes: a library that comes to a directory later, a
missing file, the current directory, an empty note, a note of another alignment. The output must be that
of the plain loader. Root is needed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

import fixture
from lab import calls_of, objects, programs_of

WRITERS = ("none", "patchelf", "becalm")


def listed(loader, program):
    """What the loader lists, without addresses, and its failing opens and stats."""
    with tempfile.NamedTemporaryFile("r") as log:
        done = subprocess.run(
            ["strace", "-qq", "-s", "4096", "-o", log.name,
             "-e", "trace=open,openat,stat,newfstatat,access", loader, "--list", program],
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"}, capture_output=True, text=True)
        missed = sum(call[2] for call in calls_of(log.read()))
    lines = [line.split(" (0x")[0].strip() for line in done.stdout.splitlines()]
    # Each loader lists itself by its own path.
    return [line for line in lines if "ld-linux" not in line], missed


def instructions(loader, program):
    """The instructions of such a run."""
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", loader, "--list", program],
        env={"PATH": os.environ["PATH"], "LC_ALL": "C"}, capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    return int(found[1]) if found else None


def write_notes(options, writer):
    if writer == "becalm":
        subprocess.run([options.becalm, "fix", "--with", "note", "--no-sync", "--store",
                        options.store, options.store], capture_output=True)
    elif writer == "patchelf":
        for path in sorted(objects(options.store)):
            subprocess.run([options.patchelf, "--build-resolution-cache", path],
                           capture_output=True)


def inside(options):
    """In the namespace: write the notes and list the programs with each loader."""
    write_notes(options, options.writer)
    different = 0
    for program in programs_of(options.store)[:options.programs]:
        name, row, reference = os.path.basename(program), [], None
        for loader in options.loader:
            libraries, missed = listed(loader.split("=", 1)[1], program)
            reference = reference or libraries
            different += libraries != reference or len(libraries) < 2
            cell = str(missed)
            if options.instructions:
                cell += f" {(instructions(loader.split('=', 1)[1], program) or 0) / 1e6:.2f}M"
            row.append(cell)
        print(f"{options.writer:8} {name:24} {len(reference):4}  " + "  ".join(row), flush=True)
    print(f"{options.writer}: {different} lists differ from those of the first loader", flush=True)
    return 0


def cases(maker, folder, outside):
    """Programs with notes: a name, the program, and its environment and working directory.

    `folder` is a package of the store, `outside` is not in the store.
    """
    one, two = (os.path.join(folder, name) for name in ("one", "two"))
    for directory in (one, two):
        os.makedirs(directory)
    maker.library(f"{two}/liba.so")
    pairs = [("liba.so", f"={two}/liba.so")]

    def program(name, **more):
        more.setdefault("runpath", f"{one}:{two}")
        more.setdefault("pairs", pairs)
        return maker.program(os.path.join(folder, "bin", name), ["a"], **more)

    late = os.path.join(outside, "late")
    os.makedirs(late)
    mutable = program("mutable", runpath=f"{late}:{two}")
    maker.library(f"{late}/liba.so")
    yield "a library that came to an earlier directory after the note", mutable, {}
    yield "a file that is missing", program("gone", pairs=[("liba.so", f"={one}/liba.so")]), {}
    damaged = os.path.join(folder, "text.so")
    with open(damaged, "w", encoding="utf-8") as file:
        file.write("no ELF file")
    yield "a file that is no ELF file", program("text", pairs=[("liba.so", f"={damaged}")]), {}
    yield "a directory", program("directory", pairs=[("liba.so", f"={one}")]), {}
    yield "an empty note", program("empty", pairs=None, data=fixture.note([], descriptor=b"")), {}
    yield "a note without an end", program(
        "cut", pairs=None, data=fixture.note([], descriptor=b"liba.so\0=" + b"x" * 40)), {}
    shifted = program("aligned")
    fixture.patch_note_header(shifted, align=8)
    yield "another p_align", shifted, {}
    current = os.path.join(outside, "current")
    os.makedirs(current)
    maker.library(f"{current}/liba.so")
    yield "the current directory", program(
        "current", runpath=f":{two}", pairs=[("liba.so", f"?:={two}/liba.so")]), {"cwd": current}
    yield "LD_LIBRARY_PATH", program("environment"), {"first": current}


def compare_cases(options):
    """Start the programs of the cases with each loader."""
    named = [loader.split("=", 1) for loader in options.loader]
    plain = fixture.Loader(named[0][1], options.store)
    with (tempfile.TemporaryDirectory(dir=options.store) as folder,
          tempfile.TemporaryDirectory() as outside):
        for name, program, more in cases(fixture.Maker(plain), folder, outside):
            outcomes, first = [], more.pop("first", None)
            for _, path in named:
                # The C library of the loader is beside it.
                paths = ([first] if first else []) + [os.path.dirname(path)]
                env = {"LD_LIBRARY_PATH": ":".join(paths)}
                try:
                    outcomes.append(fixture.Loader(path, folder).run(program, None, env=env, **more)[:2])
                except subprocess.TimeoutExpired:
                    outcomes.append("no end")
            words = ["same" if outcome == outcomes[0] else f"differs: {outcome}"
                     for outcome in outcomes[1:]]
            print(f"{name}: {outcomes[0][0]}; " + "; ".join(
                f"{named[i + 1][0]} {word}" for i, word in enumerate(words)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", required=True)
    parser.add_argument("--loader", action="append", required=True, metavar="NAME=LD.SO",
                        help="the first is the plain one")
    parser.add_argument("--becalm", default="becalm")
    parser.add_argument("--patchelf", default="patchelf")
    parser.add_argument("--programs", type=int, default=16)
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--scratch", default=None)
    parser.add_argument("--writer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.writer:
        return inside(options)
    print("writer program libraries, then failing opens and stats of:",
          " ".join(loader.split("=", 1)[0] for loader in options.loader))
    for writer in WRITERS:
        with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
            copy = os.path.join(folder, "store")
            shutil.copytree(options.store, copy, symlinks=True)
            sys.stdout.flush()
            again = [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--writer", writer]
            mount = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
            subprocess.run(["unshare", "--mount", "sh", "-c", mount, "sh", copy, options.store,
                            *again])
    compare_cases(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
