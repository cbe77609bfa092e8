#!/usr/bin/env python3
"""Programs of a lab store under a patched loader: the same objects, without the storm.

    lab.py --libraries DIR… --store STORE --becalm BECALM --carrier patchelf|note|ldcache

The store is copied, the C library's package in it filled from DIR…, and the copy mounted
over the store in a mount namespace of its own, for its run paths are absolute. Carriers
are written by patchelf (--build-resolution-cache) or by becalm fix. Each program is then
resolved with the readers off and on (glibc.rtld.resolution=0 and 3), under strace:

- the objects are those that the store's own loader loads, in the same order, and the
  search scopes are the same;
- each open and stat of the loader is what `becalm check` predicts, in sequence, without
  the reader and with it.

--mutable puts a directory outside the store before each run path: what is left then is
looked for there. Root is needed. What is printed is one line a program and the sum.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

CALL = re.compile(r'^(open|openat|stat|newfstatat|access)\((?:AT_FDCWD, )?"([^"]+)".* = (.*)$')
READS = {"patchelf": "note", "note": "note", "ldcache": "ldcache"}


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


def programs_of(store):
    return [path for path in sorted(objects(store))
            if os.access(path, os.X_OK) and interpreter(path)]


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


def put_before_run_paths(options, directory):
    """Put a directory before the run path of each object that has one."""
    for path in sorted(objects(options.store)):
        old = subprocess.run([options.patchelf, "--print-rpath", path],
                             capture_output=True, text=True).stdout.strip()
        if old:
            subprocess.run([options.patchelf, "--set-rpath", f"{directory}:{old}", path],
                           check=True)


def write_carriers(options):
    if options.carrier != "patchelf":
        done = subprocess.run([options.becalm, "fix", "--with", options.carrier, "--no-sync",
                               "--store", options.store, options.store],
                              capture_output=True, text=True)
        print(f"becalm fix --with {options.carrier}: status {done.returncode},",
              (done.stdout.strip().splitlines() or ["silent"])[-1], done.stderr.strip()[:300])
        return
    todo = sorted(objects(options.store))
    done = [subprocess.run([options.patchelf, "--build-resolution-cache", path],
                           capture_output=True).returncode for path in todo]
    print(f"{len(todo)} objects, {sum(status != 0 for status in done)} that patchelf gives no note")


def calls_of(log):
    """(call, path, whether it missed) of each open and stat by name, in order."""
    calls = []
    for line in log.splitlines():
        found = CALL.match(line)
        # /etc/ld.so.preload is always looked for, and is no search for a library.
        if found and not found[2].endswith("ld.so.preload"):
            kind = "open" if "open" in found[1] else "stat"
            calls.append((kind, found[2], found[3].startswith("-1")))
    return calls


def environment(switch):
    return {"PATH": os.environ["PATH"], "HOME": "/dev/null/home", "LC_ALL": "C",
            "GLIBC_TUNABLES": f"glibc.rtld.resolution={switch}"}


def resolve(program, switch):
    """Objects in load order, and the loader's opens and stats."""
    env = environment(switch)
    given = [word for name in ("GLIBC_TUNABLES",) for word in ("-E", f"{name}={env.pop(name)}")]
    with tempfile.NamedTemporaryFile("r") as log:
        done = subprocess.run(
            ["strace", "-qq", "-s", "4096", "-o", log.name, "-E", "LD_TRACE_LOADED_OBJECTS=1",
             "-e", "trace=open,openat,stat,newfstatat,access", *given, program],
            env=env, capture_output=True, text=True)
        calls = calls_of(log.read())
    loaded = [line.split(" (0x")[0].strip() for line in done.stdout.splitlines()]
    return loaded, calls


def scopes(program, switch):
    """The search scopes of the objects that are there before main."""
    env = dict(environment(switch), LD_DEBUG="scopes")
    done = subprocess.run([program, "--version"], env=env, capture_output=True, text=True,
                          errors="replace", timeout=60)
    lines = [line.split(":\t", 1)[-1] for line in done.stderr.splitlines() if ":\t" in line]
    return [line for line in lines if line.startswith("object=") or " scope " in line]


