"""What a note answers, and where in the search it stands."""

import os

import fixture


def both(maker, program, **more):
    """Output with the switch off and on, held to be equal."""
    off = maker.loader.run(program, switch=0, **more)
    on = maker.loader.run(program, switch=3, **more)
    assert off == on, (off, on)
    return on


def two(maker, pkg):
    """Two directories of which the second has liba.so."""
    first, second = maker.path(pkg, "one", "x"), maker.path(pkg, "two", "x")
    one, two_ = first[:-2], second[:-2]
    maker.library(f"{two_}/liba.so")
    return one, two_


def case_exact_answer_is_the_only_file_tried(maker, pkg):
    one, second = two(maker, pkg)
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=f"{one}:{second}",
                            pairs=[("liba.so", f"={second}/liba.so")])
    both(maker, program)
    tried, sources = maker.loader.tries(program, "liba.so")
    assert (tried, sources) == ([f"{second}/liba.so"], []), (tried, sources)
    assert len(maker.loader.tries(program, "liba.so", switch=0)[0]) > 1


def case_switch_turns_notes_off_and_on(maker, pkg):
    one, second = two(maker, pkg)
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=f"{one}:{second}",
                            pairs=[("liba.so", f"={second}/liba.so")])
    for switch, reads in ((0, False), (1, True), (2, False), (3, True), (None, True)):
        tried, _ = maker.loader.tries(program, "liba.so", switch=switch)
        assert (tried == [f"{second}/liba.so"]) == reads, switch


def case_switch_out_of_range_is_ignored(maker, pkg):
    one, second = two(maker, pkg)
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=f"{one}:{second}",
                            pairs=[("liba.so", f"={second}/liba.so")])
    for switch in (4, -1, 2**31 - 1):
        tried, _ = maker.loader.tries(program, "liba.so", switch=switch)
        assert tried == [f"{second}/liba.so"], (switch, tried)


def case_name_that_the_note_lacks_is_searched(maker, pkg):
    one, second = two(maker, pkg)
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=f"{one}:{second}",
                            pairs=[("libb.so", f"={one}/libb.so")])
    assert both(maker, program)[1] == f"{second}/liba.so\n"


def case_unsorted_note_is_read_too(maker, pkg):
    one, second = two(maker, pkg)
    pairs = [(f"lib{c}.so", f"={second}/lib{c}.so") for c in "zqabm"]
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=f"{one}:{second}",
                            pairs=pairs)
    assert maker.loader.tries(program, "liba.so")[0] == [f"{second}/liba.so"]


def case_every_name_of_a_sorted_note_is_found(maker, pkg):
    one, _ = two(maker, pkg)
    names = [f"n{i}" for i in range(40)]
    for name in names:
        maker.library(f"{one}/lib{name}.so")
    pairs = sorted((f"lib{name}.so", f"={one}/lib{name}.so") for name in names)
    program = maker.program(maker.path(pkg, "bin", "p"), names, runpath=one, pairs=pairs)
    status, out, _ = both(maker, program)
    assert status == 0 and out.split() == [f"{one}/lib{name}.so" for name in names]
    for name in names:
        assert len(maker.loader.tries(program, f"lib{name}.so")[0]) == 1, name


def case_library_path_comes_before_the_note(maker, pkg):
    one, second = two(maker, pkg)
    maker.library(f"{one}/liba.so")
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=second,
                            pairs=[("liba.so", f"={second}/liba.so")])
    out = both(maker, program, env={"LD_LIBRARY_PATH": one})[1]
    assert out == f"{one}/liba.so\n", out


def case_note_of_an_rpath_object_comes_before_library_path(maker, pkg):
    one, second = two(maker, pkg)
    maker.library(f"{one}/liba.so")
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], rpath=second,
                            pairs=[("liba.so", f"={second}/liba.so")])
    out = both(maker, program, env={"LD_LIBRARY_PATH": one})[1]
    assert out == f"{second}/liba.so\n", out
    assert maker.loader.tries(program, "liba.so",
                              env={"LD_LIBRARY_PATH": one})[0] == [f"{second}/liba.so"]


def case_library_put_later_into_a_hinted_directory_wins(maker, pkg):
    one, second = two(maker, pkg)
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=f"{one}:{second}",
                            pairs=[("liba.so", f"?{one}:={second}/liba.so")])
    assert both(maker, program)[1] == f"{second}/liba.so\n"
    maker.library(f"{one}/liba.so")
    assert both(maker, program)[1] == f"{one}/liba.so\n"
    assert maker.loader.tries(program, "liba.so")[0][-1] == f"{one}/liba.so"


def case_unmarked_note_is_ignored(maker, pkg):
    """As patchelf 0.19.3 writes it, becalm before the mark, or a later version of the rules."""
    one, second = two(maker, pkg)
    maker.library(f"{one}/liba.so")
    pairs = [("liba.so", f"={second}/liba.so")]
    for number, mark in enumerate((b"", b"/complete/2\0?\0", b"/complete/1\0?x\0")):
        for kind in ("runpath", "rpath"):
            program = maker.program(maker.path(pkg, "bin", f"{kind}{number}"), ["a"],
                                    data=fixture.note(pairs, mark=mark),
                                    **{kind: f"{one}:{second}"})
            assert both(maker, program)[1] == f"{one}/liba.so\n", mark


