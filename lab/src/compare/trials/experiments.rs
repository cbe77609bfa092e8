//! The trials, each with its run, the check of its control, and its judgment.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};

use crate::compare::apply::{last_line, plain};
use crate::compare::trials::Applied;
use crate::compare::trials::lab::{Lab, Ran};
use crate::words::naming;
use becalm_lib::compare::comparison::Verdict;

/// A verdict, and details if the verdict alone is not enough.
type Judged = (Verdict, Option<String>);

/// The trial of one property.
pub(super) struct Trial {
    /// Identifier of its row.
    pub id: &'static str,
    /// Title of its row.
    pub title: &'static str,
    /// Runs the trial. Returns the numbers that `judge` interprets.
    pub see: fn(&Lab, &dyn Applied) -> Result<Vec<i64>>,
    /// True if the numbers of the untouched store show that the trial can detect a difference.
    pub tells: fn(&[i64]) -> bool,
    /// Returns the verdict, from the numbers of the untouched store and those with a strategy.
    pub judge: fn(&[i64], &[i64]) -> Judged,
}

impl Trial {
    /// True if the trial is about the machine's own loader, even if another one is given.
    pub(super) fn is_of_stock_loader(&self) -> bool {
        self.id == "stock-glibc"
    }
}

/// All trials, in the order of the table. The last one changes the store.
pub(super) const TRIALS: &[Trial] = &[
    Trial {
        id: "stock-glibc",
        title: "no glibc fork needed",
        see: |lab, applied| Ok(searched(&run(lab, applied, "plain")?, "libone.so.1")),
        tells: |seen| seen[0] == 1 && seen[1] > 1,
        judge: calmed,
    },
    Trial {
        id: "library-path",
        title: "LD_LIBRARY_PATH still wins",
        see: |lab, applied| values(lab, applied, &["plain", "plain LD_LIBRARY_PATH=@over"]),
        tells: |seen| seen == [1, 9],
        judge: |control, seen| as_ever(control, seen, "LD_LIBRARY_PATH is passed over"),
    },
    Trial {
        id: "preload",
        title: "LD_PRELOAD still first",
        see: |lab, applied| {
            values(lab, applied, &["plain", "plain LD_PRELOAD=@over/libpreload.so"])
        },
        tells: |seen| seen == [1, 7],
        judge: |control, seen| {
            as_ever(control, seen, "another library comes before the preloaded one")
        },
    },
    Trial {
        id: "driver-swap",
        title: "driver swap of the glvnd kind works",
        see: |lab, applied| {
            let others = ["draw LD_LIBRARY_PATH=@driver", "draw LD_LIBRARY_PATH=@stack"];
            values(lab, applied, &[&["draw"], &others[..]].concat())
        },
        tells: |seen| seen == [1, 6, 8],
        judge: |control, seen| {
            as_ever(control, seen, "another driver or GL stack than the named one is loaded")
        },
    },
    Trial {
        id: "two-builds",
        title: "two builds of one soname stay apart",
        see: |lab, applied| values(lab, applied, &["ab", "ba"]),
        tells: |seen| seen == [11, 22],
        judge: |control, seen| as_ever(control, seen, "one build takes the place of the other"),
    },
    Trial {
        id: "keeps-libraries",
        title: "libraries that nothing refers to stay",
        see: |lab, applied| {
            let ran = run(lab, applied, "plain")?;
            let has = ran.objects.iter().any(|path| path.ends_with("/libquiet.so.1"));
            Ok(vec![ran.value, i64::from(has)])
        },
        tells: |seen| seen == [1, 1],
        judge: |control, seen| as_ever(control, seen, "a library is not loaded any more"),
    },
    Trial {
        id: "hwcaps-floor",
        title: "hwcaps floor gone",
        see: |lab, applied| {
            let ran = run(lab, applied, "plain")?;
            let is_plain = |path: &&String| path.ends_with("/lib/libone.so.1");
            let plain = ran.tried.iter().filter(is_plain).count() as i64;
            Ok(vec![ran.value, ran.tries("libone.so.1") - plain])
        },
        tells: |seen| seen[0] == 1 && seen[1] > 0,
        judge: |control, seen| match seen {
            [value, _] if *value != control[0] => wrong(*value),
            [_, 0] => (Verdict::Yes, None),
            [_, left] => (Verdict::No, Some(format!("{left} tries of {} left", control[1]))),
            _ => (Verdict::Other, None),
        },
    },
    Trial {
        id: "hwcaps-variants",
        title: "hwcaps variants still chosen",
        see: |lab, applied| {
            if lab.hwcap.is_none() {
                bail!("this machine's loader searches no hwcaps subdirectories");
            }
            values(lab, applied, &["hw"])
        },
        tells: |seen| seen == [2],
        judge: |control, seen| as_ever(control, seen, "another variant is loaded"),
    },
    Trial {
        id: "later-library",
        title: "library added later to an earlier directory wins",
        see: later,
        tells: |seen| seen == [1, 5],
        judge: |control, seen| as_ever(control, seen, "the added library is passed over"),
    },
    Trial {
        id: "dlopen",
        title: "library opened by name at run time calmed",
        see: |lab, applied| Ok(searched(&run(lab, applied, "opens")?, "libone.so.1")),
        tells: |seen| seen[0] == 1 && seen[1] > 1,
        judge: calmed,
    },
    Trial {
        id: "dlopen-needed",
        title: "what a plugin needs calmed",
        see: |lab, applied| Ok(searched(&run(lab, applied, "plugs")?, "libone.so.1")),
        tells: |seen| seen[0] == 1 && seen[1] > 1,
        judge: calmed,
    },
    Trial {
        id: "static-tls",
        title: "static TLS unharmed",
        see: |lab, applied| {
            let mut seen = searched(&run(lab, applied, "tls")?, "libtls.so.1");
            seen.push(i64::from(bare_audit_starts(lab)?));
            Ok(seen)
        },
        // If there is room for any audit module, the trial cannot detect a difference.
        tells: |seen| seen[0] == 3 && seen[1] > 1 && seen[2] == 0,
        judge: |control, seen| match seen {
            [value, ..] if *value != control[0] => wrong(*value),
            [_, tries, _] if tries >= &control[1] => {
                (Verdict::Yes, Some("by leaving such a program as it is".to_owned()))
            }
            _ => (Verdict::Yes, None),
        },
    },
    Trial {
        id: "interposer",
        title: "an interposing library still wins",
        see: |lab, applied| {
            bound(lab, applied, &["interposed", "interposed LD_PRELOAD=@over/libwho.so"])
        },
        tells: |seen| seen[..2] == [111, 177],
        judge: |control, seen| bound_as_ever(control, seen, "another definition is called"),
    },
    Trial {
        id: "symbol-versions",
        title: "symbol versions stay apart",
        see: |lab, applied| bound(lab, applied, &["versions"]),
        tells: |seen| seen[0] == 112,
        judge: |control, seen| bound_as_ever(control, seen, "another version is called"),
    },
    Trial {
        id: "ifunc",
        title: "functions chosen for the CPU (IFUNC)",
        see: |lab, applied| bound(lab, applied, &["chosen", CHOSEN_FOR_OTHER_CPU]),
        tells: |seen| seen[0] != seen[1] && !seen.contains(&-1),
        judge: |control, seen| bound_as_ever(control, seen, "another variant is called"),
    },
    Trial {
        id: "copy-relocation",
        title: "variables copied into the program (COPY)",
        see: |lab, applied| bound(lab, applied, &["copy"]),
        tells: |seen| seen[0] == 122,
        judge: |control, seen| bound_as_ever(control, seen, "there are two of one variable"),
    },
    Trial {
        id: "unique",
        title: "unique symbols shared with plugins",
        see: |lab, applied| bound(lab, applied, &["unique"]),
        tells: |seen| seen[0] == 5,
        judge: |control, seen| bound_as_ever(control, seen, "there are two of one symbol"),
    },
    Trial {
        id: "set-uid",
        title: "works set-uid",
        see: secure,
        tells: |seen| seen == [1, 1, 1],
        judge: |control, seen| match seen {
            [value, secure, _] if [*value, *secure] != control[..2] => wrong(*value),
            [.., 0] => (Verdict::Yes, None),
            _ => (Verdict::Other, Some("starts as ever; is searched for as ever".to_owned())),
        },
    },
    Trial {
        id: "strip",
        title: "survives strip",
        see: stripped,
        tells: |seen| seen[0] == seen[2] && seen[4] > 0,
        judge: |_, seen| match seen {
            [before, tries, after, tries_after, _] if before == after && tries == tries_after => {
                (Verdict::Yes, None)
            }
            [before, _, after, ..] if before != after => wrong(*after),
            _ => (Verdict::No, Some("it is searched for again".to_owned())),
        },
    },
];

