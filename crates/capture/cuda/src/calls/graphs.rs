//! Graphs: the memory that their nodes use. The backend asks for it when a graph is instantiated or changed,
//! never when it is launched.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use tensortap_queue::Range;
use tensortap_record::{KernelId, Operation, RecordError, ThreadRecorder, UncapturedReason};

use super::{
    kernels::KernelFacts,
    launches::{self, Launch},
    transfers,
};
use crate::{
    allocations::{AddressableRange, Allocations, Device},
    backend::CudaBackend,
    command::CommandSpec,
    enqueue::{PendingCommand, StreamTarget},
    library::{NODE_WORDS, NodeKind},
    raw,
    stream_guard::StreamGuard,
    table::{Function, Node},
};

/// Memory that a node may access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    address: u64,
    bytes: u64,
    is_exact: bool,
}

/// Memory that one node or several nodes use.
#[derive(Clone, Debug, Default)]
struct MemoryUse {
    pieces: Vec<Piece>,
    /// Names of what is not captured.
    unseen: BTreeSet<&'static str>,
}

/// An executable graph.
#[derive(Debug, Default)]
pub struct Graph {
    /// The memory of each node, by handle.
    nodes: HashMap<usize, MemoryUse>,
    /// The memory of all nodes: pieces that do not overlap, by address.
    all: Arc<MemoryUse>,
}

impl Graph {
    fn new(nodes: HashMap<usize, MemoryUse>) -> Graph {
        let mut graph = Graph { nodes, all: Arc::default() };
        graph.unite();
        graph
    }

    fn set(&mut self, node: usize, touched: MemoryUse) {
        self.nodes.insert(node, touched);
        self.unite();
    }

    fn unite(&mut self) {
        let pieces = union(self.nodes.values().flat_map(|touched| touched.pieces.iter().copied()));
        let unseen = self.nodes.values().flat_map(|touched| touched.unseen.iter().copied()).collect();
        self.all = Arc::new(MemoryUse { pieces, unseen });
    }
}

/// Joins pieces that overlap. The result does not overlap and is sorted. Pieces that only touch stay apart.
fn union(pieces: impl Iterator<Item = Piece>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = pieces.filter(|piece| piece.bytes > 0).collect();
    pieces.sort_unstable();
    let mut all: Vec<Piece> = Vec::new();
    for piece in pieces {
        let end = |piece: &Piece| piece.address.saturating_add(piece.bytes);
        match all.last_mut() {
            Some(last) if piece.address < end(last) => {
                // The piece with the larger end determines whether the end is exact.
                let (own, other) = (end(last), end(&piece));
                last.is_exact = match own.cmp(&other) {
                    std::cmp::Ordering::Less => piece.is_exact,
                    std::cmp::Ordering::Equal => last.is_exact || piece.is_exact,
                    std::cmp::Ordering::Greater => last.is_exact,
                };
                last.bytes = own.max(other) - last.address;
            }
            _ => all.push(piece),
        }
    }
    all
}

/// How far pointers reached when their launches were captured, by address. Allocators reuse blocks within one
/// capture.
type Extents = HashMap<u64, (u64, bool)>;

/// Notes about one capture.
#[derive(Debug, Default)]
struct CaptureNotes {
    /// The context in which it was made. It is forgotten with that context.
    context: usize,
    /// Number of the capture. A graph with the same handle and another capture is a different graph: the
    /// first may have been destroyed without notice.
    capture: u64,
    extents: Extents,
}

/// All graphs.
#[derive(Debug, Default)]
pub struct Graphs {
    /// Executable graphs by handle, with their contexts.
    made: HashMap<usize, (usize, Graph)>,
    /// Notes by handle of a graph that is not instantiated yet.
    noted: HashMap<usize, CaptureNotes>,
}

impl Graphs {
    /// The notes about a capture into a graph.
    fn extents(&mut self, (graph, capture): (usize, u64), context: usize) -> &mut Extents {
        let noted = self.noted.entry(graph).or_default();
        // The launches of one capture may be in several contexts. The notes belong to the first.
        if noted.context == 0 || noted.capture != capture {
            *noted = CaptureNotes { context, capture, extents: Extents::new() };
        }
        &mut noted.extents
    }

    /// A context is destroyed with its graphs.
    pub fn forget_context(&mut self, context: usize) {
        self.made.retain(|_, (of, _)| *of != context);
        self.noted.retain(|_, noted| noted.context != context);
    }
}

