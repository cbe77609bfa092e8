//! The manual's sections of `becalm compare` and `becalm demo`.

use crate::terminal::manual::Section;

/// Last sections of the help and the man page of `becalm compare`.
pub(crate) const COMPARE: &[&Section] = &[
    &COMPARE_STATUS,
    &COMPARE_COLUMNS,
    &COMPARE_FIGURES,
    &COMPARE_PROPERTIES,
    &COMPARE_NEEDS,
    &COMPARE_JSON,
    &COMPARE_EXAMPLES,
];

const COMPARE_STATUS: Section = Section {
    title: "Exit status",
    entries: &[
        ("0", "The table is made."),
        (
            "1",
            "It is made, and with a strategy the program does not start, or loads other libraries \
             or in another order.",
        ),
        (
            "2",
            "There is none: a script, a static program, a library, a closure with something \
             missing, a program that fails (--ignore-failure) or does not end (--time-limit), no \
             room, no right. Nothing is left behind.",
        ),
        ("130", "Interrupted (SIGINT). Nothing is left behind."),
    ],
};

const COMPARE_COLUMNS: Section = Section {
    title: "Columns",
    entries: &[
        ("control", "The program as it is; the others are held against it."),
        ("patched", "The program as it is, under the --loader."),
        ("absolute, absolute-loader", "becalm fix --with absolute, --resolve static and loader."),
        ("farm-leaf, farm", "becalm fix --with farm, for each object and with --closure."),
        ("note, ldcache", "becalm fix --with note and ldcache, under the --loader."),
        ("index", "becalm index of the stores, and what becalm env sets."),
        (
            "index-nobind",
            "The same with BECALM=nobind: the difference is what symbol bindings are worth.",
        ),
        ("audit", "becalm fix --with audit."),
        ("static", "The --static build. Its properties are tried on programs that cc links so."),
    ],
};

const COMPARE_FIGURES: Section = Section {
    title: "Figures",
    entries: &[
        ("libraries loaded", "Files that the loader opened, each once, without becalm's own."),
        ("missed opens, missed stats", "As becalm trace counts them, up to the entry point."),
        ("for hwcaps subdirectories", "How many of both were for builds for a CPU."),
        (
            "misses, lookups repeated after the entry point",
            "As becalm trace counts them: lookups that fail, and those that succeed and repeat an \
             earlier one, dlopen among them. A strategy changes those of dlopen alone. File lookups \
             answered by an index (--paths) are not compared: an index has no paths of packages that \
             are mounts, as those of the copies are (becalm bench --env).",
        ),
        (
            "symbols bound by the index",
            "Relocations with a symbol whose result the index's module applied, of all.",
        ),
        (
            "symbols looked up, relocation",
            "By the program's loader (LD_DEBUG=statistics), in starts that end at the entry point.",
        ),
        (
            "whole start",
            "Median, and the ratio to the control within each round with its 95 % interval; the \
             control's ratio is that of its second time (becalm bench).",
        ),
        ("bytes added", "Lengths of all files and links, after and before."),
        ("time to apply", "Of the command, files synced to the disk as always."),
    ],
};

const COMPARE_PROPERTIES: Section = Section {
    title: "Properties",
    entries: &[
        (
            "by the program",
            "Loads the same: the files of the watched start, in order. Cheap on disk: less than \
             5 % of the packages' bytes. Undo: every byte, by becalm undo.",
        ),
        (
            "by trials",
            "All others are tried on a store of small programs, built with cc at each run. Each \
             trial is made without a strategy first: where that does not show what the trial is \
             about, the answer is \"not tried\".",
        ),
        ("no glibc fork needed", "Fewer files are tried by the loader that cc links for."),
        (
            "applies to a foreign architecture",
            "Put on a program for s390x (on s390x: aarch64), of which nothing could be run here.",
        ),
        (
            "interposing library, symbol versions, IFUNC, COPY, unique symbols",
            "What symbol bindings could break; the note says how many symbols an index bound in \
             that start. IFUNC: the start is that of a CPU with less (GLIBC_TUNABLES).",
        ),
        ("not tried", "Shown as a dash, with the reason. Nothing is taken for granted."),
    ],
};

const COMPARE_NEEDS: Section = Section {
    title: "What it needs",
    entries: &[
        (
            "mount namespaces",
            "Copies lie in the places of the originals for the programs started with them, and \
             for nobody else. That takes root or a kernel that lets users make namespaces.",
        ),
        (
            "room",
            "The packages of the closure once, in the directory of temporary files (TMPDIR): at \
             most 1.5 GB. Copies share files until a strategy changes one.",
        ),
        (
            "--store",
            "The packages are looked for below these prefixes. A program that lies in none is \
             compared in a scratch store of one library to a directory.",
        ),
        ("cc", "For the trials; without it they are not made."),
    ],
};

const COMPARE_JSON: Section = Section {
    title: "JSON",
    entries: &[(
        "schema becalm/compare/1",
        "One object: schema, program, columns, rows (id, title, kind: measure or property, \
         cells), notes. A cell: value, text, verdict (yes, no, not-tried, other: see the note), \
         note. becalm report --compare reads it.",
    )],
};

const COMPARE_EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        ("becalm compare inkscape", "Every strategy, on a program of this machine."),
        (
            "becalm compare --store /opt/store --loader /opt/glibc/lib/ld-linux-x86-64.so.2 \
             /opt/store/…/bin/magick",
            "Notes and caches as well, under a loader that reads them.",
        ),
        (
            "becalm compare emacs --strategies absolute,index --run '--batch --eval t' --markdown",
            "Two strategies, with arguments, for a page.",
        ),
    ],
};
