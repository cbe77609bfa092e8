//! Carriers that break something on purpose: the right trial catches each.
