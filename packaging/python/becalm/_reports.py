"""The reports of becalm's commands. docs/json.md has the meaning of each field.

A field with a default may be absent from the JSON. Counts are of one start.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional

from ._decode import Record


@dataclass
class Storm(Record):
    """The loader's search in one start, in counts."""

    objects: int
    search_dirs: int
    probes: int
    hits: int
    missed_opens: int
    missed_stats: int
    hwcaps_misses: int = 0

    @property
    def misses(self) -> int:
        """Failed opens and stats."""
        return self.missed_opens + self.missed_stats


@dataclass
class Probe(Record):
    """One attempt of the loader on one path."""

    needed_by: str
    needed: str
    source: str
    path: str
    call: str
    outcome: str


@dataclass
class Failed(Record):
    """A path that a command could not do its work on."""

    path: str
    reason: str


@dataclass
class IndexedBindings(Record):
    bound: int
    relocations: int


@dataclass
class ObjectPhases(Record):
    """The loader's work for one object. Times are in nanoseconds."""

    name: str
    search_ns: int
    relocation_ns: int
    constructors_ns: int


@dataclass
class Phases(Record):
    """One start up to its entry point. Times are in nanoseconds."""

    exec_ns: int
    loader_ns: int
    page_faults: int
    start_ns: int
    search_ns: int
    relocation_ns: int
    constructors_ns: int
    objects: List[ObjectPhases]


@dataclass
class RelocationTime(Record):
    """The relocation of a start (``--relocations``). Times are in nanoseconds."""

    loader_ns: int
    lookups: int
    cached: int
    relative: int
    ns: Optional[int] = None
    bindings: Optional[IndexedBindings] = None
    phases: Optional[Phases] = None
    not_applied: Optional[str] = None


@dataclass
class NewerGlibc(Record):
    """The same start by a glibc without legacy hwcaps subdirectories."""

    libc: str
    storm: Storm


@dataclass
class Option(Record):
    """What a strategy would leave of a start's misses and time, and the command that applies it."""

    strategy: str
    scope: str
    needs_reader: bool
    misses: Optional[int] = None
    loader_ns: Optional[int] = None
    command: str = ""
    refused: Optional[str] = None


@dataclass
class RelocationWork(Record):
    """What the time of a start's relocation depends on."""

    lookups: int
    searched: int
    symbolic: int
    lazy: int
    relative: int
    pages: int


@dataclass
class Estimate(Record):
    """The estimated time of a start until the program's entry point, in nanoseconds."""

    loader_ns: int
    misses_ns: int
    lookups_ns: int
    relative_ns: int
    relocation: RelocationWork
    indexed_ns: Optional[int] = None


@dataclass
class Advice(Record):
    before: int
    options: List[Option]
    before_ns: Optional[int] = None
    owner: Optional[str] = None
    assumed_store: Optional[str] = None


@dataclass
class Undefined(Record):
    object: str
    symbol: str
    lazy: bool
    version: Optional[str] = None


@dataclass
class MissingVersion(Record):
    object: str
    library: str
    version: str
    weak: bool


@dataclass
class Interposed(Record):
    symbol: str
    definer: str
    others: List[str]
    references: int
    copy: bool
    version: Optional[str] = None


@dataclass
class Definer(Record):
    object: str
    definer: str
    symbols: int


@dataclass
class Relocations(Record):
    relative: int
    relr: int
    glob_dat: int
    jump_slot: int
    lazy: int
    absolute: int
    copy: int
    irelative: int
    tls: int
    other: int
    ifunc: int
    unique: int
    undefined_weak: int


@dataclass
class Binding(Record):
    """One relocation's symbol and the object that defines it."""

    object: str
    offset: int
    kind: str
    value: int
    addend: int
    type: str
    lazy: bool
    symbol: Optional[str] = None
    version: Optional[str] = None
    definer: Optional[str] = None


@dataclass
class Symbols(Record):
    undefined: List[Undefined]
    missing_versions: List[MissingVersion]
    interposed: List[Interposed]
    definers: List[Definer]
    relocations: Relocations
    bindings: Optional[List[Binding]] = None


