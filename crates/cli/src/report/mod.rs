//! `becalm report`: makes one page about a program's start.

pub(crate) mod args;
pub(crate) mod html;
pub(crate) mod manual;
pub(crate) mod run;
pub(crate) mod survey;
