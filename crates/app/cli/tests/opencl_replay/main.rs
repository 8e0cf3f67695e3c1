//! Tests replays of OpenCL launches on a device of this machine. The dumps are recorded like the OpenCL
//! backend does, with values computed here without OpenCL.

#[path = "../common/mod.rs"]
mod common;
mod launches;
mod refused;
mod test_dump;