/// A launch is captured into a graph. Notes how far its pointers reach now.
///
/// # Safety
/// As the program's launch: its parameters can be read.
pub unsafe fn note(
    backend: &CudaBackend,
    (stream, context): (usize, usize),
    facts: &KernelFacts,
    launch: &Launch,
) {
    // SAFETY: the caller's guarantee.
    let Some((pointers, _)) = (unsafe { launches::given(backend, facts, launch) }) else { return };
    let graph = backend.driver.captured_graph(stream);
    let mut state = backend.state();
    let state = &mut *state;
    let noted = state.graphs.extents(graph, context);
    for address in pointers {
        let Some(AddressableRange { bytes, is_exact, .. }) =
            state.allocations.extent(address, ANY_DEVICE, u64::MAX)
        else {
            continue;
        };
        let known = noted.entry(address).or_insert((bytes, is_exact));
        // If two launches have the same pointer, the larger extent counts.
        *known = (known.0.max(bytes), known.1 && is_exact);
    }
}

/// Access rights are checked when the graph is launched.
const ANY_DEVICE: Device = 0;

/// A graph was instantiated or updated.
pub fn instantiated(backend: &CudaBackend, context: usize, handle: usize, graph: usize) {
    let nodes = Walk::new(backend, graph).nodes(graph, 0);
    backend.state().graphs.made.insert(handle, (context, Graph::new(nodes)));
}

/// An executable graph is destroyed.
pub fn exec_destroyed(backend: &CudaBackend, handle: usize) {
    backend.state().graphs.made.remove(&handle);
}

/// A graph is destroyed. A new graph may get its handle.
pub fn graph_destroyed(backend: &CudaBackend, graph: usize) {
    backend.state().graphs.noted.remove(&graph);
}

/// A node of an executable graph gets new parameters.
///
/// # Safety
/// `given` is the address of the parameters, or the handle of a graph.
pub unsafe fn set(backend: &CudaBackend, handle: usize, node: usize, (what, given): (Node, u64)) {
    let walk = Walk::new(backend, 0);
    // SAFETY: the caller's guarantee.
    let touched = unsafe { walk.node_update(what, given) };
    if let Some((_, graph)) = backend.state().graphs.made.get_mut(&handle) {
        graph.set(node, touched);
    }
}

/// Child graphs are visited up to this depth.
const MAX_DEPTH: u32 = 16;

const KERNEL: i32 = 0;
const COPY: i32 = 1;
const FILL: i32 = 2;
const HOST: i32 = 3;
const GRAPH: i32 = 4;
/// Nodes that access no memory: empty nodes, events, semaphores and frees.
const QUIET: [i32; 6] = [5, 6, 7, 8, 9, 11];
const ALLOC: i32 = 10;

/// Visits the nodes of a graph.
struct Walk<'a> {
    backend: &'a CudaBackend,
    noted: Extents,
}

