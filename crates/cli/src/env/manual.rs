//! `becalm env`.

use crate::index::manual::INDEX_FILES;
use crate::terminal::manual::JSON;

/// Last sections of the help and the man page of `becalm env`.
pub(crate) const ENV: &[&str] = &[ENV_STATUS, INDEX_FILES, JSON, ENV_EXAMPLES];

const ENV_STATUS: &str = "Exit status
0
    The lines are written.
2
    There is no index, it cannot be used, or a flag is wrong.";

const ENV_EXAMPLES: &str = "Examples
eval \"$(becalm env)\"
    Use the index in this shell and the programs that it starts.
eval \"$(becalm env --undo)\"
    Undo this.
becalm env --for fish | source
    The same in fish.
eval \"`becalm env --shell csh`\"
    In csh and tcsh.
becalm env --for lmod > ~/modulefiles/becalm.lua
    A module file; --for tcl for Environment Modules.
becalm env --for profile.d > /etc/profile.d/becalm.sh
    Every login shell.
becalm env --for update.service > /etc/systemd/system/becalm-update.service
    With update.timer and update.path, systemd keeps the index up to date.
becalm env --for systemd
    A drop-in; its first lines name its path.";
