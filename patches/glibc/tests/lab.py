#!/usr/bin/env python3
"""Programs of a lab store under a patched loader: the same objects, without the storm.

    lab.py --libraries DIR… --store STORE [--patchelf PROGRAM | --fix COMMAND…]

The store is copied, the C library's package in it filled from DIR…, notes are written by
patchelf (--build-resolution-cache) or by a command that is given the copy's objects, and
the copy is mounted over the store in a mount namespace of its own, for its run paths are
absolute. Each program is then resolved with notes off and on (glibc.rtld.resolution=0
and 3). Root is needed. What is printed is one line a program and the sum.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

MISSED = re.compile(r"= -1 E(NOENT|NOTDIR)")


def is_elf(path):
    if os.path.islink(path) or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def objects(store):
    """All ELF files of a store, but those of the C library."""
    for folder, _, names in os.walk(store):
        if "-libc6-" not in folder:
            for name in names:
                if is_elf(os.path.join(folder, name)):
                    yield os.path.join(folder, name)


def interpreter(path):
    text = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True).stdout
    found = re.search(r"program interpreter: (.*)\]", text)
    return found and found.group(1)


def fill_libc(copy, libraries):
    """Replace the C library's files by those built with the patch."""
    for package in os.listdir(copy):
        lib = os.path.join(copy, package, "lib")
        if "-libc6-" not in package:
            continue
        for name in os.listdir(lib):
            for folder in libraries:
                built = os.path.join(folder, name)
                if os.path.exists(built):
                    os.remove(os.path.join(lib, name))
                    shutil.copy2(os.path.realpath(built), os.path.join(lib, name))
                    break
            else:
                print(f"{name}: not built, that of the store is kept")


def write_notes(copy, options):
    todo = sorted(objects(copy))
    if options.fix:
        subprocess.run([*options.fix, *todo], check=True)
        return
    failed = 0
    for path in todo:
        done = subprocess.run([options.patchelf, "--build-resolution-cache", path],
                              capture_output=True, text=True)
        failed += done.returncode != 0
    print(f"{len(todo)} objects, {failed} that patchelf gives no note")


def resolve(program, switch):
    """Objects in load order, and the loader's failing opens and stats with their paths."""
    environment = ["LD_TRACE_LOADED_OBJECTS=1", f"GLIBC_TUNABLES=glibc.rtld.resolution={switch}"]
    with tempfile.NamedTemporaryFile("r") as log:
        done = subprocess.run(
            ["strace", "-qq", "-o", log.name, "-e", "trace=open,openat,stat,newfstatat,access",
             *(word for one in environment for word in ("-E", one)), program],
            env={"PATH": os.environ["PATH"]}, capture_output=True, text=True)
        calls = log.read().splitlines()
    loaded = [line.split(" (0x")[0].strip() for line in done.stdout.splitlines()]
    missed = [call for call in calls if MISSED.search(call) and "ld.so." not in call]
    return loaded, missed


def programs_of(store):
    return [path for path in sorted(objects(store))
            if os.access(path, os.X_OK) and interpreter(path)]


def compare(store, stock):
    """Notes off, notes on, and the store's own loader: one list of objects."""
    programs = programs_of(store)
    different, sums = 0, [0, 0]
    for program in programs:
        (plain, storm), (noted, left) = resolve(program, 0), resolve(program, 3)
        same = stock[program] == plain == noted and len(plain) > 1
        different += not same
        sums[0] += len(storm)
        sums[1] += len(left)
        if not same or left or len(storm) > 300:
            print(f"{'same' if same else 'DIFFERENT'} {len(plain)} objects, missed "
                  f"{len(storm)} -> {len(left)}  {os.path.relpath(program, store)}")
            for call in left[:3]:
                print("    ", call)
    print(f"{len(programs)} programs, {different} different; missed {sums[0]} -> {sums[1]}")
    return 1 if different or not programs else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--libraries", nargs="+", default=[])
    parser.add_argument("--store", required=True)
    parser.add_argument("--patchelf", default="patchelf")
    parser.add_argument("--fix", nargs="+")
    parser.add_argument("--scratch", default=None)
    parser.add_argument("--stock", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stock:
        with open(options.stock, encoding="utf-8") as file:
            return compare(options.store, json.load(file))
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        copy = os.path.join(folder, "store")
        shutil.copytree(options.store, copy, symlinks=True)
        fill_libc(copy, options.libraries)
        os.chmod(folder, 0o755)
        stock = os.path.join(folder, "stock.json")
        with open(stock, "w", encoding="utf-8") as file:
            json.dump({path: resolve(path, 0)[0] for path in programs_of(options.store)}, file)
        again = [sys.executable, os.path.abspath(__file__), "--store", options.store,
                 "--stock", stock]
        mount = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
        # patchelf reads the directories of run paths: those of the copy, under their names.
        within = ["unshare", "--mount", "sh", "-c", mount, "sh", copy, options.store]
        if not options.fix:
            subprocess.run([*within, sys.executable, "-c",
                            "import sys; sys.path.insert(0, sys.argv[1]); import lab, argparse;"
                            "lab.write_notes(sys.argv[2], argparse.Namespace(fix=None,"
                            " patchelf=sys.argv[3]))",
                            os.path.dirname(os.path.abspath(__file__)), options.store,
                            options.patchelf], check=True)
        else:
            write_notes(copy, options)
        return subprocess.run([*within, *again]).returncode


if __name__ == "__main__":
    sys.exit(main())
