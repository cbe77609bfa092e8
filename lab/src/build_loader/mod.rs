//! `lab build-loader`: source, patches, configure, make, install.
//!
//! Each build has its own folder in the cache, named by the release and by everything that goes
//! into the build. When a build is done, its installed files are kept as `image`, below their
//! prefix; if `image` exists, only copying is left to do. The log is kept; source and objects are
//! removed as soon as they are no longer needed.

mod minimal;
mod needs;
mod source;
mod steps;

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueHint};
use loader_patches::Release;

use self::steps::Steps;
use crate::stored::entries;
use crate::words::naming;

/// The build, and the place to install it.
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("help.txt"))]
pub(crate) struct BuildArgs {
    /// The release: 2.36, 2.41, 2.43 or 2.44
    #[arg(long, value_name = "VERSION")]
    pub glibc: Release,

    /// Install directory; an absolute path, compiled in
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub prefix: PathBuf,

    /// Store prefixes to compile in: the loader reads package caches only below them
    #[arg(long, value_name = "A:B", default_value = becalm_lib::assume::DEFAULT_STORES)]
    pub store: String,

    /// Build and install only the loader and libc.so.6
    ///
    /// These two must be of the same build. The other libraries of glibc, such as libm.so.6, may
    /// come from another build of the same release.
    #[arg(long)]
    pub minimal: bool,

    /// Build without the patch, for comparison
    #[arg(long)]
    pub unpatched: bool,

    /// A glibc-source package that is already here; nothing is fetched
    #[arg(long, value_name = "DEB", value_hint = ValueHint::FilePath)]
    pub source: Option<PathBuf>,

    /// Processes to build with; without it, as many as there are CPUs
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
}

/// Builds and installs.
///
/// # Errors
/// Returns an error if a step of the build fails.
pub(crate) fn run(args: &BuildArgs) -> Result<()> {
    check(args)?;
    let release = &args.glibc;
    let folder = cache_folder()?.join(format!("{}-{:016x}", release.version, key(args)));
    fs::create_dir_all(&folder).with_context(naming(&folder))?;
    let _lock = lock(&folder)?;
    let image = folder.join("image");
    if !image.is_dir() {
        // A folder with an image needs no tools.
        needs::check(args.source.is_none())?;
    }
    let steps = Steps::new(folder.join("build.log"))?;
    if !image.is_dir() {
        let tree = prepare(&steps, args, &folder)?;
        let objects = folder.join("objects");
        configure(&steps, args, &tree, &objects)?;
        make(&steps, args, &objects, &folder.join("unfinished"))?;
        fs::rename(folder.join("unfinished"), &image)?;
        clear(&steps, &folder, release.version)?;
    }
    steps.now(format!("installing into {}", args.prefix.display()));
    fs::create_dir_all(&args.prefix).with_context(naming(&args.prefix))?;
    let installed = image.join(args.prefix.strip_prefix("/")?).join(".");
    // A file in use keeps its old contents.
    let mut copy = Command::new("cp");
    steps.run(copy.args(["-a", "--remove-destination"]).arg(installed).arg(&args.prefix))?;
    println!("{}", loader_in(&args.prefix)?.display());
    Ok(())
}

/// Waits until no other process builds the same.
fn lock(folder: &Path) -> Result<fs::File> {
    let path = folder.join("lock");
    let file = fs::File::create(&path).with_context(naming(&path))?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)
        .with_context(naming(&path))?;
    Ok(file)
}

/// Makes the files to install, below `image`, from the objects.
fn make(steps: &Steps, args: &BuildArgs, objects: &Path, image: &Path) -> Result<()> {
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok());
    let jobs = format!("-j{}", jobs.map_or(1, NonZeroUsize::get));
    let mut make = Command::new("make");
    make.arg(jobs).current_dir(objects);
    if args.minimal {
        make.args(minimal::TARGET);
    }
    steps.now("building");
    steps.run(&mut make)?;
    if args.minimal {
        return minimal::install(objects, &image.join(args.prefix.strip_prefix("/")?));
    }
    let mut install = Command::new("make");
    // Debian's source has no manual to install.
    install.args(["install", "MAKEINFO=:"]).arg(format!("DESTDIR={}", image.display()));
    steps.run(install.current_dir(objects))
}

/// Removes the files that a finished build no longer needs, or that an interrupted one left.
fn clear(steps: &Steps, folder: &Path, version: &str) -> Result<()> {
    let left = ["package", "objects", "unfinished", &format!("glibc-{version}")];
    steps.run(Command::new("rm").arg("-rf").args(left.map(|it| folder.join(it))))
}

