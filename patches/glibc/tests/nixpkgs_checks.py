#!/usr/bin/env python3
"""Makes the 22 checks of nixpkgs' test of its reader with any loader and writer of notes.

    nixpkgs_checks.py --loader LD.SO --store STORE --becalm BECALM      notes of becalm fix --with note
    nixpkgs_checks.py --loader LD.SO --store STORE --patchelf PATCHELF  --build-resolution-cache

STORE is a folder whose packages cannot change; a package is made in it and removed.
"""

import argparse
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

HEAD = struct.pack("=I", 0x63A86CB6) + b"NixOS\0\0\0"
FOO, BOTH = "int foo(void); int main(void) { return foo(); }", \
    "int foo(void), bar(void); int main(void) { return foo() + bar() - 1; }"
EMPTY = r"""asm(".pushsection .note.nixos.ldcache, \"a\", @note\n.balign 4\n.long 6, 2, 0x63a86cb6\n"
    ".asciz \"NixOS\"\n.balign 4\n.byte 0, 0\n.balign 4\n.popsection");"""


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=20, **more)


def compile_to(path, source, *flags):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    subprocess.run(["cc", "-x", "c", "-", "-x", "none", "-o", path, *flags], input=source, text=True, check=True)


def package(out, work, loader):
    """Libraries in dep, real and over, and the programs, without notes."""
    for name, directory, value in (("bar", "dep", 1), ("foo", "real", 7), ("foo", "over", 42)):
        compile_to(f"{out}/lib/{directory}/lib{name}.so.1", f"int {name}(void) {{ return {value}; }}", "-shared",
                   f"-Wl,-soname,lib{name}.so.1")
    dep, real = f"{out}/lib/dep", f"{out}/lib/real"
    for name, source, path in (("prog", BOTH, dep), ("empty", EMPTY + BOTH, dep), ("cwd", FOO, ""),
                               ("runtime", FOO, f"{work}/runtime"), ("mutable", FOO, f"{work}/mutable")):
        compile_to(f"{out}/bin/{name}", source, f"{dep}/libbar.so.1", f"{real}/libfoo.so.1",
                   f"-Wl,--as-needed,--dynamic-linker={loader},--enable-new-dtags,-rpath,{path}:{real}")


def note(path):
    data = open(path, "rb").read()
    at = data.find(HEAD)
    size = struct.unpack_from("=I", data, at - 4)[0]
    return data[at + len(HEAD):][:size].decode() if at > 0 else ""


def with_odd_alignment(program, path):
    """A copy whose PT_NOTE have the p_align -1."""
    data = bytearray(open(program, "rb").read())
    headers, size, count = *struct.unpack_from("=Q", data, 32), *struct.unpack_from("=HH", data, 54)
    for at in range(headers, headers + size * count, size):
        if struct.unpack_from("=I", data, at)[0] == 4:
            struct.pack_into("=Q", data, at + 48, 2**64 - 1)
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, 0o755)
    return path


def checks(top, work, options):
    cached, control = f"{top}/cached", f"{top}/control"
    os.mkdir(f"{work}/mutable")
    for out in (cached, control):
        package(out, work, options.loader)
    for name in ("prog", "cwd", "runtime", "mutable"):
        writer = [options.becalm, "fix", "--with", "note", "--no-sync", "--store", options.store] \
            if options.becalm else [options.patchelf, "--build-resolution-cache"]
        subprocess.run([*writer, f"{cached}/bin/{name}"], check=True, capture_output=True)

    def status(path, cwd=work, **env):
        try:
            return run(path, cwd=cwd, env=env).returncode
        except subprocess.TimeoutExpired:
            return "no end"

    def debug(path):
        return run(path, env={"LD_DEBUG": "libs"}).stderr

    def probes(path):
        return len(re.findall(r"trying file=.*/lib/dep/libfoo\.so\.1", debug(path)))

    def added(directory):
        os.makedirs(directory, exist_ok=True)
        shutil.copy(f"{cached}/lib/over/libfoo.so.1", directory)
        return directory

    prog, cwd, runtime, mutable = (f"{cached}/bin/{name}" for name in ("prog", "cwd", "runtime", "mutable"))
    empty, answer = f"{control}/bin/empty", f"{cached}/lib/real/libfoo.so.1"
    yield "the note has the library", f"={answer}" in note(prog) and f"={answer}" in note(cwd)
    yield "the control has no note", not note(f"{control}/bin/prog")
    yield "dep is not probed", probes(prog) == 0
    yield "LD_DEBUG names the note", f"trying cached file={answer}" in debug(prog)
    yield "dep is probed without a note", probes(f"{control}/bin/prog") > 0
    yield "the library of the note is loaded", status(prog) == 7
    yield "LD_LIBRARY_PATH comes first", status(prog, LD_LIBRARY_PATH=f"{cached}/lib/over") == 42
    yield "the run path has an empty element", "[:" in run("readelf", "-d", cwd).stdout
    yield "the current directory comes first", status(cwd, added(f"{work}/current")) == 42
    yield "a missing directory is in the note", f"?{work}/runtime" in note(runtime)
    yield "it is missing", status(runtime) == 7
    yield "a library is added to it", status(runtime, added(f"{work}/runtime")) == 42
    yield "so without a note", status(f"{control}/bin/runtime") == 42
    yield "a directory that can change is not in the note (patchelf)", \
        f"={answer}" in note(mutable) and f"?{work}/mutable" not in note(mutable)
    yield "a library is added to it", status(mutable, added(f"{work}/mutable")) == 42
    yield "so without a note", status(f"{control}/bin/mutable") == 42
    yield "the empty note is in a PT_NOTE", "NixOS" in run("readelf", "-nW", empty).stdout
    yield "it has two bytes", note(empty) == "\0\0"
    yield "dep is probed", probes(empty) > 0
    yield "LD_DEBUG names no note", "trying cached" not in debug(empty)
    yield "the library is loaded", status(empty) == 7
    yield "a p_align of -1 does no harm", status(with_odd_alignment(prog, f"{work}/odd")) == 7


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loader", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--becalm")
    parser.add_argument("--patchelf")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.store) as top, tempfile.TemporaryDirectory() as work:
        results = list(checks(top, work, options))
    for number, (name, passed) in enumerate(results, 1):
        print(number, "ok" if passed else "differs", name)
    passed = sum(passed for _, passed in results)
    print(f"{passed} of {len(results)}")
    return 0 if passed == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
