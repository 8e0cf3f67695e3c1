//! The recorder as a device thread uses it, against a host that a test plays by hand.

mod ahead;
mod clock;
mod damage;
mod filters;
mod host;
mod kinds;
mod later;
mod levels;
mod link;
mod loss;
mod opening;
mod order;
mod process;
mod rig;
mod threads;
