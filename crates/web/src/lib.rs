//! Pages for browsers, made of the documents of `query`: a report in one file, and what a server hands out.
//!
//! What stands in `assets/` is plain modules and one style sheet, served as written; [`bundle`] makes one script of modules, for a
//! page that must stand alone. Whatever comes out of a dump is text in a page, never markup: [`page`] is the one way in.
#![deny(unsafe_code)]

pub mod assets;
pub mod bundle;
pub mod page;
pub mod palette;
pub mod report;
pub mod server;
