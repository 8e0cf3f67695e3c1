//! Tests of the report and the web server in a real browser.

#[path = "../common/mod.rs"]
mod common;

mod browser;
mod camera;
mod report;
mod serve_actions;
mod serve_guard;
mod serve_lists;
mod serve_live;
mod serve_pages;
mod served;
