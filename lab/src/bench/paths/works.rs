//! Programs that are measured: interpreters and compilers with their search paths.

/// A program and its search paths.
pub(super) struct Work {
    pub(super) name: &'static str,
    /// Packages that are taken with their dependencies.
    pub(super) seeds: &'static str,
    /// The names of the dependencies that count, each with one `*`.
    pub(super) names: &'static str,
    /// Each variable with the directories of a package that it names.
    pub(super) variables: &'static [(&'static str, &'static str)],
    /// Entries of a variable that are taken.
    pub(super) most: usize,
    /// The text after the list of the last variable.
    pub(super) after: &'static str,
    /// The program and its arguments, quoted as for a shell.
    pub(super) line: &'static str,
    /// The content of the file that replaces `@` in the line.
    pub(super) source: &'static str,
    /// A command that prints a program which this one starts, and which is indexed too.
    pub(super) child: &'static str,
}

const PLAIN: Work = Work {
    name: "",
    seeds: "",
    names: "",
    variables: &[],
    most: 1000,
    after: "",
    line: "",
    source: "",
    child: "",
};

/// The works.
pub(super) const WORKS: &[Work] = &[
    Work {
        name: "perl",
        seeds: "libcatalyst-perl libdbix-class-perl libdancer2-perl libmoose-perl",
        names: "lib*-perl",
        variables: &[("PERL5LIB", "share/perl5 lib/x86_64-linux-gnu/perl5/5.36")],
        line: "perl @",
        source: "use Moose; use DBIx::Class; use Catalyst; use Dancer2; print scalar(keys %INC), \"\\n\";",
        ..PLAIN
    },
    Work {
        name: "python",
        seeds: "python3-sphinx python3-django python3-requests python3-aiohttp python3-twisted \
                ansible-core python3-sqlalchemy",
        names: "python3-*",
        variables: &[("PYTHONPATH", "lib/python3/dist-packages")],
        line: "/usr/bin/python3 -s @",
        source: "import sys\nn = 0\nfor m in 'sphinx.application docutils.core jinja2 babel requests django.db.models django.contrib.admin sqlalchemy.orm twisted.web.server aiohttp.web pygments.lexers cryptography idna urllib3 chardet'.split():\n  try: __import__(m); n += 1\n  except Exception as e: print(m, type(e).__name__)\nprint(n, len(sys.modules))\n",
        ..PLAIN
    },
    Work {
        name: "node",
        seeds: "webpack eslint node-express node-rollup mocha gulp",
        names: "node-* webpack* eslint* mocha* gulp*",
        variables: &[("NODE_PATH", "share/nodejs")],
        line: "node @",
        source: "let n = 0; for (const m of ['express', 'webpack', 'eslint', 'rollup', 'mocha', 'gulp', 'lodash', 'semver', 'glob', 'chalk'])\n try { require(m); n++ } catch (e) { console.log(m, e.code) }\nconsole.log(n, Object.keys(require.cache).length)",
        ..PLAIN
    },
    Work {
        name: "emacs",
        seeds: "elpa-magit elpa-helm elpa-evil elpa-company elpa-lsp-mode elpa-projectile \
                elpa-flycheck",
        names: "elpa-*",
        variables: &[("EMACSLOADPATH", "share/emacs/site-lisp/elpa-src/*")],
        after: ":",
        line: "emacs -Q --batch --eval \"(progn (require 'magit) (require 'helm) (require 'evil) \
               (princ (length features)))\"",
        ..PLAIN
    },
    Work {
        name: "gcc",
        seeds: "libgtk-3-dev libsqlite3-dev libxml2-dev libcurl4-openssl-dev libpng-dev \
                libgcrypt20-dev",
        names: "lib*-dev zlib1g*-dev x11proto*-dev",
        variables: &[("CPATH", "include include/x86_64-linux-gnu")],
        line: "gcc -fsyntax-only @.c",
        source: "#include <sqlite3.h>\n#include <png.h>\n#include <zlib.h>\n#include <gcrypt.h>\n#include <curl/curl.h>\n#include <X11/Xlib.h>\nint main(void) { return 0; }\n",
        child: "gcc -print-prog-name=cc1",
        ..PLAIN
    },
    Work {
        name: "pkg-config",
        variables: &[("PKG_CONFIG_PATH", "lib/x86_64-linux-gnu/pkgconfig share/pkgconfig")],
        line: "pkg-config --cflags --libs libpng sqlite3 libgcrypt x11 zlib",
        ..PLAIN
    },
    Work {
        name: "gio",
        seeds: "shared-mime-info gsettings-desktop-schemas hicolor-icon-theme evince gedit eog \
                nautilus",
        names: "lib*-common *-data *-common shared-mime* evince* gedit* eog* nautilus*",
        variables: &[("XDG_DATA_DIRS", "share")],
        most: 60,
        after: ":/usr/share",
        line: "gio mime text/html",
        ..PLAIN
    },
    Work {
        name: "guile",
        seeds: "guile-json guile-gcrypt guile-git guile-sqlite3 guile-ssh guile-gnutls guile-zlib \
                guile-lzlib guile-avahi guile-semver guile-lib",
        names: "guile-*",
        variables: &[
            ("GUILE_LOAD_PATH", "share/guile/site/3.0"),
            (
                "GUILE_LOAD_COMPILED_PATH",
                "lib/x86_64-linux-gnu/guile/3.0/site-ccache lib/guile/3.0/site-ccache",
            ),
        ],
        line: "guile --no-auto-compile @",
        source: "(use-modules (json) (web client) (srfi srfi-1) (ice-9 match) (sxml simple)) (display (scm->json-string '((a . 1)))) (newline)",
        ..PLAIN
    },
];
