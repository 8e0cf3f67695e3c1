//! What crosses between a process that wants a launch and the one that runs it.

use serde::{Deserialize, Serialize};

/// A device that launches can run on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceName {
    /// What it is called, in dumps, too.
    pub name: String,
    /// What it can do, ten times its compute capability: 90 is what images call `sm_90`.
    pub architecture: u32,
}

/// Part of one of the memories of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Which.
    pub memory: usize,
    /// Bytes before it.
    pub offset: u64,
}

/// A word among the parameters that points into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointer {
    /// The parameter that it stands in.
    pub parameter: usize,
    /// Bytes before it there.
    pub at: usize,
    /// Where it points.
    pub target: Target,
}

/// Memory that a launch was given, none of which overlaps another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Where it lay.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
}

/// One launch of a kernel. The image of its code, the content of each memory and that of each variable go with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Place among the devices.
    pub device: usize,
    /// The kernel, as its image names it.
    pub kernel: String,
    /// Work groups in each direction.
    pub grid: [u32; 3],
    /// Threads of a group in each direction.
    pub group: [u32; 3],
    /// Bytes that each group has for itself beside those which the kernel declares.
    pub shared_bytes: u32,
    /// Groups of a cluster in each direction; 0 for none.
    pub cluster: [u8; 3],
    /// Whether its groups may wait for one another.
    pub is_cooperative: bool,
    /// Bytes of each parameter, in order; or of all of them as one.
    pub parameters: Vec<Vec<u8>>,
    /// Which words of them point into memory.
    pub pointers: Vec<Pointer>,
    /// Memory.
    pub memories: Vec<Span>,
    /// Variables of the image that are set before it runs and read behind it.
    pub variables: Vec<String>,
    /// Whether memory may lie elsewhere than it did.
    pub may_move: bool,
    /// Whether it must.
    pub must_move: bool,
    /// What memory holds that nobody has given a content.
    pub filler: u8,
}
