//! A start made of any bytes: a file system of a few objects, an environment and the facts of a
//! loader. The checks of this module apply to every walk through them.
//!
//! Strings consist of names that exist in the file system, so that searches find something, and of
//! raw bytes between them.

use becalm_core::closure::{self, Closure, Subject};
use becalm_core::cost::SearchCost;
use becalm_core::elf::Class;
use becalm_core::fs::FileSystem;
use becalm_core::loader::load::{Answer, Stop};
use becalm_core::loader::{Environment, Libc, LoaderFacts};
use becalm_core::observe::offenders::{Offender, Offenders};
use becalm_core::probe::{Call, Outcome, SearchSource};
use becalm_testing::mem::{MemFs, ObjectBuilder};
use bstr::{BStr, BString};
use libfuzzer_sys::arbitrary::{self, Arbitrary};

/// Most objects of one file system, and most strings of one list.
const MAX_OBJECTS: usize = 12;
const MAX_STRINGS: usize = 64;

/// The pieces of strings besides raw bytes.
const WORDS: [&str; 32] = [
    "liba.so",
    "libb.so",
    "libc.so",
    "libd.so",
    "/a",
    "/b",
    "/lib",
    "/x",
    "/",
    ":",
    ";",
    " ",
    "$ORIGIN",
    "${ORIGIN}",
    "$LIB",
    "$PLATFORM",
    "..",
    "x86-64-v3",
    "glibc-hwcaps/x86-64-v2",
    "tls",
    "\n",
    "/file",
    "/loop",
    "/dark",
    "/fifo",
    "/links",
    "here",
    "ld.so",
    "linux-vdso.so.1",
    "libc.so.6",
    "/a/liba.so",
    "/bin/app",
];

/// The paths of the objects.
const PATHS: [&str; MAX_OBJECTS] = [
    "/a/liba.so",
    "/a/libb.so",
    "/b/libb.so",
    "/b/libc.so",
    "/lib/libc.so",
    "/lib/libd.so",
    "/a/glibc-hwcaps/x86-64-v3/liba.so",
    "/b/tls/libd.so",
    "/lib/tls/libb.so",
    "/dark/liba.so",
    "/x/libc.so.6",
    "/here/libd.so",
];

/// Longest string in bytes: a few above `PATH_MAX` are worth trying, many are not.
const MAX_TEXT: usize = 5000;

/// A string as pieces.
#[derive(Arbitrary, Debug)]
struct Text<'a>(Vec<Piece<'a>>);

#[derive(Arbitrary, Debug)]
enum Piece<'a> {
    Word(u8),
    Raw(&'a [u8]),
    /// One byte, many times.
    Run(u8, u16),
}

impl Text<'_> {
    fn bytes(&self) -> BString {
        let mut bytes = BString::default();
        for piece in &self.0 {
            match piece {
                Piece::Word(word) => {
                    bytes.extend_from_slice(WORDS[usize::from(*word) % WORDS.len()].as_bytes());
                }
                Piece::Raw(raw) => bytes.extend_from_slice(raw),
                Piece::Run(byte, count) => {
                    let run = usize::from(*count) % MAX_TEXT;
                    bytes.extend(std::iter::repeat_n(*byte, run));
                }
            }
        }
        // No string of an ELF file or of the environment holds a NUL.
        bytes.retain(|byte| *byte != 0);
        bytes.truncate(MAX_TEXT);
        bytes
    }
}

