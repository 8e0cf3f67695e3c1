//! The dump region: device threads pass records and payloads to the host through it.
//!
//! The region has one header. For each lane it has a [`DumpBufferState`], two queues of buffer numbers, a
//! pool of record buffers and a circular arena. A thread leases a lane and returns it. Each field has one
//! writer; the other side only reads it. The field's documentation names the writer. Arena positions are
//! monotonic byte counts; a byte's offset in the arena is `position % arena_bytes`.

mod argument;
mod attribute;
mod collective;
mod definition;
mod dispatch;
mod options;
mod record;
mod region;
mod work;

pub use argument::*;
pub use attribute::*;
pub use collective::*;
pub use definition::*;
pub use dispatch::*;
pub use options::*;
pub use record::*;
pub use region::*;
pub use work::*;
