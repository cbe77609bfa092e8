//! The output forms of `becalm env` other than shells: module files of Lmod and of Environment Modules,
//! Dockerfiles, and systemd units that keep an index up to date.

use std::path::Path;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use becalm_lib::index::variables::{AUDIT, STATIC_TLS, SWITCHES, Settings, TUNABLES};

use crate::env::args::Dialect;

/// A module file of Lmod.
pub(crate) fn lmod(settings: &Settings) -> String {
    let Settings { module, static_tls, switch } = settings;
    let module = escaped(&module.to_string_lossy(), &['\\', '"']);
    let switch =
        switch.as_ref().map(|it| format!("append_path(\"{SWITCHES}\", \"{it}\", \",\")\n"));
    format!(
        "-- becalm.lua, in a directory of MODULEPATH; module load becalm\n\
         whatis(\"Programs find their libraries by an index of becalm\")\n\
         append_path(\"{AUDIT}\", \"{module}\")\n\
         -- The last value counts, so a larger one has to stay the last.\n\
         local known = 0\n\
         for value in (\":\" .. (os.getenv(\"{TUNABLES}\") or \"\")):gmatch(\":{}=([^:]*)\") do\n\
         \x20 known = value:match(\"^0%d+$\") and tonumber(value, 8) or tonumber(value) or 0\n\
         end\n\
         if mode() == \"unload\" or known < {static_tls} then\n\
         \x20 append_path(\"{TUNABLES}\", \"{STATIC_TLS}={static_tls}\")\n\
         end\n{}",
        STATIC_TLS.replace('.', "%."),
        switch.unwrap_or_default()
    )
}

/// A module file of Environment Modules.
pub(crate) fn tcl(settings: &Settings) -> String {
    let Settings { module, static_tls, switch } = settings;
    // Tcl substitutes nothing in it.
    let word = escaped(&module.to_string_lossy(), &['\\', '"', '$', '[', ']', '{', '}']);
    let switch = switch.as_ref().map(|it| format!("append-path --delim , {SWITCHES} {it}\n"));
    format!(
        "#%Module\n\
         # becalm, in a directory of MODULEPATH; module load becalm\n\
         module-whatis {{Programs find their libraries by an index of becalm}}\n\
         append-path {AUDIT} \"{word}\"\n\
         # The last value counts, so a larger one has to stay the last.\n\
         set known 0\n\
         if {{[info exists ::env({TUNABLES})]}} {{\n\
         \x20   foreach element [split $::env({TUNABLES}) :] {{\n\
         \x20       regexp {{^{}=(0[xX][[:xdigit:]]+|[0-9]+)$}} $element all known\n\
         \x20   }}\n\
         }}\n\
         if {{[module-info mode unload] || [module-info mode remove] || $known < {static_tls}}} {{\n\
         \x20   append-path {TUNABLES} {STATIC_TLS}={static_tls}\n\
         }}\n{}",
        STATIC_TLS.replace('.', "\\."),
        switch.unwrap_or_default()
    )
}

/// Puts a backslash before each of these characters.
pub(crate) fn escaped(text: &str, special: &[char]) -> String {
    text.chars().flat_map(|c| special.contains(&c).then_some('\\').into_iter().chain([c])).collect()
}

/// Returns the variables with their values; `escaped` is for the path of the module.
pub(crate) fn assignments(
    settings: &Settings,
    escaped: impl FnOnce(&str) -> String,
) -> Vec<(&'static str, String)> {
    let Settings { module, static_tls, switch } = settings;
    let module = (AUDIT, escaped(&module.to_string_lossy()));
    let tunables = (TUNABLES, format!("{STATIC_TLS}={static_tls}"));
    [module, tunables].into_iter().chain(switch.clone().map(|it| (SWITCHES, it))).collect()
}

/// Returns `ENV` lines with quotes, backslashes and dollar signs escaped.
pub(crate) fn dockerfile(settings: &Settings) -> String {
    let lines = assignments(settings, |module| escaped(module, &['\\', '"', '$']));
    let lines = lines.iter().map(|(name, value)| format!("ENV {name}=\"{value}\"\n"));
    let head = "# behind the RUN that makes the index, and behind all that changes its files\n";
    head.to_owned() + &lines.collect::<String>()
}

/// Returns a unit that keeps an index up to date; its first lines name its path.
pub(crate) fn unit(unit: Dialect, becalm: &Path, index: &Path, stores: &[String]) -> String {
    let name = unit.to_possible_value();
    let name = name.as_ref().map_or("", PossibleValue::get_name);
    let head = format!(
        "# /etc/systemd/system/becalm-{name}, for a user's own index\n\
         # ~/.config/systemd/user/becalm-{name} (and systemctl --user)\n"
    );
    let body = match unit {
        Dialect::UpdateService => format!(
            "[Unit]\n\
             Description=Bring becalm's index up to date\n\n\
             [Service]\n\
             Type=oneshot\n\
             ExecStart={} index --update -o {}\n\
             Nice=19\n\
             IOSchedulingClass=idle\n",
            command_word(becalm),
            command_word(index)
        ),
        Dialect::UpdateTimer => "# then: systemctl enable --now becalm-update.timer\n\
             [Unit]\n\
             Description=Bring becalm's index up to date each day\n\n\
             [Timer]\n\
             OnCalendar=daily\n\
             RandomizedDelaySec=1h\n\
             Persistent=true\n\
             Unit=becalm-update.service\n\n\
             [Install]\n\
             WantedBy=timers.target\n"
            .to_owned(),
        _ => {
            let watched: Vec<String> = stores
                .iter()
                .map(|store| format!("PathChanged={}\n", store.replace('%', "%%")))
                .collect();
            format!(
                "# then: systemctl enable --now becalm-update.path\n\
                 [Unit]\n\
                 Description=Bring becalm's index up to date when packages come or go\n\n\
                 [Path]\n\
                 {}\
                 TriggerLimitIntervalSec=10min\n\
                 TriggerLimitBurst=2\n\
                 Unit=becalm-update.service\n\n\
                 [Install]\n\
                 WantedBy=paths.target\n",
                watched.concat()
            )
        }
    };
    format!("{head}{body}")
}

/// Returns a word of `ExecStart=` (`man 5 systemd.service`): quoted, with specifiers and variables
/// escaped.
fn command_word(path: &Path) -> String {
    let text = path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", text.replace('%', "%%").replace('$', "$$"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dockerfile_keeps_quotes_and_dollar_signs() {
        let module = "/i/it's \"a\".so.d/$PLATFORM".into();
        let text =
            dockerfile(&Settings { module, static_tls: 8192, switch: Some("nobind".to_owned()) });
        assert!(text.contains("ENV LD_AUDIT=\"/i/it's \\\"a\\\".so.d/\\$PLATFORM\"\n"), "{text}");
        assert!(text.ends_with("ENV BECALM=\"nobind\"\n"), "{text}");
    }

    #[test]
    fn units_take_paths_literally() {
        let text =
            unit(Dialect::UpdateService, Path::new("/b/becalm"), Path::new("/i/50% $x.so"), &[]);
        assert!(
            text.contains("ExecStart=\"/b/becalm\" index --update -o \"/i/50%% $$x.so\"\n"),
            "{text}"
        );
        let text =
            unit(Dialect::UpdatePath, Path::new("/b"), Path::new("/i"), &["/nix/store".to_owned()]);
        assert!(text.contains("\nPathChanged=/nix/store\nTrigger"), "{text}");
    }
}
