//! `becalm on` and `becalm off`.

/// Last sections of the help and the man page of both.
pub(crate) const ON: &[&str] = &[ON_STARTS, ON_EXAMPLES];

const ON_STARTS: &str = "Starts
by the index
    A small starter finds the program behind the folder of links, as a shell does, sets LD_AUDIT,
    GLIBC_TUNABLES and BECALM, and executes it. The audit module takes all three back out of the
    environment before main, so children have the caller's.
plainly
    Whenever anything else is there than was switched on: the program was replaced, another one is
    before it in PATH, the index or its list is missing, damaged or of another user, LD_PRELOAD or
    BECALM=off is set.
without names
    Programs of PATH and of desktop launchers, never of sbin, that are predicted to gain are started
    with --version: without a terminal, with an empty home directory, for at most 5 seconds, and
    without a network if the kernel allows it. Those that gain 2 ms and a tenth of their start are
    switched on.";

const ON_EXAMPLES: &str = "Examples
becalm on --dry-run
    Find the programs that gain, and write nothing.
becalm on inkscape gimp
    Two programs, without measuring them.
becalm on --list
    The programs, their gain, and whether they start by the index now.
becalm off
    Remove all that was written.";
