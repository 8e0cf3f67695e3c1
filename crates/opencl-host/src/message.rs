//! What crosses between a process that wants a launch and the one that runs it.

use serde::{Deserialize, Serialize};

/// A device that launches can run on.
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
    /// As a dump names it: a launch that ran on a device of this name comes out bit for bit the same there.
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
    /// These bytes.
    Value(Vec<u8>),
    /// So many bytes for each work group.
    Local(u64),
    /// Part of a memory of the launch.
    Memory(Memory),
}

/// Part of one of the memories of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Which.
    pub memory: usize,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

/// One launch of a kernel. The image of its program and the content of each memory go with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Place among the devices.
    pub device: usize,
    /// Tag of the image's [`ModuleKind`](tensortap_abi::ModuleKind).
    pub image_kind: u8,
    /// Options that the program is built with.
    pub options: String,
    /// The kernel.
    pub kernel: String,
    /// Dimensions, 1 to 3.
    pub work_dims: u32,
    /// Work items in each.
    pub global_size: [u64; 3],
    /// Number of the first work item in each.
    pub global_offset: [u64; 3],
    /// Work items of a group in each; `None` leaves it to the device.
    pub group: Option<[u64; 3]>,
    /// Arguments, in order.
    pub args: Vec<Arg>,
    /// Whether it is run although its program has variables of its own, which hold whatever they begin with.
    pub allow_variables: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_as_they_were_sent_and_what_is_none_is_refused() {
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
