//! The sections of the manual that no flag explains: they end `--help` and every
//! manual page.

use std::fmt::Write;

/// One section.
#[derive(Debug)]
pub(crate) struct Section {
    /// Its heading.
    pub title: &'static str,
    /// What it explains, a term and its meaning each.
    pub entries: &'static [(&'static str, &'static str)],
}

const EXIT_STATUS: Section = Section {
    title: "Exit status",
    entries: &[
        ("0", "All is well."),
        (
            "1",
            "Something was found: a needed string that nothing answers, a start that the \
             loader would refuse, a program over --max-misses.",
        ),
        (
            "2",
            "Something could not be done: a path that is not there or is no ELF file, a \
             malformed file, a wrong flag. What else was asked for is done all the same. \
             A folder without ELF files is no failure.",
        ),
        ("130", "Interrupted (SIGINT), as shells tell it."),
        ("128+N", "Ended by signal N; 141 where the reader of the output went away."),
    ],
};

const ENVIRONMENT: Section = Section {
    title: "Environment",
    entries: &[
        (
            "LD_LIBRARY_PATH",
            "Predicted with, as it would take effect for a program started here; not with \
             --sysroot. --library-path overrides it.",
        ),
        ("LD_PRELOAD", "Likewise; --preload overrides it."),
        ("LD_AUDIT", "Likewise; --audit overrides it."),
        ("NO_COLOR", "Where set and not empty, nothing is coloured unless --color=always."),
    ],
};

const JSON: Section = Section {
    title: "JSON",
    entries: &[
        (
            "schema becalm/check/1",
            "One object: schema, programs (one element a file, in order of path), total (the \
             storms added up) and errors (path and reason of each file that could not be \
             checked).",
        ),
        (
            "program",
            "path, kind (program, library, static, mach-o), machine, libc, interpreter, secure, \
             immutable, storm, unresolved (needed strings), stop (why the loader would give up, or \
             null), over_budget (with --max-misses), probes (with --probes), slices (of a Mach-O \
             file).",
        ),
        ("storm", "Counts: objects, search_dirs, probes, hits, missed_opens, missed_stats."),
        (
            "probe",
            "needed_by, needed, source (direct, rpath, library-path, runpath, loader-cache, \
             system), path, call (open, stat), outcome (hit, miss, not-a-directory, denied, loop, \
             name-too-long, failed, wrong-class, wrong-machine, not-elf, refused, no-directory).",
        ),
        ("text", "Bytes of a path that are no UTF-8 become U+FFFD."),
    ],
};

const TRACE_STATUS: Section = Section {
    title: "Exit status",
    entries: &[
        ("the program's", "Its own exit code; 128+N where signal N ended it."),
        (
            "2",
            "The program was not started (no command, not found, not executable, a directory, no \
             interpreter, another architecture, a --log or -o file that cannot be made), or what \
             was seen could not be written (a full disk); a line on stderr says which.",
        ),
    ],
};

const TRACE_STREAMS: Section = Section {
    title: "Streams",
    entries: &[
        (
            "the program's",
            "Its stdin, stdout, stderr, terminal, process group and signals are those it has \
             without becalm.",
        ),
        (
            "report",
            "On stderr, when the program has ended; with -o in a file. With --until entry as soon \
             as the entry point is reached.",
        ),
        (
            "--json",
            "On stdout, one line, the last there; what the program wrote comes before it. Name a \
             file with -o where the program writes to stdout as well.",
        ),
    ],
};

const TRACE_WATCHING: Section = Section {
    title: "Being watched",
    entries: &[
        (
            "becalm ends early",
            "The program outlives it: signals that ask becalm to end are handed on, and what \
             SIGKILL ends is a process that stands before the tracer. A SIGKILL of the tracer \
             itself makes a watched program's next lookup fail (ENOSYS).",
        ),
        (
            "set-id programs",
            "The kernel gives no set-id or capability rights to a program that an ordinary user \
             traces; a note says so. Without CAP_SYS_ADMIN the program runs under no_new_privs.",
        ),
        ("ptrace", "A program that wants to trace is told EPERM, as under any tracer."),
        (
            "no tracing",
            "Where ptrace is not allowed (containers, Yama), and for programs that an emulator \
             runs, the loader's own record (LD_DEBUG=libs) is used: opens alone, no stats, no \
             times, no system calls, nothing after the entry point. A note says so.",
        ),
        (
            "times",
            "The tracer's own cost is measured before the run and subtracted; both are shown.",
        ),
    ],
};

