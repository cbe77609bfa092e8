//! Counts the lookups that programs make themselves, and with `--slow` measures them: with all
//! packages merged into one directory (the ideal), with one directory per package, and the same
//! with an index (docs/paths.md).
//!
//! The store is made from Debian packages. The interpreters and compilers are this machine's, and
//! the packages that they search come from `apt-get download`, one directory each. A variant with
//! another output than the first one is an error.

mod works;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::json;

use self::works::{WORKS, Work};
use super::{calm, write_text};
use crate::child;

/// Calls with a path that count.
const CALLS: &str = "open,openat,stat,lstat,newfstatat,statx,access,faccessat,faccessat2,readlink,readlinkat,execve";

/// Folder for packages, the store, merged directories and the index.
const FOLDER: &str = "target/lab/paths";

/// Downloads the packages of the seeds $1, and those of their dependencies whose names fit one of the patterns $2, and
/// unpacks each into the store once, by a hash of its file's name.
const INSTALL: &str = r#"
mkdir -p debs store
set -f
wanted=()
for name in $1 $(test -z "$1" || apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts \
    --no-breaks --no-replaces --no-enhances $1 | grep -v '^ \|[<:]'); do
  for pattern in $1 $2; do
    [[ $name != $pattern ]] || wanted+=("$name")
  done
done
set +f
cd debs
missing=()
# Virtual packages have no record.
for name in $(test -z "$1" || apt-cache show --no-all-versions "${wanted[@]}" | sed -n 's/^Package: //p' | sort -u); do
  ls "$name"_* >/dev/null 2>&1 || missing+=("$name")
