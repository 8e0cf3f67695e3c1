//! Which records of a dump the arrays of a golden stand for.
//!
//! An array may have the name that `export` gives to a record, that of a task's argument (`softmax.scores`), or that of an
//! output of the whole run, which tasks wrote in parts. A name that fits several records stands for none of them.

use std::collections::{HashMap, HashSet};

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, Dump, FormatError, Record, Task, task_fits};
use tensortap_geometry::Layout;
use tensortap_interchange::{ArrayName, InterchangeError, NamedArray, NamedArrays};
use tensortap_judge::Content;

use crate::carry::{Unit, shared};
use crate::compare::Side;
use crate::error::AnalysisError;
use crate::graph::view::{Piece, Ranges, pieces};
use crate::graph::{OutputRef, TaskGraph, TensorView};
use crate::outputs;

const NO_RECORD: &str = "the dump has no such record";

/// Why a record is not judged that no array stands for.
pub(crate) const NO_ARRAY: &str = "the golden has no array of its name";

/// Arrays by the records that they stand for.
#[derive(Clone, Debug, Default)]
pub struct Assigned {
    /// By the numbers of records.
    parts: HashMap<u64, Part>,
    /// Arrays that stand for no record.
    pub unused: Vec<UnusedArray>,
}

/// An array that stands for no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedArray {
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// What of an array a record should hold.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Position of the array.
    array: usize,
    /// Where it is less than all: the output of the run that the array is, and what the task wrote of it.
    cut: Option<(TensorView, TensorView)>,
}

impl Assigned {
    /// Finds the records of arrays.
    ///
    /// # Errors
    /// The dump cannot be read.
    pub fn of(dump: &Dump, graph: &TaskGraph, arrays: &NamedArrays) -> Result<Assigned, FormatError> {
        let mut assigned = Assigned::default();
        let mut used = assigned.by_record_names(dump, arrays)?;
        let run = Outputs::of(dump, graph)?;
        for (place, array) in arrays.arrays().iter().enumerate() {
            if used.contains(&place) {
                continue;
            }
            let found = match array.record_name() {
                Some(_) => Err(NO_RECORD.into()),
                None => assigned.by_argument(graph, array).or_else(|why| run.parts(graph, array, why)),
            };
            let is_new = |(record, _): &(u64, _)| !assigned.parts.contains_key(record);
            match found {
                Ok(parts) if parts.iter().all(is_new) => {
                    let parts = parts.into_iter().map(|(record, cut)| (record, Part { array: place, cut }));
                    assigned.parts.extend(parts);
                    used.insert(place);
                }
                Ok(_) => assigned.leave(array, "another array stands for its record".into()),
                Err(why) => assigned.leave(array, why),
            }
        }
        Ok(assigned)
    }

    /// Refuses arrays of which not one is named after anything in a dump.
    pub(crate) fn check(&self, arrays: &NamedArrays) -> Result<(), AnalysisError> {
        let is_named = arrays.arrays().iter().any(|array| array.record_name().is_some());
        if self.parts.is_empty() && !is_named { Err(AnalysisError::UnnamedArrays) } else { Ok(()) }
    }

