//! The driver functions that the backend subscribes to: their CUPTI numbers, and the positions of their
//! parameters, in words of 8 bytes.

/// What a function does, as far as the backend needs it. Numbers are positions of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// Launches a kernel. Parameters: function, six sizes, shared memory, stream, kernel parameters, and
    /// `extra` in one of these functions.
    Launch {
        /// Whether it has the parameter `extra`.
        extra: bool,
    },
    /// Launches a kernel. Parameters: a structure with sizes and stream, function, kernel parameters,
    /// `extra`.
    LaunchEx,
    /// Launches a kernel whose parameters were set earlier, in the stream at this position.
    LaunchLegacy(Option<usize>),
    /// Puts something into a stream that is not recorded: memory operations of the stream, host functions of
    /// the program.
    Unrecorded,
    /// Launches a kernel on several devices at once. Not recorded.
    LaunchMultiDevice,
    /// Launches a graph in the stream at this position.
    GraphLaunch(usize),
    /// Instantiates a graph. Parameters: pointer to the handle, graph.
    GraphInstantiate,
    /// Updates an executable graph from another graph. Parameters: executable graph, graph.
    GraphUpdate,
    /// Changes a node of an executable graph. Parameters: executable graph, node, node parameters.
    GraphSetNode(Node),
    /// Destroys an executable graph.
    GraphExecDestroy,
    /// Destroys a graph.
    GraphDestroy,
    /// Copies. The positions of destination, source and size, and of the stream.
    Memcpy(CopyEnds, [usize; 3], Option<usize>),
    /// Copies many pieces. Parameters: arrays of destinations, sources and sizes, and their length. The
    /// position of the stream.
    CopyBatch(usize),
    /// Copies a box that a structure describes. The position of the stream.
    CopyBox(Dims, Option<usize>),
    /// Copies between memory and an array, or between arrays. The position of the stream.
    CopyArray(CopyEnds, Option<usize>),
    /// Fills. Parameters: address, value, number of elements. The size of an element, and the position of the
    /// stream.
    Fill(u64, Option<usize>),
    /// Fills rows. Parameters: address, pitch, value, width in elements, height. The size of an element, and
    /// the position of the stream.
    FillRows(u64, Option<usize>),
    /// Allocates memory. Parameters: pointer to the address, size. The position of the stream if it is in
    /// stream order.
    Alloc(Space, Option<usize>),
    /// Allocates rows. Parameters: pointers to address and pitch, width, height.
    AllocPitch,
    /// Pins memory of the program. Parameters: address, size.
    Register,
    /// Returns the address of a variable. Parameters: pointers to address and size, module or library.
    Variable(Space),
    /// Frees memory. Parameter: address. The position of the stream if it is in stream order.
    Free(Option<usize>),
    /// Opens memory of another process. Parameter: pointer to the address.
    IpcOpen,
    /// Creates a texture or surface object. Parameter: pointer to the handle.
    TextureCreate(Textures),
    /// Destroys a texture or surface object. Parameter: handle.
    TextureDestroy(Textures),
    /// Creates multicast memory, which several devices write at once. Parameter: pointer to the handle.
    Multicast,
    /// Maps virtual memory. Parameters: address, size, offset, handle of the memory.
    Map,
    /// Unmaps virtual memory. Parameters: address, size.
    Unmap,
    /// Sets access rights. Parameters: address, size, descriptions, number of descriptions.
    SetAccess,
    /// Creates a context. Parameter: pointer to the handle.
    ContextCreate,
    /// Makes a context the current one. Parameter: handle.
    ContextSetCurrent,
    /// Records an event. Parameters: event, stream.
    EventRecord,
    /// Makes a stream wait for an event. Parameters: stream, event.
    EventWait,
    /// If it succeeds, the event has occurred.
    EventSync,
    /// Destroys an event.
    EventDestroy,
    /// If it succeeds, the stream is idle.
    StreamSync,
    /// Destroys a stream.
    StreamDestroy,
    /// Waits for a context, which may be a parameter.
    ContextSync {
        /// Whether the context is a parameter.
        is_named: bool,
    },
}

/// The kind of graph node that a function changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// A kernel launch.
    Kernel,
    /// A copy.
    Copy,
    /// A fill.
    Fill,
    /// A child graph.
    Graph,
    /// Any kind. The parameters begin with the kind.
    Any,
}

