"""Loader caches of packages."""

import os
import shutil
import tempfile

import fixture
from cases_note import both, two


def package(maker, pkg, name="bin/p", entry=None, **more):
    """A program in a package whose cache names liba.so of the second directory."""
    one, second = two(maker, pkg)
    program = maker.program(maker.path(pkg, *name.split("/")), ["a"],
                            runpath=f"{one}:{second}", **more)
    file = fixture.cache(maker.path(pkg, "etc", "ld.so.cache"),
                         [("liba.so", entry or f"{second}/liba.so")])
    return program, f"{second}/liba.so", file


def caches(maker, program, name="liba.so", **more):
    """The package caches that a lookup of `name` names."""
    return [s[6:] for s in maker.loader.tries(program, name, **more)[1]
            if s.startswith("cache=" + maker.store)]


def case_program_finds_its_package_s_cache(maker, pkg):
    for place in ("bin/p", "libexec/a/b/p", "p"):
        program, library, file = package(maker, pkg, place)
        for direct in (False, True):
            both(maker, program, direct=direct)
            tried, _ = maker.loader.tries(program, "liba.so", direct=direct)
            assert tried == [library], (place, direct, tried)
            assert caches(maker, program, direct=direct) == [file]


def case_switch_turns_caches_off_and_on(maker, pkg):
    program, _, _ = package(maker, pkg)
    for switch, reads in ((0, False), (1, False), (2, True), (3, True), (None, True), (4, True)):
        assert bool(caches(maker, program, switch=switch)) == reads, switch


def case_library_and_plugin_find_their_own_package_s_cache(maker, pkg):
    one, second = two(maker, pkg)
    maker.library(maker.path(pkg, "lib", "plugins", "libb.so"), needed=["liba.so"], call="a",
                  runpath=f"{one}:{second}")
    file = fixture.cache(maker.path(pkg, "etc", "ld.so.cache"), [("liba.so", f"{second}/liba.so")])
    program = maker.program(maker.path(f"{pkg}-user", "bin", "p"), ["b"],
                            runpath=f"{maker.store}/{pkg}-user/../{pkg}/lib/plugins")
    try:
        # The library was found by a path that leaves a package: no package's.
        assert caches(maker, program) == []
        program = maker.program(program, ["b"], runpath=f"{maker.store}/{pkg}/x/../lib/plugins")
        os.makedirs(f"{maker.store}/{pkg}/x")
        both(maker, program)
        assert caches(maker, program) == [file]
        assert caches(maker, program, "libb.so") == [
            f"{maker.store}/{pkg}-user/etc/ld.so.cache"]
    finally:
        shutil.rmtree(f"{maker.store}/{pkg}-user")


def case_two_packages_keep_their_own_builds_of_a_soname(maker, pkg):
    users = []
    try:
        for name in ("u", "v"):
            user = f"{pkg}-{name}"
            users.append(f"{maker.store}/{user}")
            maker.library(maker.path(user, "dep", "liba.so"))
            maker.library(maker.path(user, "lib", f"lib{name}.so"), needed=["liba.so"],
                          runpath=f"{maker.store}/{user}/no:{maker.store}/{user}/dep", call="a")
            fixture.cache(maker.path(user, "etc", "ld.so.cache"),
                          [("liba.so", f"{maker.store}/{user}/dep/liba.so")])
        from cases_search import DLOPEN
        body = "".join(
            f'{{ void *h = dlmopen(-1, "{user}/lib/lib{user[-1]}.so", 2);'
            f' puts(h ? ((const char *(*)(void)) dlsym(h, "{user[-1]}"))() : dlerror()); }}'
            for user in users)
        program = maker.program(maker.path(pkg, "bin", "p"), [], extra=DLOPEN, body=body)
        assert both(maker, program)[1].split() == [f"{user}/dep/liba.so" for user in users]
    finally:
        for user in users:
            shutil.rmtree(user, ignore_errors=True)


def case_copy_outside_a_store_finds_none(maker, pkg):
    program, library, _ = package(maker, pkg)
    folder = tempfile.mkdtemp(dir="/var/tmp")
    try:
        os.makedirs(f"{folder}/bin")
        copy = shutil.copy2(program, f"{folder}/bin/p")
        fixture.cache(f"{folder}/etc/ld.so.cache", [("liba.so", "/nonexistent")])
        for direct in (False, True):
            assert maker.loader.run(copy, direct=direct)[1] == f"{library}\n"
            sources = maker.loader.tries(copy, "liba.so", direct=direct)[1]
            assert not any(s.startswith("cache=") for s in sources), sources
    finally:
        shutil.rmtree(folder)