@dataclass
class Difference(Record):
    """A probe in which a prediction and an observation differ."""

    how: str
    at: int
    probe: Probe
    predicted_outcome: Optional[str] = None


@dataclass
class Against(Record):
    """A prediction beside an observation."""

    equal: bool
    predicted: Storm
    observed: Storm
    differences: List[Difference]
    not_reached: int


@dataclass
class Slice(Record):
    """One slice of a Mach-O file."""

    cpu: str
    dylibs: int
    absolute: int
    rpath_dylibs: int
    rpaths: int
    dyld_candidates: int


@dataclass
class File(Record):
    """A file that a start needs."""

    path: str
    kind: str
    target: Optional[str] = None


@dataclass
class Program(Record):
    """The predicted start of one file."""

    path: str
    kind: str
    machine: str
    secure: bool
    immutable: bool
    storm: Storm
    unresolved: List[str]
    libc: Optional[str] = None
    interpreter: Optional[str] = None
    stop: Optional[str] = None
    calmed_by: Optional[str] = None
    indexed_bindings: Optional[IndexedBindings] = None
    newer_glibc: Optional[NewerGlibc] = None
    estimate: Optional[Estimate] = None
    advice: Optional[Advice] = None
    lookups: Optional[int] = None
    over_budget: Optional[bool] = None
    scripts: List[str] = field(default_factory=list)
    files: Optional[List[File]] = None
    probes: Optional[List[Probe]] = None
    symbols: Optional[Symbols] = None
    against: Optional[Against] = None
    slices: Optional[List[Slice]] = None


@dataclass
class Check(Record):
    """What ``becalm check`` predicts."""

    schema: str
    programs: List[Program]
    total: Storm
    errors: List[Failed]
    exit_status: int = field(default=0, metadata={"json": ""})


@dataclass
class Syscall(Record):
    name: str
    count: int
    errors: int
    total_ns: int
    max_ns: int


@dataclass
class Missed(Record):
    opens: int
    stats: int
    others: int
    ns: int


@dataclass
class Share(Record):
    """What the loader or the program did: the time, the calls, the failed lookups."""

    net_ns: int
    wall_ns: int
    tracer_ns: int
    calls: int
    hits: int
    missed: Missed
    syscalls: List[Syscall]


@dataclass
class DirMisses(Record):
    path: str
    misses: int


@dataclass
class NameMisses(Record):
    name: str
    misses: int


@dataclass
class RepeatedPath(Record):
    path: str
    times: int


@dataclass
class Repeated(Record):
    """Successful lookups that repeat an earlier one."""

    count: int
    ns: int
    paths: List[RepeatedPath]


@dataclass
class ClassShare(Record):
    """Lookups after the entry point by who searches; ``class_`` is JSON's ``class``."""

    hits: int
    missed: Missed
    dirs: List[DirMisses]
    class_: str = field(metadata={"json": "class"})
    names: List[NameMisses] = field(default_factory=list)
    repeated: Optional[Repeated] = None


@dataclass
class Offender(Record):
    name: str
    opens: int
    stats: int


@dataclass
class Worst(Record):
    directories: List[Offender]
    needed: List[Offender]
    objects: List[Offender]


@dataclass
class DlopenNeeded(Record):
    name: str
    opens: int
    stats: int
    found: bool


@dataclass
class DlopenProbe(Record):
    needed_by: str
    needed: str
    directory: str
    path: str
    call: str
    outcome: str


@dataclass
class Dlopen(Record):
    """The loader's search after the entry point."""

    missed: Missed
    hits: int
    found_misses: int
    directories: List[Offender]
    needed: List[DlopenNeeded]
    objects: List[Offender]
    probes: List[DlopenProbe]
    dropped: int


@dataclass
class FileWaits(Record):
    path: str = ""
    waits: int = 0
    seconds: float = 0.0


@dataclass
class Pages(Record):
    waits: int = 0
    seconds: float = 0.0
    files: List[FileWaits] = field(default_factory=list)


