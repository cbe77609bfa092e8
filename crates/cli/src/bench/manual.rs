//! The manual's sections of `becalm bench`.

use crate::terminal::manual::JSON;

/// Last sections of the help and the man page of `becalm bench`.
pub(crate) const BENCH: &[&str] = &[BENCH_STATUS, BENCH_FIGURES, JSON, BENCH_EXAMPLES];

const BENCH_STATUS: &str = "Exit status
0
    Everything was measured.
2
    The measurement failed: a program that does not exist, fails (--ignore-failure) or does not end
    (--timeout), no permission to drop the caches (--cold), or a file that cannot be written. Then
    nothing is printed.
130
    Interrupted (SIGINT), as shells report it. The running program is interrupted too.";

const BENCH_FIGURES: &str = "Figures
times the first
    The Hodges-Lehmann estimate of the ratios of all rounds, and the 95 % interval of the
    signed-rank test, both on logarithms. No normal distribution is assumed. Below 6 rounds there is
    no interval.
control
    The second run of the first variant in each round. If the interval of its ratio does not include
    1, the machine was disturbed, and a note reports it.
distribution
    All variants on one axis. Outliers by Tukey's fences are in the last place and counted behind
    it.
loader, misses, repeated
    From one more start, traced as by becalm trace: the loader's time up to the entry point and its
    misses; after the entry point, all lookups that fail, and lookups that succeed and repeat an
    earlier one. Child processes are not traced.
relocation, symbols
    Time of relocation, its share of the time to the entry point, and symbols that the loader looks
    up. They are from the start with the median time among three that end at the entry point, as the
    loader reports them (LD_DEBUG=statistics).
waited
    With --cold: the waits for pages of that traced start, before which the caches are dropped too,
    as becalm trace counts them. The starts for relocation follow it, with the files in memory.
bound
    Relocations with a symbol: those whose result the audit module took from an index, and all. The
    loader does not look up the bound ones.
CPU
    User and kernel time of the program and the children it waited for.";

const BENCH_EXAMPLES: &str = "Examples
becalm bench inkscape --against ./fixed/bin/inkscape
    Before and after a fix.
becalm bench python3 -- -c pass
    With arguments of its own.
becalm bench --cold --becalm clang
    From a cold disk: plain, by becalm run, and with pages read ahead.
becalm bench --until entry magick --env LD_AUDIT=/run/becalm.so
    The loader's work alone, with an index and without.
becalm bench inkscape --env \"$(becalm env --index store.so)\"
    All the variables of a session with an index as one variant.
becalm bench emacs --run '--batch --eval t' --export csv:starts.csv --export md
    Every start for a spreadsheet, and a table for a page.";
