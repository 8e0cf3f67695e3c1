//! The dump region: how a device thread hands records and payloads to the host.
//!
//! The region has one header, and per device thread a [`DumpBufferState`], two queues of buffer numbers, a pool of
//! record buffers and a circular arena. All of it is written by one side and only read by the other, field by field; see
//! each field for whose it is. Positions in an arena are monotonic and count bytes; the byte lies at `position % arena_bytes`.

mod dispatch;
mod options;
mod record;
mod region;

pub use dispatch::*;
pub use options::*;
pub use record::*;
pub use region::*;
