//! `becalm env`: the lines that calm a session, and those that undo it.
//!
//! The session's static TLS covers the programs of the index and those that `PATH` names
//! ([`session`]). For a shell the values are those of the environment becalm was started in, with the index
//! put in or taken out; what is installed for later sessions adds to what it finds then.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use becalm_lib::index::file;
use becalm_lib::index::file::Opened;
use becalm_lib::index::variables;
use becalm_lib::index::variables::{AUDIT, NO_BIND, PATHS, STATIC_TLS, SWITCHES, TUNABLES};
use becalm_lib::index::{places, platforms, trust};

use crate::env::args::{Dialect, EnvArgs};
use crate::env::dialects::{self, Given, Unit};
use crate::env::session::{self, Needs};
use crate::exit_code::ExitStatus;
use crate::terminal::{self, Stdout};

/// Values that the lines set.
struct Wanted {
    /// The element of `LD_AUDIT`.
    module: OsString,
    /// The static TLS of the session.
    static_tls: u64,
    /// A switch of the module: what is left to the loader, or answered beyond it.
    switch: Option<&'static str>,
}

impl Wanted {
    fn given(&self) -> Given<'_> {
        let Self { module, static_tls, switch } = self;
        Given { module, static_tls: *static_tls, switch: *switch }
    }
}

/// Prints the lines.
///
/// # Errors
/// Where there is no index, or it is none.
pub(crate) fn run(args: &EnvArgs) -> Result<ExitStatus> {
    let wanted = wanted(args)?;
    let given = wanted.given();
    let text = match (args.reader(), args.undo) {
        (Dialect::Sh, undo) => shell(&wanted, undo, sh_line),
        (Dialect::Csh, undo) => shell(&wanted, undo, dialects::csh_line),
        (Dialect::Lmod, false) => dialects::lmod(given),
        (Dialect::Tcl, false) => dialects::tcl(given),
        (Dialect::Lmod | Dialect::Tcl, true) => "module unload becalm\n".to_owned(),
        (Dialect::Dockerfile, false) => dialects::dockerfile(given),
        (Dialect::Dockerfile, true) => "# take the ENV lines out of the Dockerfile\n".to_owned(),
        (Dialect::UpdateService, false) => update_unit(&wanted, Unit::Service)?,
        (Dialect::UpdateTimer, false) => update_unit(&wanted, Unit::Timer)?,
        (Dialect::UpdatePath, false) => update_unit(&wanted, Unit::Path)?,
        (Dialect::UpdateService | Dialect::UpdateTimer | Dialect::UpdatePath, true) => "\
systemctl disable --now becalm-update.timer becalm-update.path
rm /etc/systemd/system/becalm-update.service /etc/systemd/system/becalm-update.timer
rm /etc/systemd/system/becalm-update.path
systemctl daemon-reload
"
        .to_owned(),
        (Dialect::Fish, undo) => shell(&wanted, undo, fish_line),
        (Dialect::ProfileD, false) => profile(&wanted),
        (Dialect::Systemd, false) => systemd(&wanted),
        (Dialect::Nixos, false) => nixos(&wanted),
        (Dialect::ProfileD, true) => {
            "rm /etc/profile.d/becalm.sh\n# then log in again\n".to_owned()
        }
        (Dialect::Systemd, true) => "\
rm /etc/systemd/system.conf.d/becalm.conf /etc/systemd/user.conf.d/becalm.conf
systemctl daemon-reexec
# running services keep their environment until they are restarted
"
        .to_owned(),
        (Dialect::Nixos, true) => {
            "# take the module out of your configuration, then: nixos-rebuild switch\n".to_owned()
        }
    };
    let mut out = Stdout::new();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(ExitStatus::Fine)
}

