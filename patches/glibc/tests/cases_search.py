"""The rest of the search, with a note in it: what stays as it was."""

import ctypes
import os
import stat
import subprocess

from cases_note import both, two

DLOPEN = ("void *dlopen(const char *, int); void *dlmopen(long, const char *, int);"
          "void *dlsym(void *, const char *); int dlclose(void *); char *dlerror(void);"
          "int open(const char *, int); int close(int);")


def wrong_note(maker, pkg, **more):
    """A program whose note names another file than a search finds: which was trusted?"""
    one, second = two(maker, pkg)
    maker.library(f"{one}/liba.so")
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=f"{one}:{second}",
                            pairs=[("liba.so", f"={second}/liba.so")], **more)
    return program, f"{one}/liba.so\n", f"{second}/liba.so\n"


def case_inhibited_run_path_takes_its_note_with_it(maker, pkg):
    one, second = two(maker, pkg)
    for kind in ("runpath", "rpath"):
        program = maker.program(maker.path(pkg, "bin", kind), ["a"],
                                pairs=[("liba.so", f"={second}/liba.so")], **{kind: second})
        status, _, err = both(maker, program, loader_args=["--inhibit-rpath", ""])  # the main program
        assert status == 127 and "liba.so" in err, err
        status, out, _ = both(maker, program, loader_args=["--inhibit-rpath", "/elsewhere"])
        assert status == 0 and out == f"{second}/liba.so\n"


def case_notes_are_ignored_while_run_paths_are_inhibited(maker, pkg):
    program, by_search, by_note = wrong_note(maker, pkg)
    assert maker.loader.run(program)[1] == by_note
    args = ["--inhibit-rpath", "/elsewhere"]
    assert both(maker, program, loader_args=args)[1] == by_search


def case_note_of_an_object_without_run_path_is_ignored(maker, pkg):
    _, second = two(maker, pkg)
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"],
                            pairs=[("liba.so", f"={second}/liba.so")])
    assert both(maker, program)[0] == 127


def case_inhibited_caches_leave_notes_alone(maker, pkg):
    one, second = two(maker, pkg)
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=f"{one}:{second}",
                            pairs=[("liba.so", f"={second}/liba.so")])
    args = ["--inhibit-cache"]
    both(maker, program, loader_args=args)
    assert maker.loader.tries(program, "liba.so", loader_args=args)[0] == [f"{second}/liba.so"]


def case_nodeflib_object(maker, pkg):
    one, second = two(maker, pkg)
    system = os.path.dirname(maker.loader.path)
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], nodeflib=True,
                            runpath=f"{one}:{second}:{system}",
                            pairs=[("liba.so", f"={second}/liba.so")])
    assert both(maker, program)[1] == f"{second}/liba.so\n"


def listings(maker, program, switch):
    """What --list, the traces of loaded objects and LD_DEBUG=scopes say, without addresses."""
    traced = {"LD_TRACE_LOADED_OBJECTS": "1"}
    texts = [maker.loader.run(program, switch=switch, **more)[1]
             for more in ({"loader_args": ["--list"]}, {"env": traced},
                          {"env": traced, "direct": True})]
    listed = [[line.split(" (0x")[0] for line in text.splitlines()] for text in texts]
    text = maker.loader.run(program, switch=switch, env={"LD_DEBUG": "scopes"})[2]
    return [*listed, [line.split(":\t", 1)[-1] for line in text.splitlines()]]


def case_list_and_trace_show_the_same_objects(maker, pkg):
    one, second = two(maker, pkg)
    maker.library(f"{one}/libb.so", needed=["liba.so"], runpath=f"{one}:{second}",
                  pairs=[("liba.so", f"={second}/liba.so")], call="a")
    program = maker.program(maker.path(pkg, "bin", "p"), ["b"], runpath=f"{second}:{one}",
                            pairs=[("libb.so", f"={one}/libb.so")])
    off, on = (listings(maker, program, switch) for switch in (0, 3))
    assert off == on and all(len(listing) >= 4 for listing in off), (off, on)