done
test ${#missing[@]} = 0 || apt-get download -q "${missing[@]}"
for deb in *.deb; do
  stem=${deb%.deb}
  package=../store/$(printf %s "$stem" | sha256sum | head -c 32)-${stem%%_*}
  test ! -e "$package" -a -e "$deb" || continue
  rm -rf ../unpacked
  dpkg-deb -x "$deb" ../unpacked
  rm -rf ../unpacked/usr/share/{doc,man,locale}
  mv "$(test -d ../unpacked/usr && echo ../unpacked/usr || echo ../unpacked)" "$package"
done
"#;

/// Prints the first $1 entries of a variable, which has the directories $2 of each package, and merges them into the
/// directory $3 once: the first entry that has a file is the result.
const MERGE: &str = r#"
entries=()
for package in "$PWD"/store/*; do
  for suffix in $2; do
    for entry in "$package"/$suffix; do
      test ! -d "$entry" || entries+=("$entry")
    done
  done
done
entries=("${entries[@]:0:$1}")
if test ! -e "$3"; then
  mkdir -p "$3"
  for entry in "${entries[@]}"; do
    cp -a -n -- "$entry/." "$3" || true
  done
fi
test ${#entries[@]} = 0 || printf '%s\n' "${entries[@]}"
"#;

/// Options of the measurement.
#[derive(Args)]
pub(crate) struct PathsBench {
    /// The becalm to measure
    #[arg(long, default_value = "target/release/becalm")]
    becalm: PathBuf,
    /// Also measure on a file system on which a lookup takes so long
    #[arg(long, value_name = "MICROSECONDS")]
    slow: Option<u64>,
    /// Also measure on this machine's file system, in this number of paired rounds
    #[arg(long, value_name = "ROUNDS")]
    local: Option<usize>,
    /// File for the raw numbers, one JSON object
    #[arg(long)]
    raw: Option<PathBuf>,
}

/// Counts every work and prints a table.
///
/// # Errors
/// Returns an error if a package cannot be downloaded, a tool is missing, or a program fails.
pub(crate) fn run(args: &PathsBench) -> Result<()> {
    let folder = Path::new(FOLDER);
    fs::create_dir_all(folder)?;
    let bench = Bench { folder: folder.canonicalize()?, becalm: args.becalm.canonicalize()? };
    let mut programs: BTreeSet<PathBuf> = BTreeSet::new();
    for work in WORKS {
        bench.install(work)?;
        programs.extend(bench.programs(work)?);
    }
    // The times of a directory count only if they are older than the clock's grain.
    std::thread::sleep(std::time::Duration::from_millis(500));
    bench.index(&programs, false)?;
    if args.slow.is_some() {
        bench.index(&programs, true)?;
    }
    println!(
        "{:<12} {:>7} | {:>8} {:>8} {:>8} {:>6}",
        "work", "entries", "merged", "storm", "answered", "ratio"
    );
    let rows = WORKS.iter().map(|work| bench.row(work, args)).collect::<Result<Vec<_>>>()?;
    write_text(args.raw.as_deref(), &json!({ "paths": rows }).to_string())
}

struct Bench {
    folder: PathBuf,
    becalm: PathBuf,
}

/// A variable and its value.
type Variables = Vec<(String, String)>;

impl Bench {
    fn store(&self) -> PathBuf {
        self.folder.join("store")
    }

    fn index_file(&self, slow: bool) -> PathBuf {
        self.folder.join(if slow { "slow-index.so" } else { "index.so" })
    }

    /// Downloads the packages of a work and unpacks each into the store.
    fn install(&self, work: &Work) -> Result<()> {
        let mut shell = child::command("bash");
        shell.args(["-euc", INSTALL, "bash", work.seeds, work.names]).current_dir(&self.folder);
        child::whole(&mut shell).map(drop)
    }

    /// The variables of a work with one directory per package, with one of all, and the number of entries.
    fn variables(&self, work: &Work) -> Result<(Variables, Variables, usize)> {
        let (mut storm, mut merged, mut count) = (Vec::new(), Vec::new(), 0);
        for (variable, suffixes) in work.variables {
            let place = self.folder.join("merged").join(format!("{}-{variable}", work.name));
            let mut shell = child::command("bash");
            shell.args(["-euc", MERGE, "bash", &work.most.to_string(), suffixes]).arg(&place);
            let said = child::whole(shell.current_dir(&self.folder))?;
            let entries: Vec<&str> = said.lines().collect();
            count += entries.len();
            storm.push(((*variable).to_owned(), entries.join(":") + work.after));
            merged.push(((*variable).to_owned(), format!("{}{}", place.display(), work.after)));
        }
        Ok((storm, merged, count))
    }

    fn programs(&self, work: &Work) -> Result<Vec<PathBuf>> {
        let mut programs = vec![found(&words(work.line)[0])?];
        if let Some((program, arguments)) = words(work.child).split_first() {
            let said = child::succeed(child::command(program).args(arguments))?;
            programs.push(found(said.trim())?);
        }
        Ok(programs)
    }

    /// The index; for the slow file system made through it, which has inode numbers of its own.
    fn index(&self, programs: &BTreeSet<PathBuf>, slow: bool) -> Result<()> {
        let mut line = Vec::new();
        if slow {
            line.extend(self.slow_line(0, &[self.store()])?);
        }
        line.push(self.becalm.display().to_string());
        line.extend(["index", "--paths"].map(str::to_owned));
        line.push(self.store().display().to_string());
        for program in programs {
            line.extend(["--program".to_owned(), program.display().to_string()]);
        }
        line.extend(["-o".to_owned(), self.index_file(slow).display().to_string()]);
        let begin = Instant::now();
        let said = child::whole(child::command(&line[0]).args(&line[1..]))?;
        let of_paths =
            said.lines().find(|line| line.trim().starts_with("paths")).unwrap_or_default();
        println!("{}, {:.1} s", of_paths.trim(), begin.elapsed().as_secs_f64());
        Ok(())
    }

    fn slow_line(&self, delay: u64, folders: &[PathBuf]) -> Result<Vec<String>> {
        let lab = std::env::current_exe()?.display().to_string();
        let delay = delay.to_string();
        let line = folders.iter().flat_map(|folder| {
            let folder = folder.display().to_string();
            [&lab, "slowfs", "--delay-us", &delay, &folder, &folder, "--"].map(str::to_owned)
        });
        Ok(line.collect())
    }

    fn calm(&self, slow: bool) -> Variables {
        let calm = calm::calm(&self.index_file(slow)).into_iter();
        let paths = ("BECALM", "paths".to_owned());
        calm.chain([paths]).map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The command line of a work.
    fn line(&self, work: &Work) -> Result<Vec<String>> {
        let mut line = words(work.line);
        line[0] = found(&line[0])?.display().to_string();
        if let Some(argument) = line.iter_mut().find(|word| word.starts_with('@')) {
            let suffix = argument.trim_start_matches('@');
            let source = self.folder.join(format!("{}-source{suffix}", work.name));
            fs::write(&source, work.source)?;
            *argument = source.display().to_string();
        }
        Ok(line)
    }

    fn row(&self, work: &Work, args: &PathsBench) -> Result<serde_json::Value> {
        let (storm, merged, entries) = self.variables(work)?;
        let line = self.line(work)?;
        let variants = |slow: bool| -> [(&str, Variables); 3] {
            let answered = [&storm[..], &self.calm(slow)[..]].concat();
            [("merged", merged.clone()), ("storm", storm.clone()), ("answered", answered)]
        };
        let mut counts = BTreeMap::new();
        let mut first = None;
        for (name, variables) in &variants(false) {
            let (count, said) = self.count(&line, variables)?;
            let expected: &String = first.get_or_insert_with(|| said.clone());
            // The output may contain the place of the file.
            let same = *expected == said || work.name == "pkg-config" && *name != "answered";
            ensure!(same, "{} {name} said {said:?}, and merged {expected:?}", work.name);
            counts.insert(*name, count);
        }
        let of = |name: &str| counts.get(name).copied().unwrap_or_default();
        let (merged, storm, answered) = (of("merged"), of("storm"), of("answered"));
        let ratio = answered as f64 / merged.max(1) as f64;
        println!(
            "{:<12} {entries:>7} | {merged:>8} {storm:>8} {answered:>8} {ratio:>6.2}",
            work.name
        );
        let mut row = json!({ "work": work.name, "entries": entries });
        for (name, count) in &counts {
            row[*name] = json!({ "paths": count });
        }
        if let Some(delay) = args.slow {
            row["slow_s"] = self.slow(work, &line, delay, &variants(true))?;
        }
        if let Some(rounds) = args.local {
            row["local_s"] = Self::local(work, &line, &variants(false), rounds)?;
        }
        Ok(row)
    }

    /// Seconds of each variant, with store and merged directory on a slow file system.
    fn slow(
        &self,
        work: &Work,
        line: &[String],
        delay: u64,
        variants: &[(&str, Variables)],
    ) -> Result<serde_json::Value> {
        let mut row = json!({});
        let before = self.slow_line(delay, &[self.store(), self.folder.join("merged")])?;
        for (name, variables) in variants {
            let mut command = Command::new(&before[0]);
            command.args(&before[1..]).args(environment(variables));
            // The time of the program alone.
            command.args(["sh", "-c", "date +%s.%N; \"$@\" >/dev/null 2>&1; date +%s.%N", "sh"]);
            command.args(line).stdin(std::process::Stdio::null());
            let output = command.output()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let times: Vec<f64> = text.lines().filter_map(|line| line.parse().ok()).collect();
            let [begin, end] = times[..] else {
                bail!("slowfs: {}{text}", String::from_utf8_lossy(&output.stderr));
            };
            row[*name] = json!(end - begin);
        }
        println!("{:<12} {:>7} | {row} s", work.name, "");
        Ok(row)
    }

    /// Seconds of each variant, in rounds.
    fn local(
        work: &Work,
        line: &[String],
        variants: &[(&str, Variables)],
        rounds: usize,
    ) -> Result<serde_json::Value> {
        let arguments: Vec<&str> = line[1..].iter().map(String::as_str).collect();
        let variants = variants.iter().map(|(name, variables)| {
            let before = environment(variables);
            let before: Vec<&str> = before.iter().map(String::as_str).collect();
            calm::variant(name, &before, (Path::new(&line[0]), &arguments), &[])
        });
        Ok(json!(calm::measure(work.name, &variants.collect::<Vec<_>>(), rounds)?))
    }

    /// Counts by strace the calls of the program and its children.
    fn count(&self, line: &[String], variables: &Variables) -> Result<(u64, String)> {
        let log = self.folder.join("strace.log");
        let plain = environment(&Variables::new());
        let mut strace = Command::new(&plain[0]);
        strace.args(&plain[1..]).args(["strace", "-f", "-s", "4096"]);
        strace.args(["-e", &format!("trace={CALLS}"), "-o"]).arg(&log);
        for (name, value) in variables {
            strace.args(["-E", &format!("{name}={value}")]);
        }
        let said = child::whole(strace.args(line))?;
        let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        Ok((counted(&text), said))
    }
}

/// The words that start a program with these variables and the plain ones alone.
fn environment(variables: &Variables) -> Vec<String> {
    const PLAIN: &str = "/usr/bin/env -i PATH=/usr/bin:/bin LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 \
                         GUILE_AUTO_COMPILE=0";
    let home = ("HOME".to_owned(), std::env::temp_dir().display().to_string());
    let set =
        [home].iter().chain(variables).map(|(name, value)| format!("{name}={value}")).collect();
    [words(PLAIN), set].concat()
}

/// Calls with a path in strace's lines. A call that was interrupted counts where it began. One with an empty
/// path, which the kernel refuses at once, does not count.
fn counted(text: &str) -> u64 {
    let path = |line: &'_ str| Some(line.split_once('(')?.1.split_once('"')?.1.to_owned());
    text.lines().filter_map(path).filter(|path| !path.starts_with('"')).count() as u64
}

/// The words of a line of a work.
fn words(line: &str) -> Vec<String> {
    shlex::split(line).unwrap_or_default()
}

/// The real path of a program.
fn found(name: &str) -> Result<PathBuf> {
    // Of an absolute path the directories do not count.
    let in_dirs = ["/usr/bin", "/bin"].map(|dir| Path::new(dir).join(name));
    let there = in_dirs.into_iter().find(|path| path.is_file());
    let path = there.with_context(|| format!("{name}: not installed"))?;
    path.canonicalize().with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_with_a_path_count_and_those_with_an_empty_one_do_not() {
        let text = "1 openat(AT_FDCWD, \"/a\", O_RDONLY) = 3\n\
                    2 stat(\"/b\", 0x1) = -1 ENOENT (No such file or directory)\n\
                    1 open(\"\", O_RDONLY) = -1 ENOENT (No such file or directory)\n\
                    1 +++ exited with 0 +++\n";
        assert_eq!(counted(text), 2);
    }
}
