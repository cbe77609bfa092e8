"""Finds and runs the binary."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Iterator, Sequence


class BecalmError(Exception):
    """The binary failed: ``status`` is its exit status, ``message`` what it wrote to stderr."""

    def __init__(self, command: Sequence[str], status: int, message: str) -> None:
        super().__init__(message or f"becalm ended with exit status {status}")
        self.command = list(command)
        self.status = status
        self.message = message


def find_binary() -> str:
    """Returns the path of the binary: ``BECALM_BINARY``, else the wheel's, else the one on ``PATH``.

    Raises FileNotFoundError if there is none.
    """
    named = os.environ.get("BECALM_BINARY")
    if named:
        return named
    for candidate in _installed():
        if os.access(candidate, os.X_OK):
            return str(candidate)
    on_path = shutil.which("becalm")
    if on_path:
        return on_path
    raise FileNotFoundError("no becalm binary beside this package or on PATH")


def _installed() -> Iterator[Path]:
    """Where installers put a wheel's scripts."""
    yield Path(sysconfig.get_path("scripts")) / "becalm"
    # pip install --user
    yield Path(sysconfig.get_path("scripts", scheme="posix_user")) / "becalm"
    # pip install --target and --prefix
    package = Path(__file__).resolve().parent
    yield package.parent / "bin" / "becalm"
    for above in package.parents:
        if above.name == "lib":
            yield above.parent / "bin" / "becalm"
    yield Path(sys.prefix) / "bin" / "becalm"


def output_of(arguments: Sequence[str]) -> tuple[str, int]:
    """Runs the binary and returns its standard output and exit status.

    Exit status 1 is a finding. Raises BecalmError for any other but 0 if nothing was printed.
    """
    command = [find_binary(), *arguments]
    ran = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    output = ran.stdout.decode("utf-8", "replace")
    if ran.returncode not in (0, 1) and not output.strip():
        raise BecalmError(command, ran.returncode, ran.stderr.decode("utf-8", "replace").strip())
    return output, ran.returncode
