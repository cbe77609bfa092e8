"""What a program's start costs the dynamic loader, and how to end its search.

Each function runs the `becalm` binary of this wheel with ``--json`` and returns dataclasses:

>>> import becalm
>>> becalm.check("/bin/true").programs[0].storm.missed_opens
0
"""

from ._binary import BecalmError, find_binary
from ._commands import (
    advise,
    bench,
    cache,
    check,
    doctor,
    fix,
    index,
    pack,
    run,
    survey,
    trace,
    undo,
    unpack,
    verify,
)
from ._reports import *  # noqa: F403
from ._reports import __all__ as _classes

__all__ = [
    *_classes,
    "BecalmError",
    "find_binary",
    "advise",
    "bench",
    "cache",
    "check",
    "doctor",
    "fix",
    "index",
    "pack",
    "run",
    "survey",
    "trace",
    "undo",
    "unpack",
    "verify",
]