    /// What a record should be, and the name of the array that says so. An array that cannot be compared with the record is
    /// not read: a small file may declare, and inflate to, more than there is memory. So what is read is at most what the record
    /// has elements for.
    ///
    /// # Errors
    /// The array cannot be read.
    pub fn side<'n>(
        &self,
        arrays: &'n NamedArrays,
        record: &Record,
    ) -> Result<Option<(&'n str, Side<'static>)>, InterchangeError> {
        let Some(part) = self.parts.get(&record.index) else { return Ok(None) };
        let array = &arrays.arrays()[part.array];
        let both_floats = array.dtype.is_float() && record.dtype.is_float();
        let same_shape = part.cut.is_some() || array.shape == record.shape();
        if !same_shape || array.dtype != record.dtype && !both_floats {
            let mut side = Side::of_bytes(array.dtype, &array.shape, Vec::new());
            side.content = Content::Missing("it is of another shape or dtype".into());
            return Ok(Some((&array.name, side)));
        }
        let (shape, content) = match part.cut {
            None => (array.shape.as_slice(), array.content()?),
            Some((ref whole, ref written)) => (written.layout.shape(), cut(array, whole, written)?),
        };
        let mut side = Side::of_bytes(array.dtype, shape, Vec::new());
        side.content = Content::Bytes(content.into());
        Ok(Some((&array.name, side)))
    }

    fn leave(&mut self, array: &NamedArray, reason: String) {
        self.unused.push(UnusedArray { name: array.name.clone(), reason });
    }

    /// The arrays that are named as `export` names records.
    fn by_record_names(&mut self, dump: &Dump, arrays: &NamedArrays) -> Result<HashSet<usize>, FormatError> {
        let named = arrays.arrays().iter().enumerate();
        let by_name: HashMap<ArrayName, usize> =
            named.filter_map(|(place, array)| Some((array.record_name()?, place))).collect();
        let mut used = HashSet::new();
        if by_name.is_empty() {
            return Ok(used);
        }
        for record in dump.records() {
            let record = record?;
            if let Some(&array) = names(&record).iter().find_map(|name| by_name.get(name)) {
                self.parts.insert(record.index, Part { array, cut: None });
                used.insert(array);
            }
        }
        Ok(used)
    }

    /// The one record of an argument that an array is named after: `TASK.ARGUMENT`, what the task made of it where it writes
    /// it, else what it was given; `.before` and `.after` behind it say which is meant.
    fn by_argument(&self, graph: &TaskGraph, array: &NamedArray) -> Result<Vec<(u64, Cut)>, String> {
        let (name, stage) = match array.name.rsplit_once('.') {
            Some((name, "before")) if name.contains('.') => (name, Some(DumpStage::BeforeDispatch)),
            Some((name, "after")) if name.contains('.') => (name, Some(DumpStage::AfterCompletion)),
            _ => (array.name.as_str(), None),
        };
        let Some((task, arg)) = name.rsplit_once('.') else { return Err(NO_RECORD.into()) };
        let has_name = |candidate: &Task<'_>| {
            let kernels = candidate.kernel_names();
            let kernels: Vec<&str> = kernels.iter().map(String::as_str).collect();
            task_fits(task, candidate.scope(), candidate.task_name(), &kernels)
        };
        let mut found = Vec::new();
        for candidate in graph.tasks().iter().filter(has_name) {
            let fits = |a: &Argument<'_>| candidate.arg_name(a.arg_index) == Some(arg);
            found.extend(candidate.arguments().filter(fits).filter_map(|arg| {
                let made = if arg.role.writes() { arg.after } else { arg.before };
                Some(stage.map_or(made, |stage| arg.captured(stage).copied())?.record)
            }));
        }
        match found.as_slice() {
            [] => Err(NO_RECORD.into()),
            [record] => Ok(vec![(*record, None)]),
            several => Err(format!("{} records have this name", several.len())),
        }
    }
}

type Cut = Option<(TensorView, TensorView)>;

/// The outputs of the run.
struct Outputs {
    /// Where each lies, by name.
    views: HashMap<String, TensorView>,
    /// Why it is not known what was written last.
    gap: Option<String>,
}

impl Outputs {
    fn of(dump: &Dump, graph: &TaskGraph) -> Result<Outputs, FormatError> {
        let mut views = HashMap::new();
        for arg in dump.orchestration_args()?.into_iter().filter(|arg| arg.role.writes()) {
            let Some((name, dtype)) = arg.name.zip(arg.desc.dtype()) else { continue };
            let layout = Layout::contiguous(arg.desc.dims(), dtype.bits()).ok();
            let layout = layout.filter(|_| arg.desc.start_offset == 0);
            views.extend(layout.map(|layout| (name, TensorView::new(layout, arg.desc.buffer_addr))));
        }
        Ok(Outputs { views, gap: outputs::gap(dump, graph) })
    }

