"""Notes that lie or are broken: the plain search, no failure that was not there, no hang."""

import os
import random
import struct

import fixture
from cases_note import both, two


def lie(maker, pkg, folder, **more):
    """A note with answers in a directory that a search would not come to; both runs agree."""
    _, second = two(maker, pkg)
    for number, answer in enumerate((f"={folder}/liba.so", f"?{folder}")):
        program = maker.program(maker.path(pkg, "bin", f"p{number}"), ["a"],
                                runpath=f"{second}:{folder}", pairs=[("liba.so", answer)])
        status, out, err = both(maker, program, **more)
        assert (status, out, err) == (0, f"{second}/liba.so\n", ""), (answer, status, out, err)


def case_lie_path_is_gone(maker, pkg):
    lie(maker, pkg, f"{maker.store}/{pkg}/gone")


def case_lie_path_is_below_a_file(maker, pkg):
    lie(maker, pkg, maker.path(pkg, "two", "liba.so"))


def altered(maker, pkg, offset, value):
    """A directory with a copy of a good library that has some bytes of its header changed."""
    path = maker.library(maker.path(pkg, "bad", "liba.so"))
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(value)
    return os.path.dirname(path)


def case_lie_wrong_class(maker, pkg):
    lie(maker, pkg, altered(maker, pkg, 4, b"\1"))


def case_lie_wrong_machine(maker, pkg):
    lie(maker, pkg, altered(maker, pkg, 18, struct.pack("=H", 0x1234)))


def case_lie_wrong_endianness(maker, pkg):
    lie(maker, pkg, altered(maker, pkg, 5, b"\2"))


def case_lie_not_elf(maker, pkg):
    lie(maker, pkg, altered(maker, pkg, 0, b"#!/b"))


def case_lie_object_file(maker, pkg):
    lie(maker, pkg, altered(maker, pkg, 16, struct.pack("=H", 1)))


def case_lie_header_cut_off(maker, pkg):
    folder = altered(maker, pkg, 0, b"\x7f")
    os.truncate(f"{folder}/liba.so", 20)
    lie(maker, pkg, folder)


def case_lie_empty_file(maker, pkg):
    folder = altered(maker, pkg, 0, b"\x7f")
    os.truncate(f"{folder}/liba.so", 0)
    lie(maker, pkg, folder)


def case_lie_directory(maker, pkg):
    lie(maker, pkg, os.path.dirname(os.path.dirname(maker.path(pkg, "bad", "liba.so", "x"))))


def case_lie_link_to_itself(maker, pkg):
    path = maker.path(pkg, "loop", "liba.so")
    os.symlink(path, path)
    lie(maker, pkg, os.path.dirname(path))


def case_lie_directory_that_is_none(maker, pkg):
    text, loop = (maker.path(pkg, name) for name in ("text", "looped"))
    open(text, "w", encoding="ascii").close()
    os.symlink(loop, loop)
    for path in (text, loop):
        lie(maker, pkg, path)


def case_lie_unreadable(maker, pkg):
    from cases_search import drop_privileges
    path = maker.library(maker.path(pkg, "bad", "liba.so"))
    os.chmod(path, 0)
    more = {"preexec_fn": drop_privileges} if os.geteuid() == 0 else {}
    lie(maker, pkg, os.path.dirname(path), **more)


def case_lie_relative_directory(maker, pkg):
    folder = altered(maker, pkg, 0, b"#!/b")
    lie(maker, pkg, "bad", cwd=os.path.dirname(folder))


def case_lie_path_too_long(maker, pkg):
    for length in (4095, 4096, 5000, 100_000):
        lie(maker, pkg, "/" + "x" * length)


def case_lie_many_slashes(maker, pkg):
    _, second = two(maker, pkg)
    third = os.path.dirname(maker.library(maker.path(pkg, "three", "liba.so")))
    for kind, end in ("=", "liba.so"), ("?", ""):
        program = maker.program(maker.path(pkg, "bin", f"p{len(end)}"), ["a"],
                                runpath=f"{second}:{third}",
                                pairs=[("liba.so", f"{kind}{third}{'/' * 1_000_000}{end}")])
        assert maker.loader.run(program)[0] == 0


def case_lie_unknown_token(maker, pkg):
    lie(maker, pkg, "$NOTHING")


