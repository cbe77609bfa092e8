"""The reports of becalm's commands, written by `BECALM_BLESS=1 cargo nextest run -p xtask --test json_page`.

A field with a default may be absent from the JSON. docs/json.md has the meaning of each field.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional

from ._decode import Record

__all__ = [
    "Advice",
    "Advise",
    "Alone",
    "Answer",
    "Bench",
    "Beside",
    "BindingReport",
    "Bindings",
    "Cache",
    "Changed",
    "Check",
    "Checked",
    "Choice",
    "ClassLookups",
    "Counts",
    "Created",
    "Damaged",
    "DefinerCount",
    "Difference",
    "Differing",
    "Directories",
    "Dlopen",
    "DlopenProbe",
    "Doctor",
    "DoctorFinding",
    "Estimate",
    "Exit",
    "Failed",
    "Figures",
    "FileWaits",
    "Finding",
    "Fix",
    "Image",
    "Index",
    "IndexState",
    "IndexedAnswer",
    "IndexedBindings",
    "IndexedLookup",
    "IndexedStart",
    "InterposedSymbol",
    "Kept",
    "KeptIndex",
    "Left",
    "LeftOut",
    "LeftOutPackage",
    "LoaderState",
    "Loads",
    "Machine",
    "MissedName",
    "MissedPath",
    "Misses",
    "MissingVersionReport",
    "Module",
    "Needed",
    "Newer",
    "Object",
    "ObjectPhases",
    "Offender",
    "OtherMachine",
    "Overhead",
    "Pack",
    "Pages",
    "PagesState",
    "PathTable",
    "Phases",
    "PlannedFile",
    "Probe",
    "Program",
    "ProgramState",
    "ProgramTls",
    "Ratio",
    "RecordState",
    "RelocationCounts",
    "RelocationWork",
    "Relocations",
    "Repeated",
    "RepeatedPath",
    "Share",
    "Slice",
    "Start",
    "StartFile",
    "StartedSlots",
    "Storm",
    "SurveyLine",
    "SymbolReport",
    "Syscall",
    "Trace",
    "TreeRecordState",
    "TreesState",
    "Unbound",
    "UndefinedSymbol",
    "Undo",
    "Unjudged",
    "Verified",
    "Verify",
    "Watched",
    "Worst",
]


@dataclass
class IndexedBindings(Record):
    """Symbol bindings of a start that an index has."""

    bound: int
    relocations: int


@dataclass
class IndexedAnswer(Record):
    """A lookup and its answer."""

    needed_by: str
    needed: str
    path: str


@dataclass
class IndexedLookup(Record):
    """A lookup that an index may answer."""

    needed_by: str
    needed: str


@dataclass
class IndexedStart(Record):
    """The effect of an index on one start."""

    answers: List[IndexedAnswer]
    unanswered: List[IndexedLookup]
    bindings: Optional[IndexedBindings] = None
    not_applied: Optional[str] = None


@dataclass
class Storm(Record):
    """The cost of the loader's search in one start. Every field is a count."""

    objects: int
    search_dirs: int
    probes: int
    hits: int
    missed_opens: int
    missed_stats: int
    hwcaps_misses: int

    @property
    def misses(self) -> int:
        """Failed opens and stats."""
        return self.missed_opens + self.missed_stats


@dataclass
class Newer(Record):
    """The same start by another release of glibc."""

    libc: str
    storm: Storm


@dataclass
class RelocationWork(Record):
    """The numbers of one start's relocation."""

    lookups: int
    searched: int
    symbolic: int
    lazy: int
    relative: int
    pages: int


@dataclass
class Estimate(Record):
    """The estimated time of a start until its program's entry point, in nanoseconds, with the files in memory."""

    loader_ns: int
    misses_ns: int
    lookups_ns: int
    relative_ns: int
    relocation: RelocationWork
    indexed_ns: Optional[int] = None


@dataclass
class Choice(Record):
    """One strategy on one set of files."""

    strategy: str
    scope: str
    needs_reader: bool
    command: str
    misses: Optional[int] = None
    loader_ns: Optional[int] = None
    refused: Optional[str] = None


