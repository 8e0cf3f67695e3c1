//! Graphs: what their nodes do with memory, asked when one can be launched and when it is changed, never in a launch.

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
    allocations::{Allocations, Device, Reach},
    door::{Door, Taken},
    enqueue::{Begun, Place},
    library::{GivenTo, NODE_WORDS},
    raw,
    table::{Function, Node},
    work::Work,
};

/// Memory that a node may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    address: u64,
    bytes: u64,
    is_exact: bool,
}

/// What a node does with memory, or several do.
#[derive(Clone, Debug, Default)]
struct Touched {
    pieces: Vec<Piece>,
    /// What is not seen of it, by names.
    unseen: BTreeSet<&'static str>,
}

/// A graph that can be launched.
#[derive(Debug, Default)]
pub struct Graph {
    /// By handles of nodes.
    nodes: HashMap<usize, Touched>,
    /// Of all nodes: pieces that share no byte, in order.
    all: Arc<Touched>,
}

impl Graph {
    fn new(nodes: HashMap<usize, Touched>) -> Graph {
        let mut graph = Graph { nodes, all: Arc::default() };
        graph.unite();
        graph
    }

    fn set(&mut self, node: usize, touched: Touched) {
        self.nodes.insert(node, touched);
        self.unite();
    }

    fn unite(&mut self) {
        let pieces = union(self.nodes.values().flat_map(|touched| touched.pieces.iter().copied()));
        let unseen = self.nodes.values().flat_map(|touched| touched.unseen.iter().copied()).collect();
        self.all = Arc::new(Touched { pieces, unseen });
    }
}

