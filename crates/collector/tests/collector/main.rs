//! The collector against a device that a script plays, and against the real recorder.
#![expect(clippy::cast_possible_truncation, reason = "numbers in these tests are small, or cut on purpose")]

mod batch;
mod damage;
mod device;
mod dispatches;
mod failing;
mod going_on;
mod pieces;
mod recorder;
mod rig;
mod storing;
mod threads;

#[path = "../../src/testing.rs"]
#[allow(dead_code, reason = "shared with the unit tests")]
mod testing;

use tensortap_collector::RegionMemory;