def case_cache_is_opened_once_a_package(maker, pkg):
    import subprocess
    from trial import Skip
    if shutil.which("strace") is None:
        raise Skip("no strace")
    one, second = two(maker, pkg)
    names = "abcd"
    for name in names:
        maker.library(f"{second}/lib{name}.so", runpath=f"{one}:{second}",
                      needed=["libe.so"] if name != "a" else [])
    maker.library(f"{second}/libe.so")
    program = maker.program(maker.path(pkg, "bin", "p"), names, runpath=f"{one}:{second}")
    file = fixture.cache(maker.path(pkg, "etc", "ld.so.cache"),
                         [(f"lib{name}.so", f"{second}/lib{name}.so") for name in "abcde"]
                         + [("libc.so.6", f"{os.path.dirname(maker.loader.path)}/libc.so.6")])
    done = subprocess.run(["strace", "-e", "trace=openat,open,stat,newfstatat,access",
                           maker.loader.path, program], capture_output=True, text=True,
                          check=True)
    calls = [line for line in done.stderr.splitlines() if pkg in line]
    assert sum(file in line for line in calls) == 1, calls
    missed = [line for line in calls if "ENOENT" in line]
    assert missed == [], missed


def case_cache_answers_dlopen_with_a_bare_name(maker, pkg):
    from cases_search import DLOPEN
    one, second = two(maker, pkg)
    file = fixture.cache(maker.path(pkg, "etc", "ld.so.cache"), [("liba.so", f"{second}/liba.so")])
    for call in ('dlopen("liba.so", 2)', 'dlmopen(-1, "liba.so", 2)'):
        body = (f'void *h = {call}; if (!h) {{ puts(dlerror()); return 3; }}'
                'puts(((const char *(*)(void)) dlsym(h, "a"))());')
        program = maker.program(maker.path(pkg, "bin", "p"), [], runpath=f"{one}:{second}",
                                extra=DLOPEN, body=body)
        assert both(maker, program)[1] == f"{second}/liba.so\n"
        assert maker.loader.tries(program, "liba.so")[0] == [f"{second}/liba.so"]
        assert caches(maker, program) == [file], call


def case_name_that_an_object_does_not_need_is_answered_along_its_run_path_alone(maker, pkg):
    from cases_search import DLOPEN
    one, second = two(maker, pkg)
    for folder in (one, second):
        maker.library(f"{folder}/libb.so")
    # There for another object of the package, say.
    fixture.cache(maker.path(pkg, "etc", "ld.so.cache"), [("libb.so", f"{second}/libb.so")])
    body = ('void *h = dlopen("libb.so", 2);'
            'puts(h ? ((const char *(*)(void)) dlsym(h, "b"))() : "none");')
    for path, found in (("/none", "none"), (one, f"{one}/libb.so"),
                        (f"/none:{second}", f"{second}/libb.so"),
                        ("$ORIGIN/../two", f"{maker.store}/{pkg}/bin/../two/libb.so")):
        program = maker.program(maker.path(pkg, "bin", "p"), [], runpath=path, extra=DLOPEN,
                                body=body)
        assert both(maker, program)[1] == found.replace("bin/../", "") + "\n", path
        preload = {"LD_PRELOAD": "libb.so", "LD_TRACE_LOADED_OBJECTS": "1"}
        off, on = ([line.split(" (0x")[0] for line in
                    maker.loader.run(program, switch=switch, env=preload)[1].splitlines()]
                   for switch in (0, 3))
        assert off == on and (found == "none") == (f"\tlibb.so => {found}" not in on), (path, on)
    program = maker.program(program, [], runpath=f"/none:{second}", extra=DLOPEN, body=body)
    assert maker.loader.tries(program, "libb.so")[0] == [f"{second}/libb.so"]