const TRACE_JSON: Section = Section {
    title: "JSON",
    entries: &[
        (
            "schema becalm/trace/1",
            "One object: schema, command, images, exit (code or signal; null where it still \
             runs), overhead (call_ns, cycle_ns, samples), all_syscalls, opens_alone, notes.",
        ),
        (
            "image",
            "One for each successful execve, the last one being the program; with --follow also \
             one for each process: path, file, asked, pid, forked, interpreter, machine, libc, \
             secure, immutable, reached_entry, storm, storm_ns, loader and program (the two \
             shares), syscalls, classes, worst, prediction, no_prediction (why there is none), \
             initialisers, dropped, environment, probes.",
        ),
        ("storm, probe", "As those of becalm check; of the loader's share alone."),
        ("share", "net_ns, wall_ns, tracer_ns, calls, hits, missed, syscalls."),
        (
            "syscalls",
            "name, count, errors, total_ns, max_ns; the most time first. Without --syscalls only \
             the calls that look for files.",
        ),
        (
            "class",
            "class (dlopen, python, perl, guile, ocaml, ruby, node, gconv, locale, nss, \
             fontconfig, xdg, terminfo, path-lookup, other), hits, missed, dirs.",
        ),
        (
            "prediction",
            "equal, predicted and observed (storms), differences (how, at, probe, \
             predicted_outcome), not_reached.",
        ),
    ],
};

const TRACE_EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        ("becalm trace -- inkscape --version", "How much of the start is the loader's search."),
        (
            "becalm trace --until entry -- emacs",
            "The loader's work alone; the program goes on untraced.",
        ),
        ("becalm trace --syscalls -- python3 -c pass", "Every system call, by time."),
        (
            "becalm trace --json -o run.json -- prog; becalm check --against run.json ./prog",
            "Is the prediction what happened?",
        ),
    ],
};

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
             outliers, cpu_median_ns, ratio (ratio, low, high, level; null for the first), wall_ns \
             and cpu_ns (one element a round).",
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
            "becalm bench emacs --run '--batch --eval t' --export csv:starts.csv --export md",
            "Every start for a spreadsheet, and a table for a page.",
        ),
    ],
};

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
        ("timeline", "As becalm trace measures it, in one run."),
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
    ],
};

const FIX_STATUS: Section = Section {
    title: "Exit status",
    entries: &[
        (
            "0",
            "All was done, or there was nothing to do. What was passed over or left to the \
               search is told and is no failure.",
        ),
        (
            "1",
            "Something was left as it is because changing it would change what a program loads, \
             or because two answers contradict each other.",
        ),
        (
            "2",
            "A file could not be looked at or written; it is as it was. All others are done all \
             the same.",
        ),
        (
            "130",
            "Interrupted. The batch at work was finished: each file is the old one or the new \
             one, and the same command goes on from there.",
        ),
    ],
};

const FIX_CARRIERS: Section = Section {
    title: "Carriers",
    entries: &[
        (
            "note",
            "Each object gets a note with the answers of its own run path; a loader that reads \
             notes opens them directly. LD_LIBRARY_PATH still wins. Directories that may change \
             (outside --store) keep their place in the search.",
        ),
        (
            "absolute",
            "Each needed string becomes an absolute path; works with any loader, at once. \
             LD_LIBRARY_PATH no longer reaches these, so the C library, the loader and the GL \
             stack (libGL, libEGL, libvulkan, libcuda and their like) stay short.",
        ),
        (
            "farm",
            "Each object gets a directory of links in its package, lib/becalm-farm, first in its \
             run path; works with any loader. With --leaf it links what the object itself needs, \
             else what its whole closure needs. The loader's hwcaps probes stay.",
        ),
        (
            "ldcache",
            "Each package gets an etc/ld.so.cache of what its objects need, for a loader that \
             reads those. Written for the target's architecture without ldconfig.",
        ),
    ],
};

