#!/usr/bin/env python3
"""Random stores under a patched loader: what `becalm fix` writes changes no answer.

    random_stores.py --loader LD.SO --store DIR --becalm BECALM [--count N] [--seed S]

DIR is one of the store prefixes that the loader was built with, and writable. Each trial
makes packages of libraries there, with run paths of both kinds that name packages,
directories outside the store, missing ones and relative ones; libraries of one name in
many places, in hwcaps subdirectories too, damaged ones among them. Then a carrier is
written, and what the loader answers with its readers off and on must be the same: the
objects in their order, what the program prints, its status. So it must after libraries
came and went outside the store, with LD_LIBRARY_PATH, LD_PRELOAD and in another working
directory. `becalm trace` must see each start make the opens and stats that it predicts. A
difference is printed with its seed, and its store is kept.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

from fixture import Loader, Maker

NAMES = "abdefgh"  # without libc.so, which is musl
READS = {"note": 1, "ldcache": 2}
HWCAPS = ["glibc-hwcaps/x86-64-v2", "glibc-hwcaps/x86-64-v3", "glibc-hwcaps/x86-64-v4"]


class Trial:
    """One random store."""

    def __init__(self, loader, seed, carrier):
        self.loader, self.carrier = loader, carrier
        self.random = random.Random(seed)
        self.maker = Maker(loader)
        self.outside = tempfile.mkdtemp(prefix="outside-", dir=os.path.dirname(loader.store))
        os.chmod(self.outside, 0o755)
        self.packages = [os.path.join(loader.store, f"s{seed}-{number}")
                         for number in range(self.random.randint(2, 5))]
        self.oddness = self.random.choice([0, 0.02, 0.1, 0.3])
        self.inside = [os.path.join(package, folder)
                       for package in self.packages for folder in ("lib", "lib/deep")]
        self.mutable = [os.path.join(self.outside, name) for name in ("one", "two")]
        self.places = self.inside + self.mutable
        for package in self.packages:
            shutil.rmtree(package, ignore_errors=True)  # kept by a run before
        for place in self.places:
            os.makedirs(place)
        libc = os.path.join(os.path.dirname(loader.path), "libc.so.6")
        shutil.copy2(os.path.realpath(libc), os.path.join(self.inside[0], "libc.so.6"))
        self.programs = []

    def remove(self):
        """Leave nothing of the store."""
        for folder in [*self.packages, self.outside]:
            shutil.rmtree(folder, ignore_errors=True)

    def some(self, things, most):
        """Some of the things, in a random order."""
        return self.random.sample(things, self.random.randint(0, min(most, len(things))))

    def needs(self):
        """Needed strings."""
        return [f"lib{name}.so" for name in self.some(NAMES, 3)]

    def run_path(self):
        """A run path of one kind, the other, or none."""
        kind = self.random.choice(["runpath"] * 6 + ["rpath"] * 2 + [None])
        if kind is None:
            return {}
        dirs = self.random.sample(self.inside, len(self.inside))
        if self.is_odd():
            dirs = dirs[:self.random.randint(0, len(dirs))]
        for place in self.some(self.mutable, 2) if self.random.random() < 0.4 else []:
            dirs.insert(self.random.randint(0, len(dirs)), place)
        odd = ["$ORIGIN", "$ORIGIN/../lib", "$ORIGIN/deep", "/missing", "relative", "",
               os.path.join(self.packages[0], "missing"), "$ORIGIN/$LIB", "/usr/lib"]
        for extra in self.some(odd, 2) if self.is_odd() else []:
            dirs.insert(self.random.randint(0, len(dirs)), extra)
        return {kind: ":".join(dirs)} if dirs else {}

    def is_odd(self):
        """Whether something is to be out of the ordinary: never in some stores, often in others."""
        return self.random.random() < self.oddness

    def library(self, place, name):
        """A library in a place or in a hwcaps subdirectory of it."""
        if self.random.random() < 0.2:
            place = os.path.join(place, self.random.choice(HWCAPS))
        path = os.path.join(place, f"lib{name}.so")
        self.maker.library(path, needed=self.needs(), **self.run_path())
        if self.random.random() < 0.1:
            real = os.path.join(os.path.dirname(path), f"real-{name}.so")
            os.rename(path, real)
            os.symlink(real, path)
        elif self.is_odd():
            self.random.choice([self.of_another_machine, self.emptied, self.replaced])(path)

    @staticmethod
    def of_another_machine(path):
        """Passed over by the search."""
        with open(path, "r+b") as file:
            file.seek(18)
            file.write(b"\xb7\x00")

    @staticmethod
    def emptied(path):
        """Ends the search with an error."""
        os.truncate(path, 0)

    @staticmethod
    def replaced(path):
        """A directory in the place of a file."""
        os.remove(path)
        os.mkdir(path)

    def make(self):
        """The objects, and the carrier in them; what becalm said."""
        for name in NAMES:
            for place in self.random.sample(self.inside, self.random.randint(1, 3)):
                self.library(place, name)
            if self.random.random() < 0.2:
                self.library(self.random.choice(self.mutable), name)
        for package in self.packages[:2]:
            calls = self.some(NAMES, 4) or ["a"]
            path = self.maker.path(package, "bin", "p")
            self.programs.append(self.maker.program(path, calls, **self.run_path()))
        done = subprocess.run([self.loader.becalm, "fix", "--with", self.carrier, "--no-sync",
                               "--store", self.loader.store, *self.packages],
                              capture_output=True, text=True)
        assert done.returncode in (0, 1, 2), done.stderr
        return done.stdout

    def change_outside(self):
        """A library comes into a directory outside the store, or goes from there."""
        place = self.random.choice(self.mutable)
        path = os.path.join(place, f"lib{self.random.choice(NAMES)}.so")
        if os.path.isdir(path) and not os.path.islink(path):
            os.rmdir(path)
        elif os.path.lexists(path):
            os.remove(path)
        else:
            self.maker.library(path, needed=self.needs(), **self.run_path())

    def environments(self):
        """What the programs are started with."""
        yield {}
        yield {"env": {"LD_LIBRARY_PATH": ":".join(self.some(self.places, 3))}}
        yield {"env": {"LD_PRELOAD": f"lib{self.random.choice(NAMES)}.so"}}
        yield {"cwd": self.random.choice(self.places)}

    def answers(self, program, switch, more):
        """What is loaded, printed and said."""
        traced = dict(more, env=dict(more.get("env", {}), LD_TRACE_LOADED_OBJECTS="1"))
        listed = self.loader.run(program, switch=switch, **traced)
        lines = [line.split(" (0x")[0] for line in listed[1].splitlines()]
        return lines, listed[0], self.loader.run(program, switch=switch, **more)

    def prediction(self, program, more):
        """How the loader's calls differ from what becalm predicts of them; None if they do not."""
        report = os.path.join(self.outside, "report.json")
        # Set by env(1): becalm itself may be dynamically linked.
        given = dict(more.get("env", {}),
                     GLIBC_TUNABLES=f"glibc.rtld.resolution={READS[self.carrier]}")
        command = ["env", *(f"{name}={value}" for name, value in given.items()), program]
        subprocess.run([self.loader.becalm, "trace", "--json", "-o", report, "--", *command],
                       env={"PATH": os.environ["PATH"], "HOME": "/dev/null/home"},
                       cwd=more.get("cwd"), capture_output=True, timeout=60)
        with open(report, encoding="utf-8") as file:
            prediction = json.load(file)["images"][-1]["prediction"]
        return None if prediction["equal"] else prediction["differences"][:3]

    def compare(self):
        """How many starts were compared, and the first that differs."""
        count = 0
        for program in self.programs:
            for more in self.environments():
                off, on = (self.answers(program, switch, more)
                           for switch in (0, READS[self.carrier]))
                count += 1
                if off != on:
                    return count, (program, more, f"off {off}", f"on  {on}")
                difference = self.prediction(program, more)
                if difference is not None:
                    return count, (program, more, "not as predicted", difference)
        return count, None


def one(loader, seed, carrier):
    """The answers of a trial, and whether all were the same."""
    trial = Trial(loader, seed, carrier)
    trial.make()
    count = 0
    for step in range(4):
        if step > 0:
            trial.change_outside()
        more, difference = trial.compare()
        count += more
        if difference is not None:
            program, given, *how = difference
            print(f"DIFFERENT seed {seed}, {carrier}, step {step}: {program} {given}", *how,
                  sep="\n  ", flush=True)
            return count, False
    trial.remove()
    return count, True


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loader", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--becalm", required=True)
    parser.add_argument("--count", type=int, default=20, help="trials of each carrier")
    parser.add_argument("--seed", type=int, default=1, help="of the first trial")
    options = parser.parse_args()
    loader = Loader(os.path.abspath(options.loader), os.path.realpath(options.store))
    loader.becalm = os.path.abspath(options.becalm)
    seeds = range(options.seed, options.seed + options.count)
    results = [one(loader, seed, carrier) for seed in seeds for carrier in READS]
    same = sum(fine for _, fine in results)
    print(f"{same} of {len(results)} stores the same, {sum(n for n, _ in results)} starts compared")
    return 0 if results and same == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
