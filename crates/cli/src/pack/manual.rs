//! The manual's sections of `becalm pack` and `becalm unpack`.

use crate::terminal::manual::JSON;

/// Last sections of the help and the man page of `becalm pack`.
pub(crate) const PACK: &[&str] = &[STATUS, CONTENT, JSON, EXAMPLES];

/// Last sections of the help and the man page of `becalm unpack`.
pub(crate) const UNPACK: &[&str] = &[STATUS, USE, JSON, EXAMPLES];

const STATUS: &str = "Exit status
0
    Written or unpacked; nothing that this machine knew before is removed.
2
    No start of a command was learned, or a file cannot be read or written.";

const CONTENT: &str = "Content
files
    The files that the learned starts look up, the program and its libraries, as far as they are in
    the trees, below their own paths, with their times. Other tools can unpack or mount them.
folder .becalm
    The records: the paths that starts look up, the state of each, and the names in each directory;
    and the index; also those of programs that the command starts. An index counts for the becalm
    that made it, on machines whose libraries outside the trees have the same lengths and times.
left out
    Files kept open, set-id programs, files of trees whose times do not count, and paths
    beyond 30,000.";

const USE: &str = "Use
trust
    Programs read the packed bytes as the content of files. Unpack what you would also run: a pack
    of yours, or of your site.
becalm run --pack FILE
    Unpacks the file if this user has not done so on this machine, then starts.
--check of becalm run
    Each start compares every file with the tree, as it does with copies that were made on this
    machine. A file that differs is read from the tree. With --check node, the first start on a
    machine does so for later ones, with --check never no start.
--generation FILE of becalm pack
    If the file is as it was when the pack was made, by inode, size, mtime and ctime, a start
    compares nothing else.";

const EXAMPLES: &str = "Examples
becalm pack -o env.tar .venv/bin/python
    What starts of this environment's Python need, learned by becalm run.
becalm trace --files --json -o run.json -- app; becalm pack -o app.tar --from run.json
    What one run used, of which nothing was learned.
becalm unpack env.tar
    On another node: its first start is answered.
becalm run --pack env.tar -- .venv/bin/python app.py
    Both, in a job script.";