const FIX_WRITING: Section = Section {
    title: "Writing",
    entries: &[
        (
            "by default",
            "A new file is written beside the old one, brought to the disk and put in its place. \
             Mode, owner, extended attributes and capabilities stay.",
        ),
        (
            "--in-place",
            "The file itself is written: first what is appended, with the old bytes, then the \
             ranges inside. Set-id files and files with capabilities are refused, since the \
             kernel would take their rights away.",
        ),
        (
            "undo",
            "The old bytes lie in a trailer at the end of each file. strip removes it, and with \
             it the way back; what fix wrote keeps working.",
        ),
        (
            "refused",
            "Files with something appended to the ELF image (AppImage, PyInstaller), the loader \
             itself, dynamic edits of static programs, files with several names unless \
             --hardlinks says what to do, set-id files without --setuid.",
        ),
    ],
};

const FIX_JSON: Section = Section {
    title: "JSON",
    entries: &[
        (
            "schema becalm/fix/1",
            "One object: schema, carrier, dry_run, interrupted, plan (path, edits, answers: \
             needed, exact, hints), creations (path, kind, target, length), files and made (path, \
             status: written, unchanged, refused, not-reached; old_length, new_length, reason, \
             warnings), findings (path, needed, severity: passed-over, left, conflict, refused; \
             what), programs (path, before, after: storms), errors.",
        ),
        (
            "schema becalm/undo/1",
            "One object: schema, dry_run, interrupted, files and removed (as files above), errors.",
        ),
        (
            "schema becalm/verify/1",
            "One object: schema, looked_at, objects (path, answers: carrier, needed, verdict: \
             true, skips, stale, missing, superfluous, malformed; says, is), loads (path, equal, \
             objects, lost, gained, reordered; with --load), errors.",
        ),
    ],
};

const VERIFY_STATUS: Section = Section {
    title: "Exit status",
    entries: &[
        ("0", "Every answer is what the plain search gives, or there is none."),
        (
            "1",
            "An answer is stale or missing, a note cannot be read, or, with --load, a program \
             loads other objects than without its carriers.",
        ),
        ("2", "A file could not be looked at."),
    ],
};

const FIX_EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        (
            "becalm fix --with note --dry-run --store /opt/store /opt/store",
            "What would be written, and what would be left of each program's storm.",
        ),
        ("becalm fix --with absolute ./result", "Calm a package for any loader."),
        (
            "becalm fix --with note --prefix-map $PWD/out=/nix/store/h-name out",
            "In a package's fixup phase, before it is where it will be.",
        ),
        ("becalm verify --load ./result", "Does it still load what it should?"),
        ("becalm undo ./result", "Every byte as it was."),
    ],
};

const EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        ("becalm check /usr/bin/git", "What starting git costs."),
        (
            "becalm check --tree ./result/bin/magick",
            "Where each library comes from, and at what cost.",
        ),
        (
            "becalm check --max-misses 100 ./result",
            "Fail a package's tests when its programs search too much.",
        ),
        (
            "becalm check --library-path /opt/lib: prog",
            "What it costs with another LD_LIBRARY_PATH.",
        ),
        ("becalm check --sysroot ~/arm64 /usr/bin", "All programs of another machine's file tree."),
        ("becalm check --json --probes prog", "Every probe, for another program to read."),
        (
            "becalm check --against run.json prog",
            "The prediction beside what `becalm trace --json` saw.",
        ),
    ],
};

const INDEX_FILES: Section = Section {
    title: "Files",
    entries: &[
        (
            "$XDG_DATA_HOME/becalm/index.so",
            "The user's index ($HOME/.local/share where XDG_DATA_HOME is not set): written by \
             becalm index without -o, and used by becalm run and becalm env without --index.",
        ),
        ("/var/lib/becalm/index.so", "The system's index, used where the user has none."),
        (
            "$XDG_CACHE_HOME/becalm/programs/",
            "Indexes that becalm run makes for single programs ($HOME/.cache where \
             XDG_CACHE_HOME is not set). Any of them may be removed at any time.",
        ),
        (
            "INDEX.d/",
            "Beside an index: what LD_AUDIT names through $PLATFORM, so that 32-bit programs meet \
             a module of theirs, which declines, and print no error. It goes where the index goes.",
        ),
    ],
};

