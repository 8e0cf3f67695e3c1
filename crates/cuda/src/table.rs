//! Functions of the driver that are told of: their numbers in CUPTI, and where their parameters lie, in words of 8 bytes.

/// What a function does, as far as it concerns recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Launches a kernel: function, six sizes, shared memory, stream, parameters, and `extra` in one of them.
    Launch {
        /// Whether it has `extra`.
        extra: bool,
    },
    /// Launches a kernel: sizes and stream in a structure, function, parameters, `extra`.
    LaunchEx,
    /// Launches a kernel whose parameters were set before, in the stream at this word.
    LaunchOld(Option<usize>),
    /// Puts something into streams that is not recorded: values that are waited for or written, functions of the program's.
    Unrecorded,
    /// Launches a kernel on several devices at once, which is not recorded.
    LaunchMany,
    /// Launches a graph in the stream at this word.
    Graph(usize),
    /// A graph can be launched: a place for its handle, and the graph it is made of.
    GraphMade,
    /// Parts of one that can be launched are those of another graph now: it, and the graph.
    GraphUpdated,
    /// A node of one that can be launched is given something else: it, the node, and what.
    GraphSet(Node),
    /// One that can be launched goes.
    GraphGone,
    /// A graph goes.
    GraphPlanGone,
    /// Copies: to, from, bytes, and the stream's place.
    Move(Ends, [usize; 3], Option<usize>),
    /// Copies many pieces: arrays of to, from, bytes, their number, and the stream's place.
    CopyMany(usize),
    /// Copies a box that a structure describes.
    CopyBox(Dims, Option<usize>),
    /// Copies between memory and an array, or arrays.
    CopyArray(Ends, Option<usize>),
    /// Fills: where, value, count of so many bytes.
    Fill(u64, Option<usize>),
    /// Fills rows: where, pitch, value, width of so many bytes, height.
    FillRows(u64, Option<usize>),
    /// Memory is there: a place for the address, bytes; in the order of the stream at this word.
    Alloc(Space, Option<usize>),
    /// Memory in rows is there: a place for the address, one for the pitch, width, height.
    AllocPitch,
    /// Memory of the program is the device's as well: address, bytes.
    Register,
    /// A program knows where a variable lies: places for the address and for its bytes, and the module or library.
    Variable(Space),
    /// Memory goes: its address; in the order of the stream at this word.
    Free(Option<usize>),
    /// Memory of another process is there: a place for the address.
    Open,
    /// A texture or a surface is there: a place for its handle.
    TextureMade(Textures),
    /// And goes: its handle.
    TextureGone(Textures),
    /// A handle is there of what several devices write at once: a place for it.
    Multicast,
    /// Virtual memory is mapped: address, bytes, an offset, and the handle of what is mapped.
    Map,
    /// And is no more.
    Unmap,
    /// Who may touch it: address, bytes, descriptions, their number.
    SetAccess,
    /// A context is made: a place for its handle.
    ContextMade,
    /// A context is used: its handle.
    ContextUsed,
    /// An event is recorded: event, stream.
    EventRecord,
    /// A stream waits for an event: stream, event.
    EventWait,
    /// The host knows of an event, if the function succeeds.
    EventSeen,
    /// An event goes.
    EventGone,
    /// The host knows of a stream, if the function succeeds.
    StreamSeen,
    /// A stream goes.
    StreamGone,
    /// The host has waited for a context, which may be named.
    ContextSeen {
        /// Whether it is.
        is_named: bool,
    },
}

/// What a node of a graph is given, by the function that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// A kernel and its parameters.
    Kernel,
    /// A copy.
    Copy,
    /// A fill.
    Fill,
    /// Another graph.
    Graph,
    /// Any of these, behind words that say which.
    Any,
}

/// Objects through which kernels read memory that no pointer of theirs leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Textures {
    /// Textures.
    Read,
    /// Surfaces, which are written as well.
    Written,
}

/// What a copy has at its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// From the host to a device.
    ToDevice,
    /// From a device to the host.
    ToHost,
    /// Within devices.
    Within,
    /// Whatever the addresses say.
    Any,
}

