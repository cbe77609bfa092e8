//! The manual's sections of `becalm report`.

use crate::terminal::manual::{ENVIRONMENT, Section};

/// Last sections of the help and the man page of `becalm report`.
pub(crate) const REPORT: &[&Section] =
    &[&REPORT_STATUS, &REPORT_FIGURES, &ENVIRONMENT, &REPORT_EXAMPLES];

const REPORT_STATUS: Section = Section {
    title: "Exit status",
    entries: &[
        ("0", "The page was written, whatever it shows."),
        (
            "2",
            "It was not: a program, record or comparison that cannot be read, a file that cannot \
             be written. A program that cannot be run or watched is no failure: the page says why \
             it has no timeline.",
        ),
    ],
};

const REPORT_FIGURES: Section = Section {
    title: "Figures",
    entries: &[
        (
            "counts and picture",
            "As becalm check predicts them; of a record (becalm trace --json) as observed.",
        ),
        (
            "what would help",
            "Misses before and after for each strategy on this program, as becalm check --json has \
             them under advice; a record has none, for its files may not be here.",
        ),
        ("timeline", "As becalm trace measures it, in one run."),
        (
            "relocation",
            "The time in which the loader resolves symbols, and how many it looks up: the median of \
             three more starts that end at the entry point (becalm trace --relocations), on x86_64. A \
             record has it if it was made with that flag.",
        ),
        ("carriers", "As becalm compare --json wrote them (schema becalm/compare/1)."),
    ],
};

const REPORT_EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        ("becalm report inkscape -o storm.html", "The storm of one program."),
        (
            "becalm report ./result/bin/magick --after ./calmed/bin/magick -o page.html",
            "Before and after beside each other.",
        ),
        (
            "becalm report run.json -o page.html",
            "From what `becalm trace --json -o run.json` recorded, on another machine perhaps.",
        ),
        (
            "becalm report --no-run --sysroot ~/arm64 ~/arm64/usr/bin/git -o git.html",
            "The prediction alone, for another architecture.",
        ),
        (
            "becalm report --survey survey.ndjson -o site.html",
            "What all programs of a site search.",
        ),
    ],
};
