//! The order of a start: `dl_main` and `_dl_init_paths` of glibc's `elf/rtld.c` and
//! `elf/dl-load.c`.

use bstr::{BStr, BString, ByteSlice};

use super::map_object::Request;
use super::{Ended, Namespace, Process};
use crate::loader::load::{Answer, Reason, Role, Stop};

/// The system-wide preload list.
const PRELOAD_FILE: &str = "/etc/ld.so.preload";
/// Longest path and file name that `LD_PRELOAD` and `LD_AUDIT` may hold
/// (`SECURE_PATH_LIMIT`; in secure-execution mode `SECURE_NAME_LIMIT`).
const SECURE_PATH_LIMIT: usize = 4096;
const SECURE_NAME_LIMIT: usize = 255;

impl Process<'_> {
    /// Everything up to the program's entry point.
    pub(super) fn start(&mut self) -> Result<(), Ended> {
        self.init_paths()?;
        self.load_audit_modules()?;
        let mut roots = vec![0];
        roots.extend(self.load_preloads()?);
        self.map_object_deps(&roots)
    }

    /// `_dl_init_paths`: `LD_LIBRARY_PATH`, which secure-execution mode ignores.
    fn init_paths(&mut self) -> Result<(), Ended> {
        let environment = self.environment;
        if let Some(path) = &environment.library_path
            && !environment.secure
            && !path.is_empty()
        {
            let is_separator = |byte| byte == b':' || byte == b';';
            self.library_path = self.fill_in(0, path.as_ref(), is_separator)?;
        }
        Ok(())
    }

    /// `LD_AUDIT`, then the program's `DT_AUDIT` and `DT_DEPAUDIT`: each module in a list
    /// of link maps of its own, with its own copies of all that it needs.
    fn load_audit_modules(&mut self) -> Result<(), Ended> {
        let dynamic = self.start.view.dynamic.as_ref();
        let lists = [
            self.environment.audit.clone(),
            dynamic.and_then(|d| d.audit.clone()),
            dynamic.and_then(|d| d.depaudit.clone()),
        ];
        for list in lists.into_iter().flatten() {
            for name in list.split(|&byte| byte == b':') {
                if self.is_valid_name(name) {
                    self.load_audit_module(name.into())?;
                }
            }
        }
        Ok(())
    }

    /// `load_audit_module`: a `dlmopen` made by the loader itself; what fails is said and
    /// passed over.
    fn load_audit_module(&mut self, name: &BStr) -> Result<(), Ended> {
        const LOADER: usize = 1;
        let namespace = self.namespaces.len();
        self.namespaces.push(Namespace::default());
        let resolution = self.ask(LOADER, name, Reason::Audit)?;
        let request = Request { resolution, needed_by: LOADER, role: Role::Audit, namespace };
        let answer = self.map_object(name, request)?;
        self.load.resolutions[resolution].answer = answer.clone();
        let Answer::Loaded(module, _) = answer else { return Ok(()) };
        let stop = self.map_object_deps(&[module]);
        match (stop, &self.load.stop) {
            (Err(Ended), Some(Stop::Refused(_))) => self.load.stop = None,
            (stop, _) => return stop,
        }
        Ok(())
    }

    /// `LD_PRELOAD`, then `/etc/ld.so.preload`; gives the objects loaded.
    fn load_preloads(&mut self) -> Result<Vec<usize>, Ended> {
        let mut names: Vec<BString> = Vec::new();
        if let Some(list) = &self.environment.preload {
            let parts = list.split(|&byte| byte == b' ' || byte == b':');
            names.extend(parts.filter(|name| self.is_valid_name(name)).map(BString::from));
        }
        if let Ok(list) = self.fs.read(PRELOAD_FILE.into()) {
            names.extend(names_of_preload_file(&list));
        }
        let mut loaded = Vec::new();
        for name in names {
            let resolution = self.ask(0, name.as_ref(), Reason::Preload)?;
            let request = Request { resolution, needed_by: 0, role: Role::Preload, namespace: 0 };
            let answer = self.map_object(name.as_ref(), request)?;
            if let Answer::Loaded(object, _) = answer {
                loaded.push(object);
            }
            self.load.resolutions[resolution].answer = answer;
        }
        Ok(loaded)
    }

    /// `dso_name_valid_for_suid`: secure-execution mode takes no path.
    fn is_valid_name(&self, name: &[u8]) -> bool {
        let allowed =
            !self.environment.secure || (name.len() < SECURE_NAME_LIMIT && !name.contains(&b'/'));
        allowed && !name.is_empty() && name.len() < SECURE_PATH_LIMIT
    }
}

/// Names separated by blanks, newlines or colons; `#` starts a comment.
fn names_of_preload_file(list: &[u8]) -> Vec<BString> {
    let mut names = Vec::new();
    for line in list.lines() {
        let text = line.split(|&byte| byte == b'#').next().unwrap_or_default();
        let parts = text.split(|&byte| matches!(byte, b':' | b' ' | b'\t'));
        names.extend(parts.filter(|name| !name.is_empty()).map(BString::from));
    }
    names
}