const INDEX_TRUTH: Section = Section {
    title: "What an index answers",
    entries: &[
        (
            "stores",
            "What lies below a STORE or a --store prefix counts as immutable: an answer there \
             stands. In stores laid out as those of Nix and Guix one look at the store tells whether \
             a package has come or gone; in others, and after that, each answer is looked at once.",
        ),
        (
            "other directories",
            "A directory of a run path outside the stores is watched: once it changes (inode, \
             times), the loader searches as always. One that changed within the clock's grain \
             before it was indexed is not trusted at all.",
        ),
        (
            "LD_LIBRARY_PATH",
            "Comes first, as always. What --dirs names is answered from its snapshot while the \
             directory is unchanged.",
        ),
        (
            "not answered",
            "Needed strings with a slash, run paths with $LIB or $PLATFORM, answers that depend on \
             the CPU (hwcaps subdirectories) or on a DT_RPATH of another object: the summary counts \
             them by reason.",
        ),
        (
            "BECALM=off",
            "In the environment of a calmed program: the module answers nothing. BECALM=log:FILE \
             writes down each question and answer; becalm trace --from FILE shows them.",
        ),
        (
            "static TLS",
            "Under an audit module initial-exec thread-local storage of libraries must fit a \
             surplus. becalm run and becalm env raise it (glibc.rtld.optional_static_tls) where a \
             program of the index needs that; the summary lists such programs.",
        ),
    ],
};

const INDEX_JSON: Section = Section {
    title: "JSON",
    entries: &[(
        "schema becalm/index/1",
        "One object: schema, index, written, machine, stores, objects, edges, bytes, \
             table_bytes, directories (watched, snapshotted, not_snapshotted), left (reason, \
             questions), static_tls (path, optional_static_tls or null), other_machines, errors.",
    )],
};

const INDEX_EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        ("becalm index /nix/store", "The user's index of all that Nix has installed."),
        ("becalm index --update", "Bring it up to date: after a rebuild, by a hook or a timer."),
        (
            "becalm index /apps -o /var/lib/becalm/index.so --dirs \"$LD_LIBRARY_PATH\"",
            "A module tree, with the directories of the loaded modules.",
        ),
    ],
};

const RUN_STATUS: Section = Section {
    title: "Exit status",
    entries: &[
        ("the program's", "becalm becomes the program: exit code and signals are its own."),
        (
            "2",
            "The program was not started: not found, of another machine than the index, a loader \
             that knows no audit modules (musl, glibc before 2.31), no index and no place to make \
             one; a line on stderr says which.",
        ),
    ],
};

const RUN_PROGRAMS: Section = Section {
    title: "Programs",
    entries: &[
        (
            "no index",
            "Without --index, and where the program lies in no store of the default index, an index \
             of this program's start is made and kept in the cache directory. It is made anew once \
             the program or a directory of LD_LIBRARY_PATH changes.",
        ),
        ("LD_AUDIT", "The user's own modules stay in the list, before becalm's."),
        ("GLIBC_TUNABLES", "Stays as it is but for glibc.rtld.optional_static_tls, where needed."),
        (
            "set-id programs",
            "Their loader takes no LD_AUDIT from the environment: they are started as they are, and \
             a line on stderr says so.",
        ),
        ("static programs", "Are started; what they start is calmed by an --index."),
        ("scripts", "Are calmed as the interpreter that their first line names."),
    ],
};

const RUN_EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        ("becalm run -- inkscape", "Without any preparation: an index is made first, and kept."),
        ("becalm run --index store.so -- make check", "All programs that a build starts."),
        ("becalm trace -- becalm run -- emacs --version", "See what is left of the storm."),
    ],
};

const ENV_EXAMPLES: Section = Section {
    title: "Examples",
    entries: &[
        ("eval \"$(becalm env)\"", "Calm this shell and what it starts."),
        ("eval \"$(becalm env --undo)\"", "And back."),
        ("becalm env --for fish | source", "The same in fish."),
        ("becalm env --for profile.d > /etc/profile.d/becalm.sh", "Every login shell."),
        ("becalm env --for systemd", "A drop-in; its first lines say where it goes."),
    ],
};

