//! The manual's sections of `becalm bench`.

use crate::terminal::manual::Section;

/// Last sections of the help and the man page of `becalm bench`.
pub(crate) const BENCH: &[&Section] =
    &[&BENCH_STATUS, &BENCH_FIGURES, &BENCH_JSON, &BENCH_EXAMPLES];

const BENCH_STATUS: Section = Section {
    title: "Exit status",
    entries: &[
        ("0", "Everything was measured."),
        (
            "2",
            "Something was not: a program that is not there, fails (--ignore-failure) or does not \
             end (--timeout), no right to drop the caches (--cold), a file that cannot be written. \
             Nothing is told then.",
        ),
        ("130", "Interrupted (SIGINT), as shells tell it; the program that runs is as well."),
    ],
};

const BENCH_FIGURES: Section = Section {
    title: "Figures",
    entries: &[
        (
            "times the first",
            "The Hodges-Lehmann estimate of the ratios of all rounds, and the 95 % interval of the \
             signed-rank test, both on logarithms. No normal distribution is taken for granted. \
             Below 6 rounds there is no interval.",
        ),
        (
            "control",
            "The first variant's second time. Where its interval does not hold 1, something else \
             was at work, and a note says so.",
        ),
        (
            "distribution",
            "All variants on one axis; what lies far beyond (outliers by Tukey's fences) is in the \
             last place and counted behind it.",
        ),
        (
            "loader, misses, repeated",
            "Of one more start, watched as becalm trace does it: the loader's time up to the entry \
             point and its misses; after the entry point all lookups that fail, and those that \
             succeed and repeat an earlier one. Child processes are not watched.",
        ),
        (
            "relocation, symbols",
            "Time of relocation, its share of the time to the entry point, and symbols that the \
             loader looks up: of the start with the median time among three that end at the entry \
             point, as the loader tells it (LD_DEBUG=statistics).",
        ),
        (
            "bound",
            "Relocations with a symbol whose result the audit module took from an index, of all; the \
             loader does not look these up.",
        ),
        ("CPU", "User and kernel time of the program and the children it waited for."),
    ],
};

const BENCH_JSON: Section = Section {
    title: "JSON",
    entries: &[
        (
            "schema becalm/bench/1",
            "One object: schema, until, cold, rounds, warmup, seed, machine (kernel, cpus, load, \
             began), variants, notes.",
        ),
        (
            "variant",
            "name, control, program, args, environment (what differs from that of becalm; null for \
             a variable taken away), median_ns, low_ns and high_ns (quartiles), least_ns, most_ns, \
             outliers, cpu_median_ns, ratio (ratio, low, high, level; null for the first), watched \
             (null for the control), wall_ns and cpu_ns (one element a round).",
        ),
        (
            "watched",
            "loader_ns, misses, relocations (loader_ns and of it ns, lookups, cached, relative, \
             bindings, not_applied; null if the loader tells nothing), program_misses and \
             program_repeated (after the entry point; null with --until entry).",
        ),
    ],
};

const BENCH_EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        ("becalm bench inkscape --against ./fixed/bin/inkscape", "Before and after a fix."),
        ("becalm bench python3 -- -c pass", "With arguments of its own."),
        (
            "becalm bench --until entry magick --env LD_AUDIT=/run/becalm.so",
            "The loader's work alone, with an index and without.",
        ),
        (
            "becalm bench inkscape --env \"$(becalm env --index store.so)\"",
            "All the variables of a calmed session as one variant.",
        ),
        (
            "becalm bench emacs --run '--batch --eval t' --export csv:starts.csv --export md",
            "Every start for a spreadsheet, and a table for a page.",
        ),
    ],
};
