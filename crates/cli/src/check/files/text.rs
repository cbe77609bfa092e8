//! The files of starts as a list.

use std::path::Path;

use becalm_lib::files::StartFile;
use becalm_lib::files::bundle::{Bundle, NoBundle};
use becalm_lib::json::as_json;
use bstr::BString;
use rustc_hash::FxHashSet;

use crate::check::files::args::Format;

/// The paths that were written, so that each is written once.
#[derive(Debug, Default)]
pub(crate) struct Written(FxHashSet<BString>);

/// Returns the files of one start that were not written yet.
///
/// # Errors
/// Returns an error if the files cannot be a bundle.
pub(crate) fn list(
    files: &[StartFile],
    format: Format,
    repository: Option<&Path>,
    written: &mut Written,
) -> Result<Vec<u8>, NoBundle> {
    let end = match format {
        Format::Lines => b'\n',
        Format::Null => 0,
        Format::CvmfsBundle => {
            let mut json = as_json(&Bundle::of(files, repository)?);
            json.push(b'\n');
            return Ok(json);
        }
    };
    Ok(written.lines(files, end))
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