@dataclass
class Advice(Record):
    """The strategies for one program, and the misses and the time that each would leave."""

    before: int
    options: List[Choice]
    before_ns: Optional[int] = None
    owner: Optional[str] = None
    assumed_store: Optional[str] = None


@dataclass
class StartFile(Record):
    """A file that a start needs."""

    path: str
    kind: str
    target: Optional[str] = None


@dataclass
class Probe(Record):
    """One attempt of the loader on one candidate path."""

    needed_by: str
    needed: str
    source: str
    path: str
    call: str
    outcome: str


@dataclass
class UndefinedSymbol(Record):
    """A strong reference that nothing defines."""

    object: str
    symbol: str
    lazy: bool
    version: Optional[str] = None


@dataclass
class MissingVersionReport(Record):
    """A version that is needed and not defined."""

    object: str
    library: str
    version: str
    weak: bool


@dataclass
class InterposedSymbol(Record):
    """A symbol that several objects define."""

    symbol: str
    definer: str
    others: List[str]
    references: int
    copy: bool
    version: Optional[str] = None


@dataclass
class DefinerCount(Record):
    """The number of symbols of one object that another defines."""

    object: str
    definer: str
    symbols: int


@dataclass
class RelocationCounts(Record):
    """Relocations by kind, added up over all objects."""

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
class BindingReport(Record):
    """One binding."""

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
class SymbolReport(Record):
    """Undefined and interposed symbols, missing versions, the definers of symbols, and counts of relocations. Bytes of names and paths that are not UTF-8 become U+FFFD."""

    undefined: List[UndefinedSymbol]
    missing_versions: List[MissingVersionReport]
    interposed: List[InterposedSymbol]
    definers: List[DefinerCount]
    relocations: RelocationCounts
    bindings: Optional[List[BindingReport]] = None


@dataclass
class Differing(Record):
    """One difference between prediction and observation."""

    how: str
    at: int
    probe: Probe
    predicted_outcome: Optional[str] = None


@dataclass
class Beside(Record):
    """The comparison, step by step."""

    equal: bool
    predicted: Storm
    observed: Storm
    differences: List[Differing]
    not_reached: int


@dataclass
class Slice(Record):
    """Counts of the load commands of one slice of a Mach-O file."""

    cpu: str
    dylibs: int
    absolute: int
    rpath_dylibs: int
    rpaths: int
    dyld_candidates: int


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
    calmed_by: Optional[str] = None
    indexed_bindings: Optional[IndexedBindings] = None
    indexed: Optional[IndexedStart] = None
    newer_glibc: Optional[Newer] = None
    estimate: Optional[Estimate] = None
    advice: Optional[Advice] = None
    stop: Optional[str] = None
    lookups: Optional[int] = None
    over_budget: Optional[bool] = None
    scripts: List[str] = field(default_factory=list)
    files: Optional[List[StartFile]] = None
    probes: Optional[List[Probe]] = None
    symbols: Optional[SymbolReport] = None
    against: Optional[Beside] = None
    slices: Optional[List[Slice]] = None


@dataclass
class Failed(Record):
    """A file that could not be processed, and the reason."""

    path: str
    reason: str


@dataclass
class Check(Record):
    """The checked files: the JSON document of `becalm check`, which [`Document`] writes in parts."""

    schema: str
    programs: List[Program]
    total: Storm
    errors: List[Failed]
    exit_status: int = field(default=0, metadata={"json": ""})


@dataclass
class Advise(Record):
    """The strategies for one program: the JSON document of `becalm advise`."""

    schema: str
    path: str
    storm: Storm
    before: int
    options: List[Choice]
    named_stores: List[str]
    networked: bool
    calmed_by: Optional[str] = None
    estimate: Optional[Estimate] = None
    before_ns: Optional[int] = None
    owner: Optional[str] = None
    assumed_store: Optional[str] = None
    best: Optional[int] = None
    exit_status: int = field(default=0, metadata={"json": ""})


@dataclass
class Misses(Record):
    """Failed lookups."""

    opens: int
    stats: int
    others: int
    ns: int