def case_auditor_sees_the_cache_s_candidate_as_one_of_a_cache(maker, pkg):
    import cases_search
    one, second, audit, program = cases_search.audited(maker, pkg, noted=False)
    fixture.cache(maker.path(pkg, "etc", "ld.so.cache"), [("liba.so", f"{second}/liba.so")])
    status, out, err = maker.loader.run(program, env={"LD_AUDIT": audit})
    assert status == 0 and out == f"{second}/liba.so\n"
    seen = [line for line in err.splitlines() if "liba.so" in line]
    assert seen == ["search liba.so 0x1", f"search {second}/liba.so 0x8"], seen
    maker.library(f"{one}/else/liba.so")
    env = {"LD_AUDIT": audit, "AUDIT_FROM": f"{second}/liba.so",
           "AUDIT_TO": f"{one}/else/liba.so"}
    assert maker.loader.run(program, env=env)[1] == f"{one}/else/liba.so\n"


def case_list_trace_and_scopes_are_the_same_with_a_cache(maker, pkg):
    from cases_search import listings
    one, second = two(maker, pkg)
    for name in "bc":
        maker.library(f"{one}/lib{name}.so", needed=["liba.so"], runpath=second, call="a")
    program = maker.program(maker.path(pkg, "bin", "p"), ["c", "b"], runpath=f"{second}:{one}")
    fixture.cache(maker.path(pkg, "etc", "ld.so.cache"),
                  [("liba.so", f"{second}/liba.so"), ("libb.so", f"{one}/libb.so"),
                   ("libc.so", f"{one}/libc.so")])
    off, on = (listings(maker, program, switch) for switch in (0, 3))
    assert off == on and len(off[0]) >= 5, (off, on)
    assert caches(maker, program, "libb.so") != []


def case_secure_program_in_a_store_believes_its_package_s_cache(maker, pkg):
    from cases_search import secure_run
    one, second = two(maker, pkg)
    maker.library(f"{one}/liba.so")
    program, by_cache, _ = package(maker, pkg)
    assert secure_run(maker, program)[1] == f"{by_cache}\n"


def case_secure_program_is_preloaded_nothing_by_its_cache(maker, pkg):
    from cases_search import DLOPEN, secure_run
    one, second = two(maker, pkg)
    fixture.cache(maker.path(pkg, "etc", "ld.so.cache"), [("liba.so", f"{second}/liba.so")])
    program = maker.program(maker.path(pkg, "bin", "p"), [], runpath=f"{one}:{second}",
                            extra=DLOPEN, body='puts(dlsym(0, "a") ? "preloaded" : "alone");')
    env = {"LD_PRELOAD": "liba.so"}
    assert maker.loader.run(program, env=env)[1] == "preloaded\n"
    assert secure_run(maker, program, env=env)[1] == "alone\n"


def case_cache_is_not_read_when_caches_are_inhibited(maker, pkg):
    program, _, _ = package(maker, pkg)
    assert caches(maker, program, loader_args=["--inhibit-cache"]) == []
    both(maker, program, loader_args=["--inhibit-cache"])


def case_inhibited_run_path_takes_its_cache_with_it(maker, pkg):
    program, _, _ = package(maker, pkg)
    args = ["--inhibit-rpath", ""]  # the main program
    assert both(maker, program, loader_args=args)[0] == 127


def case_object_without_run_path_is_answered_by_no_package(maker, pkg):
    _, second = two(maker, pkg)
    fixture.cache(maker.path(pkg, "etc", "ld.so.cache"), [("liba.so", f"{second}/liba.so")])
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"])
    assert both(maker, program)[0] == 127


def case_note_comes_before_the_cache(maker, pkg):
    one, second = two(maker, pkg)
    maker.library(f"{one}/liba.so")
    maker.library(f"{second}/libb.so")
    fixture.cache(maker.path(pkg, "etc", "ld.so.cache"),
                  [("liba.so", f"{second}/liba.so"), ("libb.so", f"{second}/libb.so")])
    program = maker.program(maker.path(pkg, "bin", "p"), ["a", "b"], runpath=f"{one}:{second}",
                            pairs=[("liba.so", f"={one}/liba.so")])
    assert both(maker, program)[1].split() == [f"{one}/liba.so", f"{second}/libb.so"]
    assert caches(maker, program) == [] and caches(maker, program, "libb.so") == []


def case_library_path_comes_before_the_cache(maker, pkg):
    program, _, _ = package(maker, pkg)
    maker.library(maker.path(pkg, "mine", "liba.so"))
    env = {"LD_LIBRARY_PATH": f"{maker.store}/{pkg}/mine"}
    assert both(maker, program, env=env)[1] == f"{maker.store}/{pkg}/mine/liba.so\n"


