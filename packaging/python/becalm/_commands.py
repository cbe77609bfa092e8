"""becalm's commands as functions. Every function takes further flags of its command in ``args``."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from typing import Any, Iterable, Iterator, List, Optional, Sequence, Type, TypeVar, Union

from ._binary import BecalmError, find_binary, output_of
from ._decode import decode
from ._reports import (
    Advise,
    Bench,
    Cache,
    Check,
    Doctor,
    Fix,
    Index,
    Pack,
    SurveyLine,
    Trace,
    Undo,
    Verify,
)

Path = Union[str, "os.PathLike[str]"]
Paths = Union[Path, Iterable[Path]]
T = TypeVar("T")


def check(
    *paths: Path,
    store: Optional[Paths] = None,
    index: Optional[Path] = None,
    library_path: Optional[Paths] = None,
    sysroot: Optional[Path] = None,
    libc: Optional[str] = None,
    cpu: Optional[str] = None,
    max_misses: Optional[int] = None,
    max_lookups: Optional[int] = None,
    max_ms: Optional[float] = None,
    files: bool = False,
    probes: bool = False,
    symbols: bool = False,
    bindings: bool = False,
    args: Sequence[str] = (),
) -> Check:
    """Predicts the starts of programs and libraries, or of all below a folder. Runs none of them.

    ``index`` predicts the starts with that index. ``libc`` and ``cpu`` state what is otherwise asked
    of the loader (``"glibc-2.36"``, ``"x86-64-v3"``).
    """
    flags = _flags(
        store=_list(store),
        audit=index,
        library_path=_list(library_path),
        sysroot=sysroot,
        libc=libc,
        cpu=cpu,
        max_misses=max_misses,
        max_lookups=max_lookups,
        max_ms=max_ms,
        files=files,
        probes=probes,
        symbols=symbols,
        bindings=bindings,
    )
    return _report(Check, ["check", "--json", *flags, *args, "--", *_texts(paths)])


def survey(
    *paths: Path,
    store: Optional[Paths] = None,
    shard: Optional[str] = None,
    args: Sequence[str] = (),
) -> Iterator[SurveyLine]:
    """Checks very many files and yields one line for each, in no order, while becalm runs.

    ``shard`` is this machine's share, such as ``"1/8"``. Raises BecalmError at the end if becalm failed
    without a line.
    """
    flags = _flags(store=_list(store), shard=shard)
    command = [find_binary(), "check", "--ndjson", *flags, *args, "--", *_texts(paths)]
    has_lines = False
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
        ) as running:
            assert running.stdout is not None
            for line in running.stdout:
                has_lines = True
                yield decode(SurveyLine, json.loads(line.decode("utf-8", "replace")))
        if running.returncode not in (0, 1) and not has_lines:
            errors.seek(0)
            message = errors.read().decode("utf-8", "replace").strip()
            raise BecalmError(command, running.returncode, message)


def advise(program: Path, *, store: Optional[Paths] = None, args: Sequence[str] = ()) -> Advise:
    """Predicts what each strategy would leave of a program's misses."""
    return _report(Advise, ["advise", "--json", *_flags(store=_list(store)), *args, _text(program)])


def cache(*, clear: bool = False, args: Sequence[str] = ()) -> Cache:
    """Shows what is kept of programs on network file systems, or removes it."""
    return _report(Cache, ["cache", "--json", *_flags(clear=clear), *args])


def pack(
    output: Path, programs: Sequence[Path] = (), *, args: Sequence[str] = ()
) -> Pack:
    """Writes what learned starts of programs on network file systems need into one file."""
    flags = ["--output", _text(output), *args]
    return _report(Pack, ["pack", "--json", *flags, *map(_text, programs)])


def unpack(file: Path, *, args: Sequence[str] = ()) -> Pack:
    """Adds a pack to what this machine keeps."""
    return _report(Pack, ["unpack", "--json", *args, _text(file)])


def doctor(*, index: Optional[Path] = None, args: Sequence[str] = ()) -> Doctor:
    """Examines this session: whether it uses an index, which, and what is wrong with it."""
    return _report(Doctor, ["doctor", "--json", *_flags(index=index), *args])