/// Pieces that share no byte and have all that some do, in order. Those which only touch stay apart.
fn union(pieces: impl Iterator<Item = Piece>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = pieces.filter(|piece| piece.bytes > 0).collect();
    pieces.sort_unstable();
    let mut all: Vec<Piece> = Vec::new();
    for piece in pieces {
        let end = |piece: &Piece| piece.address.saturating_add(piece.bytes);
        match all.last_mut() {
            Some(last) if piece.address < end(last) => {
                // Who reaches farthest says whether that is certain.
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

/// How far pointers reached when their launches went into a graph, by address. Allocators give blocks out again within one capture.
type Extents = HashMap<u64, (u64, bool)>;

/// What was noted of one capture.
#[derive(Debug, Default)]
struct Noted {
    /// The context that it was made in, and goes with.
    context: usize,
    /// Its number. Another capture of the same graph's handle is another graph, for the first may have gone without a word.
    capture: u64,
    extents: Extents,
}

/// All graphs.
#[derive(Debug, Default)]
pub struct Graphs {
    /// Those that can be launched, by their handles, with their contexts.
    made: HashMap<usize, (usize, Graph)>,
    /// By handles of graphs that are not made yet.
    noted: HashMap<usize, Noted>,
}

impl Graphs {
    /// What is noted of a capture into a graph.
    fn extents(&mut self, (graph, capture): (usize, u64), context: usize) -> &mut Extents {
        let noted = self.noted.entry(graph).or_default();
        // Launches of one capture may be of several contexts; it goes with the first.
        if noted.context == 0 || noted.capture != capture {
            *noted = Noted { context, capture, extents: Extents::new() };
        }
        &mut noted.extents
    }

    /// A context goes, and with it its graphs.
    pub fn forget_context(&mut self, context: usize) {
        self.made.retain(|_, (of, _)| *of != context);
        self.noted.retain(|_, noted| noted.context != context);
    }
}

/// A launch goes into a graph that is captured: memory is now as the launch means it.
///
/// # Safety
/// As the program's launch: parameters lie where it says.
pub unsafe fn note(door: &Door, (stream, context): (usize, usize), facts: &KernelFacts, launch: &Launch) {
    // SAFETY: the caller's promise.
    let Some((pointers, _)) = (unsafe { launches::given(door, facts, launch) }) else { return };
    let graph = door.driver.captured_graph(stream);
    let mut state = door.state();
    let state = &mut *state;
    let noted = state.graphs.extents(graph, context);
    for address in pointers {
        let Some(Reach { bytes, is_exact, .. }) = state.allocations.extent(address, ANY_DEVICE, u64::MAX)
        else {
            continue;
        };
        let known = noted.entry(address).or_insert((bytes, is_exact));
        // Of two launches with one pointer the one that was given more.
        *known = (known.0.max(bytes), known.1 && is_exact);
    }
}

/// Who may read memory is asked when a graph is launched.
const ANY_DEVICE: Device = 0;

/// A graph can be launched.
pub fn made(door: &Door, context: usize, handle: usize, graph: usize) {
    let nodes = Walk::new(door, graph).nodes(graph, 0);
    door.state().graphs.made.insert(handle, (context, Graph::new(nodes)));
}

/// What can be launched goes.
pub fn gone(door: &Door, handle: usize) {
    door.state().graphs.made.remove(&handle);
}

/// A graph goes; its handle may be that of another.
pub fn plan_gone(door: &Door, graph: usize) {
    door.state().graphs.noted.remove(&graph);
}

/// A node is given something else.
///
/// # Safety
/// What the function was called with lies at `given`.
pub unsafe fn set(door: &Door, handle: usize, node: usize, (what, given): (Node, u64)) {
    let walk = Walk::new(door, 0);
    // SAFETY: the caller's promise.
    let touched = unsafe { walk.given(what, given) };
    if let Some((_, graph)) = door.state().graphs.made.get_mut(&handle) {
        graph.set(node, touched);
    }
}

/// Nodes of graphs inside of others are looked at so deep.
const MOST_DEPTH: u32 = 16;

const KERNEL: i32 = 0;
const COPY: i32 = 1;
const FILL: i32 = 2;
const HOST: i32 = 3;
const GRAPH: i32 = 4;
/// Nodes that do nothing with memory: empty ones, events, semaphores, and those which free.
const QUIET: [i32; 6] = [5, 6, 7, 8, 9, 11];
const ALLOC: i32 = 10;

/// Looks at the nodes of a graph.
struct Walk<'a> {
    door: &'a Door,
    noted: Extents,
}

impl Walk<'_> {
    fn new(door: &Door, graph: usize) -> Walk<'_> {
        let noted =
            door.state().graphs.noted.get(&graph).map(|noted| noted.extents.clone()).unwrap_or_default();
        Walk { door, noted }
    }

    fn nodes(&self, graph: usize, depth: u32) -> HashMap<usize, Touched> {
        let nodes = self.door.driver.graph_nodes(graph).filter(|_| depth < MOST_DEPTH);
        let Some(nodes) = nodes else {
            return [(0, unseen("memory of the graph"))].into();
        };
        nodes.into_iter().map(|node| (node, self.node(node, depth))).collect()
    }

    fn node(&self, node: usize, depth: u32) -> Touched {
        let given = |what| self.door.driver.node_given(node, what);
        match self.door.driver.node_kind(node) {
            Some(KERNEL) => given(GivenTo::Kernel)
                .map_or_else(|| unseen("a kernel of the graph"), |words| self.kernel(&words)),
            Some(COPY) => {
                given(GivenTo::Copy).map_or_else(|| unseen("a copy of the graph"), |words| self.copy(&words))
            }
            Some(FILL) => {
                given(GivenTo::Fill).map_or_else(|| unseen("a fill of the graph"), |words| fill(&words))
            }
            Some(GRAPH) => match self.door.driver.child_graph(node) {
                Some(child) => self.graph(child, depth),
                None => unseen("a graph of the graph"),
            },
            // It is there while the graph runs, and nowhere before.
            Some(ALLOC) => unseen("memory that the graph allocates"),
            Some(HOST) => unseen("a function of the host in the graph"),
            Some(kind) if QUIET.contains(&kind) => Touched::default(),
            _ => unseen("a node of the graph"),
        }
    }

    /// All nodes of a graph that is a node of another.
    fn graph(&self, graph: usize, depth: u32) -> Touched {
        let mut all = Touched::default();
        for touched in self.nodes(graph, depth + 1).into_values() {
            all.pieces.extend(touched.pieces);
            all.unseen.extend(touched.unseen);
        }
        all
    }

    /// What a node is given by a function that says so.
    ///
    /// # Safety
    /// It lies there.
    unsafe fn given(&self, what: Node, given: u64) -> Touched {
        // Nodes of any kind say which before, and copies two words more.
        let (kind, at) = match what {
            Node::Kernel => (KERNEL, given),
            Node::Copy => (COPY, given),
            Node::Fill => (FILL, given),
            Node::Graph => return self.graph(usize::try_from(given).unwrap_or(0), 0),
            // SAFETY: the caller's promise.
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
        // SAFETY: the caller's promise.
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

    /// Function, sizes, shared memory, parameters, `extra`, and a kernel where there is no function.
    fn kernel(&self, words: &[u64; NODE_WORDS]) -> Touched {
        let function = if words[0] == 0 { words[7] } else { words[0] };
        let launch = Launch {
            function: usize::try_from(function).unwrap_or(0),
            sizes: [0; 3],
            parameters: words[5],
            extra: words[6],
            details: launches::Details::default(),
        };
        let facts = KernelFacts::of(self.door, None, launch.function);
        // SAFETY: the driver has the parameters of a node there, or the program that gives them.
        let Some((pointers, may_be_texture)) = (unsafe { launches::given(self.door, &facts, &launch) })
        else {
            return unseen("parameters of a kernel of the graph");
        };
        let state = self.door.state();
        let pieces = pointers.into_iter().filter_map(|address| self.piece(&state.allocations, address));
        let mut touched = Touched { pieces: pieces.collect(), unseen: BTreeSet::new() };
        for variable in &facts.code.variables {
            match variable.at {
                Some((address, bytes)) => touched.pieces.push(Piece { address, bytes, is_exact: true }),
                None => _ = touched.unseen.insert("variables of a kernel of the graph"),
            }
        }
        if may_be_texture {
            touched.unseen.insert("memory behind textures of a kernel of the graph");
        }
        if facts.code.has_more {
            touched.unseen.insert("more variables of a kernel of the graph");
        }
        touched
    }

    /// What a pointer reaches: as far as when its launch was captured, or as it does now.
    fn piece(&self, allocations: &Allocations, address: u64) -> Option<Piece> {
        let extent = allocations.extent(address, ANY_DEVICE, u64::MAX)?;
        let (bytes, is_exact) = self.noted.get(&address).copied().unwrap_or((extent.bytes, extent.is_exact));
        Some(Piece { address, bytes, is_exact })
    }

    fn copy(&self, words: &[u64; NODE_WORDS]) -> Touched {
        let ends = transfers::ends_of_box(words.first_chunk().expect("there are more"));
        let mut touched = Touched::default();
        for end in ends {
            match end {
                Some((address, bytes)) => touched.pieces.push(Piece { address, bytes, is_exact: true }),
                None => _ = touched.unseen.insert("an array that the graph copies"),
            }
        }
        // What is not the device's is not known, and is left out when the graph is launched.
        let state = self.door.state();
        touched.pieces.retain(|piece| state.allocations.reach(piece.address, ANY_DEVICE, 1).is_some());
        touched
    }
}

/// Where, pitch, value and bytes of each, width, height.
fn fill(words: &[u64; NODE_WORDS]) -> Touched {
    let [address, pitch, value, width, height, ..] = *words;
    let row = width.saturating_mul(value >> 32);
    let bytes = height.saturating_sub(1).saturating_mul(pitch).saturating_add(row);
    Touched { pieces: vec![Piece { address, bytes, is_exact: true }], unseen: BTreeSet::new() }
}

fn unseen(what: &'static str) -> Touched {
    Touched { pieces: Vec::new(), unseen: [what].into() }
}

/// More ranges of one launch are not looked at.
const MOST_RANGES: usize = 4096;

/// A launch of a graph: one task, over all that its nodes touch.
pub fn launch(door: &Door, function: &Function, handle: usize, place: &Place, taken: Taken) -> Option<Begun> {
    let (all, id) = {
        let all = door.state().graphs.made.get(&handle).map(|(_, graph)| Arc::clone(&graph.all));
        let records = all.as_ref().map_or(1, |all| all.pieces.len() + all.unseen.len());
        let records = u32::try_from(records).unwrap_or(u32::MAX);
        (all, door.record(|recorder| recorder.claim(KernelId::NONE, records)).flatten()?)
    };
    let device = taken.stream.device;
    Begun::new(door, place, taken, |recorder| {
        let mut work = Work::moving(Operation::Graph, function.name);
        work.info.id = id;
        match all {
            Some(all) => work.touch(door, recorder, &all, device)?,
            None => {
                work.known.unread.push((0, recorder.string("memory of the graph")?, UncapturedReason::Opaque))
            }
        }
        Ok(work.into())
    })
}

impl Work {
    /// Gives it all that a graph touches, as far as that is still there.
    fn touch(
        &mut self,
        door: &Door,
        recorder: &mut ThreadRecorder,
        all: &Touched,
        device: Device,
    ) -> Result<(), RecordError> {
        let mut arg = 0_u16..;
        for piece in all.pieces.iter().take(MOST_RANGES) {
            let Some(arg) = arg.next() else { break };
            let most = piece.bytes.min(door.max_range);
            let reach = door.state().allocations.reach(piece.address, device, most);
            let Some(reach) = reach.filter(|reach| reach.is_readable) else {
                self.known.unread.push((arg, tensortap_record::StringId::NONE, UncapturedReason::NoAccess));
                continue;
            };
            let range = Range::dense((piece.address, reach.bytes), 0, reach.bytes, None);
            let is_exact = piece.is_exact && reach.bytes == piece.bytes;
            self.ranges.push(Range { arg, space: reach.space, is_exact, ..range });
        }
        let too_many = all.pieces.len() > MOST_RANGES;
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
    fn pieces_that_share_bytes_become_one_and_others_stay_apart() {
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
    fn what_was_noted_of_a_graph_is_of_its_own_capture_and_goes_with_its_context() {
        let mut graphs = Graphs::default();
        graphs.extents((1, 10), 7).insert(1000, (64, true));
        graphs.extents((2, 11), 8).insert(2000, (32, true));
        assert_eq!(graphs.extents((1, 10), 7).len(), 1, "it goes on");
        // The first was given up, and the next has its handle.
        assert!(graphs.extents((1, 12), 7).is_empty());
        graphs.extents((1, 12), 7).insert(1000, (16, true));
        assert_eq!(graphs.extents((2, 11), 7).len(), 1, "also by a launch in another context");
        graphs.made.insert(3, (7, Graph::new(HashMap::new())));
        graphs.made.insert(4, (9, Graph::new(HashMap::new())));
        graphs.forget_context(7);
        assert_eq!(graphs.made.keys().collect::<Vec<_>>(), [&4]);
        assert_eq!(graphs.noted.keys().collect::<Vec<_>>(), [&2]);
    }

    #[test]
    fn a_fill_reaches_from_its_first_byte_to_its_last() {
        let mut words = [0; NODE_WORDS];
        // Elements of 4 bytes, in the upper half of the word that has the value.
        words[..5].copy_from_slice(&[1000, 64, 7 | 4 << 32, 5, 3]);
        assert_eq!(fill(&words).pieces, [Piece { address: 1000, bytes: 2 * 64 + 20, is_exact: true }]);
    }
}
