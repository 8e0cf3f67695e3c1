//! Tests of the recorder as a device thread uses it, with a hand-written host.

mod clock;
mod damage;
mod filters;
mod host;
mod kinds;
mod levels;
mod link;
mod loss;
mod opening;
mod order;
mod page_advice;
mod process;
mod reservation;
mod rig;
mod threads;
