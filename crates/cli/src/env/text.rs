//! The lines of `becalm env` for each shell or tool.
//!
//! For a shell, the values are those of becalm's own environment with the index added or removed.
//! Lines that are installed for later sessions extend the values of those sessions.

use std::env;
use std::ffi::OsStr;

use anyhow::{Context, Result, bail};
use becalm_lib::env::{Report, stores};
use becalm_lib::index::platforms;
use becalm_lib::index::variables::{AUDIT, STATIC_TLS, SWITCHES, Settings, TUNABLES};

use crate::env::args::Dialect;
use crate::env::dialects::{self, assignments, escaped};

/// Returns the lines that give a session the index.
///
/// # Errors
/// Returns an error if a unit cannot name this becalm or has no directory to watch.
pub(crate) fn lines(report: &Report, reader: Dialect) -> Result<String> {
    let settings = &report.settings;
    Ok(match reader {
        Dialect::Sh | Dialect::Csh | Dialect::Fish => shell(report, reader),
        Dialect::Lmod => dialects::lmod(settings),
        Dialect::Tcl => dialects::tcl(settings),
        Dialect::Dockerfile => dialects::dockerfile(settings),
        Dialect::Systemd => systemd(settings),
        Dialect::Nixos => nixos(settings),
        Dialect::ProfileD => profile(settings),
        Dialect::UpdateService | Dialect::UpdateTimer | Dialect::UpdatePath => {
            update_unit(report, reader)?
        }
    })
}

/// Returns the lines that undo [`lines`].
pub(crate) fn undoing_lines(report: &Report, reader: Dialect) -> String {
    let text = match reader {
        Dialect::Sh | Dialect::Csh | Dialect::Fish => return shell(report, reader),
        Dialect::Lmod | Dialect::Tcl => "module unload becalm\n",
        Dialect::Dockerfile => "# take the ENV lines out of the Dockerfile\n",
        Dialect::UpdateService | Dialect::UpdateTimer | Dialect::UpdatePath => {
            "\
systemctl disable --now becalm-update.timer becalm-update.path
rm /etc/systemd/system/becalm-update.service /etc/systemd/system/becalm-update.timer
rm /etc/systemd/system/becalm-update.path
systemctl daemon-reload
"
        }
        Dialect::ProfileD => "rm /etc/profile.d/becalm.sh\n# then log in again\n",
        Dialect::Systemd => {
            "\
rm /etc/systemd/system.conf.d/becalm.conf /etc/systemd/user.conf.d/becalm.conf
systemctl daemon-reexec
# running services keep their environment until they are restarted
"
        }
        Dialect::Nixos => {
            "# take the module out of your configuration, then: nixos-rebuild switch\n"
        }
    };
    text.to_owned()
}

/// Returns a unit that keeps the index up to date with this becalm.
fn update_unit(report: &Report, unit: Dialect) -> Result<String> {
    let becalm = env::current_exe().context("the path of becalm is not known")?;
    let (index, stores) = (&report.index, stores(&report.index)?);
    if unit == Dialect::UpdatePath && stores.is_empty() {
        bail!("{}: an index without stores: no directory shows that files change", index.display());
    }
    let stores: Vec<String> = stores.iter().map(ToString::to_string).collect();
    Ok(dialects::unit(unit, &becalm, index, &stores))
}

/// Writes a line for each variable that changes.
fn shell(report: &Report, reader: Dialect) -> String {
    report.variables.iter().map(|it| shell_line(reader, it.name, it.value.as_deref())).collect()
}

fn shell_line(reader: Dialect, name: &str, value: Option<&OsStr>) -> String {
    match (reader, value) {
        // Each line ends with a semicolon: eval "`becalm env --shell csh`" joins them. History is replaced in
        // single quotes too.
        (Dialect::Csh, None) => format!("unsetenv {name};\n"),
        (Dialect::Csh, Some(value)) => {
            format!("setenv {name} {};\n", quoted(value).replace('!', "\\!"))
        }
        (Dialect::Fish, None) => format!("set -e {name}\n"),
        // In single quotes, fish interprets only a backslash before a backslash or a quote.
        (Dialect::Fish, Some(value)) => {
            format!("set -gx {name} '{}'\n", escaped(&value.to_string_lossy(), &['\\', '\'']))
        }
        (_, None) => format!("unset {name}\n"),
        (_, Some(value)) => format!("export {name}={}\n", quoted(value)),
    }
}

/// Quotes text with single quotes for a POSIX shell.
fn quoted(text: &OsStr) -> String {
    format!("'{}'", text.to_string_lossy().replace('\'', "'\\''"))
}

