//! `--jobs`: how many threads a command that walks in parallel takes.

use std::num::NonZeroUsize;

use anyhow::Result;

/// Gives the pool of threads its size, where one is asked for. To be called before anything
/// uses the pool.
///
/// # Errors
/// Where no threads can be started, or the pool is in use already.
pub(crate) fn limit(jobs: Option<NonZeroUsize>) -> Result<()> {
    if let Some(jobs) = jobs {
        rayon::ThreadPoolBuilder::new().num_threads(jobs.get()).build_global()?;
    }
    Ok(())
}