fn texts(list: &[Text<'_>]) -> Vec<BString> {
    list.iter().take(MAX_STRINGS).map(Text::bytes).collect()
}

#[derive(Arbitrary, Debug)]
enum Entry<'a> {
    Needed(Text<'a>),
    Filter(Text<'a>),
    Auxiliary(Text<'a>),
    Rpath(Text<'a>),
    Runpath(Text<'a>),
    Audit(Text<'a>),
    Depaudit(Text<'a>),
    Flags1(u64),
    Kind(u16),
    Machine(u16),
    Class32,
    OsAbi(u8, u8),
    NoDynamic,
}

#[derive(Arbitrary, Debug)]
struct Object<'a> {
    soname: Option<Text<'a>>,
    entries: Vec<Entry<'a>>,
}

impl Object<'_> {
    fn build(&self, start: ObjectBuilder) -> ObjectBuilder {
        self.entries.iter().take(MAX_STRINGS).fold(start, |object, entry| match entry {
            Entry::Needed(text) => object.needed(text.bytes()),
            Entry::Filter(text) => object.filter(text.bytes()),
            Entry::Auxiliary(text) => object.auxiliary(text.bytes()),
            Entry::Rpath(text) => object.rpath(text.bytes()),
            Entry::Runpath(text) => object.runpath(text.bytes()),
            Entry::Audit(text) => object.audit(text.bytes()),
            Entry::Depaudit(text) => object.depaudit(text.bytes()),
            Entry::Flags1(flags) => object.flags_1(*flags),
            Entry::Kind(kind) => object.e_type(*kind),
            Entry::Machine(machine) => object.machine(*machine),
            Entry::Class32 => object.class(Class::Elf32),
            Entry::OsAbi(abi, version) => object.os_abi(*abi, *version),
            Entry::NoDynamic => object.without_dynamic(),
        })
    }
}

/// One start.
#[derive(Arbitrary, Debug)]
pub struct Input<'a> {
    program: Object<'a>,
    loader: Text<'a>,
    objects: Vec<Object<'a>>,
    modes: Vec<(u8, u16)>,
    library_path: Option<Text<'a>>,
    preload: Option<Text<'a>>,
    audit: Option<Text<'a>>,
    secure: bool,
    system_dirs: Vec<Text<'a>>,
    lib: Text<'a>,
    platform: Option<Text<'a>>,
    hwcaps: Vec<Text<'a>>,
    legacy_hwcaps: Vec<Text<'a>>,
    hwcap_mask: u64,
    platform_bit: Option<u8>,
    preload_file: Option<Text<'a>>,
    path_file: Option<Text<'a>>,
    cache: Option<&'a [u8]>,
}

impl Input<'_> {
    fn files(&self) -> MemFs {
        let program = self.program.build(ObjectBuilder::program().interpreter("/lib/ld.so"));
        let mut fs = MemFs::new()
            .object("/bin/app", program)
            .object("/lib/ld.so", ObjectBuilder::library(self.loader.bytes()))
            .file("/file", "text")
            .dir("/dark")
            .fifo("/fifo/liba.so")
            .link("/loop", "/loop")
            .link("/links/liba.so", "../a/liba.so")
            .hard_link("/links/app", "/bin/app")
            .cwd("/here");
        for (object, path) in self.objects.iter().zip(PATHS) {
            let soname = object.soname.as_ref().map(Text::bytes).unwrap_or_default();
            fs = fs.object(path, object.build(ObjectBuilder::library(soname)));
        }
        let count = self.objects.len().min(PATHS.len());
        for &(which, mode) in self.modes.iter().take(MAX_OBJECTS) {
            let paths = ["/dark", "/a", "/b", "/file"];
            let paths = PATHS[..count].iter().chain(paths[..1].iter());
            let paths: Vec<_> = paths.collect();
            fs = fs.mode(paths[usize::from(which) % paths.len()], u32::from(mode));
        }
        let lists = [
            ("/etc/ld.so.preload", &self.preload_file),
            ("/etc/ld-musl-x86_64.path", &self.path_file),
        ];
        for (path, text) in lists {
            if let Some(text) = text {
                fs = fs.file(path, text.bytes());
            }
        }
        if let Some(cache) = self.cache {
            fs = fs.file("/etc/ld.so.cache", cache);
        }
        fs
    }

    fn facts(&self, libc: Libc) -> LoaderFacts {
        LoaderFacts {
            libc,
            system_dirs: texts(&self.system_dirs),
            cache_path: Some("/etc/ld.so.cache".into()),
            lib: self.lib.bytes(),
            platform: self.platform.as_ref().map(Text::bytes),
            hwcaps: texts(&self.hwcaps).into_iter().take(4).collect(),
            legacy_hwcaps: texts(&self.legacy_hwcaps).into_iter().take(4).collect(),
            hwcap_mask: self.hwcap_mask,
            platform_bit: self.platform_bit,
            reads: Default::default(),
            no_exec_stack: false,
        }
    }

    fn environment(&self) -> Environment {
        let bytes = |text: &Option<Text<'_>>| text.as_ref().map(Text::bytes);
        Environment {
            library_path: bytes(&self.library_path),
            preload: bytes(&self.preload),
            audit: bytes(&self.audit),
            secure: self.secure,
            ..Environment::default()
        }
    }
}

/// Follows the start under `libc` and checks the walk.
pub fn check(input: &Input<'_>, libc: Libc) {
    let fs = input.files();
    let Ok(subject) = Subject::open(&fs, BStr::new("/bin/app")) else { return };
    let interpreter = BStr::new("/lib/ld.so");
    let (facts, environment) = (input.facts(libc), input.environment());
    let Ok(closure) = closure::resolve(&fs, subject, interpreter, facts, &environment) else {
        return;
    };
    counts_add_up(&closure);
    answers_name_objects(&closure);
    probes_are_what_the_files_say(&closure, &fs);
}

fn counts_add_up(closure: &Closure) {
    let storm = SearchCost::of(&closure.load);
    assert_eq!(storm.probes, closure.load.probes.len() as u64);
    assert_eq!(storm.objects, closure.load.objects.len() as u64);
    assert!(storm.hits + storm.misses() <= storm.probes);
    assert!(storm.search_dirs <= storm.probes);
    let offenders = Offenders::of(closure);
    let total = |list: &[Offender]| list.iter().map(Offender::misses).sum::<u64>();
    assert_eq!(total(&offenders.needed), storm.misses());
    assert_eq!(total(&offenders.objects), storm.misses());
    assert!(total(&offenders.directories) <= storm.misses());
}

fn answers_name_objects(closure: &Closure) {
    let load = &closure.load;
    // No lookup loads the program and the loader.
    let mut loaded = 2;
    for resolution in &load.resolutions {
        assert!(resolution.needed_by < load.objects.len());
        if let Answer::Loaded(object, _) = resolution.answer {
            assert_eq!(load.objects[object].loaded_by, Some(resolution.needed_by));
            loaded += 1;
        }
        assert!(resolution.answer.object().is_none_or(|object| object < load.objects.len()));
    }
    if load.stop != Some(Stop::TooManyProbes) {
        assert_eq!(loaded, load.objects.len());
    }
    assert!(closure.unresolved().len() <= load.resolutions.len());
    if let Some(Stop::Refused(_)) = load.stop {
        assert!(closure.fatal().is_some_and(|end| matches!(end.answer, Answer::Refused(_))));
    }
}

/// Checks that each probe is part of a lookup made before it, in order, and that its outcome is
/// that of the file system.
fn probes_are_what_the_files_say(closure: &Closure, fs: &MemFs) {
    let mut last = 0;
    for probe in closure.load.probes.iter() {
        assert!(probe.resolution >= last && probe.resolution < closure.load.resolutions.len());
        last = probe.resolution;
        assert!(probe.path.starts_with(probe.dir()));
        let failed = match probe.call {
            // The loader reads this file itself, and does not only open it.
            Call::Open if probe.source == SearchSource::LoaderCache => continue,
            Call::Open => fs.open(probe.path.as_ref()).err(),
            Call::Stat => fs.stat(probe.path.as_ref()).err(),
        };
        let outcome = failed.map(Outcome::from);
        assert_eq!(outcome, Some(probe.outcome).filter(|outcome| outcome.is_failed_call()));
    }
}