/// Returns lines that extend the values that other files of the folder have set, once.
fn profile(settings: &Settings) -> String {
    let module = quoted(&settings.module);
    let index = quoted(platforms::index_of(&settings.module).as_os_str());
    let switch = settings.switch.as_ref().map(|switch| {
        format!(
            "\x20 case \",${{{SWITCHES}-}},\" in\n\
             \x20   *,{switch},*) ;;\n\
             \x20   *) export {SWITCHES}=\"${{{SWITCHES}:+${SWITCHES},}}{switch}\" ;;\n\
             \x20 esac\n"
        )
    });
    format!(
        "# /etc/profile.d/becalm.sh: programs find their libraries by becalm's index\n\
         if [ -r {index} ]; then\n\
         \x20 becalm_module={module}\n\
         \x20 case \":${{{AUDIT}-}}:\" in\n\
         \x20   *\":$becalm_module:\"*) ;;\n\
         \x20   *) export {AUDIT}=\"${{{AUDIT}:+${AUDIT}:}}$becalm_module\" ;;\n\
         \x20 esac\n\
         \x20 unset becalm_module\n{}{}fi\n",
        profile_static_tls(settings.static_tls),
        switch.unwrap_or_default()
    )
}

/// Returns lines that raise a smaller value of the tunable. The last value of a list counts, and is
/// hexadecimal after `0x`, octal after `0`, else decimal, as in shell arithmetic. Text that is no
/// number counts as 0; a number too long for the arithmetic is large enough.
fn profile_static_tls(bytes: u64) -> String {
    format!(
        "\x20 case \":${{{TUNABLES}-}}\" in\n\
         \x20   *:{STATIC_TLS}=*) becalm_tls=${{{TUNABLES}##*{STATIC_TLS}=}} ;;\n\
         \x20   *) becalm_tls=0 ;;\n\
         \x20 esac\n\
         \x20 becalm_tls=${{becalm_tls%%:*}}\n\
         \x20 case \"$becalm_tls\" in\n\
         \x20   0[xX] | 0[xX]*[!0-9a-fA-F]*) becalm_tls=0 ;;\n\
         \x20   0[xX]*) ;;\n\
         \x20   '' | *[!0-9]* | 0*[89]*) becalm_tls=0 ;;\n\
         \x20 esac\n\
         \x20 case \"$becalm_tls\" in\n\
         \x20   ?????????????????*) ;;\n\
         \x20   *) if [ \"$(($becalm_tls))\" -lt {bytes} ]; then\n\
         \x20     export {TUNABLES}=\"${{{TUNABLES}:+${TUNABLES}:}}{STATIC_TLS}={bytes}\"\n\
         \x20   fi ;;\n\
         \x20 esac\n\
         \x20 unset becalm_tls\n"
    )
}

/// Returns the lines of `man 5 systemd-system.conf`: quotes and percent signs are escaped, a dollar
/// sign is literal.
fn systemd(settings: &Settings) -> String {
    let value = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    let all = assignments(settings, value);
    let all: Vec<String> = all.iter().map(|(name, value)| format!("\"{name}={value}\"")).collect();
    format!(
        "# /etc/systemd/user.conf.d/becalm.conf for user services and sessions,\n\
         # /etc/systemd/system.conf.d/becalm.conf for system services; then: systemctl daemon-reexec\n\
         # One service alone: systemctl edit NAME, with [Service] and Environment= instead.\n\
         [Manager]\n\
         DefaultEnvironment={}\n",
        all.join(" ")
    )
}