@dataclass
class Syscall(Record):
    """The calls of one name. Times are in nanoseconds, the tracer's own cost subtracted."""

    name: str
    count: int
    errors: int
    total_ns: int
    max_ns: int


@dataclass
class Share(Record):
    """Calls and time of one phase. Times are in nanoseconds."""

    net_ns: int
    wall_ns: int
    tracer_ns: int
    calls: int
    hits: int
    missed: Misses
    syscalls: List[Syscall]


@dataclass
class MissedPath(Record):
    """Misses in a directory."""

    path: str
    misses: int


@dataclass
class MissedName(Record):
    """Misses of a file name."""

    name: str
    misses: int


@dataclass
class RepeatedPath(Record):
    """A path that is found repeatedly."""

    path: str
    times: int


@dataclass
class Repeated(Record):
    """Successful lookups that repeat an earlier one."""

    count: int
    ns: int
    paths: List[RepeatedPath]


@dataclass
class ClassLookups(Record):
    """The lookups of one class."""

    class_: str = field(metadata={"json": "class"})
    hits: int
    missed: Misses
    dirs: List[MissedPath]
    names: List[MissedName]
    repeated: Repeated


@dataclass
class Offender(Record):
    """Misses of one cause."""

    name: str
    opens: int
    stats: int


@dataclass
class Worst(Record):
    """Misses of the loader by their causes, the most first."""

    directories: List[Offender]
    needed: List[Offender]
    objects: List[Offender]


@dataclass
class Needed(Record):
    """Misses of a needed string."""

    name: str
    opens: int
    stats: int
    found: bool


@dataclass
class DlopenProbe(Record):
    """One attempt of the loader after the entry point."""

    needed_by: str
    needed: str
    directory: str
    path: str
    call: str
    outcome: str


@dataclass
class Dlopen(Record):
    """The loader's search after the entry point."""

    missed: Misses
    hits: int
    found_misses: int
    directories: List[Offender]
    needed: List[Needed]
    objects: List[Offender]
    probes: List[DlopenProbe]
    dropped: int


@dataclass
class FileWaits(Record):
    """The waits for pages of one file."""

    path: str
    waits: int
    seconds: float


@dataclass
class Pages(Record):
    """The waits for pages that were not in memory: page faults that are major, or that sleep for a page of a file because it is being read already; from the fault to its end. Waits in system calls, as in `read` and `open`, are not among them."""

    waits: int
    seconds: float
    files: List[FileWaits]


@dataclass
class ObjectPhases(Record):
    """The loader's work for one object, in nanoseconds."""

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
class Relocations(Record):
    """The relocation of one start. Times are in nanoseconds."""

    loader_ns: int
    lookups: int
    cached: int
    relative: int
    ns: Optional[int] = None
    bindings: Optional[IndexedBindings] = None
    phases: Optional[Phases] = None
    not_applied: Optional[str] = None


@dataclass
class Image(Record):
    """One image, with its prediction."""

    path: str
    pid: int
    probes: List[Probe]
    file: Optional[str] = None
    asked: Optional[str] = None
    forked: Optional[bool] = None
    interpreter: Optional[str] = None
    machine: Optional[str] = None
    libc: Optional[str] = None
    secure: Optional[bool] = None
    immutable: Optional[bool] = None
    reached_entry: Optional[bool] = None
    storm: Optional[Storm] = None
    storm_ns: Optional[int] = None
    loader: Optional[Share] = None
    program: Optional[Share] = None
    syscalls: List[Syscall] = field(default_factory=list)
    classes: List[ClassLookups] = field(default_factory=list)
    worst: Optional[Worst] = None
    dlopen: Optional[Dlopen] = None
    calmed_by: Optional[str] = None
    indexed_bindings: Optional[IndexedBindings] = None
    pages: Optional[Pages] = None
    relocations: Optional[Relocations] = None
    prediction: Optional[Beside] = None
    no_prediction: Optional[str] = None
    initialisers: Optional[int] = None
    dropped: Optional[int] = None
    environment: Dict[str, str] = field(default_factory=dict)
    files: List[StartFile] = field(default_factory=list)
    questions: Optional[int] = None
    answered: Optional[int] = None
    missed_opens: Optional[int] = None


