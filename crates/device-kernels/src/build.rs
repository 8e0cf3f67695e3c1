//! How the source is compiled for a kind of device.

/// Options of a build; work items of a group are those of every launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// Work items of a group: 1, or a power of two from 64 to 256.
    pub group: u32,
    /// Work items that share a leaf: 1 or 4.
    lanes: u32,
    /// Stripes of a leaf that a work item loads at a time.
    deep: u32,
    /// The same with statistics, which need registers of their own.
    measured_deep: u32,
    /// Whether the device has 64-bit floats. Without them mean and deviation are left out.
    fp64: bool,
    /// Whether roots are made in the launch of the leaves. It takes an order of memory between groups, which OpenCL 1.2 does not
    /// promise.
    chained: bool,
}

impl Build {
    /// For CUDA devices.
    pub const CUDA: Build =
        Build { group: 256, lanes: 4, deep: 16, measured_deep: 4, fp64: true, chained: true };

    /// For OpenCL devices that are processors: a work item has a bundle to itself.
    #[must_use]
    pub fn processor(fp64: bool) -> Build {
        Build { group: 1, lanes: 1, deep: 1, measured_deep: 1, fp64, chained: false }
    }

    /// For other OpenCL devices: four work items to a leaf, which meet in local memory. `None` when the device's groups are
    /// smaller than 64 work items.
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

    /// Whether the launch of the leaves leaves results; otherwise [`ROOTS`](crate::ROOTS) does.
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