/// Returns the lines for NixOS. A shell reads the values in double quotes, so they are escaped for
/// that.
fn nixos(settings: &Settings) -> String {
    let in_shell = |text: &str| escaped(text, &['\\', '"', '$', '`']);
    let in_nix = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace("${", "\\${");
    let all = assignments(settings, |module| in_nix(&in_shell(module)));
    let line = |(name, value)| format!("\x20 environment.variables.{name} = \"{value}\";\n");
    let lines: String = all.into_iter().map(line).collect();
    format!(
        "# A NixOS module; make the index anew after each rebuild (becalm index --update).\n\
         {{\n{lines}}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings { module: "/i/it's.so.d/$PLATFORM".into(), static_tls: 4096, switch: None }
    }

    #[test]
    fn shells_take_the_path_literally() {
        assert_eq!(
            shell_line(Dialect::Sh, AUDIT, Some(&settings().module)),
            "export LD_AUDIT='/i/it'\\''s.so.d/$PLATFORM'\n"
        );
        assert_eq!(
            shell_line(Dialect::Fish, AUDIT, Some(&settings().module)),
            "set -gx LD_AUDIT '/i/it\\'s.so.d/$PLATFORM'\n"
        );
        assert_eq!(shell_line(Dialect::Sh, AUDIT, None), "unset LD_AUDIT\n");
        assert_eq!(shell_line(Dialect::Fish, AUDIT, None), "set -e LD_AUDIT\n");
    }

    #[test]
    fn nixos_keeps_the_token_from_its_shells() {
        let text = nixos(&settings());
        assert!(text.contains("/i/it's.so.d/\\\\$PLATFORM\""), "{text}");
        assert!(text.contains("glibc.rtld.optional_static_tls=4096"), "{text}");
    }

    /// A shell reads what Nix makes of the string, as it reads NixOS's `set-environment`.
    #[test]
    fn a_shell_on_nixos_gets_the_path_with_the_token() {
        let text = nixos(&settings());
        let line = text.lines().find(|line| line.contains(AUDIT)).expect("a line");
        let string = line.split_once(" = \"").expect("a string").1.trim_end_matches("\";");
        // In a Nix string, a backslash precedes a character that is meant literally.
        let mut characters = string.chars();
        let mut value = String::new();
        while let Some(c) = characters.next() {
            value.push(if c == '\\' { characters.next().expect("a character") } else { c });
        }
        let script = format!("export {AUDIT}=\"{value}\"; printf %s \"${AUDIT}\"");
        let mut sh = std::process::Command::new("sh");
        // The shell itself must not load the audit module.
        let ran = sh.env_remove(AUDIT).args(["-c", &script]).output().expect("sh runs");
        assert_eq!(String::from_utf8_lossy(&ran.stdout), settings().module.to_string_lossy());
    }

    /// Returns `GLIBC_TUNABLES` and `BECALM` after a shell has read the file twice.
    fn sourced(shell: &str, tunables: Option<&str>) -> String {
        // The file must exist. Nothing is started while LD_AUDIT names it.
        let module = "/dev/null".into();
        let text =
            profile(&Settings { module, static_tls: 8192, switch: Some("nobind".to_owned()) });
        // The shell itself must start, whatever the value.
        let set =
            tunables.map(|value| format!("export {TUNABLES}='{value}'\n")).unwrap_or_default();
        let show = "printf '%s %s' \"$GLIBC_TUNABLES\" \"$BECALM\"";
        let mut command = std::process::Command::new(shell);
        if shell == "busybox" {
            command.arg("sh");
        }
        command.args(["-euc", &format!("{set}{text}{text}{show}")]);
        for name in [AUDIT, SWITCHES, TUNABLES] {
            command.env_remove(name);
        }
        let ran = command.output().expect("the shell runs");
        assert_eq!(String::from_utf8_lossy(&ran.stderr), "", "{shell} {tunables:?}");
        String::from_utf8(ran.stdout).expect("UTF-8")
    }

    #[test]
    fn a_login_shell_raises_a_smaller_value_once_and_keeps_a_larger_one() {
        let raised = format!("{STATIC_TLS}=8192");
        let small = ["512", "0x1fff", "017777", "", "0x", "08", "9000k", "9000:{}=512", "a[1]"];
        let large = ["8192", "9000", "0x2000", "0X7fffffff", "020000", "512:{}=9000"];
        let large = [&large[..], &["99999999999999999999"]].concat();
        let is_there =
            |shell: &&str| std::process::Command::new(shell).arg("--help").output().is_ok();
        for shell in ["sh", "bash", "busybox"].into_iter().filter(is_there) {
            assert_eq!(sourced(shell, None), format!("{raised} nobind"));
            let theirs = |value: &&str| {
                format!("glibc.malloc.check=1:{STATIC_TLS}={}", value.replace("{}", STATIC_TLS))
            };
            for theirs in small.iter().map(theirs) {
                let expected = format!("{theirs}:{raised} nobind");
                assert_eq!(sourced(shell, Some(&theirs)), expected, "{shell}");
            }
            for theirs in large.iter().map(theirs) {
                assert_eq!(sourced(shell, Some(&theirs)), format!("{theirs} nobind"), "{shell}");
            }
        }
    }

    #[test]
    fn systemd_has_both_variables_on_one_line() {
        let text = systemd(&settings());
        let line = text.lines().last().expect("lines");
        assert_eq!(
            line,
            "DefaultEnvironment=\"LD_AUDIT=/i/it's.so.d/$PLATFORM\" \
             \"GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096\""
        );
    }
}