/// Judges by equality with the numbers of the untouched store; `unlike` is the note if they differ.
fn as_ever(control: &[i64], seen: &[i64], unlike: &str) -> Judged {
    match seen {
        seen if control == seen => (Verdict::Yes, None),
        seen if seen.contains(&-1) => wrong(-1),
        _ => (Verdict::No, Some(unlike.to_owned())),
    }
}

/// Tunables that make the C library choose its functions as for a lesser CPU, with the names of
/// releases up to 2.32 as well; on aarch64, as for another CPU.
const CHOSEN_FOR_OTHER_CPU: &str = "chosen GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-AVX512F,-AVX512VL,-AVX512BW,-ERMS,-AVX2_Usable,\
                         -AVX512F_Usable,-AVX512VL_Usable,-AVX_Fast_Unaligned_Load:\
                         glibc.cpu.name=thunderxt88";

/// Judges like [`as_ever`], without the last two numbers, which count the symbols that an index
/// bound.
fn bound_as_ever(control: &[i64], seen: &[i64], unlike: &str) -> Judged {
    let (values, index) = seen.split_at(seen.len().saturating_sub(2));
    match (as_ever(&control[..values.len()], values, unlike), index) {
        ((Verdict::Yes, None), [bound, symbols]) if *bound > 0 => {
            (Verdict::Yes, Some(format!("{bound} of {symbols} symbols bound by the index")))
        }
        (judged, _) => judged,
    }
}

