//! What people see of dumps in a browser.

#[path = "../common/mod.rs"]
mod common;

mod browser;
mod report;
mod serve;
