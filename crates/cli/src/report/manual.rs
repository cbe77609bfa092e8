//! The manual's sections of `becalm report`.

use crate::terminal::manual::ENVIRONMENT;

/// Last sections of the help and the man page of `becalm report`.
pub(crate) const REPORT: &[&str] = &[REPORT_STATUS, REPORT_FIGURES, ENVIRONMENT, REPORT_EXAMPLES];

const REPORT_STATUS: &str = "Exit status
0
    The page was written.
2
    The page was not written: a program, record or comparison cannot be read, or a file cannot be
    written. A program that cannot be run or traced is not a failure: the page has the reason
    instead of a timeline.";

const REPORT_FIGURES: &str = "Figures
counts and picture
    As becalm check predicts them; for a record (becalm trace --json), as observed.
what would help
    Misses before and after for each strategy on this program, as in the advice of becalm check
    --json. A record has no advice, because its files may not be here.
timeline
    The whole as the median of a few starts without a tracer, plain and with an index in turns, to
    the exit or the first idle moment (all threads sleep for half a second; the program is killed
    there); the loader's time as the median of three more, to the entry point; the program's part is
    the rest. What the program looks up is seen in a traced run before them. Below it the same with
    the index that becalm run would make. Each part of the loader is measured by itself (its own
    clock, LD_DEBUG=statistics; constructors as below): what they leave is shown as not attributed,
    and may be less than nothing.
libraries
    Search, relocation and constructors of each object: the times of the loader's messages
    (LD_DEBUG=files,reloc) in the fastest of three more starts; search and relocation are scaled to
    those without messages. musl writes none.
pages
    If that run waited for pages that were not in memory: the time and the files, as becalm trace
    counts them. A run with all files in memory has no such line.
relocation
    The time in which the loader resolves symbols, and the number of symbols that it looks up: the
    median of three more starts that end at the entry point (becalm trace --relocations), on x86_64.
    A record has these numbers if it was made with that flag.
strategies
    As lab compare --json wrote them (schema becalm/compare/1).";

const REPORT_EXAMPLES: &str = "Examples
becalm report inkscape
    The start of one program, in inkscape.html.
becalm report ./result/bin/magick --after ./indexed/bin/magick -o page.html
    Before and after beside each other.
becalm report run.json -o page.html
    From a record of `becalm trace --json -o run.json`, perhaps of another machine.
becalm report --no-run --sysroot ~/arm64 ~/arm64/usr/bin/git -o git.html
    The prediction alone, for another architecture.
becalm report --survey survey.ndjson -o site.html
    The searches of all programs of a site.";
