//! The files of starts as a list.

use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use becalm_lib::files::StartFile;
use becalm_lib::files::bundle::Bundle;
use becalm_lib::json::as_json;
use bstr::BString;
use rustc_hash::FxHashSet;

use crate::check::files::args::{FilesArgs, Format};
use crate::check::view::View;

/// The paths that were written, so that each is written once.
#[derive(Debug, Default)]
pub(crate) struct Written(FxHashSet<BString>);

/// The files that the starts need, each once.
pub(crate) struct Files<'a> {
    pub(crate) args: &'a FilesArgs,
    pub(crate) written: Mutex<Written>,
}

impl View for Files<'_> {
    fn files(&self, files: &[StartFile]) -> Result<Vec<u8>> {
        let end = match self.args.format {
            Format::Lines => b'\n',
            Format::Null => 0,
            Format::CvmfsBundle => {
                let mut json = as_json(&Bundle::of(files, self.args.repository.as_deref())?);
                json.push(b'\n');
                return Ok(json);
            }
        };
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(written.lines(files, end))
    }
}

impl Written {
    /// Returns the paths that were not written yet, each with this byte at its end.
    pub(crate) fn lines(&mut self, files: &[StartFile], end: u8) -> Vec<u8> {
        let mut text = Vec::new();
        for file in files.iter().filter(|file| self.0.insert(file.path.clone())) {
            text.extend_from_slice(&file.path);
            text.push(end);
        }
        text
    }
}
