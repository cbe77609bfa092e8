//! What real loaders and tracers said, as probes.
