//! The lab: makes real storms.

fn main() {}
