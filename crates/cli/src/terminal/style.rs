//! Colours and width of the output.

use std::io;
use std::os::fd::AsFd;

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// Only on a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The look of the output: colours and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    colour: bool,
    width: Option<usize>,
}

impl Look {
    /// Without colours and without a limit of the width.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { colour: false, width: None };

    /// Returns the look for standard output; `when` decides on colours.
    pub(crate) fn of_stdout(when: When) -> Self {
        Self::of(&io::stdout(), when)
    }

    /// Returns the look for standard error.
    pub(crate) fn of_stderr(when: When) -> Self {
        Self::of(&io::stderr(), when)
    }

    /// Returns the look for a file.
    pub(crate) fn of_file(when: When) -> Self {
        Self { colour: when == When::Always, width: None }
    }

    fn of(stream: &(impl anstream::stream::RawStream + AsFd), when: When) -> Self {
        let colour = match when {
            When::Always => true,
            When::Never => false,
            When::Auto => anstream::AutoStream::choice(stream) != anstream::ColorChoice::Never,
        };
        // Without a terminal there is no width.
        let width = rustix::termios::tcgetwinsize(stream)
            .ok()
            .map(|size| usize::from(size.ws_col))
            .filter(|&columns| columns > 0);
        Self { colour, width }
    }

    /// Cuts the text to the rest of the line after `used` columns. Text that goes to a pipe or a
    /// file is not cut.
    pub(crate) fn fitted(self, text: &str, used: usize) -> String {
        /// A shorter text is not cut further: it would not be readable.
        const LEAST: usize = 16;
        match self.width {
            Some(width) => {
                becalm_lib::escape::shortened(text, width.saturating_sub(used).max(LEAST))
            }
            None => text.to_owned(),
        }
    }

    /// Paints headings and names.
    pub(crate) fn strong(self, text: &str) -> String {
        self.painted(Style::new().bold(), text)
    }

    /// Paints less important text.
    pub(crate) fn faint(self, text: &str) -> String {
        self.painted(Style::new().dimmed(), text)
    }

    /// Paints an error.
    pub(crate) fn bad(self, text: &str) -> String {
        self.painted(AnsiColor::Red.on_default().bold(), text)
    }

    /// Paints a cost.
    pub(crate) fn costly(self, text: &str) -> String {
        self.painted(AnsiColor::Yellow.on_default(), text)
    }

    /// Paints a good result.
    pub(crate) fn good(self, text: &str) -> String {
        self.painted(AnsiColor::Green.on_default(), text)
    }

    /// Paints the origin of something.
    pub(crate) fn origin(self, text: &str) -> String {
        self.painted(AnsiColor::Cyan.on_default(), text)
    }

    fn painted(self, style: Style, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_cut_on_a_narrow_terminal_only() {
        let path = "/nix/store/abcdefghijklmnopqrstuvwxyz012345-package-1.0/lib";
        let narrow = Look { colour: false, width: Some(40) };
        assert_eq!(narrow.fitted(path, 10).chars().count(), 30);
        assert_eq!(Look::PLAIN.fitted(path, 10), path);
    }

    #[test]
    fn without_colours_text_stays_as_it_is() {
        assert_eq!(Look::PLAIN.bad("x"), "x");
        assert!(Look { colour: true, width: None }.bad("x").contains("\x1b["));
    }
}
