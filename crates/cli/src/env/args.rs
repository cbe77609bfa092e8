//! The arguments of `becalm env`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};

/// The flags of `becalm env`.
#[derive(Debug, Args)]
pub(crate) struct EnvArgs {
    /// The index to use; without it the default one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub index: Option<PathBuf>,

    /// Shell or tool that reads the lines
    #[arg(long = "for", value_name = "WHAT", default_value = "sh")]
    pub dialect: Dialect,

    /// Print lines for a shell: the same as --for with its name
    #[arg(long, value_name = "SHELL", conflicts_with = "dialect", value_parser = shell())]
    pub shell: Option<Dialect>,

    /// Bytes of static TLS for the libraries of every program
    ///
    /// Without it, 4096, or more if the libraries of LD_PRELOAD need more: threads with the smallest
    /// stack keep half of it. A higher value takes the rest, because each thread's stack contains it.
    #[arg(long, value_name = "BYTES")]
    pub static_tls: Option<u64>,

    /// Leave symbol bindings to the loader (BECALM=nobind)
    #[arg(long)]
    pub no_bind: bool,

    /// Answer file lookups in indexed packages from the index (BECALM=paths)
    #[arg(long, conflicts_with = "no_bind")]
    pub paths: bool,

    /// Read pages ahead of cold starts, and record them (BECALM=ahead:PATH)
    ///
    /// If a start waits for the disk, the audit module starts this becalm beside it, which requests the
    /// recorded pages of the program. A start that does not wait costs up to ten system calls more.
    #[arg(long)]
    pub ahead: bool,

    /// Print the lines that undo the setup instead
    ///
    /// Removes every index of becalm from the session; with --index only that one. Without --index,
    /// elements of LD_AUDIT whose file does not exist are removed too, and printed on stderr. The
    /// switches and the tunable stay while an index is left. A smaller value of the tunable that was
    /// set before counts again; a value that equals becalm's is removed.
    #[arg(long)]
    pub undo: bool,

    /// Write one JSON object with the values instead, schema becalm/env/1
    ///
    /// `variables` are those to change in the environment that becalm was started in.
    #[arg(long, conflicts_with_all = ["dialect", "shell"])]
    pub json: bool,
}

/// The shells and tools that read the lines of `becalm env`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dialect {
    /// A POSIX shell: eval "$(becalm env)".
    Sh,
    /// csh and tcsh: eval "`becalm env --for csh`".
    Csh,
    /// fish: becalm env --for fish | source.
    Fish,
    /// A module file of Lmod (Lua).
    Lmod,
    /// A module file of Environment Modules (Tcl).
    Tcl,
    /// ENV lines of a Dockerfile.
    Dockerfile,
    /// A drop-in for a service or for a manager of services.
    Systemd,
    /// A NixOS module.
    Nixos,
    /// A file below /etc/profile.d, for every login shell.
    #[value(name = "profile.d")]
    ProfileD,
    /// A systemd service that updates the index.
    #[value(name = "update.service")]
    UpdateService,
    /// A systemd timer that starts that service each day.
    #[value(name = "update.timer")]
    UpdateTimer,
    /// A systemd path unit that starts it when packages are added or removed.
    #[value(name = "update.path")]
    UpdatePath,
}

impl Dialect {
    /// Returns true for lines that programs of other users will read.
    pub(crate) fn is_for_all(self) -> bool {
        // The others are for a shell, a user's own module file, or a unit for an existing index.
        matches!(self, Self::Systemd | Self::Nixos | Self::ProfileD | Self::Dockerfile)
    }
}

/// Parses the name of a shell.
fn shell() -> impl TypedValueParser<Value = Dialect> {
    let shells = [("sh", "A POSIX shell"), ("csh", "csh or tcsh"), ("fish", "fish")];
    let values = shells.map(|(name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(values).try_map(|name| Dialect::from_str(&name, false))
}
