//! The order of a start: `dl_main` of glibc's `elf/rtld.c`, with `_dl_init_paths` of
//! `elf/dl-load.c`.

use bstr::{BStr, BString, ByteSlice};

use super::open_path::Request;
use super::{Namespace, Process};
use crate::loader::load::{Answer, Ended, Reason, Role, Stop};

/// The system-wide preload list.
const PRELOAD_FILE: &str = "/etc/ld.so.preload";
/// The limits on a name in `LD_PRELOAD` or `LD_AUDIT`: `SECURE_PATH_LIMIT` always,
/// `SECURE_NAME_LIMIT` as well in secure-execution mode.
const SECURE_PATH_LIMIT: usize = 4096;
const SECURE_NAME_LIMIT: usize = 255;

impl Process<'_> {
    /// Follows `dl_main` up to the program's entry point.
    pub(super) fn start(&mut self) -> Result<(), Ended> {
        // `_dl_handle_execstack_tunable`.
        if self.facts.no_exec_stack && self.start.subject.view.needs_exec_stack() {
            return Err(Stop::ExecStack.into());
        }
        self.init_paths()?;
        // Audit modules load first, so that they see every later object.
        self.load_audit_modules()?;
        // The symbol lookup of `_dl_map_object_deps` starts with the program and the preloads.
        let mut roots = vec![0];
        // `_dl_map_object_deps` gets the preloads as an argument and appends them after the
        // program, before any dependency of the program.
        roots.extend(self.load_preloads()?);
        self.map_object_deps(&roots)
    }

    /// `_dl_init_paths`: splits `LD_LIBRARY_PATH` into directories. `process_envvars` ignores the
    /// variable in secure-execution mode.
    fn init_paths(&mut self) -> Result<(), Ended> {
        let environment = self.environment;
        if let Some(path) = &environment.library_path
            && !environment.secure
            // `_dl_init_paths` ignores an empty variable. Only an empty element of a longer value
            // is the current directory.
            && !path.is_empty()
        {
            // Only this path takes semicolons too; run paths have colons alone.
            let is_separator = |byte| byte == b':' || byte == b';';
            self.library_path = self.fill_in(0, path.as_ref(), is_separator)?;
        }
        Ok(())
    }

    /// Loads the modules of `LD_AUDIT`, then those of the program's `DT_AUDIT` and
    /// `DT_DEPAUDIT` (`load_audit_modules`). Each module has a list of link maps of its own, with
    /// its own copies of the libraries it needs.
    fn load_audit_modules(&mut self) -> Result<(), Ended> {
        let dynamic = self.start.subject.view.dynamic.as_ref();
        let lists = [
            self.environment.audit.clone(),
            // `audit_list_add_dynamic_tag` appends these after the names of `LD_AUDIT`.
            dynamic.and_then(|d| d.audit.clone()),
            dynamic.and_then(|d| d.depaudit.clone()),
        ];
        for list in lists.into_iter().flatten() {
            // `audit_list_next` splits at colons alone, unlike `LD_PRELOAD`.
            for name in list.split(|&byte| byte == b':') {
                if self.is_valid_name(name) {
                    self.load_audit_module(name.into())?;
                }
            }
        }
        Ok(())
    }

    /// `load_audit_module`: a `dlmopen` by the loader. If it fails, the loader prints the error
    /// and continues.
    fn load_audit_module(&mut self, name: &BStr) -> Result<(), Ended> {
        const LOADER: usize = 1;
        // `LM_ID_NEWLM`: each module gets a new list, so that two modules share no library.
        let namespace = self.namespaces.len();
        self.namespaces.push(Namespace::default());
        let resolution = self.load.begin(LOADER, name.to_owned(), Reason::Audit)?;
        let request = Request { name, resolution, needed_by: LOADER, role: Role::Audit, namespace };
        let answer = self.map_object(request)?;
        self.load.resolutions[resolution].answer = answer.clone();
        // `load_audit_module` prints the error and returns: the program starts without the module.
        let Answer::Loaded(module, _) = answer else { return Ok(()) };
        match self.map_object_deps(&[module]) {
            // `_dl_catch_error` around `dlmopen_doit` catches the errors that end a program.
            // The limits of becalm are no errors of the loader and still end the prediction.
            Err(Ended::Start(Stop::Refused(_))) => Ok(()),
            done => done,
        }
    }

    /// Loads the preloads of `LD_PRELOAD` and of `/etc/ld.so.preload`, in this order, and returns
    /// the indices of those that loaded.
    fn load_preloads(&mut self) -> Result<Vec<usize>, Ended> {
        let mut names: Vec<BString> = Vec::new();
        // `handle_preload_list`.
        if let Some(list) = &self.environment.preload {
            // A tab or a newline is a part of a name here, unlike in the preload file (`strcspn (p,
            // " :")`).
            let parts = list.split(|&byte| byte == b' ' || byte == b':');
            names.extend(parts.filter(|name| self.is_valid_name(name)).map(BString::from));
        }
        // Only root writes this file: its names need no check in secure-execution mode.
        names.extend(self.preload_file());
        let mut loaded = Vec::new();
        for name in names {
            // `do_preload` passes the program as `loader`: a preload without a slash is searched
            // for along the program's `DT_RPATH` or `DT_RUNPATH`.
            let (name, role) = (name.as_ref(), Role::Preload);
            let resolution = self.load.begin(0, BStr::to_owned(name), Reason::Preload)?;
            let request = Request { name, resolution, needed_by: 0, role, namespace: 0 };
            let answer = self.map_object(request)?;
            // `do_preload` warns about a preload that fails. It counts only new objects.
            if let Answer::Loaded(object, _) = answer {
                loaded.push(object);
            }
            self.load.resolutions[resolution].answer = answer;
        }
        Ok(loaded)
    }

    /// Parses the names in `/etc/ld.so.preload`. Blanks, newlines and colons separate them, and `#`
    /// starts a comment.
    fn preload_file(&self) -> Vec<BString> {
        let list = self.fs.read(PRELOAD_FILE.into()).unwrap_or_default();
        // `dl_main` overwrites a comment with blanks. It may begin in the middle of a line.
        let texts = list.lines().filter_map(|line| line.split(|&byte| byte == b'#').next());
        let names = texts.flat_map(|text| text.split(|&it| matches!(it, b':' | b' ' | b'\t')));
        names.filter(|name| !name.is_empty()).map(BString::from).collect()
    }

    /// `dso_name_valid_for_suid`: secure-execution mode rejects paths and long names.
    fn is_valid_name(&self, name: &[u8]) -> bool {
        let allowed =
            !self.environment.secure || (name.len() < SECURE_NAME_LIMIT && !name.contains(&b'/'));
        allowed && !name.is_empty() && name.len() < SECURE_PATH_LIMIT
    }
}
