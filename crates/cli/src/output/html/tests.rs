//! The page's parts on small storms.
