//! Messages between client and worker.

use serde::{Deserialize, Serialize};

/// A device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceName {
    /// `CL_PLATFORM_NAME`.
    pub platform: String,
    /// `CL_DEVICE_NAME`.
    pub name: String,
    /// `CL_DRIVER_VERSION`.
    pub driver: String,
}

impl DeviceName {
    /// Its name, as in dumps. A launch is reproducible bit by bit on a device with the same name.
    ///
    /// ```
    /// use tensortap_opencl_host::DeviceName;
    /// let device = DeviceName { platform: "p".into(), name: "cpu".into(), driver: "6.0".into() };
    /// assert_eq!(device.text(), "cpu / 6.0");
    /// ```
    #[must_use]
    pub fn text(&self) -> String {
        format!("{} / {}", self.name, self.driver)
    }
}

/// An argument of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arg {
    /// A value of these bytes.
    Value(Vec<u8>),
    /// This many bytes of local memory per work group.
    Local(u64),
    /// Part of a memory of the launch.
    Memory(Memory),
}

/// Part of one of the memories of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Index of the memory.
    pub memory: usize,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

/// One launch of a kernel. The program image and the content of each memory are sent with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Index of the device.
    pub device: usize,
    /// Tag of the image's [`ModuleKind`](tensortap_abi::ModuleKind).
    pub image_kind: u8,
    /// Build options of the program.
    pub options: String,
    /// The kernel.
    pub kernel: String,
    /// Number of dimensions, 1 to 3.
    pub work_dims: u32,
    /// Work items in each dimension.
    pub global_size: [u64; 3],
    /// Global offset in each dimension.
    pub global_offset: [u64; 3],
    /// Work items per group in each dimension; `None` if the device chooses.
    pub group: Option<[u64; 3]>,
    /// Arguments, in order.
    pub args: Vec<Arg>,
    /// Whether to run it even if its program has variables, which then start with their initial values.
    pub allow_variables: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_serialization() {
        let launch = Launch {
            device: 1,
            image_kind: 2,
            options: "-DX=\"1\"".into(),
            kernel: "k".into(),
            work_dims: 2,
            global_size: [5, 3, 1],
            global_offset: [1, 0, 0],
            group: None,
            args: vec![
                Arg::Value(vec![1, 2]),
                Arg::Local(9),
                Arg::Memory(Memory { memory: 0, offset: 4, bytes: 8 }),
            ],
            allow_variables: true,
        };
        let sent = serde_json::to_vec(&launch).unwrap();
        assert_eq!(serde_json::from_slice::<Launch>(&sent).unwrap(), launch);
        assert!(serde_json::from_slice::<Launch>(&sent[..sent.len() - 1]).is_err());
    }
}
