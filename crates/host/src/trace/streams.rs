//! Files in place of a program's standard streams.

use std::fs::File;
use std::io;
use std::sync::Arc;

/// The standard streams of a program. Clones refer to the same open files.
#[derive(Clone, Debug)]
pub struct Streams {
    /// Standard input and output.
    null: Arc<File>,
    /// Standard error.
    stderr: Arc<File>,
}

impl Streams {
    /// Streams that read nothing and write nothing but what goes to `stderr`.
    ///
    /// # Errors
    /// Returns an error if `/dev/null` cannot be opened.
    pub fn with_stderr(stderr: File) -> io::Result<Self> {
        let null = File::options().read(true).write(true).open("/dev/null")?;
        Ok(Self { null: Arc::new(null), stderr: Arc::new(stderr) })
    }

    /// Streams that read nothing and write nothing.
    ///
    /// # Errors
    /// Returns an error if `/dev/null` cannot be opened.
    pub fn nowhere() -> io::Result<Self> {
        let null = Arc::new(File::options().read(true).write(true).open("/dev/null")?);
        Ok(Self { stderr: Arc::clone(&null), null })
    }

    /// The files, in the order of their descriptors.
    pub(super) fn files(&self) -> [&File; 3] {
        [&self.null, &self.null, &self.stderr]
    }
}
