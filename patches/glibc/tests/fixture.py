"""Fixtures of the loader trial: objects with notes, loader caches, and runs of them.

A fixture's library lib<NAME>.so defines <NAME>(), which returns the path it was linked
at; a program calls what it is told to and prints the answers, one a line. So the output
of a program says which file each name came to.
"""

import os
import struct
import subprocess

NOTE_TYPE = 0x63A86CB6
PT_NOTE = 4


class Loader:
    """The loader under trial: its file, and a store prefix it was built with."""

    def __init__(self, path, store, cc="gcc"):
        self.path, self.store, self.cc = path, store, cc
        self.becalm = None

    def run(self, program, switch=3, args=(), env=None, direct=False, loader_args=(), **more):
        """Run a program, `direct` by its own interpreter; (status, stdout, stderr)."""
        environment = {"PATH": os.environ["PATH"]}
        if switch is not None:
            environment["GLIBC_TUNABLES"] = f"glibc.rtld.resolution={switch}"
        environment.update(env or {})
        command = [] if direct else [self.path, *loader_args]
        done = subprocess.run([*command, program, *args], env=environment, timeout=20,
                              capture_output=True, text=True, errors="replace", **more)
        return done.returncode, done.stdout, done.stderr

    def tries(self, program, name, **more):
        """The files tried for `name`, and the caches and paths named, as LD_DEBUG tells them."""
        env = dict(more.pop("env", None) or {}, LD_DEBUG="libs")
        _, _, text = self.run(program, env=env, **more)
        tried, sources, inside = [], [], False
        for line in text.splitlines():
            line = line.split(":\t", 1)[-1].strip()
            if line.startswith("find library="):
                inside = line.startswith(f"find library={name} ")
            elif inside and line.startswith("trying file="):
                tried.append(line[12:])
            elif inside and line.startswith("search "):
                sources.append(line[7:].split("\t")[0])
            elif line.startswith("calling init"):
                inside = False
        return tried, sources


COMPLETE = b"/complete/1\0?\0"


def note(pairs, descriptor=None, align=4, namesz=6, descsz=None, mark=COMPLETE):
    """The bytes of a note segment: a complete note with these pairs, or this descriptor."""
    if descriptor is None:
        descriptor = mark + b"".join(
            k.encode() + b"\0" + v.encode() + b"\0" for k, v in pairs) + b"\0"
    header = struct.pack("=III", namesz, len(descriptor) if descsz is None else descsz, NOTE_TYPE)
    head = header + b"NixOS\0"
    head += b"\0" * (-len(head) % align)
    return head + descriptor + b"\0" * (-len(descriptor) % align)


def _note_source(data):
    body = ",".join(str(byte) for byte in data)
    return ('asm(".pushsection .note.nixos.ldcache,\\"a\\",@note\\n.balign 4\\n'
            f'.byte {body}\\n.popsection");\n')


def function_of(soname):
    """The function of a fixture's library."""
    return soname[3:].split(".")[0]