/// Judges by an equal value and fewer tries.
fn calmed(control: &[i64], seen: &[i64]) -> Judged {
    match seen {
        [value, _] if *value != control[0] => wrong(*value),
        [_, tries] if *tries <= 1 => (Verdict::Yes, None),
        [_, tries] if *tries < control[1] => {
            (Verdict::Yes, Some(format!("{tries} tries instead of {}", control[1])))
        }
        [_, tries] => (Verdict::No, Some(format!("{tries} tries, {} without", control[1]))),
        _ => (Verdict::Other, None),
    }
}

fn wrong(value: i64) -> Judged {
    let why = match value {
        -1 => "it does not start, or lacks a library".to_owned(),
        value => format!("it loads another library ({value})"),
    };
    (Verdict::No, Some(why))
}

/// Returns the command of a start: a program, and variables. A value that begins with `@` is a path outside the
/// store.
fn command(lab: &Lab, applied: &dyn Applied, start: &str) -> Result<Command> {
    let mut words = start.split(' ');
    let program = lab.program(words.next().unwrap_or_default());
    let variables = words.filter_map(|word| word.split_once('=')).map(|(name, value)| {
        let outside = value.strip_prefix('@').map(|name| lab.outside(name).into_os_string());
        (name, outside.unwrap_or_else(|| value.into()))
    });
    applied.start(&program, &variables.collect::<Vec<(&str, OsString)>>())
}

fn run(lab: &Lab, applied: &dyn Applied, start: &str) -> Result<Ran> {
    lab.start(command(lab, applied, start)?)
}

