"""Notes that lie or are broken: the plain search, no failure that was not there, no hang."""

import os
import struct

import fixture
from cases_note import both, two


def lie(maker, pkg, answer, **more):
    """A note with this answer for a library that the run path finds; both runs agree."""
    _, second = two(maker, pkg)
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=second,
                            pairs=[("liba.so", answer)])
    status, out, err = both(maker, program, **more)
    assert (status, out, err) == (0, f"{second}/liba.so\n", ""), (status, out, err)


def case_lie_path_is_gone(maker, pkg):
    lie(maker, pkg, f"={maker.path(pkg, 'gone')}")


def case_lie_path_is_below_a_file(maker, pkg):
    lie(maker, pkg, f"={maker.path(pkg, 'two', 'liba.so')}/x")


def altered(maker, pkg, offset, value):
    """A copy of a good library with some bytes of its header changed."""
    path = maker.library(maker.path(pkg, "bad", "liba.so"))
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(value)
    return path


def case_lie_wrong_class(maker, pkg):
    lie(maker, pkg, "=" + altered(maker, pkg, 4, b"\1"))


def case_lie_wrong_machine(maker, pkg):
    lie(maker, pkg, "=" + altered(maker, pkg, 18, struct.pack("=H", 0x1234)))


def case_lie_wrong_endianness(maker, pkg):
    lie(maker, pkg, "=" + altered(maker, pkg, 5, b"\2"))


def case_lie_not_elf(maker, pkg):
    lie(maker, pkg, "=" + altered(maker, pkg, 0, b"#!/b"))


def case_lie_object_file(maker, pkg):
    lie(maker, pkg, "=" + altered(maker, pkg, 16, struct.pack("=H", 1)))


def case_lie_header_cut_off(maker, pkg):
    path = altered(maker, pkg, 0, b"\x7f")
    os.truncate(path, 20)
    lie(maker, pkg, "=" + path)


def case_lie_empty_file(maker, pkg):
    path = maker.path(pkg, "empty")
    open(path, "w", encoding="ascii").close()
    lie(maker, pkg, "=" + path)


def case_lie_directory(maker, pkg):
    lie(maker, pkg, "=" + os.path.dirname(maker.path(pkg, "dir", "x")))


def case_lie_fifo(maker, pkg):
    path = maker.path(pkg, "fifo")
    os.mkfifo(path)
    lie(maker, pkg, "=" + path)


def case_lie_fifo_in_a_hinted_directory(maker, pkg):
    path = maker.path(pkg, "hint", "liba.so")
    os.mkfifo(path)
    lie(maker, pkg, "?" + os.path.dirname(path))


def case_lie_hint_that_is_no_directory(maker, pkg):
    fifo, text, loop = (maker.path(pkg, name) for name in ("fifo", "text", "loop"))
    os.mkfifo(fifo)
    open(text, "w", encoding="ascii").close()
    os.symlink(loop, loop)
    for path in (fifo, text, loop):
        lie(maker, pkg, "?" + path)


def case_lie_not_elf_in_a_hinted_directory(maker, pkg):
    path = maker.path(pkg, "hint", "liba.so")
    with open(path, "w", encoding="ascii") as file:
        file.write("no object at all")
    lie(maker, pkg, "?" + os.path.dirname(path))


def case_lie_link_to_itself(maker, pkg):
    path = maker.path(pkg, "loop")
    os.symlink(path, path)
    lie(maker, pkg, "=" + path)


def case_lie_unreadable(maker, pkg):
    from cases_search import drop_privileges
    path = maker.library(maker.path(pkg, "bad", "liba.so"))
    os.chmod(path, 0)
    more = {"preexec_fn": drop_privileges} if os.geteuid() == 0 else {}
    lie(maker, pkg, "=" + path, **more)


def case_lie_relative_path(maker, pkg):
    path = maker.library(maker.path(pkg, "bad", "liba.so"))
    lie(maker, pkg, "=liba.so", cwd=os.path.dirname(path))


def case_lie_path_too_long(maker, pkg):
    for length in (4095, 4096, 5000, 1_000_000):
        lie(maker, pkg, "=/" + "x" * length)
        lie(maker, pkg, "?/" + "x" * length)


def case_lie_unknown_token(maker, pkg):
    lie(maker, pkg, "=$NOTHING/liba.so")


def case_lie_empty_list(maker, pkg):
    lie(maker, pkg, "")


def broken(maker, pkg, data, **fields):
    """A broken note that would name another library: the run path's is found."""
    _, second = two(maker, pkg)
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=second, data=data)
    if fields:
        fixture.patch_note_header(program, **fields)
    status, out, err = both(maker, program)
    assert (status, out, err) == (0, f"{second}/liba.so\n", ""), (status, out, err)
    return program


def other(maker, pkg):
    """Pairs that name another library than the search finds."""
    return [("liba.so", "=" + maker.library(maker.path(pkg, "other", "liba.so")))]


def reads(maker, program):
    """Whether the note was believed enough to be tried."""
    return any(s.startswith("note=") for s in maker.loader.tries(program, "liba.so")[1])


def case_alignments_of_a_note(maker, pkg):
    _, second = two(maker, pkg)
    pairs = [("liba.so", f"={second}/liba.so")]
    for align in (0, 1, 3, 4, -1):
        program = broken(maker, pkg, fixture.note(pairs), align=align)
        assert reads(maker, program), align
    program = broken(maker, pkg, fixture.note(pairs, align=8), align=8)
    assert reads(maker, program)
    assert not reads(maker, broken(maker, pkg, fixture.note(pairs), align=8))


def case_sizes_beyond_the_note(maker, pkg):
    pairs = other(maker, pkg)
    for size in (2**32 - 1, 2**32 - 4, 2**31, 2**31 - 1, 4096):
        broken(maker, pkg, fixture.note(pairs, namesz=size))
        broken(maker, pkg, fixture.note(pairs, descsz=size))


def case_descriptor_that_does_not_end(maker, pkg):
    name, list_ = other(maker, pkg)[0]
    whole = name.encode() + b"\0" + list_.encode() + b"\0"
    for length in (*range(1, 20), len(whole) - 1, len(whole)):
        data = fixture.note(None, descriptor=whole[:length], align=1)
        assert not reads(maker, broken(maker, pkg, data)), length


def case_elements_without_a_kind(maker, pkg):
    name, list_ = other(maker, pkg)[0]
    for bad in (list_[1:], f"{list_}:", f":{list_}", f"{list_}:x", f"=:{list_}", f"{list_}:="):
        assert not reads(maker, broken(maker, pkg, fixture.note([(name, bad)]))), bad


def case_note_outside_of_the_mapping(maker, pkg):
    for fields in ({"vaddr": 2**40}, {"vaddr": -4096}, {"vaddr": 0x7FFFFFFFF000},
                   {"filesz": 2**40, "memsz": 2**40}, {"filesz": -1, "memsz": -1},
                   {"vaddr": -64, "filesz": 4096, "memsz": 4096}):
        program = broken(maker, pkg, fixture.note(other(maker, pkg)), **fields)
        assert not reads(maker, program), fields


def case_memory_larger_than_the_file(maker, pkg):
    _, second = two(maker, pkg)
    program = broken(maker, pkg, fixture.note([("liba.so", f"={second}/liba.so")]), memsz=2**40)
    assert reads(maker, program)