fn wanted(args: &EnvArgs) -> Result<Wanted> {
    let of_session = || args.undo.then(index_of_session).flatten();
    let path = args.index.clone().or_else(of_session).or_else(places::found);
    // What undoes is wanted most where the index is gone or damaged.
    let path = path.or_else(|| places::own().filter(|_| args.undo));
    let Some(path) = path else {
        let Some(own) = places::own() else {
            bail!(
                "HOME is not set, so no index of this user can be found, and there is none at {}; \
                 --index FILE names one",
                places::SYSTEM
            );
        };
        bail!("no index at {}; becalm index STORE... makes one", own.display());
    };
    let needs = || match args.static_tls {
        Some(bytes) => Needs::given(bytes),
        None => Needs::of_path(is_for_all(args.reader())),
    };
    match file::open(&path) {
        Ok(index) => {
            if !args.undo && is_for_all(args.reader()) {
                check_for_all(&index)?;
            }
            let needs = needs();
            let static_tls = needs.value(Some(&index))?;
            if args.paths && !args.undo && !index.index.has_paths() {
                bail!("{}: the index has no paths; becalm index --paths adds them", path.display());
            }
            if !args.undo {
                crate::terminal::tell_of_age(&index);
                warn_of(&index, static_tls)?;
                needs.warn(&index, static_tls)?;
            }
            let switch = switch(args);
            Ok(Wanted { module: platforms::audit_path(&index), static_tls, switch })
        }
        Err(_) if args.undo => {
            let static_tls = needs().value(None)?;
            let module = std::path::absolute(path)?.into();
            Ok(Wanted { module, static_tls, switch: switch(args) })
        }
        Err(error) => Err(error.into()),
    }
}

/// A unit that keeps the index up to date by this becalm.
fn update_unit(wanted: &Wanted, unit: Unit) -> Result<String> {
    let becalm = env::current_exe().context("the path of becalm is not known")?;
    let path = platforms::index_of(&wanted.module);
    let index = file::open(&path)?;
    let roots = index.index.roots().with_context(|| path.display().to_string())?;
    let stores: Vec<String> = roots.iter().map(ToString::to_string).collect();
    if unit == Unit::Path && stores.is_empty() {
        bail!("{}: an index without stores: no directory shows that files change", path.display());
    }
    Ok(dialects::unit(unit, &becalm, &path, &stores))
}

fn switch(args: &EnvArgs) -> Option<&'static str> {
    args.no_bind.then_some(NO_BIND).or(args.paths.then_some(PATHS))
}

/// The index that this session uses: the first module of `LD_AUDIT` that is one.
fn index_of_session() -> Option<PathBuf> {
    variables::indexes(env::var_os(AUDIT).as_deref()).find(|path| file::open(path).is_ok())
}

/// True for what programs of other users will read.
fn is_for_all(dialect: Dialect) -> bool {
    match dialect {
        // A user's own module file, or a unit for the index as it is.
        Dialect::Sh | Dialect::Csh | Dialect::Fish | Dialect::Lmod | Dialect::Tcl => false,
        Dialect::UpdateService | Dialect::UpdateTimer | Dialect::UpdatePath => false,
        Dialect::Systemd | Dialect::Nixos | Dialect::ProfileD | Dialect::Dockerfile => true,
    }
}

/// The loader of a program whose user cannot read the index says so on stderr at every start; one
/// that follows another user's index gives that user its rights.
fn check_for_all(index: &Opened) -> Result<()> {
    trust::check_for_all(&index.path).map_err(|why| {
        let dir = Path::new(places::SYSTEM).parent().filter(|dir| !dir.is_dir());
        let make_dir = dir.map_or(String::new(), |dir| format!("mkdir -p {} && ", dir.display()));
        anyhow!(
            "{}: not for the programs of all users: {why}; as root, make one for all with \
             {make_dir}becalm index STORE... -o {}",
            index.path.display(),
            places::SYSTEM
        )
    })
}

/// Names the programs of the index that do not start in the session. No module can help those that
/// want an alignment: the loader lays out static TLS before it asks one.
fn warn_of(index: &Opened, session: u64) -> Result<()> {
    let needs = index.index.static_tls_of_all();
    for (program, need) in needs.with_context(|| index.path.display().to_string())? {
        if u64::from(need) > session {
            let what = format!(
                "may not start in this session: its libraries take {need} bytes of static TLS; \
                 becalm run starts it, as does becalm env --static-tls {need}"
            );
            terminal::note(program.as_ref(), &what);
        }
    }
    let programs = index.index.no_start().with_context(|| index.path.display().to_string())?;
    for program in &programs {
        terminal::note(program.as_ref(), session::NO_START);
    }
    Ok(())
}

