//! Messages between client and worker.

use serde::{Deserialize, Serialize};

/// A device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceName {
    /// Its name, as in dumps.
    pub name: String,
    /// Ten times its compute capability: 90 for `sm_90`.
    pub architecture: u32,
}

/// A place in a memory of the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Index of the memory.
    pub memory: usize,
    /// Byte offset.
    pub offset: u64,
}

/// A pointer in a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointer {
    /// Index of the parameter.
    pub parameter: usize,
    /// Byte offset in the parameter.
    pub at: usize,
    /// Target of the pointer.
    pub target: Target,
}

/// Memory of a launch. No two overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Captured address.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
}

/// One launch of a kernel. The image, the content of each memory and the content of each variable are sent
/// with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Index of the device.
    pub device: usize,
    /// Name of the kernel in the image.
    pub kernel: String,
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub group: [u32; 3],
    /// Bytes of dynamic shared memory per block.
    pub shared_bytes: u32,
    /// Blocks of a cluster in each dimension; 0 for no clusters.
    pub cluster: [u8; 3],
    /// Whether it is a cooperative launch.
    pub is_cooperative: bool,
    /// Content of each parameter, in order, or of all parameters as one buffer.
    pub parameters: Vec<Vec<u8>>,
    /// Pointers in the parameters.
    pub pointers: Vec<Pointer>,
    /// Memory.
    pub memories: Vec<Span>,
    /// Names of variables that are written before the launch and read after it.
    pub variables: Vec<String>,
    /// Whether memory may be relocated.
    pub may_move: bool,
    /// Whether memory must be relocated.
    pub must_move: bool,
    /// Fill byte of memory without content.
    pub filler: u8,
}
