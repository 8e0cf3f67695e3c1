//! The graph of a dump.

use std::collections::HashMap;

use tensortap_abi::{DumpLevel, DumpStage, NO_KERNEL};
use tensortap_format::{
    ArgumentKind, Dump, FormatError, PayloadState, Record, RunInfo, Tail, TaskFacts, content_hash,
};
use tensortap_geometry::Layout;

use super::{Argument, Captured, Dependency, GraphTask, KernelName, Origin, Place, TaskGraph, Why};

/// Reads tasks, arguments and dependencies of a dump and finds where every input came from. Contents are read only where the
/// dump has no hashes: then each is hashed here.
pub fn load(dump: &Dump) -> Result<TaskGraph, FormatError> {
    let info = dump.info();
    let recorded = dump.tasks()?;
    let recorded = recorded.iter().filter(|task| task.is_recorded());
    let mut tasks: Vec<GraphTask> = recorded.map(|task| task_of(task.facts(), info)).collect();
    if dump.format().is_foreign() {
        // Counted from another file, which leaves scalars out.
        tasks.iter_mut().for_each(|task| task.arg_count = None);
    }
    let mut places: HashMap<u64, usize> = tasks.iter().enumerate().map(|(i, t)| (t.task_id, i)).collect();
    for record in dump.records() {
        let record = record?;
        let place = *places.entry(record.task_id).or_insert_with(|| {
            let (task_id, kernels) = (record.task_id, kernels(&record.func_id, info));
            tasks.push(GraphTask { task_id, kernels, ..GraphTask::default() });
            tasks.len() - 1
        });
        add(dump, &mut tasks[place], &record)?;
    }
    for task in &mut tasks {
        task.args.sort_by_key(|a| a.arg_index);
    }
    let edges = dump.edges()?;
    let dependencies: Vec<Dependency> = edges
        .iter()
        .map(|edge| Dependency {
            from: edge.from,
            to: edge.to,
            arg_index: edge.arg_index,
            why: match edge.why {
                "write_after_write" | "write_after_read" => Why::Order,
                "read_after_write" => Why::Read,
                _ => Why::Explicit,
            },
        })
        .collect();
    let gap = gap(dump)?;
    Ok(TaskGraph::build(tasks, &dependencies, gap))
}

fn task_of(task: &TaskFacts, info: &RunInfo) -> GraphTask {
    let has_time = task.dispatched_ns != 0;
    GraphTask {
        task_id: task.task_id,
        kernels: kernels(&task.func_id, info),
        block_num: Some(task.block_num),
        dispatched_ns: has_time.then_some(task.dispatched_ns),
        completed_ns: task.completed_ns.filter(|_| has_time),
        arg_count: task.tensor_count.checked_add(task.scalar_count),
        in_flight: task.in_flight || task.completed_ns.is_none(),
        ..GraphTask::default()
    }
}

fn kernels(func_id: &[u32], info: &RunInfo) -> Vec<KernelName> {
    let name = |id| info.kernels.iter().find(|k| k.func_id == id).map(|k| k.name.clone());
    let active = func_id.iter().copied().filter(|&id| id != NO_KERNEL);
    active.map(|id| KernelName { func_id: Some(id), name: name(id) }).collect()
}

fn add(dump: &Dump, task: &mut GraphTask, record: &Record) -> Result<(), FormatError> {
    let place = match task.args.iter().position(|a| a.arg_index == record.arg_index) {
        Some(place) => place,
        None => {
            task.args.push(argument(record));
            task.args.len() - 1
        }
    };
    // What a task that did not complete has written is no output.
    if record.in_flight {
        return Ok(());
    }
    let captured = Captured {
        record: record.index,
        hash: hash(dump, record)?,
        stored: record.payload == PayloadState::Stored,
    };
    let arg = &mut task.args[place];
    let slot = match record.stage {
        DumpStage::BeforeDispatch => &mut arg.before,
        DumpStage::AfterCompletion => &mut arg.after,
    };
    // A record that is there twice is taken the first time.
    slot.get_or_insert(captured);
    Ok(())
}

fn argument(record: &Record) -> Argument {
    let layout = Layout::new(record.shape(), record.strides(), record.start_offset, record.dtype.bits()).ok();
    let layout = layout.filter(|_| record.address != 0 && record.kind == ArgumentKind::Tensor);
    Argument {
        arg_index: record.arg_index,
        role: record.role,
        dtype: record.dtype,
        shape: record.shape().to_vec(),
        scalar_bits: record.scalar_bits,
        place: layout.map(|layout| Place::new(layout, record.address)),
        before: None,
        after: None,
        origin: Origin::default(),
    }
}

fn hash(dump: &Dump, record: &Record) -> Result<Option<u128>, FormatError> {
    let is_tensor = record.kind == ArgumentKind::Tensor;
    if record.hash.is_some() || !is_tensor || record.payload != PayloadState::Stored {
        return Ok(record.hash);
    }
    Ok(Some(content_hash(&dump.payload(record)?)))
}

/// Why writes may be missing.
fn gap(dump: &Dump) -> Result<Option<String>, FormatError> {
    let footer = dump.footer();
    let filtered = footer.map_or(0, |f| f.filtered_records);
    let lost = footer.map_or(0, |f| f.losses.iter().map(|l| l.records).sum::<u64>());
    let uncaptured = dump.uncaptured()?.len();
    Ok(if dump.info().dump_level == DumpLevel::Marked as u32 {
        Some("only marked arguments were captured".into())
    } else if filtered > 0 {
        Some(format!("filters kept {filtered} records out"))
    } else if lost > 0 || !dump.gaps().is_empty() {
        Some("records were lost".into())
    } else if dump.tail() != Tail::Closed {
        Some("the dump was not closed".into())
    } else if uncaptured > 0 {
        Some(format!("{uncaptured} arguments could not be captured"))
    } else {
        None
    })
}