impl Walk<'_> {
    fn new(backend: &CudaBackend, graph: usize) -> Walk<'_> {
        let noted =
            backend.state().graphs.noted.get(&graph).map(|noted| noted.extents.clone()).unwrap_or_default();
        Walk { backend, noted }
    }

    fn nodes(&self, graph: usize, depth: u32) -> HashMap<usize, MemoryUse> {
        let nodes = self.backend.driver.graph_nodes(graph).filter(|_| depth < MAX_DEPTH);
        let Some(nodes) = nodes else {
            return [(0, unseen("memory of the graph"))].into();
        };
        nodes.into_iter().map(|node| (node, self.node(node, depth))).collect()
    }

    fn node(&self, node: usize, depth: u32) -> MemoryUse {
        let given = |what| self.backend.driver.node_parameters(node, what);
        match self.backend.driver.node_kind(node) {
            Some(KERNEL) => given(NodeKind::Kernel)
                .map_or_else(|| unseen("a kernel of the graph"), |words| self.kernel(&words)),
            Some(COPY) => {
                given(NodeKind::Copy).map_or_else(|| unseen("a copy of the graph"), |words| self.copy(&words))
            }
            Some(FILL) => {
                given(NodeKind::Fill).map_or_else(|| unseen("a fill of the graph"), |words| fill(&words))
            }
            Some(GRAPH) => match self.backend.driver.child_graph(node) {
                Some(child) => self.graph(child, depth),
                None => unseen("a graph of the graph"),
            },
            // The memory exists only while the graph runs.
            Some(ALLOC) => unseen("memory that the graph allocates"),
            Some(HOST) => unseen("a function of the host in the graph"),
            Some(kind) if QUIET.contains(&kind) => MemoryUse::default(),
            _ => unseen("a node of the graph"),
        }
    }

    /// The memory of all nodes of a child graph.
    fn graph(&self, graph: usize, depth: u32) -> MemoryUse {
        let mut all = MemoryUse::default();
        for touched in self.nodes(graph, depth + 1).into_values() {
            all.pieces.extend(touched.pieces);
            all.unseen.extend(touched.unseen);
        }
        all
    }

    /// The memory that a node uses with new parameters.
    ///
    /// # Safety
    /// The parameters are at this address.
    unsafe fn node_update(&self, what: Node, given: u64) -> MemoryUse {
        // Parameters for any kind of node begin with the kind. Those of a copy follow two words later.
        let (kind, at) = match what {
            Node::Kernel => (KERNEL, given),
            Node::Copy => (COPY, given),
            Node::Fill => (FILL, given),
            Node::Graph => return self.graph(usize::try_from(given).unwrap_or(0), 0),
            // SAFETY: the caller's guarantee.
            Node::Any => match unsafe { raw::at::<i32>(given) } {
                COPY => (COPY, given + 32),
                kind => (kind, given + 16),
            },
        };
        let mut words = [0; NODE_WORDS];
        let count = match kind {
            KERNEL => 7,
            COPY => 25,
            FILL => 5,
            GRAPH => 1,
            _ => 0,
        };
        // SAFETY: the caller's guarantee.
        let word = |place: usize| unsafe { raw::at::<u64>(at + 8 * place as u64) };
        (0..count).for_each(|place| words[place] = word(place));
        if kind == KERNEL && words[0] == 0 {
            words[7] = word(7);
        }
        match kind {
            KERNEL => self.kernel(&words),
            COPY => self.copy(&words),
            FILL => fill(&words),
            GRAPH => self.graph(usize::try_from(words[0]).unwrap_or(0), 0),
            _ => unseen("a node of the graph"),
        }
    }

    /// Words: function, sizes, shared memory, parameters, `extra`, and a kernel if there is no function.
    fn kernel(&self, words: &[u64; NODE_WORDS]) -> MemoryUse {
        let function = if words[0] == 0 { words[7] } else { words[0] };
        let launch = Launch {
            function: usize::try_from(function).unwrap_or(0),
            sizes: [0; 3],
            parameters: words[5],
            extra: words[6],
            details: launches::LaunchOptions::default(),
        };
        let facts = KernelFacts::of(self.backend, None, launch.function);
        // SAFETY: the driver or the program has the parameters of the node there.
        let Some((pointers, may_be_texture)) = (unsafe { launches::given(self.backend, &facts, &launch) })
        else {
            return unseen("parameters of a kernel of the graph");
        };
        let state = self.backend.state();
        let pieces = pointers.into_iter().filter_map(|address| self.piece(&state.allocations, address));
        let mut touched = MemoryUse { pieces: pieces.collect(), unseen: BTreeSet::new() };
        for variable in &facts.code.variables {
            match variable.at {
                Some((address, bytes)) => touched.pieces.push(Piece { address, bytes, is_exact: true }),
                None => _ = touched.unseen.insert("variables of a kernel of the graph"),
            }
        }
        if may_be_texture {
            touched.unseen.insert("memory of textures of a kernel of the graph");
        }
        if facts.code.has_more {
            touched.unseen.insert("more variables of a kernel of the graph");
        }
        touched
    }

    /// The memory that a pointer reaches: as noted when its launch was captured, else as it is now.
    fn piece(&self, allocations: &Allocations, address: u64) -> Option<Piece> {
        let extent = allocations.extent(address, ANY_DEVICE, u64::MAX)?;
        let (bytes, is_exact) = self.noted.get(&address).copied().unwrap_or((extent.bytes, extent.is_exact));
        Some(Piece { address, bytes, is_exact })
    }

    fn copy(&self, words: &[u64; NODE_WORDS]) -> MemoryUse {
        let ends = transfers::ends_of_box(words.first_chunk().expect("there are more"));
        let mut touched = MemoryUse::default();
        for end in ends {
            match end {
                Some((address, bytes)) => touched.pieces.push(Piece { address, bytes, is_exact: true }),
                None => _ = touched.unseen.insert("an array that the graph copies"),
            }
        }
        // Host memory is not known, and is left out when the graph is launched.
        let state = self.backend.state();
        touched.pieces.retain(|piece| state.allocations.reach(piece.address, ANY_DEVICE, 1).is_some());
        touched
    }
}

/// Words: address, pitch, value and element size, width, height.
fn fill(words: &[u64; NODE_WORDS]) -> MemoryUse {
    let [address, pitch, value, width, height, ..] = *words;
    let row = width.saturating_mul(value >> 32);
    let bytes = height.saturating_sub(1).saturating_mul(pitch).saturating_add(row);
    MemoryUse { pieces: vec![Piece { address, bytes, is_exact: true }], unseen: BTreeSet::new() }
}

fn unseen(what: &'static str) -> MemoryUse {
    MemoryUse { pieces: Vec::new(), unseen: [what].into() }
}

