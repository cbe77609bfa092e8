//! Finds objects, and decides which of them may be started.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use becalm_core::closure::{ClosureError, Subject, SubjectKind};
use becalm_core::loader::LoaderFacts;
use becalm_core::loader::facts::from_diagnostics;
use becalm_host::{FactChoice, Format, OsFs, WalkOptions, find_objects, loader_facts};
use bstr::{BStr, ByteSlice};

/// The objects to start.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Selection {
    /// Every object, not a sample.
    #[arg(long)]
    all: bool,
    /// Number of objects of each place.
    #[arg(long, value_name = "N", default_value_t = 300)]
    sample: usize,
    /// Seed of the sample: the same seed selects the same objects.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// A folder of this machine to search for objects.
    #[arg(long, value_name = "DIR", default_value = "/usr")]
    folder: Vec<PathBuf>,
    /// A lab store: every object of it.
    #[arg(long, value_name = "DIR")]
    store: Vec<PathBuf>,
    /// A folder of sysroots, each in its folder with its emulator at the top.
    #[arg(long, value_name = "DIR")]
    sysroots: Option<PathBuf>,
}

impl Selection {
    /// Returns all of the objects of a place, or a sample.
    pub(crate) fn of(&self, place: &Place, found: Vec<Object>) -> Vec<Object> {
        if self.all || place.whole {
            return found;
        }
        sample(found, self.sample, self.seed, |object| &object.path)
    }
}

/// A root with loaders that may be run.
pub(crate) struct Place {
    /// The name of the place in the summary.
    pub(crate) label: String,
    /// The file system.
    pub(crate) fs: OsFs,
    /// Another root.
    pub(crate) root: Option<PathBuf>,
    /// The emulator inside it.
    pub(crate) emulator: Option<PathBuf>,
    /// The one loader for all objects (musl); otherwise each object's own.
    pub(crate) loader: Option<PathBuf>,
    /// Facts of loaders by path, if they had to be read under the emulator.
    facts: Vec<(PathBuf, LoaderFacts)>,
    /// True if all objects are used and not a sample.
    pub(crate) whole: bool,
    /// Folders to search, as paths of this machine.
    folders: Vec<PathBuf>,
}

/// An object that can be started.
pub(crate) struct Object {
    /// Its path inside the root.
    pub(crate) path: PathBuf,
    /// The loader that loads it.
    pub(crate) loader: PathBuf,
    /// True for a program that the kernel can start with its own loader.
    pub(crate) starts: bool,
    /// Name of its machine.
    pub(crate) machine: String,
}

/// Returns the places of the options. `musl` adds this machine's objects under musl's loader.
pub(crate) fn places(options: &Selection, with_musl: bool) -> Result<Vec<Place>> {
    let mut places = vec![Place::here("system", &options.folder, false)];
    if with_musl {
        let mut musl = Place::here("musl", &options.folder, false);
        musl.loader = Some("/lib/ld-musl-x86_64.so.1".into());
        places.push(musl);
    }
    for store in &options.store {
        let store = store.canonicalize().with_context(|| store.display().to_string())?;
        places.push(Place::here(&format!("store {}", store.display()), &[store], true));
    }
    for sysroot in options.sysroots.iter().flat_map(fs::read_dir).flatten() {
        let root = sysroot?.path();
        let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if root.join("lib").exists() || root.join("usr").exists() {
            places.push(foreign(&name, &root.canonicalize()?)?);
        }
    }
    Ok(places)
}

/// Returns the place of a sysroot; its emulator is the `qemu-…-static` at its top.
fn foreign(name: &str, root: &Path) -> Result<Place> {
    let mut files = fs::read_dir(root)?.flatten().map(|entry| entry.file_name());
    let emulator = files.find(|name| name.as_bytes().starts_with(b"qemu-"));
    Ok(Place {
        fs: OsFs::in_root(root)?,
        root: Some(root.to_owned()),
        emulator: emulator.map(|name| Path::new("/").join(name)),
        ..Place::here(&format!("sysroot {name}"), &[root.to_owned()], false)
    })
}

impl Place {
    /// Folders of this machine.
    pub(crate) fn here(label: &str, folders: &[PathBuf], whole: bool) -> Self {
        Self {
            label: label.to_owned(),
            fs: OsFs::new(),
            root: None,
            emulator: None,
            loader: None,
            facts: Vec::new(),
            whole,
            folders: folders.to_vec(),
        }
    }

    /// Returns the objects below the place's folders that can be started, sorted by path, and the
    /// number of other ELF files by the reason why they cannot.
    pub(crate) fn find(&self) -> (Vec<Object>, BTreeMap<String, usize>) {
        let walk = WalkOptions { every_name: true, ..WalkOptions::default() };
        let mut objects = Vec::new();
        let mut left_out = BTreeMap::new();
        let files = find_objects(&self.folders, walk).objects.into_iter();
        for file in files.filter(|file| file.format == Format::Elf) {
            match self.object(&file.path) {
                Ok(object) => objects.push(object),
                Err(reason) => *left_out.entry(reason).or_default() += 1,
            }
        }
        (objects, left_out)
    }

