//! The manual's sections of `becalm index`, `run` and `env`.

use crate::terminal::manual::JSON;

/// Last sections of the help and the man page of `becalm index`.
pub(crate) const INDEX: &[&str] = &[INDEX_STATUS, INDEX_TRUTH, INDEX_FILES, JSON, INDEX_EXAMPLES];

const INDEX_STATUS: &str = "Exit status
0
    The index is written, or up to date.
2
    No index could be written; or a file could not be read, and the index has the rest; or a flag is
    wrong.
130
    Interrupted (SIGINT), as shells report it.";

pub(crate) const INDEX_FILES: &str = "Files
$XDG_DATA_HOME/becalm/index.so
    The user's index ($HOME/.local/share if XDG_DATA_HOME is not set): written by becalm index
    without -o, and used by becalm run and becalm env without --index.
/var/lib/becalm/index.so
    The system's index, used if the user has none.
$XDG_CACHE_HOME/becalm/programs/
    Indexes of single programs, made for becalm run ($HOME/.cache if XDG_CACHE_HOME is not set): the
    256 MB used last. Beside one, .lock while it is made, .failed with the reason why none can be
    made, .wanted if the next becalm index is to make it. Any of them may be removed at any time.
INDEX.d/
    Beside an index: the modules that LD_AUDIT names through $PLATFORM, so that 32-bit programs find
    a module of their own, which declines, and print no error. Move it together with the index.";

const INDEX_TRUTH: &str = "What an index answers
stores
    Packages below a STORE or a --store prefix count as immutable: their answers stay valid, and a
    package that was absent is searched once it exists. In stores laid out as those of Nix and Guix,
    one check of the store detects added and removed packages; in other stores, and after such a
    change, each answer is checked once.
other directories
    A directory of a run path outside the stores is checked at each start: once it has changed
    (inode, times), the loader searches as always. A directory that changed within the clock's
    granularity before it was indexed is not trusted at all.
LD_LIBRARY_PATH
    Comes first, as always. The directories of this session, of --dirs and of module files
    (--modules) are answered from their names while they are unchanged, for every object. becalm
    doctor names directories that are not in the index.
not answered
    Needed strings with a slash, run paths with $LIB or $PLATFORM, answers that depend on the CPU
    (hwcaps subdirectories): the summary counts them by reason. Answers that depend on the DT_RPATH
    of the objects that loaded this one are given along the whole chain, unless one of these is not
    in the index or has a directory that could not be listed.
symbol bindings
    Of programs with many relocations (--bind-threshold), and of those that --program names: the
    module writes the value of each relocated slot, and the loader looks up no symbol. Every file of
    the start must be the one that was indexed; otherwise the loader binds all symbols. If
    LD_PRELOAD or LD_LIBRARY_PATH is set, starts in this environment are predicted too. On x86_64,
    aarch64, riscv64, ppc64le and s390x.
paths
    With --paths, the paths that exist below the packages of the stores. In programs started with
    becalm run --paths or in a session of becalm env --paths, the module answers lookups of missing
    files without a system call. A package that cannot be read completely, or that changed a moment
    ago, is left out; --update adds one that changed. --paths-from takes the packages that a traced
    run searched. Directories that change in place are left to the kernel. On x86_64 and aarch64.
BECALM
    In the environment of a program, a list with commas. off: the module does nothing. nobind: the
    loader binds symbols. paths, nopaths: file lookups are answered from the index, or not.
    log:FILE: each lookup, answer and outcome, which becalm trace --from FILE shows. dump:FILE:
    every relocated slot of the start.
static TLS
    Under an audit module, thread-local storage of libraries that a relocation makes static
    (initial-exec) must fit into a surplus. becalm env raises it (glibc.rtld.optional_static_tls) to
    4096 bytes and names programs of the index that need more; becalm run raises it to the need of
    its program. The summary lists programs that need more than glibc's default.";

const INDEX_EXAMPLES: &str = "Examples
becalm index /nix/store
    The user's index of all that Nix has installed.
becalm index --program /usr/bin/inkscape -o inkscape.so
    One program with its symbol bindings, wherever its files are.
becalm trace --json -o run.json -- python3 app.py; becalm index --paths-from run.json
    The paths that a program, and the programs that it starts, searched themselves.
becalm index --update
    Update it: after a rebuild, by a hook or a timer.
becalm index /apps --modules /apps/modulefiles -o /var/lib/becalm/index.so
    A module tree, with the directories that its module files add to LD_LIBRARY_PATH.";