    /// The records that hold an output in the end, each with its part of it. Records of which something was overwritten later
    /// are not among them: the array does not say what that was.
    fn parts(&self, graph: &TaskGraph, array: &NamedArray, why: String) -> Result<Vec<(u64, Cut)>, String> {
        let Some(view) = self.views.get(&array.name) else { return Err(why) };
        if view.layout.shape() != array.shape {
            let shape = view.layout.shape();
            return Err(format!("the output of this name is {shape:?}, not {:?}", array.shape));
        }
        if let Some(gap) = &self.gap {
            return Err(format!("it is an output of the run, and {gap}: later writes may be missing"));
        }
        let writers = graph.last_writers(&[*view]).pop().flatten().ok_or(outputs::NOT_DECIDED)?;
        let mut left = pieces(view).map(|whole| Ranges::of(&whole)).ok_or("it has too many pieces")?;
        let mut parts = Vec::new();
        for writer in writers {
            let Some((arg, written)) = graph.output(writer).and_then(|a| Some((a, TensorView::of(a)?)))
            else {
                continue;
            };
            let Some(theirs) = pieces(&written) else { continue };
            let is_last = take_all(&mut left, &theirs);
            let is_whole = written.is_same_view(view) && written.layout.shape() == array.shape;
            let is_part = arg.dtype == array.dtype
                && arg.dtype.bits() == view.layout.elem_bits()
                && written.layout.numel() <= view.layout.numel();
            if let Some(after) = arg.after.filter(|_| is_last && (is_whole || is_part)) {
                parts.push((after.record, (!is_whole).then_some((*view, written))));
            }
        }
        if parts.is_empty() { Err("no captured task wrote this output of the run".into()) } else { Ok(parts) }
    }
}

/// Takes pieces away; whether all of them were still there.
fn take_all(left: &mut Ranges, pieces: &[Piece]) -> bool {
    let before = left.half_bytes();
    left.take(pieces);
    before - left.half_bytes() == Ranges::of(pieces).half_bytes()
}

/// What a task should have written of an output of the run.
fn cut(array: &NamedArray, whole: &TensorView, written: &TensorView) -> Result<Vec<u8>, InterchangeError> {
    let (Some(own), Some(theirs)) = (pieces(written), pieces(whole)) else { return Ok(Vec::new()) };
    let unit = Unit::of([whole, written].into_iter());
    let shared = shared(&own, &theirs, unit);
    let first = shared.iter().map(|s| s.there).min().unwrap_or(0);
    let end = shared.iter().map(|s| s.there + s.len).max().unwrap_or(first);
    let (first, bytes) = unit.bytes(first..end);
    let mut content = vec![0; bytes.end - bytes.start];
    array.read_part(bytes.start as u64, &mut content)?;
    let content = unit.split(content);
    let mut part = vec![0; shared.iter().map(|s| s.here + s.len).max().unwrap_or(0)];
    for s in shared {
        part[s.here..s.here + s.len].copy_from_slice(&content[s.there - first..s.there - first + s.len]);
    }
    Ok(unit.join(part))
}

/// Whether outputs of tasks, together, are all that an input holds.
pub(crate) fn are_all_of(graph: &TaskGraph, arg: Argument<'_>, outputs: &[OutputRef]) -> bool {
    let Some(mut left) = TensorView::of(arg).and_then(|v| pieces(&v)).map(|own| Ranges::of(&own)) else {
        return false;
    };
    for &output in outputs {
        let written = graph.output(output).and_then(TensorView::of).and_then(|view| pieces(&view));
        written.iter().for_each(|pieces| _ = left.take(pieces));
    }
    left.half_bytes() == 0
}

/// The names that a record may have: with its step where the dump has several, and with its position where another has the
/// rest in common.
fn names(record: &Record) -> [ArrayName; 4] {
    let Record { step, task_id, stage, role, arg_index, .. } = *record;
    let (with_step, with_index) = (Some(step), Some(record.index));
    [(with_step, with_index), (with_step, None), (None, with_index), (None, None)]
        .map(|(step, index)| ArrayName { step, task_id, stage, role, arg_index, index })
}
