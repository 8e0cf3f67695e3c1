//! Strided views against plain enumeration.

mod budget;
mod overlap;
mod reference;
mod views;