def case_search_scope_is_the_same(maker, pkg):
    one, second = two(maker, pkg)
    for name in "bcd":
        maker.library(f"{one}/lib{name}.so", needed=["liba.so"], runpath=second, call="a",
                      pairs=[("liba.so", f"={second}/liba.so")])
    program = maker.program(maker.path(pkg, "bin", "p"), ["d", "b", "c"],
                            runpath=f"{second}:{one}",
                            pairs=[(f"lib{n}.so", f"={one}/lib{n}.so") for n in "bcd"])
    off, on = (listings(maker, program, switch)[-1] for switch in (0, 3))
    assert off == on and any("libd.so" in line for line in on), (off, on)


def case_dlopen_with_a_bare_name(maker, pkg):
    one, second = two(maker, pkg)
    body = ('void *h = dlopen("liba.so", 2); if (!h) { puts(dlerror()); return 3; }'
            'puts(((const char *(*)(void)) dlsym(h, "a"))());')
    program = maker.program(maker.path(pkg, "bin", "p"), [], runpath=f"{one}:{second}",
                            extra=DLOPEN, body=body,
                            pairs=[("liba.so", f"={second}/liba.so")])
    assert both(maker, program)[1] == f"{second}/liba.so\n"
    assert maker.loader.tries(program, "liba.so")[0] == [f"{second}/liba.so"]


def case_dlmopen_with_a_bare_name(maker, pkg):
    one, second = two(maker, pkg)
    body = ('void *h = dlmopen(-1, "liba.so", 2); if (!h) { puts(dlerror()); return 3; }'
            'puts(((const char *(*)(void)) dlsym(h, "a"))());')
    program = maker.program(maker.path(pkg, "bin", "p"), [], runpath=f"{one}:{second}",
                            extra=DLOPEN, body=body,
                            pairs=[("liba.so", f"={second}/liba.so")])
    assert both(maker, program)[1] == f"{second}/liba.so\n"


def case_many_dlopens_leave_no_descriptor(maker, pkg):
    one, second = two(maker, pkg)
    with open(maker.path(pkg, "one", "libbad.so"), "w", encoding="ascii") as file:
        file.write("no object at all")
    body = ('for (int i = 0; i < 200; ++i) { void *h = dlopen("liba.so", 2); if (h) dlclose(h);'
            ' dlopen("libbad.so", 2); } int fd = open("/dev/null", 0);'
            ' puts(fd < 8 ? "few" : "many");')
    program = maker.program(maker.path(pkg, "bin", "p"), [], runpath=f"{one}/x:{second}",
                            extra=DLOPEN, body=body,
                            pairs=[("liba.so", f"={second}/liba.so"),
                                   ("libbad.so", f"={one}/libbad.so")])
    assert both(maker, program)[1] == "few\n"


def case_preload_with_a_bare_name(maker, pkg):
    one, second = two(maker, pkg)
    program = maker.program(maker.path(pkg, "bin", "p"), [], runpath=f"{one}:{second}",
                            body='puts("main");', pairs=[("liba.so", f"={second}/liba.so")])
    env = {"LD_PRELOAD": "liba.so"}
    assert both(maker, program, env=env)[1:] == ("main\n", "")
    assert maker.loader.tries(program, "liba.so", env=env)[0] == [f"{second}/liba.so"]


AUDIT = r"""
#define _GNU_SOURCE
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
unsigned la_version(unsigned v) { return v < LAV_CURRENT ? v : LAV_CURRENT; }
char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag) {
  fprintf(stderr, "search %s %#x\n", name, flag);
  const char *no = getenv("AUDIT_NO"), *from = getenv("AUDIT_FROM");
  if (no && !strcmp(no, name)) return 0;
  if (from && !strcmp(from, name)) return getenv("AUDIT_TO");
  return (char *) name;
}
"""


def audited(maker, pkg, noted=True):
    one, second = two(maker, pkg)
    audit = maker.path(pkg, "audit", "audit.so")
    subprocess.run([maker.loader.cc, "-w", "-shared", "-fPIC", "-x", "c", "-", "-o", audit],
                   input=AUDIT, text=True, check=True)
    pairs = [("liba.so", f"={second}/liba.so")] if noted else None
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=f"{one}:{second}",
                            pairs=pairs)
    return one, second, audit, program


