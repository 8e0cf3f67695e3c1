//! Compiler options for a kind of device.

/// Options of a build. Every launch uses the same group size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// Work items of a group: 1, or a power of two from 64 to 256.
    pub group: u32,
    /// Work items per leaf: 1 or 4.
    lanes: u32,
    /// Stripes of a leaf that a work item loads at once.
    deep: u32,
    /// Stripes per load with statistics, which need more registers.
    measured_deep: u32,
    /// Whether the device has 64-bit floats. Without them, mean and deviation are not computed.
    fp64: bool,
    /// Whether the launch of the leaves also computes roots. This needs memory ordering between groups, which
    /// OpenCL 1.2 does not guarantee.
    chained: bool,
}

impl Build {
    /// For CUDA devices.
    pub const CUDA: Build =
        Build { group: 256, lanes: 4, deep: 16, measured_deep: 4, fp64: true, chained: true };

    /// For OpenCL CPUs: one work item per bundle.
    #[must_use]
    pub fn processor(fp64: bool) -> Build {
        Build { group: 1, lanes: 1, deep: 1, measured_deep: 1, fp64, chained: false }
    }

    /// For other OpenCL devices: four work items per leaf, which exchange data in local memory. `None` if the
    /// device's groups are smaller than 64 work items.
    #[must_use]
    pub fn accelerator(largest_group: usize, fp64: bool) -> Option<Build> {
        let group = [256, 128, 64].into_iter().find(|group| *group as usize <= largest_group)?;
        Some(Build { group, lanes: 4, deep: 4, measured_deep: 2, fp64, chained: false })
    }

    /// Whether mean and deviation are computed.
    #[must_use]
    pub fn has_fp64(&self) -> bool {
        self.fp64
    }

    /// Whether the launch of the leaves computes the results. Otherwise [`ROOTS`](crate::ROOTS) does.
    #[must_use]
    pub fn chains_roots(&self) -> bool {
        self.chained
    }

    /// Options for `clBuildProgram`.
    #[must_use]
    pub fn opencl_options(&self) -> String {
        format!("-cl-std=CL1.2{}", self.definitions())
    }

    /// Options for `nvrtcCompileProgram`, for a device such as `sm_90`.
    #[must_use]
    pub fn nvrtc_options(&self, architecture: &str) -> Vec<String> {
        let architecture = format!("--gpu-architecture={architecture}");
        std::iter::once(architecture)
            .chain(self.definitions().split_whitespace().map(str::to_owned))
            .collect()
    }

    fn definitions(&self) -> String {
        let &Build { group, lanes, deep, measured_deep, fp64, chained } = self;
        let fp64 = if fp64 { " -DTT_FP64=1" } else { "" };
        let chained = if chained { " -DTT_CHAINED=1" } else { "" };
        let counts = format!(" -DTT_GROUP={group} -DTT_LANES={lanes}");
        format!("{counts} -DTT_DEEP={deep} -DTT_MEASURED_DEEP={measured_deep}{fp64}{chained}")
    }
}
