//! The files of a dump: what is written is read again, whatever happens to it in between, and files of others are told apart.

mod common;
mod disk_full;
mod dispatches;
mod foreign;
mod hostile;
mod hostile_manifests;
mod keeping_last;
mod naming;
mod payloads;
mod peers;
mod repairing;
mod round_trip;
mod second_generation;
mod steps;
mod tasks;
mod torn;
mod verifying;
