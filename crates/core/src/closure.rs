//! Load-order walk: a program → its closure.
