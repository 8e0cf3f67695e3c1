//! Web pages made from the documents of `query`: a report in one file, and a local server.
//!
//! `assets/` holds plain JavaScript modules and style sheets, served as written. [`bundle`] joins modules
//! into one script for a self-contained page. Text from a dump is always text in a page, never markup;
//! [`page`] is the only place where it enters one.
#![deny(unsafe_code)]

pub mod assets;
pub mod bundle;
pub mod page;
pub mod palette;
pub mod report;
pub mod server;
