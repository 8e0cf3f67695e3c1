//! Writes the files, several at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tensortap::format::{Dump, Record};
use tensortap::interchange::{ArrayHead, ArrayName, ArrayWriter, Content, SkippedRecord};

use super::Format;
use super::content::{RecordContent, is_whole};
use super::manifest::ManifestWriter;
use super::plan::{self, Layout, Names, Plan};
use super::summary::Exported;
use crate::error::Interrupted;
use crate::interrupt::Interrupt;
use crate::parallel;
use crate::progress::ByteProgress;
use crate::record_text::kernel_label;
use crate::select::Selection;

/// A record and the name of its array.
type Named = (Record, ArrayName);

/// One file and what goes into it.
struct File {
    path: PathBuf,
    arrays: Vec<Named>,
}

/// Exports every record that is meant.
pub fn run(
    plan: &Plan<'_>,
    selection: &Selection,
    jobs: usize,
    progress: &ByteProgress,
    interrupt: &Interrupt,
    exported: &mut Exported,
) -> anyhow::Result<()> {
    let mut manifest = ManifestWriter::create(plan)?;
    let mut names = Names::default();
    let mut skipped: Vec<SkippedRecord> = Vec::new();
    let mut last_folder = None;
    let whole = selection.records(plan.dump).filter_map(|record| {
        let record = match record {
            Ok(record) => record,
            Err(error) => return Some(Err(anyhow::Error::from(error))),
        };
        let name = names.name(&record);
        if is_whole(&record) {
            return Some(Ok((record, name)));
        }
        let payload = record.payload.name().into();
        skipped.push(SkippedRecord { index: record.index, name: name.to_string(), payload });
        None
    });
    let each = |file: File, bytes: u64| {
        exported.files += 1;
        exported.file_bytes += bytes;
        for (record, name) in &file.arrays {
            exported.count(record);
            manifest.array(plan, record, name, &file.path)?;
        }
        Ok(())
    };
    let work = |writer: &mut ArrayWriter, file: &File| {
        if interrupt.requested() {
            return Err(Interrupted.into());
        }
        let bytes = write_file(plan, writer, file)?;
        progress.advance(file.arrays.iter().map(|(record, _)| record.bin_size).sum());
        Ok(bytes)
    };
    if matches!(plan.layout, Layout::FilePerRecord | Layout::FolderPerTask) {
        let files = whole.map(|named| {
            let (record, name) = named?;
            let path = plan.file(&record, &name);
            make_folder_once(plan, &path, &mut last_folder)?;
            Ok(File { path, arrays: vec![(record, name)] })
        });
        parallel::in_order(jobs, files, ArrayWriter::new, work, each)?;
    } else {
        let mut files: BTreeMap<PathBuf, Vec<Named>> = BTreeMap::new();
        for named in whole {
            let (record, name) = named?;
            files.entry(plan.file(&record, &name)).or_default().push((record, name));
        }
        let files = files.into_iter().map(|(path, arrays)| Ok(File { path, arrays }));
        parallel::in_order(jobs, files, ArrayWriter::new, work, each)?;
    }
    manifest.finish(&skipped)?;
    exported.skipped = skipped;
    Ok(())
}

/// Records of one task mostly come together.
fn make_folder_once(plan: &Plan<'_>, path: &Path, last: &mut Option<PathBuf>) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if folder != last.as_deref() {
        if let Some(folder) = folder {
            plan::make_task_folder(&plan.out.join(folder))?;
        }
        *last = folder.map(Path::to_path_buf);
    }
    Ok(())
}

fn write_file(plan: &Plan<'_>, writer: &mut ArrayWriter, file: &File) -> anyhow::Result<u64> {
    let path = plan.out.join(&file.path);
    let names: Vec<String> = file.arrays.iter().map(|(_, name)| name.to_string()).collect();
    let contents: Vec<RecordContent<'_>> =
        file.arrays.iter().map(|(record, _)| RecordContent { dump: plan.dump, record }).collect();
    let heads = file.arrays.iter().zip(&names).map(|((record, _), name)| ArrayHead {
        name,
        dtype: record.dtype,
        shape: record.shape(),
    });
    let arrays: Vec<(ArrayHead<'_>, &dyn Content)> =
        heads.zip(&contents).map(|(head, content)| (head, content as &dyn Content)).collect();
    let written = match (plan.format, arrays.as_slice()) {
        (Format::Npz, arrays) => writer.npz(&path, arrays),
        (Format::Safetensors, arrays) => writer.safetensors(&path, arrays),
        (Format::Npy, [(head, content)]) => writer.npy(&path, head, *content),
        (Format::Csv, [(head, content)]) => writer.csv(&path, head, *content),
        (Format::Txt, [(head, content)]) => {
            writer.txt(&path, head, &notes(plan.dump, &file.arrays[0].0), *content)
        }
        (Format::Raw, [(head, content)]) => writer.raw(&path, head, *content),
        (Format::Npy | Format::Csv | Format::Txt | Format::Raw, _) => {
            unreachable!("these layouts have one record for each file")
        }
    };
    Ok(written?)
}

/// What stands above the values of a text file. Nothing that differs between two runs of the same program.
fn notes(dump: &Dump, record: &Record) -> Vec<(&'static str, String)> {
    vec![
        ("task_id", tensortap::TaskId(record.task_id).to_string()),
        ("kernels", kernel_label(record, dump.info())),
        ("stage", record.stage.name().into()),
        ("role", tensortap::format::role_name(record.role).into()),
        ("arg_index", record.arg_index.to_string()),
        ("kind", record.kind.name().into()),
        ("strides", format!("{:?}", record.strides())),
        ("start_offset", record.start_offset.to_string()),
        ("numel", record.numel.to_string()),
    ]
}
