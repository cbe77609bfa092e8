//! The manual's sections of `becalm cache`.

use crate::terminal::manual::JSON;

/// Last sections of the help and the man page of `becalm cache`.
pub(crate) const CACHE: &[&str] = &[STATUS, FOLDER, METRICS, JSON, EXAMPLES];

const STATUS: &str = "Exit status
0
    Printed, or removed.
2
    A file could not be removed; the others are.";

const FOLDER: &str = "Folder
place
    $BECALM_CACHE, else the first of $XDG_RUNTIME_DIR/becalm, /var/tmp/becalm-UID and
    /tmp/becalm-UID that is on no network file system and has room.
--clear
    Programs of --check never can fail; others read files themselves. The folder stays. Indexes
    are elsewhere and stay too. Ready pages (becalm run --share-pages) lie in the folder pages.";

const METRICS: &str = "Metrics
unit
    Counters since the folder was made or cleared, with the label uid; no command line is in them.
becalm_starts_total
    Programs that were offered results of lookups.
becalm_declined_starts_total
    Programs that took none: no index binds them.
becalm_ended_starts_total
    Programs whose answers ended at a change on this machine.
becalm_answers_total
    Lookups and opens that were answered.
becalm_stale_files_total
    Files that differed from their copy, once for a table of starts that begin together.";

const EXAMPLES: &str = "Examples
becalm cache
    What is kept, and of which commands.
becalm cache --metrics >becalm.prom
    For the node exporter's textfile collector.
becalm cache --clear
    Forget it: the next starts learn again.";