    /// The object at a path of this machine, or why it cannot be started.
    pub(crate) fn object(&self, file: &Path) -> Result<Object, String> {
        let path = match &self.root {
            Some(root) => Path::new("/").join(file.strip_prefix(root).unwrap_or(file)),
            None => file.to_owned(),
        };
        let session = self.fs.session();
        let subject = Subject::open(&session, BStr::new(path.as_os_str().as_bytes()))
            .map_err(|error| why_not(&error))?;
        let machine = subject.view.ident.machine_name();
        if self.emulator.is_none() && machine != "x86_64" {
            return Err(format!("for another machine: {machine}"));
        }
        let own = subject.interpreter.as_ref().ok_or("static, or debug information alone")?;
        let own = PathBuf::from(OsStr::from_bytes(own));
        let loader = self.loader.clone().unwrap_or(own);
        if !self.is_trusted(&loader) {
            return Err(format!("its loader is not run: {}", loader.display()));
        }
        let program = subject.kind == SubjectKind::Program;
        let mode = subject.file.mode;
        Ok(Object {
            path,
            loader,
            starts: program && self.loader.is_none() && mode & 0o6000 == 0 && mode & 0o111 != 0,
            machine: machine.to_owned(),
        })
    }

    /// Returns true if a loader may be run: it is this machine's own or is in a given store or
    /// sysroot.
    fn is_trusted(&self, loader: &Path) -> bool {
        if self.root.is_some() {
            return true;
        }
        let Ok(real) = loader.canonicalize() else { return false };
        let name = real.file_name().unwrap_or_default().as_bytes();
        let is_loader = name.starts_with(b"ld-") || name == b"libc.so";
        let known = ["/lib", "/usr/lib", "/lib64"].iter().any(|dir| real.starts_with(dir))
            || self.whole && self.folders.iter().any(|folder| real.starts_with(folder));
        is_loader && known
    }

    /// Returns the path of this machine for a path inside the root.
    pub(crate) fn path_here(&self, path: &Path) -> PathBuf {
        match &self.root {
            Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
            None => path.to_owned(),
        }
    }

    /// Reads the facts of the objects' loaders under the emulator, which determines the processor.
    pub(crate) fn read_facts(&mut self, objects: &[Object]) {
        for object in objects {
            if self.facts_of(&object.loader).is_none() {
                let printed = self.emulated_facts(&object.loader);
                let facts = printed.or_else(|| self.given_facts(&object.loader));
                self.facts.extend(facts.map(|facts| (object.loader.clone(), facts)));
            }
        }
    }

    /// Returns the facts of a loader that were read under the emulator.
    pub(crate) fn facts_of(&self, loader: &Path) -> Option<&LoaderFacts> {
        self.facts.iter().find(|(path, _)| path == loader).map(|(_, facts)| facts)
    }

    /// Returns the variable that makes the emulator the processor of [`Place::given_facts`].
    pub(crate) fn emulated_cpu(&self) -> Option<(&'static str, &'static str)> {
        let emulator = self.emulator.as_ref()?;
        emulator.ends_with("qemu-arm-static").then_some(("QEMU_CPU", "cortex-a8"))
    }

    /// Returns the facts for a fixed processor that both model and emulator get: glibc 2.36 on
    /// armhf fails an assertion of its own in the middle of its description.
    fn given_facts(&self, loader: &Path) -> Option<LoaderFacts> {
        self.emulated_cpu()?;
        let choice = FactChoice { cpu: Some("armv7-a+neon".into()), ..FactChoice::default() };
        let facts = loader_facts(&self.fs, BStr::new(loader.as_os_str().as_bytes()), &choice);
        facts.ok().map(|facts| LoaderFacts::clone(&facts))
    }

    fn emulated_facts(&self, loader: &Path) -> Option<LoaderFacts> {
        let (root, emulator) = (self.root.as_ref()?, self.emulator.as_ref()?);
        let output = Command::new("/usr/sbin/chroot")
            .args([root, emulator, loader])
            .arg("--list-diagnostics")
            .env_clear()
            .output()
            .ok()?;
        from_diagnostics(&output.stdout.to_str_lossy())
    }
}

/// Returns the reason without the path.
fn why_not(error: &ClosureError) -> String {
    match error {
        ClosureError::Elf { source, .. } => source.to_string(),
        ClosureError::NotLoadable { .. } => "neither a program nor a library".to_owned(),
        ClosureError::Open { .. } | ClosureError::Interpreter { .. } => error.to_string(),
    }
}

/// Returns `count` of the items, selected by a hash of seed and path, in the order of their paths.
pub(crate) fn sample<T>(
    mut items: Vec<T>,
    count: usize,
    seed: u64,
    path: impl Fn(&T) -> &Path,
) -> Vec<T> {
    let draw = |item: &T| {
        let mut hasher = DefaultHasher::new();
        (seed, path(item).as_os_str().as_bytes()).hash(&mut hasher);
        hasher.finish()
    };
    items.sort_by_cached_key(draw);
    items.truncate(count);
    items.sort_by(|one, other| path(one).cmp(path(other)));
    items
}