/// Kinds of objects through which kernels access memory without a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Textures {
    /// Textures, which kernels read.
    Read,
    /// Surfaces, which kernels read and write.
    Written,
}

/// The ends of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyEnds {
    /// From the host to a device.
    ToDevice,
    /// From a device to the host.
    ToHost,
    /// Between devices, or within one.
    Within,
    /// The addresses determine it.
    Any,
}

/// Dimensions of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dims {
    /// Rows.
    Two,
    /// Rows and slices.
    Three,
}

/// The kind of allocated memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Device memory.
    Device,
    /// Managed memory, which moves between host and device.
    Managed,
    /// Pinned host memory.
    Pinned,
}

/// A driver function.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Its number in CUPTI.
    pub id: u32,
    /// Whether a null stream means the default stream of the thread.
    pub means_thread: bool,
    /// Its name in the dump.
    pub name: &'static str,
    /// What it does.
    pub kind: CallKind,
}

/// The function with this number.
pub fn function(id: u32) -> Option<&'static Function> {
    FUNCTIONS.binary_search_by_key(&id, |function| function.id).ok().map(|at| &FUNCTIONS[at])
}

const fn of(id: u32, name: &'static str, kind: CallKind) -> Function {
    Function { id, means_thread: false, name, kind }
}

/// As `of`, for a function whose null stream is the default stream of the thread.
const fn th(id: u32, name: &'static str, kind: CallKind) -> Function {
    Function { id, means_thread: true, name, kind }
}

const WORDS: [usize; 3] = [0, 1, 2];
const PEER: [usize; 3] = [0, 2, 4];
use CallKind::{
    Alloc, AllocPitch, ContextCreate, ContextSetCurrent, ContextSync, CopyArray, CopyBatch, CopyBox,
    EventDestroy, EventRecord, EventSync, EventWait, Fill, FillRows, Free, GraphDestroy, GraphExecDestroy,
    GraphInstantiate, GraphLaunch, GraphSetNode, GraphUpdate, IpcOpen, Launch, LaunchEx, LaunchLegacy,
    LaunchMultiDevice, Map, Memcpy, Multicast, Register, SetAccess, StreamDestroy, StreamSync, TextureCreate,
    TextureDestroy, Unmap, Unrecorded, Variable,
};
use CopyEnds::{Any, ToDevice, ToHost, Within};