def trace(
    command: Sequence[Path] = (),
    *,
    from_log: Optional[Path] = None,
    follow: bool = False,
    syscalls: bool = False,
    relocations: bool = False,
    until: Optional[str] = None,
    store: Optional[Paths] = None,
    args: Sequence[str] = (),
    **popen: Any,
) -> Trace:
    """Runs a program and watches it, or reads the audit module's log (``from_log``).

    ``popen`` goes to subprocess.run: streams, ``env``, ``cwd``. The program's exit status is in
    ``exit``.
    """
    flags = _flags(
        follow=follow,
        syscalls=syscalls,
        relocations=relocations,
        until=until,
        store=_list(store),
        **{"from": from_log},
    )
    if from_log is not None:
        return _report(Trace, ["trace", "--json", *flags, *args])
    with tempfile.TemporaryDirectory(prefix="becalm-") as folder:
        report = os.path.join(folder, "trace.json")
        run_args = [find_binary(), "trace", "--json", "-o", report, *flags, *args]
        popen.setdefault("stdin", subprocess.DEVNULL)
        ran = subprocess.run([*run_args, "--", *_texts(command)], **popen)
        try:
            with open(report, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except FileNotFoundError:
            raise BecalmError(run_args, ran.returncode, "") from None
    made = decode(Trace, json.loads(text))
    made.exit_status = ran.returncode
    return made


def index(
    *stores: Path,
    output: Path,
    store: Optional[Paths] = None,
    programs: Paths = (),
    update: bool = False,
    args: Sequence[str] = (),
) -> Index:
    """Writes an index of stores and single programs to ``output``, or brings it up to date."""
    flags = _flags(store=_list(store), program=_several(programs), update=update)
    return _report(Index, ["index", "--json", *flags, *args, "-o", _text(output), *_texts(stores)])


def verify(
    *paths: Path, load: bool = False, store: Optional[Paths] = None, args: Sequence[str] = ()
) -> Verify:
    """Compares an index, or what ``fix`` wrote into files, with the plain search."""
    flags = _flags(load=load, store=_list(store))
    return _report(Verify, ["verify", "--json", *flags, *args, "--", *_texts(paths)])


def fix(
    *paths: Path,
    strategy: str,
    store: Optional[Paths] = None,
    closure: bool = False,
    dry_run: bool = False,
    args: Sequence[str] = (),
) -> Fix:
    """Writes the answers of the search into files below the paths, by a strategy."""
    flags = _flags(store=_list(store), closure=closure, dry_run=dry_run, **{"with": strategy})
    return _report(Fix, ["fix", "--json", *flags, *args, "--", *_texts(paths)])


def undo(*paths: Path, dry_run: bool = False, args: Sequence[str] = ()) -> Undo:
    """Gives files that ``fix`` changed their old bytes back."""
    return _report(
        Undo, ["undo", "--json", *_flags(dry_run=dry_run), *args, "--", *_texts(paths)]
    )


def bench(
    program: Path,
    arguments: Sequence[str] = (),
    *,
    against: Paths = (),
    rounds: Optional[int] = None,
    until: Optional[str] = None,
    cold: bool = False,
    args: Sequence[str] = (),
) -> Bench:
    """Measures starts of a program beside those of others."""
    flags = _flags(against=_several(against), rounds=rounds, until=until, cold=cold)
    return _report(
        Bench, ["bench", "--json", *flags, *args, _text(program), "--", *arguments]
    )


def run(
    command: Sequence[Path],
    *,
    index: Optional[Path] = None,
    bind: bool = True,
    strict: bool = False,
    quiet: bool = False,
    args: Sequence[str] = (),
    **popen: Any,
) -> "subprocess.CompletedProcess[Any]":
    """Runs a program with an index. ``popen`` goes to subprocess.run.

    Without ``index``, becalm uses the default index or keeps one of the program itself.
    """
    flags = _flags(index=index, no_bind=not bind, strict=strict, quiet=quiet)
    return subprocess.run([find_binary(), "run", *flags, *args, "--", *_texts(command)], **popen)


def _report(kind: Type[T], arguments: Sequence[str]) -> T:
    output, status = output_of(arguments)
    made = decode(kind, json.loads(output))
    made.exit_status = status  # type: ignore[attr-defined]
    return made


def _flags(**flags: Any) -> List[str]:
    """``name=value`` as ``--name=value``: a list several times, True alone, None and False not."""
    made: List[str] = []
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            made.append(flag)
        elif isinstance(value, list):
            made.extend(f"{flag}={_text(one)}" for one in value)
        else:
            made.append(f"{flag}={_text(value)}")
    return made


def _text(value: Any) -> str:
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _texts(values: Iterable[Any]) -> List[str]:
    return [_text(value) for value in values]


def _several(values: Paths) -> List[Path]:
    return [values] if isinstance(values, (str, os.PathLike)) else list(values)


def _list(values: Optional[Paths]) -> Optional[str]:
    """Paths as the list with colons that becalm takes."""
    return None if values is None else ":".join(_texts(_several(values)))
