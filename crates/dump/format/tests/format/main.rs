//! Tests of the dump files: round trips, damage at any point, and dumps of other projects.

mod agreement;
mod common;
mod disk_full;
mod dispatches;
mod foreign;
mod hostile;
mod hostile_manifests;
mod keeping_last;
mod keyed;
mod naming;
mod payloads;
mod peers;
mod repairing;
mod round_trip;
mod same_facts;
mod second_generation;
mod segments;
mod steps;
mod tasks;
mod torn;
mod vectors;
mod verifying;
mod versions;