/// All functions, sorted by number.
#[rustfmt::skip]
pub const FUNCTIONS: &[Function] = &[
    of(17, "cuCtxSynchronize", ContextSync { is_named: false }),
    of(38, "cuMemFreeHost", Free(None)),
    of(39, "cuMemHostAlloc", Alloc(Space::Pinned, None)),
    of(115, "cuLaunch", LaunchLegacy(None)),
    of(116, "cuLaunchGrid", LaunchLegacy(None)),
    of(117, "cuLaunchGridAsync", LaunchLegacy(Some(2))),
    of(119, "cuEventRecord", EventRecord),
    of(120, "cuEventQuery", EventSync),
    of(121, "cuEventSynchronize", EventSync),
    of(125, "cuStreamQuery", StreamSync),
    of(126, "cuStreamSynchronize", StreamSync),
    of(216, "cuMemsetD8Async", Fill(1, Some(3))),
    of(218, "cuMemsetD16Async", Fill(2, Some(3))),
    of(220, "cuMemsetD32Async", Fill(4, Some(3))),
    of(222, "cuMemsetD2D8Async", FillRows(1, Some(5))),
    of(224, "cuMemsetD2D16Async", FillRows(2, Some(5))),
    of(226, "cuMemsetD2D32Async", FillRows(4, Some(5))),
    of(235, "cuCtxCreate", ContextCreate),
    of(241, "cuModuleGetGlobal", Variable(Space::Device)),
    of(243, "cuMemAlloc", Alloc(Space::Device, None)),
    of(244, "cuMemAllocPitch", AllocPitch),
    of(245, "cuMemFree", Free(None)),
    of(249, "cuMemsetD8", Fill(1, None)),
    of(250, "cuMemsetD16", Fill(2, None)),
    of(251, "cuMemsetD32", Fill(4, None)),
    of(252, "cuMemsetD2D8", FillRows(1, None)),
    of(253, "cuMemsetD2D16", FillRows(2, None)),
    of(254, "cuMemsetD2D32", FillRows(4, None)),
    of(271, "cuMemHostAlloc", Alloc(Space::Pinned, None)),
    of(276, "cuMemcpyHtoD", Memcpy(ToDevice, WORDS, None)),
    of(277, "cuMemcpyHtoDAsync", Memcpy(ToDevice, WORDS, Some(3))),
    of(278, "cuMemcpyDtoH", Memcpy(ToHost, WORDS, None)),
    of(279, "cuMemcpyDtoHAsync", Memcpy(ToHost, WORDS, Some(3))),
    of(280, "cuMemcpyDtoD", Memcpy(Within, WORDS, None)),
    of(281, "cuMemcpyDtoDAsync", Memcpy(Within, WORDS, Some(3))),
    of(282, "cuMemcpyAtoH", CopyArray(ToHost, None)),
    of(283, "cuMemcpyAtoHAsync", CopyArray(ToHost, Some(4))),
    of(284, "cuMemcpyAtoD", CopyArray(Within, None)),
    of(285, "cuMemcpyDtoA", CopyArray(Within, None)),
    of(286, "cuMemcpyAtoA", CopyArray(Within, None)),
    of(287, "cuMemcpy2D", CopyBox(Dims::Two, None)),
    of(288, "cuMemcpy2DUnaligned", CopyBox(Dims::Two, None)),
    of(289, "cuMemcpy2DAsync", CopyBox(Dims::Two, Some(1))),
    of(290, "cuMemcpy3D", CopyBox(Dims::Three, None)),
    of(291, "cuMemcpy3DAsync", CopyBox(Dims::Three, Some(1))),
    of(292, "cuMemcpyHtoA", CopyArray(ToDevice, None)),
    of(293, "cuMemcpyHtoAAsync", CopyArray(ToDevice, Some(4))),
    of(294, "cuMemAllocHost", Alloc(Space::Pinned, None)),
    of(295, "cuStreamWaitEvent", EventWait),
    of(301, "cuMemHostRegister", Register),
    of(302, "cuMemHostUnregister", Free(None)),
    of(303, "cuCtxSetCurrent", ContextSetCurrent),
    of(305, "cuMemcpy", Memcpy(Any, WORDS, None)),
    of(306, "cuMemcpyAsync", Memcpy(Any, WORDS, Some(3))),
    of(307, "cuLaunchKernel", Launch { extra: true }),
    of(318, "cuMemcpyPeer", Memcpy(Within, PEER, None)),
    of(319, "cuMemcpyPeerAsync", Memcpy(Within, PEER, Some(5))),
    of(320, "cuMemcpy3DPeer", CopyBox(Dims::Three, None)),
    of(321, "cuMemcpy3DPeerAsync", CopyBox(Dims::Three, Some(1))),
    of(323, "cuCtxPushCurrent", ContextSetCurrent),
    of(325, "cuEventDestroy", EventDestroy),
    of(326, "cuStreamDestroy", StreamDestroy),
    of(329, "cuIpcOpenMemHandle", IpcOpen),
    of(330, "cuIpcCloseMemHandle", Free(None)),
    of(339, "cuTexObjectCreate", TextureCreate(Textures::Read)),
    of(340, "cuTexObjectDestroy", TextureDestroy(Textures::Read)),
    of(343, "cuSurfObjectCreate", TextureCreate(Textures::Written)),
    of(344, "cuSurfObjectDestroy", TextureDestroy(Textures::Written)),
    of(346, "cuStreamAddCallback", Unrecorded),
    of(371, "cuMemAllocManaged", Alloc(Space::Managed, None)),
    of(379, "cuMemHostRegister", Register),
    of(386, "cuDevicePrimaryCtxRetain", ContextCreate),
    th(397, "cuMemcpyHtoD", Memcpy(ToDevice, WORDS, None)),
    th(398, "cuMemcpyDtoH", Memcpy(ToHost, WORDS, None)),
    th(399, "cuMemcpyDtoD", Memcpy(Within, WORDS, None)),
    th(400, "cuMemcpyDtoA", CopyArray(Within, None)),
    th(401, "cuMemcpyAtoD", CopyArray(Within, None)),
    th(402, "cuMemcpyHtoA", CopyArray(ToDevice, None)),
    th(403, "cuMemcpyAtoH", CopyArray(ToHost, None)),
    th(404, "cuMemcpyAtoA", CopyArray(Within, None)),
    th(405, "cuMemcpy2D", CopyBox(Dims::Two, None)),
    th(406, "cuMemcpy2DUnaligned", CopyBox(Dims::Two, None)),
    th(407, "cuMemcpy3D", CopyBox(Dims::Three, None)),
    th(408, "cuMemcpy", Memcpy(Any, WORDS, None)),
    th(409, "cuMemcpyPeer", Memcpy(Within, PEER, None)),
    th(410, "cuMemcpy3DPeer", CopyBox(Dims::Three, None)),
    th(411, "cuMemsetD8", Fill(1, None)),
    th(412, "cuMemsetD16", Fill(2, None)),
    th(413, "cuMemsetD32", Fill(4, None)),
    th(414, "cuMemsetD2D8", FillRows(1, None)),
    th(415, "cuMemsetD2D16", FillRows(2, None)),
    th(416, "cuMemsetD2D32", FillRows(4, None)),
    th(418, "cuMemcpyAsync", Memcpy(Any, WORDS, Some(3))),
    th(419, "cuMemcpyHtoAAsync", CopyArray(ToDevice, Some(4))),
    th(420, "cuMemcpyAtoHAsync", CopyArray(ToHost, Some(4))),
    th(421, "cuMemcpyHtoDAsync", Memcpy(ToDevice, WORDS, Some(3))),
    th(422, "cuMemcpyDtoHAsync", Memcpy(ToHost, WORDS, Some(3))),
    th(423, "cuMemcpyDtoDAsync", Memcpy(Within, WORDS, Some(3))),
    th(424, "cuMemcpy2DAsync", CopyBox(Dims::Two, Some(1))),
    th(425, "cuMemcpy3DAsync", CopyBox(Dims::Three, Some(1))),
    th(426, "cuMemcpyPeerAsync", Memcpy(Within, PEER, Some(5))),
    th(427, "cuMemcpy3DPeerAsync", CopyBox(Dims::Three, Some(1))),
    th(428, "cuMemsetD8Async", Fill(1, Some(3))),
    th(429, "cuMemsetD16Async", Fill(2, Some(3))),
    th(430, "cuMemsetD32Async", Fill(4, Some(3))),
    th(431, "cuMemsetD2D8Async", FillRows(1, Some(5))),
    th(432, "cuMemsetD2D16Async", FillRows(2, Some(5))),
    th(433, "cuMemsetD2D32Async", FillRows(4, Some(5))),
    th(436, "cuStreamWaitEvent", EventWait),
    th(437, "cuStreamAddCallback", Unrecorded),
    th(439, "cuStreamQuery", StreamSync),
    th(440, "cuStreamSynchronize", StreamSync),
    th(441, "cuEventRecord", EventRecord),
    th(442, "cuLaunchKernel", Launch { extra: true }),
    of(458, "cuStreamWaitValue32", Unrecorded),
    th(459, "cuStreamWaitValue32", Unrecorded),
    of(460, "cuStreamWriteValue32", Unrecorded),
    th(461, "cuStreamWriteValue32", Unrecorded),
    of(462, "cuStreamBatchMemOp", Unrecorded),
    th(463, "cuStreamBatchMemOp", Unrecorded),
    of(473, "cuStreamWaitValue64", Unrecorded),
    th(474, "cuStreamWaitValue64", Unrecorded),
    of(475, "cuStreamWriteValue64", Unrecorded),
    th(476, "cuStreamWriteValue64", Unrecorded),
    of(477, "cuLaunchCooperativeKernel", Launch { extra: false }),
    th(478, "cuLaunchCooperativeKernel", Launch { extra: false }),
    of(480, "cuLaunchCooperativeKernelMultiDevice", LaunchMultiDevice),
    of(513, "cuGraphInstantiate", GraphInstantiate),
    of(514, "cuGraphLaunch", GraphLaunch(1)),
    th(515, "cuGraphLaunch", GraphLaunch(1)),
    of(516, "cuGraphExecDestroy", GraphExecDestroy),
    of(517, "cuGraphDestroy", GraphDestroy),
    of(527, "cuLaunchHostFunc", Unrecorded),
    th(528, "cuLaunchHostFunc", Unrecorded),
    of(538, "cuGraphExecKernelNodeSetParams", GraphSetNode(Node::Kernel)),
    of(551, "cuMemMap", Map),
    of(552, "cuMemUnmap", Unmap),
    of(553, "cuMemSetAccess", SetAccess),
    of(561, "cuGraphExecUpdate", GraphUpdate),
    of(562, "cuGraphExecMemcpyNodeSetParams", GraphSetNode(Node::Copy)),
    of(563, "cuGraphExecMemsetNodeSetParams", GraphSetNode(Node::Fill)),
    of(567, "cuIpcOpenMemHandle", IpcOpen),
    of(578, "cuGraphInstantiate", GraphInstantiate),
    of(586, "cuGraphExecChildGraphNodeSetParams", GraphSetNode(Node::Graph)),
    of(587, "cuEventRecordWithFlags", EventRecord),
    th(588, "cuEventRecordWithFlags", EventRecord),
    of(598, "cuMemAllocAsync", Alloc(Space::Device, Some(2))),
    th(599, "cuMemAllocAsync", Alloc(Space::Device, Some(2))),
    of(600, "cuMemFreeAsync", Free(Some(1))),
    th(601, "cuMemFreeAsync", Free(Some(1))),
    of(611, "cuMemAllocFromPoolAsync", Alloc(Space::Device, Some(3))),
    th(612, "cuMemAllocFromPoolAsync", Alloc(Space::Device, Some(3))),
    of(643, "cuGraphInstantiate", GraphInstantiate),
    of(645, "cuCtxCreate", ContextCreate),
    of(652, "cuLaunchKernelEx", LaunchEx),
    th(653, "cuLaunchKernelEx", LaunchEx),
    of(656, "cuGraphInstantiate", GraphInstantiate),
    th(657, "cuGraphInstantiate", GraphInstantiate),
    of(659, "cuStreamWaitValue32", Unrecorded),
    th(660, "cuStreamWaitValue32", Unrecorded),
    of(661, "cuStreamWaitValue64", Unrecorded),
    th(662, "cuStreamWaitValue64", Unrecorded),
    of(663, "cuStreamWriteValue32", Unrecorded),
    th(664, "cuStreamWriteValue32", Unrecorded),
    of(665, "cuStreamWriteValue64", Unrecorded),
    th(666, "cuStreamWriteValue64", Unrecorded),
    of(667, "cuStreamBatchMemOp", Unrecorded),
    th(668, "cuStreamBatchMemOp", Unrecorded),
    of(684, "cuLibraryGetGlobal", Variable(Space::Device)),
    of(685, "cuLibraryGetManaged", Variable(Space::Managed)),
    of(692, "cuGraphExecKernelNodeSetParams", GraphSetNode(Node::Kernel)),
    of(696, "cuGraphExecUpdate", GraphUpdate),
    of(706, "cuMulticastCreate", Multicast),
    of(714, "cuGraphExecNodeSetParams", GraphSetNode(Node::Any)),
    of(757, "cuCtxCreate", ContextCreate),
    of(776, "cuMemcpyBatchAsync", CopyBatch(8)),
    th(777, "cuMemcpyBatchAsync", CopyBatch(8)),
    of(796, "cuMemcpyBatchAsync", CopyBatch(7)),
    th(797, "cuMemcpyBatchAsync", CopyBatch(7)),
    of(800, "cuCtxSynchronize", ContextSync { is_named: true }),
    of(831, "cuLaunchHostFunc", Unrecorded),
    th(832, "cuLaunchHostFunc", Unrecorded),
    of(837, "cuMemcpyWithAttributesAsync", Memcpy(Any, WORDS, Some(4))),
    th(838, "cuMemcpyWithAttributesAsync", Memcpy(Any, WORDS, Some(4))),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_sorted_and_found() {
        assert!(FUNCTIONS.is_sorted_by(|one, next| one.id < next.id));
        assert_eq!(
            function(442).map(|function| (function.name, function.means_thread)),
            Some(("cuLaunchKernel", true))
        );
        assert!(function(1).is_none());
    }
}
