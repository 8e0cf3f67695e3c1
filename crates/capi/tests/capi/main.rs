//! The library as programs in C and C++ use it: compiled here, run as processes of their own, recorded by a thread of this one. What they
//! record is held against values that are computed here.

mod compile;
mod header;
mod host;
mod installed;
mod library;
mod misuse;
mod programs;
mod safety;