/// One line of a shell: a variable's new value, or `None` to unset it.
type Line = fn(&str, Option<&OsStr>) -> String;

fn shell(wanted: &Wanted, undo: bool, line: Line) -> String {
    let now = |name: &str| env::var_os(name);
    let (audit, tunables) = (now(AUDIT), now(TUNABLES));
    let mut text = String::new();
    if undo {
        let index = platforms::index_of(&wanted.module);
        let left = variables::without_index(audit.as_deref(), &index);
        text.push_str(&line(AUDIT, left.as_deref()));
        let left = variables::without_static_tls(tunables.as_deref(), wanted.static_tls);
        text.push_str(&line(TUNABLES, left.as_deref()));
        let switches = now(SWITCHES);
        if switches.is_some() {
            let left = variables::without_switch(switches.as_deref(), NO_BIND);
            let left = variables::without_switch(left.as_deref(), PATHS);
            text.push_str(&line(SWITCHES, left.as_deref()));
        }
        return text;
    }
    let with = variables::with_module(audit.as_deref(), &wanted.module);
    text.push_str(&line(AUDIT, Some(&with)));
    let with = variables::with_static_tls(tunables.as_deref(), wanted.static_tls);
    text.push_str(&line(TUNABLES, Some(&with)));
    if let Some(switch) = wanted.switch {
        let with = variables::with_switch(now(SWITCHES).as_deref(), switch);
        text.push_str(&line(SWITCHES, Some(&with)));
    }
    text
}

fn sh_line(name: &str, value: Option<&OsStr>) -> String {
    match value {
        Some(value) => format!("export {name}={}\n", quoted(value)),
        None => format!("unset {name}\n"),
    }
}

fn fish_line(name: &str, value: Option<&OsStr>) -> String {
    match value {
        // In single quotes fish takes a backslash and a quote with a backslash before them.
        Some(value) => {
            let text = value.to_string_lossy().replace('\\', "\\\\").replace('\'', "\\'");
            format!("set -gx {name} '{text}'\n")
        }
        None => format!("set -e {name}\n"),
    }
}

/// In single quotes for a POSIX shell.
fn quoted(text: &OsStr) -> String {
    format!("'{}'", text.to_string_lossy().replace('\'', "'\\''"))
}

/// Adds to what other files of the folder have set, once.
fn profile(wanted: &Wanted) -> String {
    let module = quoted(&wanted.module);
    let index = quoted(platforms::index_of(&wanted.module).as_os_str());
    let mut text = format!(
        "# /etc/profile.d/becalm.sh: programs find their libraries by becalm's index\n\
         if [ -r {index} ]; then\n\
         \x20 becalm_module={module}\n\
         \x20 case \":${{{AUDIT}-}}:\" in\n\
         \x20   *\":$becalm_module:\"*) ;;\n\
         \x20   *) export {AUDIT}=\"${{{AUDIT}:+${AUDIT}:}}$becalm_module\" ;;\n\
         \x20 esac\n\
         \x20 unset becalm_module\n"
    );
    text.push_str(&format!(
        "\x20 case \":${{{TUNABLES}-}}:\" in\n\
         \x20   *:{STATIC_TLS}=*) ;;\n\
         \x20   *) export {TUNABLES}=\"${{{TUNABLES}:+${TUNABLES}:}}{STATIC_TLS}={}\" ;;\n\
         \x20 esac\n",
        wanted.static_tls
    ));
    if let Some(switch) = wanted.switch {
        text.push_str(&format!(
            "\x20 export {SWITCHES}=\"${{{SWITCHES}:+${SWITCHES},}}{switch}\"\n"
        ));
    }
    text.push_str("fi\n");
    text
}

