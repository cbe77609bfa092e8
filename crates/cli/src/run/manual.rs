//! `becalm run`.

use crate::index::manual::INDEX_FILES;

/// Last sections of the help and the man page of `becalm run`.
pub(crate) const RUN: &[&str] =
    &[RUN_STATUS, RUN_PROGRAMS, RUN_AHEAD, RUN_TREES, INDEX_FILES, RUN_EXAMPLES];

const RUN_STATUS: &str = "Exit status
the program's
    becalm executes the program in its own process: exit code and signals are the program's.
127, 126
    The program was not found, or cannot be executed, as shells report it.
2
    There is no command, a flag is wrong or, with --strict, no index can be used, or the pack cannot.";

const RUN_PROGRAMS: &str = "Programs
always started
    If no index can be used, the program is started without one, and a line on stderr has the
    reason: the file does not exist, another user may have written it, it is damaged or for another
    machine, the cache cannot be written, or the loader has no audit modules (musl, glibc before
    2.31). --quiet omits that line, --strict makes it a failure.
no index
    Without --index, if the program is in no store of the default index, another process makes an
    index of this program's start and keeps it in the cache directory: the program starts at once,
    without an index. If an orphan would become the program's child (the first process of a
    container, a subreaper), the next becalm index makes it. The index is compared with the files
    once an hour, when the program is started.
--only
    Programs that the program starts, containers and debuggers get the three variables as they were.
    Without it they use the index too. A program without an audit interface (static, musl) is
    started without the variables.
LD_AUDIT
    The user's own modules stay in the list, before becalm's.
GLIBC_TUNABLES
    Unchanged except for glibc.rtld.optional_static_tls: what the program needs, at least 1664, and
    4096 for programs that it starts.
set-id programs
    Their loader ignores LD_AUDIT of the environment: they are started without an index, and a line
    on stderr says so.
static programs
    Are started; programs that they start use an --index.
scripts
    Use the index of the interpreter that their first line names.";

const RUN_TREES: &str = "Network file systems
looked up ahead
    What earlier starts looked up on NFS, SMB, Lustre and other network file systems, and on FUSE,
    is looked up when a start begins, by another process and many paths at once. The program is told
    the results, for 3 seconds after each call, and until anything changes in one of the
    directories. The second start of a command is learned, the third is answered.
copies
    Files that the program reads are copied to a local disk and read from there, if they have not
    changed since, by inode, size, mtime and ctime.
BECALM_CACHE
    The folder of records and copies; without it, the first of $XDG_RUNTIME_DIR/becalm,
    /var/tmp/becalm-UID and /tmp/becalm-UID that is local and has room.
BECALM_TRUST_TIMES
    Directories, separated by colons, below which the times of files count whatever their file
    system is, such as FUSE: files are copied there too.
BECALM=notrees
    Nothing is looked up ahead or copied; --no-ahead does this as well.";

const RUN_AHEAD: &str = "Reading ahead
recorded
    Another process records, at the lowest priority, which pages of which files the start touches,
    in the first three to seven starts of a command and again after 30 days. Before Linux 6.7, or
    without an index, the record has up to 16 neighbours of each page as well. Directories that are
    listed and files that are read are recorded where the files of the start lie, from the second
    start on. becalm trace --record adds all that one start opens. The record is beside the indexes,
    *.pages.
read
    If one of three recorded pages is not in memory, all are requested at once, in another process,
    while the program starts. At most 512 MiB, and a quarter of the memory that is available. A file
    that has changed is left out. Nothing happens where the file system does not say which pages are
    in memory; becalm doctor says so.
BECALM=noahead
    As --no-ahead.
BECALM=nopages
    No relocated pages are shared, whatever --share-pages says. The file of pages is in pages below
    BECALM_CACHE, /var/tmp/becalm-UID or /tmp/becalm-UID, of mode 0600, for this program, index,
    user and boot. Programs in /etc/becalm/no-share-pages have none.
--warm
    The exit status is 1 if a program cannot be found, or its record cannot be used. With --json one
    object, schema becalm/warm/1: programs (path, files, bytes, skipped, predicted, problem).";

const RUN_EXAMPLES: &str = "Examples
becalm run -- inkscape
    Without any preparation: an index is made in the background and kept.
becalm run --warm inkscape gimp
    Read their pages before anybody starts them.
becalm run --index store.so -- make check
    All programs that a build starts.
becalm trace -- becalm run -- emacs --version
    Count the misses that remain.";