def case_auditor_sees_the_note_s_candidate_as_one_of_the_run_path(maker, pkg):
    _, second, audit, program = audited(maker, pkg)
    status, out, err = maker.loader.run(program, env={"LD_AUDIT": audit})
    assert status == 0 and out == f"{second}/liba.so\n"
    seen = [line for line in err.splitlines() if "liba.so" in line]
    assert seen == ["search liba.so 0x1", f"search {second}/liba.so 0x4"], seen


def case_auditor_may_replace_or_refuse_the_candidate(maker, pkg):
    one, second, audit, program = audited(maker, pkg)
    maker.library(f"{one}/else/liba.so")
    env = {"LD_AUDIT": audit, "AUDIT_FROM": f"{second}/liba.so",
           "AUDIT_TO": f"{one}/else/liba.so"}
    assert maker.loader.run(program, env=env)[1] == f"{one}/else/liba.so\n"
    env = {"LD_AUDIT": audit, "AUDIT_NO": f"{second}/liba.so"}
    off, on = (maker.loader.run(program, switch=s, env=env)[0] for s in (0, 3))
    assert off == on == 127


def drop_privileges():
    """Become nobody."""
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def secure_run(maker, program, **more):
    """What a set-user-id program prints to a user of no rights."""
    from trial import Skip
    if os.geteuid() != 0:
        raise Skip("only root makes set-user-id programs")
    os.chmod(program, stat.S_ISUID | 0o755)
    if os.statvfs(program).f_flag & os.ST_NOSUID:
        raise Skip("the store's file system ignores set-user-id")
    if ctypes.CDLL(None).prctl(39, 0, 0, 0, 0) == 1:  # PR_GET_NO_NEW_PRIVS
        raise Skip("no new privileges can be had here")
    return maker.loader.run(program, direct=True, preexec_fn=drop_privileges, **more)


def case_secure_program_ignores_its_note(maker, pkg):
    program, by_search, by_note = wrong_note(maker, pkg)
    assert maker.loader.run(program, direct=True)[1] == by_note
    for switch in (None, 0, 1):
        assert secure_run(maker, program, switch=switch)[1] == by_search, switch


def case_origin_in_a_secure_program_s_note_is_what_it_is_in_its_run_path(maker, pkg):
    """$ORIGIN of a program is believed below trusted directories only; a store is none."""
    one, second = two(maker, pkg)
    maker.library(f"{one}/liba.so")
    runpath = f"$ORIGIN/../two:{one}"
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=runpath,
                            pairs=[("liba.so", f"=$ORIGIN/../two/liba.so:={one}/liba.so")])
    assert maker.loader.run(program, direct=True)[1] == f"{second}/liba.so\n"
    without = maker.program(maker.path(pkg, "bin", "q"), ["a"], runpath=runpath)
    assert secure_run(maker, program)[1] == secure_run(maker, without)[1] == f"{one}/liba.so\n"


def case_secure_program_is_preloaded_nothing_by_its_note(maker, pkg):
    one, second = two(maker, pkg)
    program = maker.program(maker.path(pkg, "bin", "p"), [], runpath=f"{one}:{second}",
                            pairs=[("liba.so", f"={second}/liba.so")], extra=DLOPEN,
                            body='puts(dlsym(0, "a") ? "preloaded" : "alone");')
    env = {"LD_PRELOAD": "liba.so"}
    assert maker.loader.run(program, env=env)[1] == "preloaded\n"
    assert secure_run(maker, program, env=env)[1] == "alone\n"


def case_lookups_of_one_object_share_its_directories(maker, pkg):
    """A directory met first in a note is the one that a run path lists."""
    one, second = two(maker, pkg)
    maker.library(f"{second}/libb.so")
    program = maker.program(maker.path(pkg, "bin", "p"), ["a", "b"],
                            runpath=f"{one}/gone:{second}",
                            pairs=[("liba.so", f"?{one}/gone:={second}/liba.so")])
    both(maker, program)
    tried, _ = maker.loader.tries(program, "libb.so")
    assert not any("/gone/" in path for path in tried), tried
