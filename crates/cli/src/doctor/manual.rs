//! The manual's sections of `becalm doctor`.

use crate::terminal::manual::JSON;

/// Last sections of the help and the man page of `becalm doctor`.
pub(crate) const DOCTOR: &[&str] = &[STATUS, VARIABLES, JSON, EXAMPLES];

const STATUS: &str = "Exit status
0
    What there is works: the session's index, or indexes of single programs.
1
    There are findings; each is printed with its remedy.
2
    The output cannot be written, or a flag is wrong.";

const VARIABLES: &str = "Environment
LD_AUDIT
    Names the index of the session.
PATH
    Its programs are checked too, if the session uses an index.
GLIBC_TUNABLES
    glibc.rtld.optional_static_tls: the static TLS of the session.
BECALM
    The module's switches; off and nobind count here.";

const EXAMPLES: &str = "Examples
becalm doctor
    Check whether this session uses an index.
becalm doctor inkscape
    The start of a program, and its own index.
becalm doctor --json | jq -r '.findings[].kind'
    The kinds of findings, for monitoring.
becalm doctor --index /var/lib/becalm/index.so || becalm index --update
    Update an index if needed.";
