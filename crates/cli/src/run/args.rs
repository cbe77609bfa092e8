//! The arguments of `becalm run`.

use std::ffi::OsString;
use std::path::PathBuf;

use becalm_lib::assume::StorePrefixes;
use becalm_lib::run::Options;
use becalm_lib::trees::packed::Check;
use clap::{Args, ValueHint};

/// The flags of `becalm run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The program to run, and its arguments
    #[arg(
        trailing_var_arg = true,
        value_name = "CMD",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub command: Vec<OsString>,

    /// The index to use
    ///
    /// Without it, the default index if the program is in one of its stores; otherwise an index
    /// that is made for this program and kept in the cache directory.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub index: Option<PathBuf>,

    /// Fail instead of starting a dynamic program without an index or the pack; if one must be made,
    /// wait for it (not with --quiet)
    #[arg(long)]
    pub strict: bool,

    /// Print nothing if the program is started without an index (not with --strict)
    #[arg(short, long, conflicts_with = "strict")]
    pub quiet: bool,

    /// Leave symbol bindings to the loader, even if the index has them, and look up nothing ahead
    /// (BECALM=nobind)
    #[arg(long)]
    pub no_bind: bool,

    /// Answer file lookups in indexed packages from the index (BECALM=paths)
    ///
    /// The index must have paths (becalm index --paths). If it does not have the program, or the
    /// interpreter of a script, another index is made and kept in the cache directory: with the
    /// program's bindings, with those of the index's programs if these are fewer than 64, and with
    /// the same paths.
    #[arg(long, conflicts_with = "no_bind")]
    pub paths: bool,

    /// Use the index for this program only: programs that it starts get the environment of becalm
    ///
    /// The audit module takes becalm's additions to LD_AUDIT, GLIBC_TUNABLES and BECALM back out of the
    /// environment before main. /proc/PID/environ still has them.
    #[arg(long)]
    pub only: bool,

    /// Read and look up nothing ahead, and record nothing (BECALM=noahead)
    #[arg(long)]
    pub no_ahead: bool,

    /// Map the relocated pages of libraries from a file that all starts of the program share
    ///
    /// The file is made for the next start, and again after a boot. Until then the program's libraries lie
    /// at the same random addresses in each of its starts (BECALM=nopages).
    #[arg(long, conflicts_with_all = ["no_bind", "paths"])]
    pub share_pages: bool,

    /// Unpack what starts need before the start, once a user and machine (becalm pack)
    ///
    /// Of several starts one unpacks it, and the others wait.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub pack: Option<PathBuf>,

    /// When the files of the pack are compared with the tree
    #[arg(long, value_name = "WHEN", value_enum, requires = "pack", default_value = "start")]
    pub check: Check,

    /// Read the recorded pages of programs ahead, without starting them
    ///
    /// Waits until the pages are in memory: for the end of a boot, the start of a container or the
    /// prolog of a job. CMD and its arguments are then all names of programs; without any, the
    /// programs that are switched on (becalm on). Of a program that was never recorded, the pages that
    /// its loader and constructors use are predicted.
    #[arg(long, conflicts_with_all = ["index", "strict", "quiet", "no_bind", "paths", "only", "no_ahead", "share_pages", "pack", "store"])]
    pub warm: bool,

    /// Read ahead for a start that waits for the disk: the audit module passes its process
    #[arg(long, value_name = "PID", hide = true, conflicts_with = "warm")]
    pub attend: Option<u32>,

    /// Make the ready pages of a program that is switched on: the audit module passes their folder
    #[arg(long, value_name = "FOLDER", hide = true, conflicts_with = "warm")]
    pub make_pages: Option<PathBuf>,

    /// Print a JSON document (only with --warm)
    #[arg(long, requires = "warm")]
    pub json: bool,

    /// The store prefixes, for an index made for the program.
    #[command(flatten)]
    pub store: StorePrefixes,
}

impl RunArgs {
    /// True for a command without options: `becalm run CMD` or `becalm run -- CMD`.
    pub(crate) fn is_plain(&self) -> bool {
        let before = std::env::args_os().len() - self.command.len();
        before == 2 || (before == 3 && std::env::args_os().nth(2).is_some_and(|it| it == "--"))
    }

    /// Returns the library's options for the choice of an index.
    pub(crate) fn options(&self) -> Options {
        Options {
            index: self.index.clone(),
            strict: self.strict,
            store: self.store.clone(),
            paths: self.paths,
            only: self.only,
            ..Options::default()
        }
    }
}