/// Returns a program's value, and the number of tried paths of a library.
fn searched(ran: &Ran, soname: &str) -> Vec<i64> {
    vec![ran.value, ran.tries(soname)]
}

/// Returns the values of several starts.
fn values(lab: &Lab, applied: &dyn Applied, starts: &[&str]) -> Result<Vec<i64>> {
    starts.iter().map(|start| Ok(run(lab, applied, start)?.value)).collect()
}

/// Returns the values of several starts, then the bound and all symbols of the first one.
fn bound(lab: &Lab, applied: &dyn Applied, starts: &[&str]) -> Result<Vec<i64>> {
    let ran = starts.iter().map(|start| lab.start_bound(command(lab, applied, start)?));
    let ran = ran.collect::<Result<Vec<Ran>>>()?;
    let index = ran.first().map_or([0; 2], |first| [first.bound, first.symbols]);
    Ok(ran.iter().map(|ran| ran.value).chain(index.map(i64::from)).collect())
}

/// Returns the value before and after a library appears in a directory that is searched first.
fn later(lab: &Lab, applied: &dyn Applied) -> Result<Vec<i64>> {
    let before = run(lab, applied, "later")?.value;
    let place = lab.outside("later").join("libone.so.1");
    let copied = std::fs::copy(lab.outside("kept").join("libone.so.1"), &place);
    copied.with_context(naming(&place))?;
    let after = run(lab, applied, "later");
    // An error of the start is returned after the removal, so that the library does not stay.
    std::fs::remove_file(&place).with_context(naming(&place))?;
    Ok(vec![before, after?.value])
}

/// Returns the value, 1 in secure-execution mode, and 1 if the loader searched for the library. The
/// loader logs nothing in this mode, so a trap in the first search directory detects the
/// search.
fn secure(lab: &Lab, applied: &dyn Applied) -> Result<Vec<i64>> {
    if !rustix::process::geteuid().is_root() {
        bail!("giving a program to another user needs root");
    }
    let ran = run(lab, applied, "suid")?;
    if !ran.secure {
        bail!("set-uid programs get no rights here (nosuid)");
    }
    // An invalid library in the first search directory, at which the loader stops: it is long enough
    // for an ELF header, but has none.
    let trap = lab.package("none").join("lib/libone.so.1");
    std::fs::write(&trap, [b'x'; 1024]).with_context(naming(&trap))?;
    let trapped = run(lab, applied, "suid")?.value != ran.value;
    std::fs::remove_file(&trap).with_context(naming(&trap))?;
    Ok(vec![ran.value, i64::from(ran.secure), i64::from(trapped)])
}

/// Returns the value and the tries before and after `strip` of all objects, and the saved bytes.
fn stripped(lab: &Lab, applied: &dyn Applied) -> Result<Vec<i64>> {
    let before = run(lab, applied, "plain")?;
    let length = |path: &Path| path.metadata().map(|about| about.len() as i64);
    let size = |paths: &[std::path::PathBuf]| -> Result<i64> {
        paths.iter().map(|path| length(path).with_context(naming(path))).sum()
    };
    let mut objects = lab.objects();
    // A program that could not be linked statically has no file.
    objects.retain(|path| path.exists());
    let had = size(&objects)?;
    let mut command = Command::new("strip");
    plain(&mut command);
    let ran = command.args(&objects).output().map_err(|_| anyhow!("no strip here"))?;
    if !ran.status.success() {
        bail!("strip: {}", last_line(&ran.stderr));
    }
    let after = run(lab, applied, "plain")?;
    let tries = |ran: &Ran| ran.tries("libone.so.1");
    Ok(vec![before.value, tries(&before), after.value, tries(&after), had - size(&objects)?])
}

/// True if the program with much static TLS starts under an audit module for which no static TLS is
/// reserved.
fn bare_audit_starts(lab: &Lab) -> Result<bool> {
    let mut command = Command::new(lab.program("tls"));
    plain(&mut command);
    command.env("LD_AUDIT", lab.outside("audit/libaudit.so"));
    Ok(lab.start(command)?.value == 3)
}
