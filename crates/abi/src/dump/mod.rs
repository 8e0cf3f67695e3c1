//! The dump region: how device threads hand records and payloads to the host.
//!
//! The region has one header, and per lane a [`DumpBufferState`], two queues of buffer numbers, a pool of record buffers and a
//! circular arena. A thread leases a lane and returns it. All of it is written by one side and only read by the other, field
//! by field; see each field for whose it is. Positions in an arena are monotonic and count bytes; the byte lies at
//! `position % arena_bytes`.

mod argument;
mod definition;
mod dispatch;
mod options;
mod record;
mod region;
mod work;

pub use argument::*;
pub use definition::*;
pub use dispatch::*;
pub use options::*;
pub use record::*;
pub use region::*;
pub use work::*;