@dataclass
class Exit(Record):
    """The exit of a program."""

    code: Optional[int] = None
    signal: Optional[int] = None


@dataclass
class Overhead(Record):
    """The cost of tracing, in nanoseconds."""

    call_ns: int
    cycle_ns: int
    samples: int


@dataclass
class Trace(Record):
    """A traced run: the JSON document of `becalm trace`."""

    schema: str
    images: List[Image]
    opens_alone: bool
    command: List[str] = field(default_factory=list)
    exit: Optional[Exit] = None
    overhead: Optional[Overhead] = None
    all_syscalls: Optional[bool] = None
    notes: List[str] = field(default_factory=list)
    made: Optional[str] = None
    from_log: Optional[bool] = None
    exit_status: int = field(default=0, metadata={"json": ""})


@dataclass
class Directories(Record):
    """The directories of an index."""

    watched: int
    snapshotted: int
    not_snapshotted: List[str]
    modules_not_understood: List[str] = field(default_factory=list)


@dataclass
class Left(Record):
    """Lookups that are left to the loader for one reason."""

    reason: str
    questions: int


@dataclass
class ProgramTls(Record):
    """A program that needs more static TLS than there is by default."""

    path: str
    optional_static_tls: Optional[int] = None


@dataclass
class Unbound(Record):
    """A program that is not bound."""

    path: str
    reason: str


@dataclass
class Bindings(Record):
    """The symbol bindings of an index."""

    programs: int
    relocations: int
    bound: int
    bytes: int
    not_bound: List[Unbound]


@dataclass
class LeftOutPackage(Record):
    """A package whose paths are not indexed."""

    path: str
    reason: str
    passing: bool


@dataclass
class PathTable(Record):
    """The paths below the packages of stores."""

    packages: int
    paths: int
    links: int
    read: int
    left_out: List[LeftOutPackage]
    outside: List[str]


@dataclass
class OtherMachine(Record):
    """Objects for another machine."""

    machine: str
    objects: int


@dataclass
class Index(Record):
    """An index that was made or found up to date: the JSON document of `becalm index`."""

    schema: str
    index: str
    written: bool
    machine: str
    objects: int
    edges: int
    bytes: int
    table_bytes: int
    errors: List[Failed]
    stores: Optional[List[str]] = None
    kept: Optional[int] = None
    directories: Optional[Directories] = None
    left: List[Left] = field(default_factory=list)
    static_tls: List[ProgramTls] = field(default_factory=list)
    bindings: Optional[Bindings] = None
    paths: Optional[PathTable] = None
    other_machines: List[OtherMachine] = field(default_factory=list)
    exit_status: int = field(default=0, metadata={"json": ""})


@dataclass
class Checked(Record):
    """One answer, compared with that of the search."""

    carrier: str
    needed: str
    verdict: str
    says: Optional[str] = None
    is_: Optional[str] = field(default=None, metadata={"json": "is"})


@dataclass
class Object(Record):
    """One object with a strategy."""

    path: str
    answers: List[Checked]


@dataclass
class Loads(Record):
    """The load set of a program, compared with the one without its strategies."""

    path: str
    equal: bool
    objects: int
    lost: List[str]
    gained: List[str]
    reordered: bool


@dataclass
class StartedSlots(Record):
    """Real starts with and without the bindings of an index."""

    programs: int
    slots: int


@dataclass
class Difference(Record):
    """One difference."""

    path: str
    kind: str
    needed: Optional[str] = None
    was: Optional[str] = None
    now: Optional[str] = None


@dataclass
class Verified(Record):
    """The comparison of one index with the search."""

    path: str
    machine: str
    objects: int
    edges: int
    stores_changed: bool
    differences: List[Difference]
    slots: Optional[StartedSlots] = None


@dataclass
class Damaged(Record):
    """A file that should be an index and is not. The module or the loader ignores it."""

    path: str
    reason: str
    program: Optional[str] = None


