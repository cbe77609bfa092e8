//! Files in trees that change: the table that a program's audit module reads ([`table`]), and the calls
//! that fill it ([`look`]).

pub mod look;
pub mod table;
