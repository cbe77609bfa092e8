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
            "The table is made, and the program does not start with a strategy, or loads other \
             libraries or in another order.",
        ),
        (
            "2",
            "The comparison failed: a script, a static program, a library, a closure with missing \
             libraries, a program that fails (--ignore-failure) or does not end (--time-limit), \
             too little disk space, or a missing permission. No files are left behind.",
        ),
        ("130", "Interrupted (SIGINT). No files are left behind."),
    ],
};

const COMPARE_COLUMNS: Section = Section {
    title: "Columns",
    entries: &[
        ("control", "The program as it is. The other columns are compared with it."),
        ("patched", "The program as it is, under the --loader."),
        ("absolute, absolute-loader", "becalm fix --with absolute, --resolve static and loader."),
        ("farm-leaf, farm", "becalm fix --with farm, for each object and with --closure."),
        ("note, ldcache", "becalm fix --with note and ldcache, under the --loader."),
        ("index", "becalm index of the stores, with the variables of becalm env."),
        (
            "index-nobind",
            "The index with BECALM=nobind: the difference to index is the effect of symbol \
             bindings.",
        ),
        ("audit", "becalm fix --with audit."),
        (
            "static",
            "The --static build. Its properties are tested on programs that cc links statically.",
        ),
    ],
};

const COMPARE_FIGURES: Section = Section {
    title: "Figures",
    entries: &[
        ("libraries loaded", "Files that the loader opened, each once, without becalm's own."),
        ("missed opens, missed stats", "As becalm trace counts them, up to the entry point."),
        ("for hwcaps subdirectories", "Missed opens and stats in subdirectories for a CPU."),
        (
            "misses, lookups repeated after the entry point",
            "As becalm trace counts them: lookups that fail, and lookups that succeed and repeat \
             an earlier one, including those of dlopen. A strategy changes only those of dlopen. \
             File lookups answered by an index (--paths) are not compared: the copies are mounts, \
             and an index has no paths of packages that are mounts (becalm bench --env).",
        ),
        (
            "symbols bound by the index",
            "Relocations with a symbol: those whose result the index's module applied, and all.",
        ),
        (
            "symbols looked up, relocation",
            "Reported by the program's loader (LD_DEBUG=statistics), in starts that end at the \
             entry point.",
        ),
        (
            "whole start",
            "The median, and the ratio to the control within each round with its 95 % interval. \
             The control is run twice in each round; its ratio is that of the second run (becalm \
             bench).",
        ),
        ("bytes added", "The difference in length of all files and links."),
        (
            "time to apply",
            "The duration of the command, including the sync of its files to the disk.",
        ),
    ],
};

const COMPARE_PROPERTIES: Section = Section {
    title: "Properties",
    entries: &[
        (
            "by the program",
            "Loads the same: the files of the traced start, in order. Cheap on disk: less than 5 % \
             of the packages' bytes. Undo: becalm undo restores every byte.",
        ),
        (
            "by trials",
            "All other properties are tested on a store of small programs, built with cc at each \
             run. Each trial is first run without a strategy. If that run does not show the tested \
             behaviour, the result is \"not tried\".",
        ),
        ("no glibc fork needed", "The loader for which cc links tries fewer files."),
        (
            "applies to a foreign architecture",
            "Applied to a program for s390x (on s390x: aarch64), which cannot run here.",
        ),
        (
            "interposing library, symbol versions, IFUNC, COPY, unique symbols",
            "Behaviour that symbol bindings could break. The note has the number of symbols that \
             an index bound in the start. IFUNC: the start is that of a CPU with fewer features \
             (GLIBC_TUNABLES).",
        ),
        ("not tried", "Shown as a dash, with the reason."),
    ],
};

const COMPARE_NEEDS: Section = Section {
    title: "Requirements",
    entries: &[
        (
            "mount namespaces",
            "The copies are mounted over the originals, for the started programs only. This needs \
             root, or a kernel that lets users create namespaces.",
        ),
        (
            "room",
            "Disk space for one copy of the closure's packages, in the directory of temporary \
             files (TMPDIR): at most 1.5 GB. Copies share files until a strategy changes one.",
        ),
        (
            "--store",
            "The packages are searched for below the store prefixes. A program outside all stores \
             is compared in a scratch store of one library to a directory.",
        ),
        ("cc", "A C compiler for the trials; without cc they are not run."),
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