@dataclass
class Image(Record):
    """One program image of a run. Of a log (``trace(from_log=…)``) it has the first fields only."""

    path: str
    pid: int
    probes: List[Probe]
    questions: Optional[int] = None
    answered: Optional[int] = None
    missed_opens: Optional[int] = None
    file: Optional[str] = None
    asked: Optional[str] = None
    forked: bool = False
    interpreter: Optional[str] = None
    machine: Optional[str] = None
    libc: Optional[str] = None
    secure: bool = False
    immutable: Optional[bool] = None
    reached_entry: Optional[bool] = None
    storm: Optional[Storm] = None
    storm_ns: Optional[int] = None
    loader: Optional[Share] = None
    program: Optional[Share] = None
    syscalls: List[Syscall] = field(default_factory=list)
    classes: List[ClassShare] = field(default_factory=list)
    worst: Optional[Worst] = None
    dlopen: Optional[Dlopen] = None
    calmed_by: Optional[str] = None
    indexed_bindings: Optional[IndexedBindings] = None
    pages: Optional[Pages] = None
    relocations: Optional[RelocationTime] = None
    prediction: Optional[Against] = None
    no_prediction: Optional[str] = None
    initialisers: int = 0
    files: Optional[List[File]] = None
    dropped: int = 0
    environment: Dict[str, str] = field(default_factory=dict)


@dataclass
class Exit(Record):
    code: Optional[int] = None
    signal: Optional[int] = None


@dataclass
class Overhead(Record):
    call_ns: int
    cycle_ns: int
    samples: int


@dataclass
class Trace(Record):
    """What ``becalm trace`` saw. The last image is the program."""

    schema: str
    images: List[Image]
    opens_alone: bool
    made: Optional[str] = None
    command: List[str] = field(default_factory=list)
    exit: Optional[Exit] = None
    overhead: Optional[Overhead] = None
    all_syscalls: bool = False
    from_log: bool = False
    notes: List[str] = field(default_factory=list)
    exit_status: int = field(default=0, metadata={"json": ""})


@dataclass
class Directories(Record):
    watched: int
    snapshotted: int
    not_snapshotted: List[str]
    modules_not_understood: List[str] = field(default_factory=list)


@dataclass
class Left(Record):
    reason: str
    questions: int


@dataclass
class StaticTls(Record):
    path: str
    optional_static_tls: Optional[int] = None


@dataclass
class NotBound(Record):
    path: str
    reason: str


@dataclass
class BindingCounts(Record):
    programs: int
    relocations: int
    bound: int
    bytes: int
    not_bound: List[NotBound]


@dataclass
class OtherMachine(Record):
    machine: str
    objects: int


@dataclass
class Index(Record):
    """What ``becalm index`` wrote. ``written`` is false if the index was up to date."""

    schema: str
    index: str
    written: bool
    machine: str
    objects: int
    edges: int
    bytes: int
    table_bytes: int
    errors: List[Failed]
    stores: List[str] = field(default_factory=list)
    kept: int = 0
    directories: Optional[Directories] = None
    left: List[Left] = field(default_factory=list)
    static_tls: List[StaticTls] = field(default_factory=list)
    bindings: Optional[BindingCounts] = None
    other_machines: List[OtherMachine] = field(default_factory=list)
    exit_status: int = field(default=0, metadata={"json": ""})


@dataclass
class IndexDifference(Record):
    path: str
    kind: str
    needed: Optional[str] = None
    was: Optional[str] = None
    now: Optional[str] = None


@dataclass
class StartedSlots(Record):
    programs: int
    slots: int


@dataclass
class VerifiedIndex(Record):
    path: str
    machine: str
    objects: int
    edges: int
    stores_changed: bool
    differences: List[IndexDifference]
    slots: Optional[StartedSlots] = None


@dataclass
class DamagedIndex(Record):
    path: str
    reason: str
    program: Optional[str] = None


@dataclass
class Unjudged(Record):
    path: str
    carrier: str
    store: str


@dataclass
class VerifiedAnswer(Record):
    carrier: str
    needed: str
    verdict: str
    says: Optional[str] = None
    is_: Optional[str] = field(default=None, metadata={"json": "is"})


@dataclass
class VerifiedObject(Record):
    path: str
    answers: List[VerifiedAnswer]


@dataclass
class Loads(Record):
    path: str
    equal: bool
    objects: int
    lost: List[str]
    gained: List[str]
    reordered: bool


