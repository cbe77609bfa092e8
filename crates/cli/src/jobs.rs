//! `--jobs`: the number of threads of a command that walks in parallel.

use std::num::NonZeroUsize;

use anyhow::Result;

/// Sets the size of the thread pool, if one is given. Call it before anything uses the pool.
///
/// # Errors
/// Returns an error if no threads can be started, or if the pool is in use already.
pub(crate) fn limit(jobs: Option<NonZeroUsize>) -> Result<()> {
    if let Some(jobs) = jobs {
        rayon::ThreadPoolBuilder::new().num_threads(jobs.get()).build_global()?;
    }
    Ok(())
}
