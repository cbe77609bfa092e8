//! The flags of `becalm elf`. Their names are those of patchelf.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use becalm_core::edit::Edit;
use becalm_host::write::WriteOptions;
use becalm_lib::elf_edits::Changes;
use bstr::{BString, ByteSlice};
use clap::{Args, ValueHint};

use crate::elf::os_abi;

/// The flags of `becalm elf`.
#[derive(Debug, Args)]
#[command(
    version = concat!(env!("CARGO_PKG_VERSION"), ", with the flags of patchelf 0.19.3"),
    arg_required_else_help = true
)]
pub(crate) struct ElfArgs {
    /// Programs and libraries
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,

    /// Set the interpreter (PT_INTERP)
    #[arg(long, alias = "interpreter", value_name = "FILE")]
    pub set_interpreter: Option<OsString>,

    /// Print the interpreter
    #[arg(long)]
    pub print_interpreter: bool,

    /// Set the operating system of the header (EI_OSABI), by a name that --print-os-abi prints
    #[arg(long, value_name = "NAME")]
    pub set_os_abi: Option<OsString>,

    /// Print the operating system of the header
    #[arg(long)]
    pub print_os_abi: bool,

    /// Set the soname of a library (DT_SONAME)
    #[arg(long, value_name = "NAME")]
    pub set_soname: Option<OsString>,

    /// Print the soname
    #[arg(long)]
    pub print_soname: bool,

    /// Set the run path (DT_RUNPATH; an existing DT_RPATH becomes one)
    #[arg(long, visible_alias = "set-runpath", value_name = "DIRS")]
    pub set_rpath: Option<OsString>,

    /// Add directories at the end of the run path; may be repeated
    #[arg(long, value_name = "DIRS")]
    pub add_rpath: Vec<OsString>,

    /// Remove the run path
    #[arg(long)]
    pub remove_rpath: bool,

    /// Keep only the directories of the run path that have a needed library
    #[arg(long)]
    pub shrink_rpath: bool,

    /// With --shrink-rpath: keep only directories that begin with one of these
    #[arg(long, value_name = "A:B")]
    pub allowed_rpath_prefixes: Option<OsString>,

    /// Write DT_RPATH, not DT_RUNPATH
    #[arg(long)]
    pub force_rpath: bool,

    /// Print the run path
    #[arg(long)]
    pub print_rpath: bool,

    /// Add a needed string before the others
    #[arg(long, value_name = "NAME")]
    pub add_needed: Vec<OsString>,

    /// Remove a needed string
    #[arg(long, value_name = "NAME")]
    pub remove_needed: Vec<OsString>,

    /// Replace a needed string, also in the needed versions
    #[arg(long, num_args = 2, value_names = ["OLD", "NEW"])]
    pub replace_needed: Vec<OsString>,

    /// Print the needed strings
    #[arg(long)]
    pub print_needed: bool,

    /// Search neither the loader's cache nor the system directories (DF_1_NODEFLIB)
    #[arg(long)]
    pub no_default_lib: bool,

    /// Remove the version from a dynamic symbol
    #[arg(long, value_name = "SYMBOL")]
    pub clear_symbol_version: Vec<OsString>,

    /// Add DT_DEBUG
    #[arg(long)]
    pub add_debug_tag: bool,

    /// Write the resolution note
    #[arg(long, conflicts_with = "force_rpath")]
    pub build_resolution_cache: bool,

    /// Print whether an executable stack is requested
    #[arg(long)]
    pub print_execstack: bool,

    /// Request an executable stack (PT_GNU_STACK)
    #[arg(long, conflicts_with = "clear_execstack")]
    pub set_execstack: bool,

    /// Request no executable stack
    #[arg(long)]
    pub clear_execstack: bool,

    /// Write the result to this file, and leave the named one as it is
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// The page size that new segments must fit. becalm aligns them to the largest of the machine
    #[arg(long, value_name = "SIZE", value_parser = clap::value_parser!(u64).range(1..))]
    pub page_size: Option<u64>,

    /// No effect: becalm moves no section that would have to be sorted
    #[arg(long)]
    pub no_sort: bool,

    /// No effect: becalm does not overwrite old sections
    #[arg(long)]
    pub no_clobber_old_sections: bool,

    /// No effect
    #[arg(long)]
    pub debug: bool,

    /// Not supported: becalm does not rename symbols
    #[arg(long, value_name = "FILE", hide = true)]
    pub rename_dynamic_symbols: Option<OsString>,

    /// How files are written.
    #[command(flatten)]
    pub writing: WriteOptions,
}

impl ElfArgs {
    /// Returns the changes that the flags ask for.
    ///
    /// # Errors
    /// Returns an error if the file of a value `@FILE` cannot be read, for the name of an unknown
    /// operating system, and for a flag of patchelf that becalm lacks.
    pub(crate) fn changes(&self) -> Result<Changes> {
        if self.rename_dynamic_symbols.is_some() {
            bail!("--rename-dynamic-symbols: becalm does not rename symbols; patchelf does");
        }
        let one = |value: &Option<OsString>| value.as_ref().map(text).transpose();
        let all = |values: &[OsString]| values.iter().map(text).collect::<Result<Vec<_>>>();
        let prefixes = one(&self.allowed_rpath_prefixes)?;
        let prefixes = prefixes.iter().flat_map(|list| list.split_str(":"));
        let added = all(&self.add_rpath)?;
        let os_abi = one(&self.set_os_abi)?.map(|name| os_abi::number(&name)).transpose()?;
        let mut edits: Vec<Edit> = os_abi.map(Edit::OsAbi).into_iter().collect();
        edits.extend(one(&self.set_interpreter)?.map(Edit::Interpreter));
        edits.extend(one(&self.set_soname)?.map(Edit::Soname));
        edits.extend(all(&self.remove_needed)?.into_iter().map(Edit::RemoveNeeded));
        let pair =
            |pair: &[BString]| Edit::ReplaceNeeded { from: pair[0].clone(), to: pair[1].clone() };
        edits.extend(all(&self.replace_needed)?.chunks_exact(2).map(pair));
        edits.extend(all(&self.add_needed)?.into_iter().map(Edit::AddNeeded));
        edits.extend(self.no_default_lib.then_some(Edit::NoDefaultLibraries));
        edits.extend(self.add_debug_tag.then_some(Edit::DebugTag));
        edits.extend(all(&self.clear_symbol_version)?.into_iter().map(Edit::ClearSymbolVersion));
        let sets_stack = self.set_execstack || self.clear_execstack;
        edits.extend(sets_stack.then_some(Edit::ExecutableStack(self.set_execstack)));
        Ok(Changes {
            edits,
            shrink_run_path: self.shrink_rpath,
            allowed_prefixes: prefixes.map(BString::from).collect(),
            remove_run_path: self.remove_rpath,
            run_path: one(&self.set_rpath)?,
            added_run_path: (!added.is_empty()).then(|| bstr::join(":", added).into()),
            force_rpath: self.force_rpath,
            resolution_note: self.build_resolution_cache,
        })
    }
}

/// Returns a value; for `@FILE`, the content of the file.
fn text(value: &OsString) -> Result<BString> {
    match value.as_bytes().strip_prefix(b"@") {
        Some(name) => {
            let path = PathBuf::from(OsString::from_vec(name.to_vec()));
            let content = fs::read(&path);
            let content = content.with_context(|| format!("getting info about {}", path.display()));
            Ok(content?.into())
        }
        None => Ok(value.as_bytes().into()),
    }
}