/// What ends the help and the page of `becalm index`.
pub(crate) const INDEX: &[&Section] =
    &[&EXIT_STATUS, &INDEX_TRUTH, &INDEX_FILES, &INDEX_JSON, &INDEX_EXAMPLES];

/// What ends the help and the page of `becalm run`.
pub(crate) const RUN: &[&Section] = &[&RUN_STATUS, &RUN_PROGRAMS, &INDEX_FILES, &RUN_EXAMPLES];

/// What ends the help and the page of `becalm env`.
pub(crate) const ENV: &[&Section] = &[&EXIT_STATUS, &INDEX_FILES, &ENV_EXAMPLES];

/// What ends the help and the page of becalm itself.
pub(crate) const COMMON: &[&Section] = &[&EXIT_STATUS, &ENVIRONMENT];

/// What ends the help and the page of `becalm check`.
pub(crate) const CHECK: &[&Section] = &[&EXIT_STATUS, &ENVIRONMENT, &JSON, &EXAMPLES];

/// What ends the help and the page of `becalm bench`.
pub(crate) const BENCH: &[&Section] =
    &[&BENCH_STATUS, &BENCH_FIGURES, &BENCH_JSON, &BENCH_EXAMPLES];

/// What ends the help and the page of `becalm report`.
pub(crate) const REPORT: &[&Section] =
    &[&REPORT_STATUS, &REPORT_FIGURES, &ENVIRONMENT, &REPORT_EXAMPLES];

/// What ends the help and the page of `becalm trace`.
pub(crate) const TRACE: &[&Section] =
    &[&TRACE_STATUS, &TRACE_STREAMS, &TRACE_WATCHING, &ENVIRONMENT, &TRACE_JSON, &TRACE_EXAMPLES];

/// What ends the help and the page of `becalm fix`.
pub(crate) const FIX: &[&Section] =
    &[&FIX_STATUS, &FIX_CARRIERS, &FIX_WRITING, &FIX_JSON, &FIX_EXAMPLES];

/// What ends the help and the page of `becalm undo`.
pub(crate) const UNDO: &[&Section] = &[&FIX_STATUS, &FIX_WRITING, &FIX_JSON, &FIX_EXAMPLES];

/// What ends the help and the page of `becalm verify`.
pub(crate) const VERIFY: &[&Section] = &[&VERIFY_STATUS, &FIX_JSON, &FIX_EXAMPLES];

/// Columns of wrapped help text.
const HELP_WIDTH: usize = 80;

/// The sections as help text.
#[must_use]
pub(crate) fn as_help(sections: &[&Section]) -> String {
    let mut text = String::new();
    for section in sections {
        let _ = writeln!(text, "{}:", section.title);
        for (term, meaning) in section.entries {
            let _ = writeln!(text, "  {term}");
            for line in wrapped(meaning, HELP_WIDTH - 10) {
                let _ = writeln!(text, "          {line}");
            }
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}

/// The sections in the language of manual pages (man(7)).
#[must_use]
pub(crate) fn as_roff(sections: &[&Section]) -> String {
    let mut text = String::new();
    for section in sections {
        let _ = writeln!(text, ".SH \"{}\"", section.title.to_uppercase());
        for (term, meaning) in section.entries {
            let _ = writeln!(text, ".TP\n\\fB{}\\fR\n{}", escaped(term), escaped(meaning));
        }
    }
    text
}

/// Text that roff takes literally: no line of ours starts with a dot or a quote.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_entry_begins_like_a_roff_request() {
        let all = [CHECK, COMMON, TRACE, FIX, VERIFY, BENCH, REPORT, INDEX, RUN, ENV];
        for section in all.into_iter().flatten() {
            for (term, meaning) in section.entries {
                assert!(!term.starts_with(['.', '\'']), "{term}");
                assert!(!meaning.starts_with(['.', '\'']), "{meaning}");
                assert!(!meaning.contains('\n'), "{meaning}");
            }
        }
    }

    #[test]
    fn help_stays_within_its_width() {
        let widest = as_help(CHECK).lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(HELP_WIDTH), "{widest:?}");
    }
}