@dataclass
class Unjudged(Record):
    """An object with a farm or a loader cache that was not compared."""

    path: str
    carrier: str
    store: str


@dataclass
class Verify(Record):
    """The answers of strategies and indexes, compared with those of the search: the JSON document of `becalm verify`."""

    schema: str
    looked_at: int
    objects: List[Object]
    loads: List[Loads]
    indexes: List[Verified]
    damaged: List[Damaged]
    unjudged: List[Unjudged]
    errors: List[Failed]
    exit_status: int = field(default=0, metadata={"json": ""})


@dataclass
class Answer(Record):
    """The answer for one needed string."""

    needed: str
    hints: List[str]
    exact: Optional[str] = None


@dataclass
class PlannedFile(Record):
    """The plan for one file."""

    path: str
    edits: int
    outside: bool
    withdrawn: bool
    answers: List[Answer]


@dataclass
class Created(Record):
    """A file or directory that a plan creates."""

    path: str
    kind: str
    target: Optional[str] = None
    length: Optional[int] = None


@dataclass
class Changed(Record):
    """A file or directory to write, and its outcome."""

    path: str
    status: str
    warnings: List[str]
    old_length: Optional[int] = None
    new_length: Optional[int] = None
    reason: Optional[str] = None


@dataclass
class Finding(Record):
    """An answer or file that a plan leaves out."""

    path: str
    severity: str
    what: str
    needed: Optional[str] = None


@dataclass
class Start(Record):
    """One program's start, before and after."""

    path: str
    before: Storm
    after: Optional[Storm] = None


@dataclass
class Fix(Record):
    """A strategy applied to some files: the plan and the results. The JSON document of `becalm fix`."""

    schema: str
    carrier: str
    closure: bool
    dry_run: bool
    interrupted: bool
    plan: List[PlannedFile]
    creations: List[Created]
    files: List[Changed]
    made: List[Changed]
    findings: List[Finding]
    programs: List[Start]
    errors: List[Failed]
    exit_status: int = field(default=0, metadata={"json": ""})


@dataclass
class Kept(Record):
    """A loader cache that is kept, because it answers for objects of its package that were not named."""

    path: str
    others: int


@dataclass
class Undo(Record):
    """The report of a revert: the JSON document of `becalm undo`."""

    schema: str
    dry_run: bool
    interrupted: bool
    files: List[Changed]
    removed: List[Changed]
    kept: List[Kept]
    errors: List[Failed]
    exit_status: int = field(default=0, metadata={"json": ""})


@dataclass
class Machine(Record):
    """The machine of a measurement, as far as it affects the figures."""

    kernel: str
    cpus: int
    began: int
    load: Optional[float] = None


@dataclass
class Ratio(Record):
    """The ratio of a variant's time to the first variant's."""

    ratio: float
    level: float
    low: Optional[float] = None
    high: Optional[float] = None


@dataclass
class Watched(Record):
    """The observations of a variant in further starts, which are not timed: one traced start, cold if those of the measurement are, and then those for its relocation, with the files in memory."""

    loader_ns: int
    misses: int
    pages: Optional[Pages] = None
    relocations: Optional[Relocations] = None
    program_misses: Optional[int] = None
    program_repeated: Optional[int] = None


@dataclass
class Figures(Record):
    """The figures of one variant. Times are in nanoseconds."""

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
    """A finished measurement: the JSON document of `becalm bench`."""

    schema: str
    until: str
    cold: bool
    rounds: int
    warmup: int
    seed: int
    machine: Machine
    variants: List[Figures]
    notes: List[str]
    exit_status: int = field(default=0, metadata={"json": ""})


@dataclass
class Module(Record):
    """One element of `LD_AUDIT`."""

    element: str
    path: str
    is_: str = field(metadata={"json": "is"})


@dataclass
class LeftOut(Record):
    """A program that does not start in a session, or that has no answers in an index, or not all."""

    path: str
    reason: str
    lookups: int