/// Checks the arguments before anything is fetched.
fn check(args: &BuildArgs) -> Result<()> {
    ensure!(args.prefix.is_absolute(), "{}: not absolute", args.prefix.display());
    // The prefix is appended to the path of another folder (DESTDIR).
    let is_dots = args.prefix.components().any(|part| part == Component::ParentDir);
    ensure!(!is_dots, "{}: the prefix must not contain ..", args.prefix.display());
    for plain in ["/", "/usr", "/usr/local"] {
        ensure!(
            args.prefix != Path::new(plain),
            "{plain}: the prefix must be a directory for \
         this glibc alone"
        );
    }
    // The prefix becomes a string in a C header, by way of a shell script.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/:._+-".contains(c);
    ensure!(args.store.chars().all(is_plain), "--store {}: not a list of paths", args.store);
    for prefix in args.store.split(':').filter(|prefix| !prefix.is_empty()) {
        ensure!(prefix.starts_with('/'), "--store {prefix}: not absolute");
    }
    Ok(())
}

/// Makes the patched source tree.
fn prepare(steps: &Steps, args: &BuildArgs, folder: &Path) -> Result<PathBuf> {
    let deb = match &args.source {
        Some(deb) => deb.clone(),
        None => {
            let Release { version, suite, .. } = args.glibc;
            let suite = suite.with_context(|| {
                format!("the source of glibc {version} is in no Debian suite; --source names it")
            })?;
            let packages = cache_folder()?.join(format!("glibc-source-{suite}"));
            fs::create_dir_all(&packages).with_context(naming(&packages))?;
            source::fetch(steps, version, suite, &packages)?
        }
    };
    clear(steps, folder, args.glibc.version)?;
    let tree = source::unpack(steps, args.glibc.version, &deb, folder)?;
    if !args.unpatched {
        steps.now("applying becalm's patches");
        for patch in args.glibc.patches {
            steps.patch(&tree, patch)?;
        }
    }
    Ok(tree)
}

fn configure(steps: &Steps, args: &BuildArgs, tree: &Path, objects: &Path) -> Result<()> {
    steps.now("configuring");
    fs::create_dir(objects).with_context(naming(objects))?;
    // The patches leave out the generated `configure`, so it has no option for this.
    fs::write(objects.join("configparms"), format!("store-prefixes = {}\n", args.store))?;
    steps.run(
        Command::new(tree.join("configure"))
            .arg(format!("--prefix={}", args.prefix.display()))
            // Debug information would double the time and the size.
            .args(["--disable-werror", "--disable-nscd", "CFLAGS=-O2"])
            .current_dir(objects),
    )
}

/// Returns the folder of kept builds.
fn cache_folder() -> Result<PathBuf> {
    let programs = becalm_lib::index::places::cache();
    Ok(programs.context("neither XDG_CACHE_HOME nor HOME")?.with_file_name("loader"))
}

/// Returns a number that differs between different builds (FNV-1a, 64 bits).
fn key(args: &BuildArgs) -> u64 {
    let prefix = args.prefix.to_string_lossy();
    let extent = if args.minimal { "minimal" } else { "all" };
    let patches = if args.unpatched { [""; 2] } else { args.glibc.patches };
    let parts = [args.glibc.version, patches[0], patches[1], &args.store, &prefix, extent];
    parts
        .iter()
        .flat_map(|part| part.bytes().chain([0]))
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

/// Returns the installed loader.
fn loader_in(prefix: &Path) -> Result<PathBuf> {
    let folders = ["lib", "lib64"].map(|folder| entries(&prefix.join(folder)).unwrap_or_default());
    let mut found = folders.into_iter().flatten().filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("ld-linux") || name.starts_with("ld64.so") || name == "ld.so.1"
    });
    found.next().with_context(|| format!("{}: no loader was installed", prefix.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(prefix: &str, store: &str) -> BuildArgs {
        BuildArgs {
            glibc: "2.36".parse().expect("known"),
            prefix: prefix.into(),
            store: store.into(),
            source: Some("x.deb".into()),
            minimal: false,
            unpatched: false,
            jobs: None,
        }
    }

    #[test]
    fn everything_compiled_in_makes_another_build() {
        let one = key(&flags("/opt/a", "/s"));
        assert_ne!(one, key(&flags("/opt/b", "/s")));
        assert_ne!(one, key(&flags("/opt/a", "/s:/t")));
        assert_ne!(one, key(&BuildArgs { minimal: true, ..flags("/opt/a", "/s") }));
        assert_ne!(one, key(&BuildArgs { unpatched: true, ..flags("/opt/a", "/s") }));
        assert_eq!(one, key(&flags("/opt/a", "/s")));
    }

    #[test]
    fn a_prefix_of_the_running_system_is_refused() {
        for prefix in ["/usr", "/", "relative", "/opt/../usr"] {
            assert!(check(&flags(prefix, "/s")).is_err(), "{prefix}");
        }
    }

    #[test]
    fn a_store_that_is_more_than_paths_is_refused() {
        for store in ["/s\"", "/s $(x)", "s", "/s:t"] {
            let error = check(&flags("/opt/a", store)).expect_err(store);
            assert!(error.to_string().starts_with("--store"), "{error}");
        }
    }
}
