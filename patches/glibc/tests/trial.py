#!/usr/bin/env python3
"""Holds a patched loader against itself with glibc.rtld.resolution=0.

    trial.py --loader LD.SO --store DIR [--becalm BECALM] [NAME…]

DIR is one of the store prefixes that the loader was built with, and writable. Each case
makes its objects in a package of its own there. With BECALM, what it predicts of such a
loader is held against what that does. A case that cannot be run here says why,
and fails where BECALM_REQUIRE_ALL=1 is set.
"""

import argparse
import os
import shutil
import sys
import tempfile
import traceback

import cases_becalm
import cases_cache
import cases_lies
import cases_note
import cases_search
from fixture import Loader, Maker


class Skip(Exception):
    """The case cannot be run here, for this reason."""


def cases():
    """All cases, by the name of the rule that each pins."""
    for module in (cases_note, cases_search, cases_lies, cases_cache, cases_becalm):
        for name, function in vars(module).items():
            if name.startswith("case_"):
                yield name[5:], function


def run(name, function, loader):
    """One case in a store of its own below the loader's: ok, FAIL or skip."""
    folder = tempfile.mkdtemp(prefix=f"{name[:40]}-", dir=loader.store)
    os.chmod(folder, 0o755)
    try:
        function(Maker(loader), os.path.basename(folder))
        print(f"ok    {name}")
        return True
    except Skip as reason:
        print(f"skip  {name}: {reason}")
        return os.environ.get("BECALM_REQUIRE_ALL") != "1"
    except Exception:  # the report of a case is its traceback
        print(f"FAIL  {name}")
        traceback.print_exc(file=sys.stdout)
        return False
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loader", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--becalm")
    parser.add_argument("names", nargs="*", help="cases to run; all without")
    options = parser.parse_args()
    loader = Loader(os.path.abspath(options.loader), options.store)
    loader.becalm = options.becalm and os.path.abspath(options.becalm)
    results = [run(name, function, loader) for name, function in cases()
               if not options.names or any(part in name for part in options.names)]
    print(f"{sum(results)} of {len(results)} cases")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.modules["trial"] = sys.modules["__main__"]
    sys.exit(main())