class Maker:
    """Makes objects below a store."""

    def __init__(self, loader):
        self.loader = loader
        self.store = loader.store

    def path(self, *parts):
        """A path in the store, its folder made."""
        path = os.path.join(self.store, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def _link(self, path, source, flags, needed, runpath, rpath, pairs, data, nodeflib):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if pairs is not None:
            data = note(pairs)
        command = [self.loader.cc, "-O1", "-w", "-x", "c", "-", "-o", path, *flags,
                   "-Wl,--no-as-needed", "-Wl,--build-id=none", "-Wl,-z,now"]
        command += ["-Wl,-z,nodefaultlib"] if nodeflib else []
        command += ["-x", "none"]
        for name in needed:
            command.append(self._stub(name))
        if runpath is not None:
            command += ["-Wl,--enable-new-dtags", f"-Wl,-rpath,{runpath}"]
        if rpath is not None:
            command += ["-Wl,--disable-new-dtags", f"-Wl,-rpath,{rpath}"]
        source = (_note_source(data) if data is not None else "") + source
        subprocess.run(command, input=source, text=True, check=True)
        return path

    def _stub(self, name):
        """A library to link against that is not one of those found at run time."""
        path = os.path.join(self.store, ".stubs", name)
        if not os.path.exists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            subprocess.run([self.loader.cc, "-w", "-shared", "-nostdlib", "-x", "c", "-", "-o",
                            path, f"-Wl,-soname,{name}"], text=True, check=True,
                           input=f"void {function_of(name)}(void) {{}}")
        return path

    def library(self, path, needed=(), runpath=None, rpath=None, pairs=None, data=None,
                extra="", nodeflib=False, call=None):
        """lib<NAME>.so with a function NAME, which returns what `call` does if given."""
        soname = os.path.basename(path)
        name = function_of(soname)
        answer = f'"{path}"' if call is None else f"{call}()"
        source = extra + (f"const char *{call}(void);\n" if call else "")
        source += f"const char *{name}(void) {{ return {answer}; }}\n"
        return self._link(path, source, ["-shared", "-fPIC", "-nostdlib", f"-Wl,-soname,{soname}"],
                          needed, runpath, rpath, pairs, data, nodeflib)

    def program(self, path, calls, needed=None, runpath=None, rpath=None, pairs=None, data=None,
                extra="", body="", nodeflib=False):
        """A program that prints what each function of `calls` returns."""
        if needed is None:
            needed = [f"lib{name}.so" for name in calls]
        source = "int puts(const char *);\n" + extra
        source += "".join(f"const char *{name}(void);\n" for name in calls)
        source += "int main(int argc, char **argv) {\n" + body
        source += "".join(f"puts({name}());\n" for name in calls) + "return 0; }\n"
        return self._link(path, source, [f"-Wl,--dynamic-linker={self.loader.path}"],
                          needed, runpath, rpath, pairs, data, nodeflib)


def headers(data):
    """Offset, type and size of each program header of a 64-bit object."""
    offset, = struct.unpack_from("=Q", data, 32)
    size, count = struct.unpack_from("=HH", data, 54)
    return [(offset + i * size, struct.unpack_from("=I", data, offset + i * size)[0])
            for i in range(count)]


def patch_note_header(path, **fields):
    """Overwrite fields of the PT_NOTE that holds the resolution note."""
    places = {"vaddr": 16, "filesz": 32, "memsz": 40, "align": 48}
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        for at, kind in headers(data):
            start, = struct.unpack_from("=Q", data, at + 8)
            filesz, = struct.unpack_from("=Q", data, at + 32)
            if kind == PT_NOTE and b"NixOS\0" in data[start:start + filesz]:
                for name, value in fields.items():
                    struct.pack_into("=Q", data, at + places[name], value % 2**64)
                break
        else:
            raise AssertionError(f"{path}: no resolution note")
        file.seek(0)
        file.write(data)


def cache(path, entries, magic=b"glibc-ld.so.cache1.1", count=None, endian=None, pad=None):
    """Write a loader cache in glibc's format; `entries` are (soname, file)."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    flags = 0x0303 if struct.calcsize("P") == 8 else 0x0003
    entries = sorted(entries, reverse=True)
    start = 48 + 24 * len(entries)
    strings, table = b"", b""
    for name, file in entries:
        key = start + len(strings)
        strings += name.encode() + b"\0"
        value = start + len(strings)
        strings += file.encode() + b"\0"
        table += struct.pack("=iIIIQ", flags, key, value, 0, 0)
    if endian is None:
        endian = 2 if struct.pack("=H", 1) == b"\1\0" else 3
    data = magic + struct.pack("=IIB3xI12x", len(entries) if count is None else count,
                               len(strings), endian, 0) + table + strings
    if pad is not None:
        data = data[:-1] + b"x" * (pad - len(data) + 1)
    with open(path, "wb") as file:
        file.write(data)
    return path