def predicted(options, programs, reads):
    """What becalm check says of each program: its opens and stats, in order."""
    command = [options.becalm, "check", "--json", "--probes", "--store", options.store]
    command += ["--reads", READS[options.carrier] if reads else "none"]
    done = subprocess.run([*command, *programs], capture_output=True, text=True)
    result = {}
    for program in json.loads(done.stdout)["programs"]:
        result[program["path"]] = [(probe["call"], probe["path"], probe["outcome"] != "hit")
                                   for probe in program["probes"]]
    return result


def is_search(call):
    """Whether a call is one that the model tells: a cache that was read is not."""
    return call[2] or not call[1].endswith("ld.so.cache")


def differs(seen, told):
    """The first place where two sequences differ, as text."""
    seen = [call for call in seen if is_search(call)]
    # A stat of a directory may be spelled with a slash at its end or without.
    pairs = [[(kind, path.rstrip("/"), missed) for kind, path, missed in calls]
             for calls in (seen, told)]
    if pairs[0] == pairs[1]:
        return None
    for number, (one, other) in enumerate(zip(*pairs)):
        if one != other:
            return f"call {number}: seen {one}, predicted {other}"
    return f"{len(seen)} calls seen, {len(told)} predicted"


def compare(options, stock):
    """Readers off, readers on, and the store's own loader."""
    programs = programs_of(options.store)
    expected = [predicted(options, programs, reads) for reads in (False, True)]
    wrong, sums = 0, [0, 0]
    for program in programs:
        faults = []
        runs = [resolve(program, switch) for switch in (0, 3)]
        if not stock[program] == runs[0][0] == runs[1][0] or len(runs[0][0]) < 2:
            faults.append("other objects are loaded")
        off, on = (scopes(program, switch) for switch in (0, 3))
        if off != on or not off:
            faults.append("other search scopes")
        for (_, calls), told, name in zip(runs, expected, ("off", "on")):
            difference = differs(calls, told[program])
            if difference:
                faults.append(f"reader {name}: {difference}")
        missed = [[call for call in calls if call[2]] for _, calls in runs]
        sums = [total + len(calls) for total, calls in zip(sums, missed)]
        wrong += bool(faults)
        print(f"{'DIFFERENT' if faults else 'same'} {len(runs[0][0])} objects, missed "
              f"{len(missed[0])} -> {len(missed[1])}  {os.path.relpath(program, options.store)}")
        for fault in faults:
            print("    ", fault)
        outside = [call for call in missed[1] if not call[1].startswith(options.store)]
        if missed[1]:
            print(f"     left: {len(outside)} outside the store, first {missed[1][0]}")
    print(f"{len(programs)} programs, {wrong} different; missed {sums[0]} -> {sums[1]}")
    return 1 if wrong or not programs else 0


def inside(options):
    """In the namespace: write the carriers and compare."""
    with open(options.stock, encoding="utf-8") as file:
        stock = json.load(file)
    if options.mutable:
        put_before_run_paths(options, os.path.join(os.path.dirname(options.stock), "mutable"))
    write_carriers(options)
    return compare(options, stock)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--libraries", nargs="+", default=[])
    parser.add_argument("--store", required=True)
    parser.add_argument("--becalm", default="becalm")
    parser.add_argument("--patchelf", default="patchelf")
    parser.add_argument("--carrier", choices=sorted(READS), default="note")
    parser.add_argument("--mutable", action="store_true")
    parser.add_argument("--scratch", default=None)
    parser.add_argument("--stock", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stock:
        return inside(options)
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        os.chmod(folder, 0o755)
        copy = os.path.join(folder, "store")
        shutil.copytree(options.store, copy, symlinks=True)
        os.mkdir(os.path.join(folder, "mutable"))
        fill_libc(copy, options.libraries)
        stock = os.path.join(folder, "stock.json")
        with open(stock, "w", encoding="utf-8") as file:
            json.dump({path: resolve(path, 0)[0] for path in programs_of(options.store)}, file)
        sys.stdout.flush()
        again = [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--stock", stock]
        mount = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
        return subprocess.run(["unshare", "--mount", "sh", "-c", mount, "sh", copy,
                               options.store, *again]).returncode


if __name__ == "__main__":
    sys.exit(main())
