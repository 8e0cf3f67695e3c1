//! Tests the library with C and C++ programs. They are compiled here, run as processes, and recorded by a
//! thread of the test. Recordings are compared with values computed here.

mod compile;
mod facts;
mod header;
mod host;
mod installed;
mod library;
mod misuse;
mod programs;
mod safety;