/// At most this many ranges of one launch are captured.
const MAX_RANGES: usize = 4096;

/// A launch of a graph: one task with the memory of all nodes.
pub fn launch(
    backend: &CudaBackend,
    function: &Function,
    handle: usize,
    target: &StreamTarget,
    guard: StreamGuard,
) -> Option<PendingCommand> {
    let (all, id) = {
        let all = backend.state().graphs.made.get(&handle).map(|(_, graph)| Arc::clone(&graph.all));
        let records = all.as_ref().map_or(1, |all| all.pieces.len() + all.unseen.len());
        let records = u32::try_from(records).unwrap_or(u32::MAX);
        (all, backend.record(|recorder| recorder.claim(KernelId::NONE, records)).flatten()?)
    };
    let device = guard.stream.device;
    PendingCommand::new(backend, target, guard, |recorder| {
        let mut work = CommandSpec::transfer(Operation::Graph, function.name);
        work.info.id = id;
        match all {
            Some(all) => work.touch(backend, recorder, &all, device)?,
            None => {
                work.known.unread.push((0, recorder.string("memory of the graph")?, UncapturedReason::Opaque))
            }
        }
        Ok(work.into())
    })
}

impl CommandSpec {
    /// Adds the memory of a graph, as far as it is still allocated.
    fn touch(
        &mut self,
        backend: &CudaBackend,
        recorder: &mut ThreadRecorder,
        all: &MemoryUse,
        device: Device,
    ) -> Result<(), RecordError> {
        let mut arg = 0_u16..;
        for piece in all.pieces.iter().take(MAX_RANGES) {
            let Some(arg) = arg.next() else { break };
            let most = piece.bytes.min(backend.max_range);
            let reach = backend.state().allocations.reach(piece.address, device, most);
            let Some(reach) = reach.filter(|reach| reach.is_readable) else {
                self.known.unread.push((arg, tensortap_record::StringId::NONE, UncapturedReason::NoAccess));
                continue;
            };
            let range = Range::dense((piece.address, reach.bytes), 0, reach.bytes, None);
            let is_exact = piece.is_exact && reach.bytes == piece.bytes;
            self.ranges.push(Range { arg, space: reach.space, is_exact, ..range });
        }
        let too_many = all.pieces.len() > MAX_RANGES;
        for &what in all.unseen.iter().chain(too_many.then_some(&"more memory of the graph")) {
            if let Some(arg) = arg.next() {
                self.known.unread.push((arg, recorder.string(what)?, UncapturedReason::Opaque));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_pieces_are_joined_and_others_stay_apart() {
        let piece = |address, bytes, is_exact| Piece { address, bytes, is_exact };
        let all = [
            piece(500, 100, true),
            piece(100, 50, true),
            piece(120, 100, false),
            piece(220, 10, true),
            piece(500, 20, false),
            piece(590, 10, false),
            piece(520, 10, true),
            piece(700, 0, true),
        ];
        assert_eq!(
            union(all.into_iter()),
            [piece(100, 120, false), piece(220, 10, true), piece(500, 100, true)]
        );
        assert!(union([].into_iter()).is_empty());
    }

    #[test]
    fn capture_notes_belong_to_one_capture_and_are_forgotten_with_the_context() {
        let mut graphs = Graphs::default();
        graphs.extents((1, 10), 7).insert(1000, (64, true));
        graphs.extents((2, 11), 8).insert(2000, (32, true));
        assert_eq!(graphs.extents((1, 10), 7).len(), 1, "the same capture continues");
        // The first capture was canceled, and the next one has its handle.
        assert!(graphs.extents((1, 12), 7).is_empty());
        graphs.extents((1, 12), 7).insert(1000, (16, true));
        assert_eq!(graphs.extents((2, 11), 7).len(), 1, "also for a launch in another context");
        graphs.made.insert(3, (7, Graph::new(HashMap::new())));
        graphs.made.insert(4, (9, Graph::new(HashMap::new())));
        graphs.forget_context(7);
        assert_eq!(graphs.made.keys().collect::<Vec<_>>(), [&4]);
        assert_eq!(graphs.noted.keys().collect::<Vec<_>>(), [&2]);
    }

    #[test]
    fn a_fill_covers_its_first_to_its_last_byte() {
        let mut words = [0; NODE_WORDS];
        // Elements of 4 bytes: the element size is in the upper half of the word with the value.
        words[..5].copy_from_slice(&[1000, 64, 7 | 4 << 32, 5, 3]);
        assert_eq!(fill(&words).pieces, [Piece { address: 1000, bytes: 2 * 64 + 20, is_exact: true }]);
    }
}
