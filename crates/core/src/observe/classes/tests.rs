//! Tests of the table and of its rules.

use super::*;
use crate::fs::Errno;
use crate::observe::Kind;

/// All classes, in the order of the documentation.
const ALL: [Class; 19] = [
    Class::Dlopen,
    Class::Python,
    Class::Perl,
    Class::Guile,
    Class::Ocaml,
    Class::Ruby,
    Class::Node,
    Class::R,
    Class::Emacs,
    Class::Gconv,
    Class::Locale,
    Class::Nss,
    Class::Fontconfig,
    Class::Xdg,
    Class::QtPlugins,
    Class::GiTypelibs,
    Class::Terminfo,
    Class::PathLookup,
    Class::Other,
];

fn class(program: &str, kind: Kind, path: &str, by_loader: bool) -> Class {
    let lookup = Lookup {
        kind,
        path: path.into(),
        at_cwd: true,
        errno: Some(Errno::NOENT),
        ns: 0,
        by_loader,
    };
    let variables = [
        ("PATH".into(), "/usr/bin:/opt/bin/::".into()),
        ("PYTHONPATH".into(), "/tmp/py1:/tmp/py2/".into()),
        ("FONTCONFIG_PATH".into(), "/tmp/etc".into()),
    ];
    class_of(&lookup, Caller { program: program.into(), variables: &variables })
}

#[test]
fn the_table_is_read_whole_and_has_a_rule_for_every_class() {
    let rules = parse().expect("a table that can be read");
    for class in ALL {
        let named = rules.iter().any(|rule| rule.class == class);
        assert_eq!(named, class != Class::Other, "{class:?}");
    }
    for rule in &rules {
        let asks = rule.by_loader.is_some()
            || rule.in_variable.is_some()
            || rule.below_variable.is_some()
            || rule.above_variable.is_some()
            || !(rule.paths.is_empty() && rule.names.is_empty() && rule.dirs.is_empty());
        assert!(asks, "{rule:?} matches everything");
        let below_or_above = rule.below_variable.iter().chain(&rule.above_variable);
        for name in rule.in_variable.iter().chain(below_or_above) {
            assert!(is_used(name.as_bytes()), "{name} is never read");
        }
    }
}

#[test]
fn each_class_has_a_lookup_that_belongs_to_it() {
    use Kind::{Access, Exec, Open, Stat};
    let cases = [
        (Class::Dlopen, "app", Open, "/usr/lib/libplugin.so.1", true),
        (Class::Nss, "app", Open, "/lib/x/glibc-hwcaps/libnss_sss.so.2", true),
        (Class::Python, "python3.11", Stat, "/tmp/py2", false),
        (Class::Fontconfig, "app", Open, "/tmp/etc/local.conf", false),
        (
            Class::Python,
            "python3.11",
            Stat,
            "/opt/x/yaml/__init__.cpython-311-x86_64-linux-gnu.so",
            false,
        ),
        (Class::Perl, "perl", Stat, "/tmp/i3/JSON/XS.pmc", false),
        (Class::Guile, "guile", Stat, "/gnu/store/x/ice-9/match.go", false),
        (Class::Ocaml, "ocamlfind", Open, "/x/stdlib.cmi", false),
        (Class::Ruby, "ruby3.1", Open, "/x/json/ext/parser.so", false),
        (Class::Node, "node", Stat, "/x/node_modules/left-pad", false),
        (Class::R, "R", Stat, "/usr/lib/R/library/stats", false),
        (Class::R, "R", Open, "/opt/l/x/DESCRIPTION", false),
        (Class::Emacs, "emacs", Open, "/opt/l/x.elc", false),
        (Class::QtPlugins, "app", Stat, "/usr/lib/x/qt5/plugins/styles", false),
        (Class::GiTypelibs, "app", Open, "/opt/l/girepository-1.0/Gtk-3.0.typelib", false),
        (Class::Gconv, "app", Open, "/usr/lib/gconv/gconv-modules.cache", false),
        (Class::Locale, "app", Open, "/usr/lib/locale/locale-archive", false),
        (Class::Nss, "app", Open, "/etc/nsswitch.conf", false),
        (Class::Fontconfig, "app", Access, "/etc/fonts/fonts.conf", false),
        (Class::Xdg, "app", Stat, "/usr/share/icons/hicolor/index.theme", false),
        (Class::Terminfo, "vim", Access, "/etc/terminfo/x/xterm", false),
        (Class::PathLookup, "sh", Stat, "/opt/bin/gcc", false),
        (Class::PathLookup, "env", Exec, "/usr/bin/gcc", false),
        (Class::Other, "app", Open, "/home/me/notes.txt", false),
    ];
    for (expected, program, kind, path, by_loader) in cases {
        assert_eq!(class(program, kind, path, by_loader), expected, "{program}: {path}");
    }
}

#[test]
fn lookups_above_a_missing_element_of_pythons_path_are_of_class_python() {
    let stat = |program, path| class(program, Kind::Stat, path, false);
    assert_eq!(stat("python3.11", "/tmp"), Class::Python);
    assert_eq!(stat("python3.11", "/"), Class::Python);
    assert_eq!(stat("python3.11", "/tm"), Class::Other);
    assert_eq!(stat("app", "/tmp"), Class::Other);
    assert_eq!(class("python3.11", Kind::Open, "/tmp", false), Class::Other);
}

#[test]
fn an_empty_path_element_matches_no_directory() {
    assert_eq!(class("sh", Kind::Stat, "gcc", false), Class::Other);
    assert_eq!(class("python3", Kind::Stat, "/tmp/py10", false), Class::Other);
}

#[test]
fn patterns_match_as_in_a_shell() {
    for (pattern, text, expected) in [
        ("*", "", true),
        ("a*c", "abbc", true),
        ("a*c", "abcb", false),
        ("?", "", false),
        ("*/x/*", "/a/x/b/c", true),
        ("*ab", "aab", true),
        ("**b", "b", true),
        ("a", "ab", false),
    ] {
        assert_eq!(fits(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
    }
}
