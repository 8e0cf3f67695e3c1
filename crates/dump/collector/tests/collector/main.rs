//! Tests of the collector with a scripted device and with the real recorder.
#![expect(
    clippy::cast_possible_truncation,
    reason = "numbers in these tests are small or deliberately truncated"
)]

mod batch;
mod continuing;
mod damage;
mod device;
mod dispatches;
mod failing;
mod pieces;
mod recorder;
mod rig;
mod storing;
mod threads;

#[path = "../../src/testing.rs"]
#[allow(dead_code, reason = "shared with the unit tests")]
mod testing;

use tensortap_collector::RegionMemory;
