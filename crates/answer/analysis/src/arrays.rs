//! Assigns the arrays of a golden in files to the records of a dump.
//!
//! An array can be named in one of three ways: like a record that `export` wrote, like an argument of a task
//! (`softmax.scores`), or like an output of the whole run, which several tasks wrote in parts. If a name fits
//! several records, the array is not used.

use std::collections::{HashMap, HashSet};

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, Dump, FormatError, Record, Task, task_fits};
use tensortap_geometry::Layout;
use tensortap_interchange::{ArrayName, InterchangeError, NamedArray, NamedArrays};
use tensortap_judge::Content;

use crate::compare::Side;
use crate::error::AnalysisError;
use crate::graph::view::{Piece, Ranges, pieces};
use crate::graph::{OutputRef, TaskGraph, TensorView};
use crate::outputs;
use crate::provenance::{CompareUnit, shared_ranges};

const NO_RECORD: &str = "the dump has no such record";

/// Why a record without an array is not judged.
pub(crate) const NO_ARRAY: &str = "the golden has no array for this record";

/// The assignment of arrays to records.
#[derive(Clone, Debug, Default)]
pub struct ArrayAssignment {
    /// By record number.
    parts: HashMap<u64, ArrayPart>,
    /// Arrays that were not assigned to a record.
    pub unused: Vec<UnusedArray>,
}

/// An array that was not assigned to a record, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedArray {
    /// The name of the array.
    pub name: String,
    /// Why it is not used.
    pub reason: String,
}

/// The part of an array that a record should hold.
#[derive(Clone, Copy, Debug)]
struct ArrayPart {
    /// Position of the array in the files.
    array: usize,
    /// The view of the whole output and the view that the task wrote; `None` if the record is the whole
    /// array.
    cut: Option<(TensorView, TensorView)>,
}