/// Directions of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dims {
    /// Rows.
    Two,
    /// Rows and slices.
    Three,
}

/// Whose memory is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// The device's.
    Device,
    /// Memory that moves.
    Managed,
    /// The host's, for the device.
    Pinned,
}

/// A function.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Its number.
    pub id: u32,
    /// Whether a stream that is not said is the thread's own.
    pub means_thread: bool,
    /// Its name, as the dump has it.
    pub name: &'static str,
    /// What it does.
    pub does: Does,
}

/// The function of a number.
pub fn function(id: u32) -> Option<&'static Function> {
    FUNCTIONS.binary_search_by_key(&id, |function| function.id).ok().map(|at| &FUNCTIONS[at])
}

const fn of(id: u32, name: &'static str, does: Does) -> Function {
    Function { id, means_thread: false, name, does }
}

/// As `of`, of a function whose stream is the thread's own where none is said.
const fn th(id: u32, name: &'static str, does: Does) -> Function {
    Function { id, means_thread: true, name, does }
}

const WORDS: [usize; 3] = [0, 1, 2];
const PEER: [usize; 3] = [0, 2, 4];
use Does::{
    Alloc, AllocPitch, ContextMade, ContextSeen, ContextUsed, CopyArray, CopyBox, CopyMany, EventGone,
    EventRecord, EventSeen, EventWait, Fill, FillRows, Free, Graph, GraphGone, GraphMade, GraphPlanGone,
    GraphSet, GraphUpdated, Launch, LaunchEx, LaunchMany, LaunchOld, Map, Move, Multicast, Open, Register,
    SetAccess, StreamGone, StreamSeen, TextureGone, TextureMade, Unmap, Unrecorded, Variable,
};
use Ends::{Any, ToDevice, ToHost, Within};

