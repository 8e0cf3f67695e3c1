//! Compares strided views with plain enumeration.

mod budget;
mod overlap;
mod reference;
mod views;
