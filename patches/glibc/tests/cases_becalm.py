"""becalm's prediction of such a loader, beside what it does; nothing is told of the loader."""

import json
import os
import subprocess

import fixture
from cases_note import two


def traced(maker, program, more=(), switch=None):
    """The last image of `becalm trace --json`."""
    from trial import Skip
    if maker.loader.becalm is None:
        raise Skip("no --becalm")
    env = {"PATH": os.environ["PATH"], "HOME": "/dev/null/home"}
    if switch is not None:
        env["GLIBC_TUNABLES"] = f"glibc.rtld.resolution={switch}"
    report = maker.path(os.path.relpath(program, maker.store) + ".json")
    command = [maker.loader.becalm, "trace", "--json", "-o", report, *more, "--", program]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    with open(report, encoding="utf-8") as file:
        return json.load(file)["images"][-1]


def sources(image, name="liba.so"):
    """The search sources of the probes for a library, each once, in order."""
    return list(dict.fromkeys(p["source"] for p in image["probes"] if p["needed"] == name))


def held(maker, program, source):
    """Switched every way, with prediction and observation one; read as `source` says."""
    for switch, is_read in ((0, False), (None, True), (3, True)):
        image = traced(maker, program, switch=switch)
        assert image["prediction"]["equal"], (switch, image["prediction"])
        assert (source in sources(image)) == is_read, (switch, sources(image))
    image = traced(maker, program, more=["--reads", "none"])
    assert not image["prediction"]["equal"]


def case_trace_predicts_what_a_note_answers(maker, pkg):
    one, second = two(maker, pkg)
    held(maker, maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=f"{one}:{second}",
                              pairs=[("liba.so", f"?{one}:={second}/liba.so")]), "note")
    held(maker, maker.program(maker.path(pkg, "bin", "q"), ["a"], runpath=f"{one}:{second}",
                              pairs=[("liba.so", f"={one}/liba.so:={second}/liba.so")]), "note")


def case_trace_predicts_what_a_package_s_cache_answers(maker, pkg):
    one, second = two(maker, pkg)
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=f"{one}:{second}")
    fixture.cache(maker.path(pkg, "etc", "ld.so.cache"), [("liba.so", f"{second}/liba.so")])
    held(maker, program, "package-cache")


def case_check_predicts_as_trace_does(maker, pkg):
    one, second = two(maker, pkg)
    program = maker.program(maker.path(pkg, "bin", "p"), ["a"], runpath=f"{one}:{second}",
                            pairs=[("liba.so", f"={second}/liba.so")])
    image = traced(maker, program)
    done = subprocess.run([maker.loader.becalm, "check", "--json", "--probes", program],
                          env={"HOME": "/dev/null/home"}, capture_output=True, text=True)
    told, = json.loads(done.stdout)["programs"]
    assert told["storm"] == image["storm"] and sources(told) == ["note"], told