def case_nodeflib_object_is_given_no_system_library(maker, pkg):
    system = os.path.dirname(maker.loader.path)
    one, _ = two(maker, pkg)
    maker.library(f"{one}/libb.so", nodeflib=True, needed=["libm.so.6"], runpath=f"{one}/x")
    fixture.cache(maker.path(pkg, "etc", "ld.so.cache"), [("libm.so.6", f"{system}/libm.so.6")])
    program = maker.program(maker.path(pkg, "bin", "p"), ["b"], runpath=one)
    assert both(maker, program)[0] == 127


def lie(maker, pkg, entry=None, **damage):
    program, library, file = package(maker, pkg, entry=entry)
    if damage:
        os.remove(file)
        fixture.cache(file, [("liba.so", "/nonexistent")], **damage)
    status, out, err = both(maker, program)
    assert (status, out, err) == (0, f"{library}\n", ""), (status, out, err)
    return program, library, file


def case_lie_of_a_cache_about_a_file(maker, pkg):
    lie(maker, pkg, entry="/nonexistent")
    lie(maker, pkg, entry=os.path.dirname(maker.path(pkg, "bin", "x")))
    lie(maker, pkg, entry="relative/liba.so")
    lie(maker, pkg, entry="/" + "x" * 9000)
    text, fifo = maker.path(pkg, "text"), maker.path(pkg, "fifo")
    with open(text, "w", encoding="ascii") as file:
        file.write("no object at all")
    lie(maker, pkg, entry=text)
    os.mkfifo(fifo)
    lie(maker, pkg, entry=fifo)


def case_lie_of_a_cache_about_an_object(maker, pkg):
    from cases_lies import altered
    for offset, value in ((4, b"\1"), (5, b"\2"), (16, b"\1\0"), (18, b"\x34\x12")):
        lie(maker, pkg, entry=altered(maker, pkg, offset, value))
    loop = maker.path(pkg, "loop")
    os.symlink(loop, loop)
    lie(maker, pkg, entry=loop)
    lie(maker, pkg, entry=f"{maker.store}/{pkg}/two/liba.so/x")


def as_nobody():
    """How a run gives up the rights of root, if it has them."""
    from cases_search import drop_privileges
    return {"preexec_fn": drop_privileges} if os.geteuid() == 0 else {}


def case_lie_of_a_cache_about_an_unreadable_file(maker, pkg):
    hidden = maker.library(maker.path(pkg, "bad", "liba.so"))
    os.chmod(hidden, 0)
    program, library, _ = package(maker, pkg, entry=hidden)
    assert both(maker, program, **as_nobody()) == (0, f"{library}\n", "")


def case_unreadable_cache(maker, pkg):
    program, library, file = package(maker, pkg)
    os.chmod(file, 0)
    assert both(maker, program, **as_nobody()) == (0, f"{library}\n", "")
    assert maker.loader.tries(program, "liba.so", **as_nobody())[0] != [library]


def case_damaged_caches(maker, pkg):
    lie(maker, pkg, magic=b"glibc-ld.so.cache1.0")
    lie(maker, pkg, count=2**31)
    lie(maker, pkg, count=2)
    lie(maker, pkg, endian=3)
    lie(maker, pkg, endian=1)
    for pages in (1, 2):
        lie(maker, pkg, pad=pages * 4096)


def case_cache_cut_off_anywhere(maker, pkg):
    program, library, file = package(maker, pkg)
    size = os.path.getsize(file)
    for length in (0, 1, 20, 47, 48, 60, 71, 72, 73, size - 2):
        os.truncate(file, length)
        status, out, err = both(maker, program)
        assert (status, out, err) == (0, f"{library}\n", ""), (length, status, out, err)
        fixture.cache(file, [("liba.so", library)])


def case_cache_that_is_no_file(maker, pkg):
    program, library, file = package(maker, pkg)
    for make in (os.mkfifo, os.mkdir, lambda path: os.symlink(path, path)):
        os.remove(file)
        make(file)
        assert both(maker, program) == (0, f"{library}\n", "")
        if os.path.isdir(file) and not os.path.islink(file):
            os.rmdir(file)
            open(file, "w", encoding="ascii").close()