/// All of them, by their numbers.
#[rustfmt::skip]
pub const FUNCTIONS: &[Function] = &[
    of(17, "cuCtxSynchronize", ContextSeen { is_named: false }),
    of(38, "cuMemFreeHost", Free(None)),
    of(39, "cuMemHostAlloc", Alloc(Space::Pinned, None)),
    of(115, "cuLaunch", LaunchOld(None)),
    of(116, "cuLaunchGrid", LaunchOld(None)),
    of(117, "cuLaunchGridAsync", LaunchOld(Some(2))),
    of(119, "cuEventRecord", EventRecord),
    of(120, "cuEventQuery", EventSeen),
    of(121, "cuEventSynchronize", EventSeen),
    of(125, "cuStreamQuery", StreamSeen),
    of(126, "cuStreamSynchronize", StreamSeen),
    of(216, "cuMemsetD8Async", Fill(1, Some(3))),
    of(218, "cuMemsetD16Async", Fill(2, Some(3))),
    of(220, "cuMemsetD32Async", Fill(4, Some(3))),
    of(222, "cuMemsetD2D8Async", FillRows(1, Some(5))),
    of(224, "cuMemsetD2D16Async", FillRows(2, Some(5))),
    of(226, "cuMemsetD2D32Async", FillRows(4, Some(5))),
    of(235, "cuCtxCreate", ContextMade),
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
    of(276, "cuMemcpyHtoD", Move(ToDevice, WORDS, None)),
    of(277, "cuMemcpyHtoDAsync", Move(ToDevice, WORDS, Some(3))),
    of(278, "cuMemcpyDtoH", Move(ToHost, WORDS, None)),
    of(279, "cuMemcpyDtoHAsync", Move(ToHost, WORDS, Some(3))),
    of(280, "cuMemcpyDtoD", Move(Within, WORDS, None)),
    of(281, "cuMemcpyDtoDAsync", Move(Within, WORDS, Some(3))),
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
    of(303, "cuCtxSetCurrent", ContextUsed),
    of(305, "cuMemcpy", Move(Any, WORDS, None)),
    of(306, "cuMemcpyAsync", Move(Any, WORDS, Some(3))),
    of(307, "cuLaunchKernel", Launch { extra: true }),
    of(318, "cuMemcpyPeer", Move(Within, PEER, None)),
    of(319, "cuMemcpyPeerAsync", Move(Within, PEER, Some(5))),
    of(320, "cuMemcpy3DPeer", CopyBox(Dims::Three, None)),
    of(321, "cuMemcpy3DPeerAsync", CopyBox(Dims::Three, Some(1))),
    of(323, "cuCtxPushCurrent", ContextUsed),
    of(325, "cuEventDestroy", EventGone),
    of(326, "cuStreamDestroy", StreamGone),
    of(329, "cuIpcOpenMemHandle", Open),
    of(330, "cuIpcCloseMemHandle", Free(None)),
    of(339, "cuTexObjectCreate", TextureMade(Textures::Read)),
    of(340, "cuTexObjectDestroy", TextureGone(Textures::Read)),
    of(343, "cuSurfObjectCreate", TextureMade(Textures::Written)),
    of(344, "cuSurfObjectDestroy", TextureGone(Textures::Written)),
    of(346, "cuStreamAddCallback", Unrecorded),
    of(371, "cuMemAllocManaged", Alloc(Space::Managed, None)),
    of(379, "cuMemHostRegister", Register),
    of(386, "cuDevicePrimaryCtxRetain", ContextMade),
    th(397, "cuMemcpyHtoD", Move(ToDevice, WORDS, None)),
    th(398, "cuMemcpyDtoH", Move(ToHost, WORDS, None)),
    th(399, "cuMemcpyDtoD", Move(Within, WORDS, None)),
    th(400, "cuMemcpyDtoA", CopyArray(Within, None)),
    th(401, "cuMemcpyAtoD", CopyArray(Within, None)),
    th(402, "cuMemcpyHtoA", CopyArray(ToDevice, None)),
    th(403, "cuMemcpyAtoH", CopyArray(ToHost, None)),
    th(404, "cuMemcpyAtoA", CopyArray(Within, None)),
    th(405, "cuMemcpy2D", CopyBox(Dims::Two, None)),
    th(406, "cuMemcpy2DUnaligned", CopyBox(Dims::Two, None)),
    th(407, "cuMemcpy3D", CopyBox(Dims::Three, None)),
    th(408, "cuMemcpy", Move(Any, WORDS, None)),
    th(409, "cuMemcpyPeer", Move(Within, PEER, None)),
    th(410, "cuMemcpy3DPeer", CopyBox(Dims::Three, None)),
    th(411, "cuMemsetD8", Fill(1, None)),
    th(412, "cuMemsetD16", Fill(2, None)),
    th(413, "cuMemsetD32", Fill(4, None)),
    th(414, "cuMemsetD2D8", FillRows(1, None)),
    th(415, "cuMemsetD2D16", FillRows(2, None)),
    th(416, "cuMemsetD2D32", FillRows(4, None)),
    th(418, "cuMemcpyAsync", Move(Any, WORDS, Some(3))),
    th(419, "cuMemcpyHtoAAsync", CopyArray(ToDevice, Some(4))),
    th(420, "cuMemcpyAtoHAsync", CopyArray(ToHost, Some(4))),
    th(421, "cuMemcpyHtoDAsync", Move(ToDevice, WORDS, Some(3))),
    th(422, "cuMemcpyDtoHAsync", Move(ToHost, WORDS, Some(3))),
    th(423, "cuMemcpyDtoDAsync", Move(Within, WORDS, Some(3))),
    th(424, "cuMemcpy2DAsync", CopyBox(Dims::Two, Some(1))),
    th(425, "cuMemcpy3DAsync", CopyBox(Dims::Three, Some(1))),
    th(426, "cuMemcpyPeerAsync", Move(Within, PEER, Some(5))),
    th(427, "cuMemcpy3DPeerAsync", CopyBox(Dims::Three, Some(1))),
    th(428, "cuMemsetD8Async", Fill(1, Some(3))),
    th(429, "cuMemsetD16Async", Fill(2, Some(3))),
    th(430, "cuMemsetD32Async", Fill(4, Some(3))),
    th(431, "cuMemsetD2D8Async", FillRows(1, Some(5))),
    th(432, "cuMemsetD2D16Async", FillRows(2, Some(5))),
    th(433, "cuMemsetD2D32Async", FillRows(4, Some(5))),
    th(436, "cuStreamWaitEvent", EventWait),
    th(437, "cuStreamAddCallback", Unrecorded),
    th(439, "cuStreamQuery", StreamSeen),
    th(440, "cuStreamSynchronize", StreamSeen),
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
    of(480, "cuLaunchCooperativeKernelMultiDevice", LaunchMany),
    of(513, "cuGraphInstantiate", GraphMade),
    of(514, "cuGraphLaunch", Graph(1)),
    th(515, "cuGraphLaunch", Graph(1)),
    of(516, "cuGraphExecDestroy", GraphGone),
    of(517, "cuGraphDestroy", GraphPlanGone),
    of(527, "cuLaunchHostFunc", Unrecorded),
    th(528, "cuLaunchHostFunc", Unrecorded),
    of(538, "cuGraphExecKernelNodeSetParams", GraphSet(Node::Kernel)),
    of(551, "cuMemMap", Map),
    of(552, "cuMemUnmap", Unmap),
    of(553, "cuMemSetAccess", SetAccess),
    of(561, "cuGraphExecUpdate", GraphUpdated),
    of(562, "cuGraphExecMemcpyNodeSetParams", GraphSet(Node::Copy)),
    of(563, "cuGraphExecMemsetNodeSetParams", GraphSet(Node::Fill)),
    of(567, "cuIpcOpenMemHandle", Open),
    of(578, "cuGraphInstantiate", GraphMade),
    of(586, "cuGraphExecChildGraphNodeSetParams", GraphSet(Node::Graph)),
    of(587, "cuEventRecordWithFlags", EventRecord),
    th(588, "cuEventRecordWithFlags", EventRecord),
    of(598, "cuMemAllocAsync", Alloc(Space::Device, Some(2))),
    th(599, "cuMemAllocAsync", Alloc(Space::Device, Some(2))),
    of(600, "cuMemFreeAsync", Free(Some(1))),
    th(601, "cuMemFreeAsync", Free(Some(1))),
    of(611, "cuMemAllocFromPoolAsync", Alloc(Space::Device, Some(3))),
    th(612, "cuMemAllocFromPoolAsync", Alloc(Space::Device, Some(3))),
    of(643, "cuGraphInstantiate", GraphMade),
    of(645, "cuCtxCreate", ContextMade),
    of(652, "cuLaunchKernelEx", LaunchEx),
    th(653, "cuLaunchKernelEx", LaunchEx),
    of(656, "cuGraphInstantiate", GraphMade),
    th(657, "cuGraphInstantiate", GraphMade),
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
    of(692, "cuGraphExecKernelNodeSetParams", GraphSet(Node::Kernel)),
    of(696, "cuGraphExecUpdate", GraphUpdated),
    of(706, "cuMulticastCreate", Multicast),
    of(714, "cuGraphExecNodeSetParams", GraphSet(Node::Any)),
    of(757, "cuCtxCreate", ContextMade),
    of(776, "cuMemcpyBatchAsync", CopyMany(8)),
    th(777, "cuMemcpyBatchAsync", CopyMany(8)),
    of(796, "cuMemcpyBatchAsync", CopyMany(7)),
    th(797, "cuMemcpyBatchAsync", CopyMany(7)),
    of(800, "cuCtxSynchronize", ContextSeen { is_named: true }),
    of(831, "cuLaunchHostFunc", Unrecorded),
    th(832, "cuLaunchHostFunc", Unrecorded),
    of(837, "cuMemcpyWithAttributesAsync", Move(Any, WORDS, Some(4))),
    th(838, "cuMemcpyWithAttributesAsync", Move(Any, WORDS, Some(4))),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_stand_in_order_so_that_each_is_found() {
        assert!(FUNCTIONS.is_sorted_by(|one, next| one.id < next.id));
        assert_eq!(
            function(442).map(|function| (function.name, function.means_thread)),
            Some(("cuLaunchKernel", true))
        );
        assert!(function(1).is_none());
    }
}