/// `man 5 systemd-system.conf`: quotes and percent signs mean something there, a dollar sign
/// does not.
fn systemd(wanted: &Wanted) -> String {
    let value = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    let module = value(&wanted.module.to_string_lossy());
    let static_tls = wanted.static_tls;
    let mut assignments = format!("\"{AUDIT}={module}\" \"{TUNABLES}={STATIC_TLS}={static_tls}\"");
    if let Some(switch) = wanted.switch {
        assignments.push_str(&format!(" \"{SWITCHES}={switch}\""));
    }
    format!(
        "# /etc/systemd/user.conf.d/becalm.conf for user services and sessions,\n\
         # /etc/systemd/system.conf.d/becalm.conf for system services; then: systemctl daemon-reexec\n\
         # One service alone: systemctl edit NAME, with [Service] and Environment= instead.\n\
         [Manager]\n\
         DefaultEnvironment={assignments}\n"
    )
}

/// Returns the lines for NixOS. A shell reads the values in double quotes, so they are escaped for
/// that.
fn nixos(wanted: &Wanted) -> String {
    let in_shell = |text: &str| {
        let mut escaped = String::new();
        for c in text.chars() {
            if matches!(c, '\\' | '"' | '$' | '`') {
                escaped.push('\\');
            }
            escaped.push(c);
        }
        escaped
    };
    let in_nix = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace("${", "\\${");
    let module = in_nix(&in_shell(&wanted.module.to_string_lossy()));
    let switches = if let Some(switch) = wanted.switch {
        format!("\x20 environment.variables.{SWITCHES} = \"{switch}\";\n")
    } else {
        String::new()
    };
    format!(
        "# A NixOS module; make the index anew after each rebuild (becalm index --update).\n\
         {{\n  environment.variables.{AUDIT} = \"{module}\";\n\
         \x20 environment.variables.{TUNABLES} = \"{STATIC_TLS}={}\";\n{switches}}}\n",
        wanted.static_tls
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Wanted {
        Wanted { module: "/i/it's.so.d/$PLATFORM".into(), static_tls: 4096, switch: None }
    }

    #[test]
    fn shells_take_the_path_literally() {
        assert_eq!(
            sh_line(AUDIT, Some(&wanted().module)),
            "export LD_AUDIT='/i/it'\\''s.so.d/$PLATFORM'\n"
        );
        assert_eq!(
            fish_line(AUDIT, Some(&wanted().module)),
            "set -gx LD_AUDIT '/i/it\\'s.so.d/$PLATFORM'\n"
        );
        assert_eq!((sh_line(AUDIT, None), fish_line(AUDIT, None)).0, "unset LD_AUDIT\n");
    }

    #[test]
    fn nixos_keeps_the_token_from_its_shells() {
        let text = nixos(&wanted());
        assert!(text.contains("/i/it's.so.d/\\\\$PLATFORM\""), "{text}");
        assert!(text.contains("glibc.rtld.optional_static_tls=4096"), "{text}");
    }

    /// A shell reads what Nix makes of the string, as it reads NixOS's `set-environment`.
    #[test]
    fn a_shell_on_nixos_gets_the_path_with_the_token() {
        let text = nixos(&wanted());
        let line = text.lines().find(|line| line.contains(AUDIT)).expect("a line");
        let string = line.split_once(" = \"").expect("a string").1.trim_end_matches("\";");
        // In a Nix string a backslash stands before a character that is meant literally.
        let mut characters = string.chars();
        let mut value = String::new();
        while let Some(c) = characters.next() {
            value.push(if c == '\\' { characters.next().expect("a character") } else { c });
        }
        let script = format!("export {AUDIT}=\"{value}\"; printf %s \"${AUDIT}\"");
        let mut sh = std::process::Command::new("sh");
        // The shell itself is not to be audited.
        let ran = sh.env_remove(AUDIT).args(["-c", &script]).output().expect("sh runs");
        assert_eq!(String::from_utf8_lossy(&ran.stdout), wanted().module.to_string_lossy());
    }

    #[test]
    fn systemd_has_both_variables_on_one_line() {
        let text = systemd(&wanted());
        let line = text.lines().last().expect("lines");
        assert_eq!(
            line,
            "DefaultEnvironment=\"LD_AUDIT=/i/it's.so.d/$PLATFORM\" \
             \"GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096\""
        );
    }
}
