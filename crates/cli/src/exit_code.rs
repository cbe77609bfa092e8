//! Exit statuses of becalm. The manual has the same list.

/// The exit status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    /// Success.
    Fine,
    /// The work was done and there is a finding: an unresolved library, a program over its budget.
    Finding,
    /// Part of the work failed: a missing path, a broken file.
    Failure,
    /// A signal ended the work. The code is 128 and the signal's number, as in shells.
    Signal(u8),
    /// The exit code of the program that was run, as a shell reports it.
    Program(u8),
}

impl ExitStatus {
    /// The reader of our output has closed it.
    pub(crate) const BROKEN_PIPE: Self = Self::Signal(13);

    /// An interrupt ended work that stops only between two batches. Other work leaves SIGINT its
    /// default action, which gives the same status.
    pub(crate) const INTERRUPTED: Self = Self::Signal(2);

    /// Returns the exit status as the number for the system.
    #[must_use]
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Finding => 1,
            Self::Failure => 2,
            Self::Program(code) => code,
            Self::Signal(number) => 128_u8.saturating_add(number),
        }
    }

    /// Returns the status of a command that writes files, from its report.
    #[must_use]
    pub(crate) fn of_writing(interrupted: bool, failed: bool, finding: bool) -> Self {
        match (interrupted, failed, finding) {
            (true, ..) => Self::INTERRUPTED,
            (_, true, _) => Self::Failure,
            (.., true) => Self::Finding,
            _ => Self::Fine,
        }
    }

    /// Combines two statuses; the more serious one wins.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        if other.code() > self.code() { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::ExitStatus::{Failure, Finding, Fine, Signal};

    #[test]
    fn codes_are_those_of_the_manual() {
        let codes = [Fine, Finding, Failure, Signal(2), Signal(13)].map(|status| status.code());
        assert_eq!(codes, [0, 1, 2, 130, 141]);
    }

    #[test]
    fn no_signal_number_wraps_round_to_success() {
        assert_eq!(Signal(200).code(), 255);
    }

    #[test]
    fn a_failure_outweighs_a_finding_whichever_comes_first() {
        assert_eq!(Finding.and(Failure), Failure);
        assert_eq!(Failure.and(Finding), Failure);
        assert_eq!(Fine.and(Finding), Finding);
    }
}