@dataclass
class Verify(Record):
    """What ``becalm verify`` found, of indexes (``indexes``) and of files (``objects``)."""

    schema: str
    errors: List[Failed]
    indexes: List[VerifiedIndex] = field(default_factory=list)
    looked_at: int = 0
    objects: List[VerifiedObject] = field(default_factory=list)
    loads: List[Loads] = field(default_factory=list)
    damaged: List[DamagedIndex] = field(default_factory=list)
    unjudged: List[Unjudged] = field(default_factory=list)
    exit_status: int = field(default=0, metadata={"json": ""})


@dataclass
class PlanAnswer(Record):
    needed: str
    hints: List[str]
    exact: Optional[str] = None


@dataclass
class PlannedFile(Record):
    path: str
    edits: int
    outside: bool
    answers: List[PlanAnswer]
    withdrawn: bool = False


@dataclass
class Creation(Record):
    path: str
    kind: str
    target: Optional[str] = None
    length: Optional[int] = None


@dataclass
class Done(Record):
    """What became of a file."""

    path: str
    status: str
    old_length: Optional[int] = None
    new_length: Optional[int] = None
    reason: Optional[str] = None
    warnings: List[str] = field(default_factory=list)


@dataclass
class Finding(Record):
    path: str
    severity: str
    what: str
    needed: Optional[str] = None


@dataclass
class ProgramStart(Record):
    path: str
    before: Storm
    after: Optional[Storm] = None


@dataclass
class Fix(Record):
    """What ``becalm fix`` planned and wrote. ``carrier`` is the strategy."""

    schema: str
    carrier: str
    dry_run: bool
    interrupted: bool
    plan: List[PlannedFile]
    creations: List[Creation]
    files: List[Done]
    made: List[Done]
    findings: List[Finding]
    programs: List[ProgramStart]
    errors: List[Failed]
    closure: bool = False
    exit_status: int = field(default=0, metadata={"json": ""})


@dataclass
class Kept(Record):
    path: str
    others: int


@dataclass
class Undo(Record):
    """What ``becalm undo`` restored."""

    schema: str
    dry_run: bool
    interrupted: bool
    files: List[Done]
    removed: List[Done]
    kept: List[Kept]
    errors: List[Failed]
    exit_status: int = field(default=0, metadata={"json": ""})


@dataclass
class Machine(Record):
    kernel: str
    cpus: int
    began: int
    load: Optional[float] = None


@dataclass
class Ratio(Record):
    ratio: float
    level: float
    low: Optional[float] = None
    high: Optional[float] = None


@dataclass
class Watched(Record):
    """What was seen of a variant in further starts."""

    loader_ns: int
    misses: int
    pages: Optional[Pages] = None
    relocations: Optional[RelocationTime] = None
    program_misses: Optional[int] = None
    program_repeated: Optional[int] = None


@dataclass
class Variant(Record):
    name: str
    control: bool
    program: str
    args: List[str]
    environment: Dict[str, Optional[str]]
    median_ns: int
    low_ns: int
    high_ns: int
    least_ns: int
    most_ns: int
    outliers: int
    wall_ns: List[int]
    cpu_median_ns: Optional[int] = None
    major_faults: Optional[int] = None
    read_bytes: Optional[int] = None
    ratio: Optional[Ratio] = None
    watched: Optional[Watched] = None
    cpu_ns: Optional[List[int]] = None


@dataclass
class Bench(Record):
    """What ``becalm bench`` measured. The last variant is the control."""

    schema: str
    until: str
    cold: bool
    rounds: int
    warmup: int
    seed: int
    machine: Machine
    variants: List[Variant]
    notes: List[str]
    exit_status: int = field(default=0, metadata={"json": ""})


@dataclass
class Advise(Record):
    """What each strategy would leave of a program's misses."""

    schema: str
    path: str
    storm: Storm
    before: int
    options: List[Option]
    before_ns: Optional[int] = None
    owner: Optional[str] = None
    estimate: Optional[Estimate] = None
    calmed_by: Optional[str] = None
    assumed_store: Optional[str] = None
    named_stores: List[str] = field(default_factory=list)
    networked: bool = False
    best: Optional[int] = None
    exit_status: int = field(default=0, metadata={"json": ""})