def case_lie_empty_list(maker, pkg):
    _, second = two(maker, pkg)
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=second,
                            pairs=[("liba.so", "")])
    assert both(maker, program)[1] == f"{second}/liba.so\n"


def run_path(maker, pkg):
    """A run path of two directories with the library."""
    return f"{two(maker, pkg)[1]}:{maker.store}/{pkg}/other"


def broken(maker, pkg, data, **fields):
    """A broken note that would name another library: the search's is found."""
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=run_path(maker, pkg),
                            data=data)
    if fields:
        fixture.patch_note_header(program, **fields)
    status, out, err = both(maker, program)
    assert (status, out, err) == (0, f"{maker.store}/{pkg}/two/liba.so\n", ""), (status, out, err)


def whole(maker, pkg, data, **fields):
    """A note that can be read: it names another library than the search."""
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=run_path(maker, pkg),
                            data=data)
    fixture.patch_note_header(program, **fields)
    assert maker.loader.run(program, switch=0)[1] == f"{maker.store}/{pkg}/two/liba.so\n"
    assert maker.loader.run(program)[1] == f"{maker.store}/{pkg}/other/liba.so\n", fields


def other(maker, pkg):
    """Pairs that name another library than the search finds."""
    return [("liba.so", "=" + maker.library(maker.path(pkg, "other", "liba.so")))]


def case_alignments_of_a_note(maker, pkg):
    pairs = other(maker, pkg)
    for align in (0, 1, 3, 4, -1):
        whole(maker, pkg, fixture.note(pairs), align=align)
    whole(maker, pkg, fixture.note(pairs, align=8), align=8)
    broken(maker, pkg, fixture.note(pairs), align=8)


def case_sizes_beyond_the_note(maker, pkg):
    pairs = other(maker, pkg)
    for size in (2**32 - 1, 2**32 - 4, 2**31, 2**31 - 1, 4096):
        broken(maker, pkg, fixture.note(pairs, namesz=size))
        broken(maker, pkg, fixture.note(pairs, descsz=size))


def case_descriptor_that_does_not_end(maker, pkg):
    name, list_ = other(maker, pkg)[0]
    descriptor = fixture.COMPLETE + name.encode() + b"\0" + list_.encode() + b"\0"
    for length in (*range(1, 40), len(descriptor) - 1, len(descriptor)):
        broken(maker, pkg, fixture.note(None, descriptor=descriptor[:length], align=1))


def case_elements_without_a_kind(maker, pkg):
    name, list_ = other(maker, pkg)[0]
    for bad in (list_[1:], f"{list_}:", f":{list_}", f"{list_}:x", f"=:{list_}", f"{list_}:="):
        broken(maker, pkg, fixture.note([(name, bad)]))


def case_note_outside_of_the_mapping(maker, pkg):
    for fields in ({"vaddr": 2**40}, {"vaddr": -4096}, {"vaddr": 0x7FFFFFFFF000},
                   {"filesz": 2**40, "memsz": 2**40}, {"filesz": -1, "memsz": -1},
                   {"vaddr": -64, "filesz": 4096, "memsz": 4096}):
        broken(maker, pkg, fixture.note(other(maker, pkg)), **fields)


def case_memory_larger_than_the_file(maker, pkg):
    whole(maker, pkg, fixture.note(other(maker, pkg)), memsz=2**40)


def case_damaged_notes(maker, pkg):
    """The program starts, with one of the two libraries of its run path."""
    dice = random.Random(1)
    one = f"{maker.store}/{pkg}/one"
    data = fixture.note([("liba.so", f"?{one}:{other(maker, pkg)[0][1]}")])
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], data=data,
                            runpath=f"{run_path(maker, pkg)}:{one}")
    with open(program, "rb") as file:
        good = file.read()
    start = good.index(data)
    answers = {f"{maker.store}/{pkg}/{name}/liba.so\n" for name in ("two", "other")}
    seen = set()
    for _ in range(2000):
        bad = bytearray(good)
        for _ in range(dice.randint(1, 4)):
            bad[start + dice.randrange(len(data))] = dice.choice(
                (0, 255, dice.randrange(256), *b"=?:/1l"))
        os.remove(program)
        with open(program, "wb") as file:
            file.write(bad)
        os.chmod(program, 0o755)
        status, out, err = maker.loader.run(program)
        assert (status, err) == (0, "") and out in answers, (status, out, err)
        seen.add(out)
    assert seen == answers, seen