@dataclass
class IndexState(Record):
    """An index and its state."""

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
    """The capabilities of the loader of this machine's programs."""

    path: str
    libc: str
    takes_index: bool
    takes_bindings: bool
    reads_notes: bool
    reads_package_caches: bool
    hwcaps: List[str]


@dataclass
class ProgramState(Record):
    """The state of one program."""

    path: str
    first_line: str
    switched_on: Optional[bool] = None


@dataclass
class Alone(Record):
    """Programs that have an index of their own, whatever the session uses."""

    kept: int
    switched_on: int
    stale: int


@dataclass
class KeptIndex(Record):
    """An index of a single program."""

    program: str
    bytes: int
    compared: int
    fresh: bool


@dataclass
class RecordState(Record):
    """A record of starts, from which pages are read ahead."""

    command: str
    starts: int
    complete: bool
    exact: bool
    learned: int
    bytes: int
    usable: bool


@dataclass
class Counts(Record):
    """Counts since the folder was made, or cleared."""

    starts: int
    declined: int
    ended: int
    answers: int
    stale: int


@dataclass
class TreeRecordState(Record):
    """A record of the paths that starts of a command look up."""

    command: str
    starts: int
    paths: int
    copies: int
    learned: int
    copied: bool


@dataclass
class TreesState(Record):
    """The folder of what starts look up on network file systems."""

    folder: str
    copies: int
    bytes: int
    counts: Counts
    records: List[TreeRecordState]


@dataclass
class DoctorFinding(Record):
    """A fault of the session."""

    kind: str
    what: str
    remedy: str


@dataclass
class Doctor(Record):
    """The state of a session: the JSON document of `becalm doctor`."""

    schema: str
    calmed: bool
    modules: List[Module]
    switches: List[str]
    left_out: List[LeftOut]
    alone: Alone
    kept: List[KeptIndex]
    records: List[RecordState]
    findings: List[DoctorFinding]
    static_tls: Optional[int] = None
    index: Optional[IndexState] = None
    loader: Optional[LoaderState] = None
    program: Optional[ProgramState] = None
    trees: Optional[TreesState] = None
    exit_status: int = field(default=0, metadata={"json": ""})


@dataclass
class PagesState(Record):
    """The ready pages of programs."""

    folder: str
    files: int
    bytes: int


@dataclass
class Cache(Record):
    """The JSON document of `becalm cache`."""

    schema: str
    cleared: bool
    trees: Optional[TreesState] = None
    pages: Optional[PagesState] = None
    exit_status: int = field(default=0, metadata={"json": ""})


@dataclass
class Pack(Record):
    """The JSON document of `becalm pack` and `becalm unpack`."""

    schema: str
    file: str
    files: int
    bytes: int
    indexes: int
    records: List[TreeRecordState]
    left_out: List[str]
    exit_status: int = field(default=0, metadata={"json": ""})


@dataclass
class SurveyLine(Record):
    """A program of a survey: the line of `becalm check --ndjson`."""

    schema: str
    path: str
    kind: Optional[str] = None
    machine: Optional[str] = None
    libc: Optional[str] = None
    interpreter: Optional[str] = None
    secure: Optional[bool] = None
    immutable: Optional[bool] = None
    calmed_by: Optional[str] = None
    indexed_bindings: Optional[IndexedBindings] = None
    indexed: Optional[IndexedStart] = None
    storm: Optional[Storm] = None
    newer_glibc: Optional[Newer] = None
    estimate: Optional[Estimate] = None
    advice: Optional[Advice] = None
    unresolved: List[str] = field(default_factory=list)
    stop: Optional[str] = None
    lookups: Optional[int] = None
    over_budget: Optional[bool] = None
    scripts: List[str] = field(default_factory=list)
    files: Optional[List[StartFile]] = None
    probes: Optional[List[Probe]] = None
    symbols: Optional[SymbolReport] = None
    against: Optional[Beside] = None
    slices: Optional[List[Slice]] = None
    package: Optional[str] = None
    uid: Optional[int] = None
    owner: Optional[str] = None
    bytes: Optional[int] = None
    error: Optional[str] = None
    exit_status: int = field(default=0, metadata={"json": ""})
