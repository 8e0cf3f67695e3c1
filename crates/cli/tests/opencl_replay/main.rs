//! Launches of OpenCL, recorded as a door would, run again on a device of this machine: what they leave is held against values that were
//! computed here, without OpenCL.

#[path = "../common/mod.rs"]
mod common;
mod launches;
mod made;
mod refused;