impl ArrayAssignment {
    /// Assigns the arrays of a golden to the records of a dump.
    ///
    /// # Errors
    /// The dump cannot be read.
    pub fn of(dump: &Dump, graph: &TaskGraph, arrays: &NamedArrays) -> Result<ArrayAssignment, FormatError> {
        let mut assigned = ArrayAssignment::default();
        let mut used = assigned.by_record_names(dump, arrays)?;
        let run = RunOutputs::of(dump, graph)?;
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
                    let parts =
                        parts.into_iter().map(|(record, cut)| (record, ArrayPart { array: place, cut }));
                    assigned.parts.extend(parts);
                    used.insert(place);
                }
                Ok(_) => assigned.leave(array, "another array already has this record".into()),
                Err(why) => assigned.leave(array, why),
            }
        }
        Ok(assigned)
    }

    /// Fails if no array has a name that means anything in the dump.
    pub(crate) fn check(&self, arrays: &NamedArrays) -> Result<(), AnalysisError> {
        let is_named = arrays.arrays().iter().any(|array| array.record_name().is_some());
        if self.parts.is_empty() && !is_named { Err(AnalysisError::UnnamedArrays) } else { Ok(()) }
    }

    /// The name of the array of a record and the expected content. An array with another shape or dtype is
    /// not read: a small file may declare, and inflate to, more than fits in memory. So at most as many
    /// elements are read as the record has.
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
        let both_floats = array.dtype.is_like(record.dtype);
        let same_shape = part.cut.is_some() || array.shape == record.shape();
        if !same_shape || array.dtype != record.dtype && !both_floats {
            let mut side = Side::of_bytes(array.dtype, &array.shape, Vec::new());
            side.content = Content::Missing("the golden's array has another shape or dtype".into());
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

    /// Assigns the arrays that have the names that `export` gives to records.
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
                self.parts.insert(record.index, ArrayPart { array, cut: None });
                used.insert(array);
            }
        }
        Ok(used)
    }

    /// The one record that an array named `TASK.ARGUMENT` means. If the task writes the argument, it is the
    /// record after the task, otherwise the record before it. A suffix `.before` or `.after` chooses the
    /// stage.
    fn by_argument(&self, graph: &TaskGraph, array: &NamedArray) -> Result<Vec<(u64, OutputPart)>, String> {
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

type OutputPart = Option<(TensorView, TensorView)>;

/// The outputs of the run.
struct RunOutputs {
    /// The view of each output, by name.
    views: HashMap<String, TensorView>,
    /// Why the last writers are not known.
    gap: Option<String>,
}

impl RunOutputs {
    fn of(dump: &Dump, graph: &TaskGraph) -> Result<RunOutputs, FormatError> {
        let mut views = HashMap::new();
        for arg in dump.orchestration_args()?.into_iter().filter(|arg| arg.role.writes()) {
            let Some((name, dtype)) = arg.name.zip(arg.desc.dtype()) else { continue };
            let layout = Layout::contiguous(arg.desc.dims(), dtype.bits()).ok();
            let layout = layout.filter(|_| arg.desc.start_offset == 0);
            views.extend(layout.map(|layout| (name, TensorView::new(layout, arg.desc.buffer_addr))));
        }
        Ok(RunOutputs { views, gap: outputs::gap(dump, graph) })
    }

    /// The records that hold the final content of an output, each with its part of the output. Records that
    /// were overwritten in part are left out: the array does not contain the overwritten bytes.
    fn parts(
        &self,
        graph: &TaskGraph,
        array: &NamedArray,
        why: String,
    ) -> Result<Vec<(u64, OutputPart)>, String> {
        let Some(view) = self.views.get(&array.name) else { return Err(why) };
        if view.layout.shape() != array.shape {
            let shape = view.layout.shape();
            return Err(format!("the run's output of this name has shape {shape:?}, not {:?}", array.shape));
        }
        if let Some(gap) = &self.gap {
            return Err(format!("it is an output of the run; {gap}, so later writes may be missing"));
        }
        let writers = graph.last_writers(&[*view]).pop().flatten().ok_or(outputs::NOT_DECIDED)?;
        let mut left =
            pieces(view).map(|whole| Ranges::of(&whole)).ok_or("it has too many separate memory ranges")?;
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

/// Removes pieces; returns whether all of them were still in `left`.
fn take_all(left: &mut Ranges, pieces: &[Piece]) -> bool {
    let before = left.half_bytes();
    left.take(pieces);
    before - left.half_bytes() == Ranges::of(pieces).half_bytes()
}

/// The part of the array for the whole output that the task should have written.
fn cut(array: &NamedArray, whole: &TensorView, written: &TensorView) -> Result<Vec<u8>, InterchangeError> {
    let (Some(own), Some(theirs)) = (pieces(written), pieces(whole)) else { return Ok(Vec::new()) };
    let unit = CompareUnit::of([whole, written].into_iter());
    let shared_ranges = shared_ranges(&own, &theirs, unit);
    let first = shared_ranges.iter().map(|s| s.there).min().unwrap_or(0);
    let end = shared_ranges.iter().map(|s| s.there + s.len).max().unwrap_or(first);
    let (first, bytes) = unit.bytes(first..end);
    let mut content = vec![0; bytes.end - bytes.start];
    array.read_part(bytes.start as u64, &mut content)?;
    let content = unit.split(content);
    let mut part = vec![0; shared_ranges.iter().map(|s| s.here + s.len).max().unwrap_or(0)];
    for s in shared_ranges {
        part[s.here..s.here + s.len].copy_from_slice(&content[s.there - first..s.there - first + s.len]);
    }
    Ok(unit.join(part))
}

/// Whether the outputs of these tasks together cover all of an input.
pub(crate) fn cover_input(graph: &TaskGraph, arg: Argument<'_>, outputs: &[OutputRef]) -> bool {
    let Some(mut left) = TensorView::of(arg).and_then(|v| pieces(&v)).map(|own| Ranges::of(&own)) else {
        return false;
    };
    for &output in outputs {
        let written = graph.output(output).and_then(TensorView::of).and_then(|view| pieces(&view));
        written.iter().for_each(|pieces| _ = left.take(pieces));
    }
    left.half_bytes() == 0
}

/// The possible export names of a record: with the step if the dump has several, and with the record number
/// if another record has the same name otherwise.
fn names(record: &Record) -> [ArrayName; 4] {
    let Record { step, task_id, stage, role, arg_index, .. } = *record;
    let (with_step, with_index) = (Some(step), Some(record.index));
    [(with_step, with_index), (with_step, None), (None, with_index), (None, None)]
        .map(|(step, index)| ArrayName { step, task_id, stage, role, arg_index, index })
}
