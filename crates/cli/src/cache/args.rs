//! The arguments of `becalm cache`.

use clap::Args;

/// The flags of `becalm cache`.
#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    /// Remove all records, copies and ready pages
    #[arg(long)]
    pub clear: bool,

    /// With --clear: show what would be removed; remove nothing
    #[arg(short = 'n', long, requires = "clear")]
    pub dry_run: bool,

    /// Write the counts of answered starts in the text format of Prometheus
    #[arg(long, conflicts_with_all = ["clear", "json"])]
    pub metrics: bool,

    /// Write one JSON object, schema becalm/cache/1
    #[arg(long)]
    pub json: bool,
}