@dataclass
class AuditElement(Record):
    """An element of ``LD_AUDIT``."""

    element: str
    path: str
    is_: str = field(metadata={"json": "is"})


@dataclass
class LeftOut(Record):
    """A program that an index does not answer for in every lookup, or that may not start with it."""

    path: str
    reason: str
    lookups: int


@dataclass
class IndexState(Record):
    """The index of a session."""

    path: str
    usable: bool
    bytes: int
    stores: List[str]
    objects: int
    programs: int
    bound_programs: int
    static_tls: int
    left_out: List[LeftOut]
    machine: Optional[str] = None
    compared: Optional[int] = None
    fresh: Optional[bool] = None


@dataclass
class LoaderState(Record):
    """The loader of ``/bin/sh``."""

    path: str
    libc: str
    takes_index: bool
    takes_bindings: bool
    reads_notes: bool
    reads_package_caches: bool
    hwcaps: List[str] = field(default_factory=list)


@dataclass
class SessionFinding(Record):
    """What keeps a session from being calmed, and what to do about it."""

    kind: str
    what: str
    remedy: str


@dataclass
class RecordedStart(Record):
    command: str
    starts: int
    complete: bool
    exact: bool
    learned: int
    bytes: int
    usable: bool


@dataclass
class TreeRecord(Record):
    """The paths that starts of a command look up on network file systems."""

    command: str
    starts: int
    paths: int
    copies: int
    learned: int
    copied: bool


@dataclass
class Counts(Record):
    """The starts that were answered."""

    starts: int
    declined: int
    ended: int
    answers: int
    stale: int


@dataclass
class Trees(Record):
    """The folder of what starts look up on network file systems."""

    folder: str
    copies: int
    bytes: int
    counts: Counts
    records: List[TreeRecord] = field(default_factory=list)


@dataclass
class ReadyPages(Record):
    """The folder of relocated pages that starts share."""

    folder: str
    files: int
    bytes: int


@dataclass
class Cache(Record):
    """What is kept of programs beside indexes."""

    schema: str
    cleared: bool
    trees: Optional[Trees] = None
    pages: Optional[ReadyPages] = None


@dataclass
class Pack(Record):
    """What learned starts need, in one file."""

    schema: str
    file: str
    files: int
    bytes: int
    indexes: int
    records: List[TreeRecord] = field(default_factory=list)
    left_out: List[str] = field(default_factory=list)


@dataclass
class Alone(Record):
    """Programs that have an index of their own."""

    kept: int
    switched_on: int
    stale: int


@dataclass
class ProgramState(Record):
    """The program that was named, and what it starts by."""

    path: str
    first_line: str
    switched_on: Optional[bool] = None


@dataclass
class KeptIndex(Record):
    """An index of a single program that ``becalm run`` keeps."""

    program: str
    bytes: int
    compared: int
    fresh: bool


@dataclass
class Doctor(Record):
    """Whether the session uses an index, which, and what is wrong with it."""

    schema: str
    calmed: bool
    modules: List[AuditElement]
    switches: List[str]
    findings: List[SessionFinding]
    alone: Alone
    left_out: List[LeftOut] = field(default_factory=list)
    records: List[RecordedStart] = field(default_factory=list)
    static_tls: Optional[int] = None
    index: Optional[IndexState] = None
    loader: Optional[LoaderState] = None
    trees: Optional[Trees] = None
    program: Optional[ProgramState] = None
    kept: List[KeptIndex] = field(default_factory=list)
    exit_status: int = field(default=0, metadata={"json": ""})


@dataclass
class SurveyLine(Record):
    """One file of a survey. ``error`` says why a file could not be checked: only ``path`` is with it."""

    path: str
    schema: Optional[str] = None
    error: Optional[str] = None
    kind: Optional[str] = None
    machine: Optional[str] = None
    libc: Optional[str] = None
    interpreter: Optional[str] = None
    secure: Optional[bool] = None
    immutable: Optional[bool] = None
    storm: Optional[Storm] = None
    estimate: Optional[Estimate] = None
    unresolved: List[str] = field(default_factory=list)
    stop: Optional[str] = None
    package: Optional[str] = None
    uid: Optional[int] = None
    owner: Optional[str] = None
    bytes: Optional[int] = None