def case_list_ends_at_a_directory_that_is_not_in_the_run_path(maker, pkg):
    one, second = two(maker, pkg)
    for folder in (one, "elsewhere"):
        maker.library(maker.path(pkg, folder, "liba.so"))
    other = f"{maker.store}/{pkg}/elsewhere"
    for number, answer in enumerate((f"={other}/liba.so:={second}/liba.so",
                                     f"?{other}:={second}/liba.so", f"?:={second}/liba.so",
                                     f"={second}/libb.so", f"={second}/xliba.so", "=liba.so")):
        program = maker.program(maker.path(pkg, "bin", f"p{number}"), ["a"],
                                runpath=f"{one}:{second}", pairs=[("liba.so", answer)])
        assert both(maker, program, cwd=other)[1] == f"{one}/liba.so\n", answer


def case_slashes_at_the_end_of_a_directory_do_not_count(maker, pkg):
    one, second = two(maker, pkg)
    for number, (run_path, answer) in enumerate((
            (f"{one}/:{second}/", f"={second}/liba.so"),
            (f"{one}:{second}", f"={second}//liba.so"),
            (f"{one}/:{second}", f"?{second}/"), (f"{one}:{second}/", f"?{second}"))):
        program = maker.program(maker.path(pkg, "bin", f"p{number}"), ["a"], runpath=run_path,
                                pairs=[("liba.so", answer)])
        tried, _ = maker.loader.tries(program, "liba.so")
        assert tried[-1].replace("//", "/") == f"{second}/liba.so", tried
        assert not any(path.startswith(one) for path in tried), tried


def case_hinted_directory_is_searched_with_its_hwcaps(maker, pkg):
    one, second = two(maker, pkg)
    level = hwcaps_level(maker)
    maker.library(f"{one}/liba.so")
    maker.library(f"{one}/glibc-hwcaps/{level}/liba.so")
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=f"{one}:{second}",
                            pairs=[("liba.so", f"?{one}:={second}/liba.so")])
    assert both(maker, program)[1] == f"{one}/glibc-hwcaps/{level}/liba.so\n"


def hwcaps_level(maker):
    """A hwcaps subdirectory that this CPU searches."""
    from trial import Skip
    text = maker.loader.run("--help")[1]
    for line in text.splitlines():
        if "(supported, searched)" in line and "glibc-hwcaps" not in line:
            return line.split()[0]
    raise Skip("this CPU searches no hwcaps subdirectory")


def case_missing_hint_costs_no_answer(maker, pkg):
    one, second = two(maker, pkg)
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"],
                            runpath=f"{one}/gone:{second}",
                            pairs=[("liba.so", f"?{one}/gone:={second}/liba.so")])
    assert both(maker, program)[1] == f"{second}/liba.so\n"


def case_empty_hint_is_the_current_directory(maker, pkg):
    one, second = two(maker, pkg)
    maker.library(f"{one}/liba.so")
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=f":{second}",
                            pairs=[("liba.so", f"?:={second}/liba.so")])
    assert both(maker, program, cwd=one)[1] == f"{one}/liba.so\n"
    assert both(maker, program, cwd=second)[1] == f"{second}/liba.so\n"


def case_origin_in_an_exact_answer(maker, pkg):
    one, second = two(maker, pkg)
    for direct in (False, True):
        program = maker.program(maker.path(pkg, "bin", "p"), ["a"],
                                runpath="$ORIGIN/../one:$ORIGIN/../two",
                                pairs=[("liba.so", "=$ORIGIN/../two/liba.so")])
        off = maker.loader.run(program, switch=0, direct=direct)
        assert off == maker.loader.run(program, direct=direct)
        tried, _ = maker.loader.tries(program, "liba.so", direct=direct)
        assert len(tried) == 1 and tried[0].endswith("/bin/../two/liba.so"), tried


def case_several_exact_answers_are_tried_in_order(maker, pkg):
    one, second = two(maker, pkg)
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=f"{one}:{second}",
                            pairs=[("liba.so", f"={one}/liba.so:={second}/liba.so")])
    assert maker.loader.tries(program, "liba.so")[0] == [f"{one}/liba.so", f"{second}/liba.so"]


def case_note_of_a_library_answers_for_its_own_needs(maker, pkg):
    one, second = two(maker, pkg)
    maker.library(f"{one}/liba.so")
    maker.library(f"{second}/libb.so", needed=["liba.so"], runpath=f"{one}:{second}",
                  pairs=[("liba.so", f"={one}/liba.so")], call="a")
    program = maker.program(maker.path(pkg, "bin", "p"), ["b"], runpath=second)
    assert both(maker, program)[1] == f"{one}/liba.so\n"


def case_hundred_thousand_pairs(maker, pkg):
    one, second = two(maker, pkg)
    pairs = sorted([(f"libx{i:06}.so", "=/x") for i in range(100_000)]
                   + [("liba.so", f"={second}/liba.so")])
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=f"{one}:{second}",
                            pairs=pairs)
    assert maker.loader.tries(program, "liba.so")[0] == [f"{second}/liba.so"]
    program = maker.program(maker.path(pkg, "bin", "q"), ["a"], runpath=f"{one}:{second}",
                            data=fixture.note(pairs[::-1]))
    assert maker.loader.tries(program, "liba.so")[0] == [f"{second}/liba.so"]
