//! Reads a captured task from a case. A case is untrusted input: lengths are checked against the file before
//! memory is allocated, and it can name only files in its own folder.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use tensortap_abi::{DType, DumpStage, KernelAbi, MAX_DIMS, NO_KERNEL, Role, SLOTS_PER_TASK, can_be_passed};
use tensortap_format::{
    Argument, ArgumentKind, ArgumentRecord, Assembler, PayloadState, Task, TaskFacts, TaskKey, TaskPart,
    Tasks,
};
use tensortap_interchange::{InterchangeError, NamedArrays};
use tensortap_values::content_hash;

use crate::capture::{Blob, Capture, CapturedRun, Content};
use crate::case_file::{
    CASE_FILE, CASE_KEY, CASE_KIND, CASE_VERSION, CaseAssumption, CaseContent, CaseFile, CaseLibrary,
    CaseScalar, CaseTensor, EXPECTS_CAPTURED, EXPECTS_REFERENCE, KERNELS_FOLDER, TENSORS_FILE, parse_hex,
};
use crate::{ArgReport, Grade, KernelCode, ReplayError};

/// Size limit of a description.
const MAX_DESCRIPTION_BYTES: u64 = 16 << 20;

/// An open case.
pub struct CaseCapture {
    path: PathBuf,
    arrays: NamedArrays,
    run: CapturedRun,
    /// The one task.
    tasks: Tasks,
    /// Content of each tensor before and after the task, by position.
    contents: Vec<[Content; 2]>,
    tolerance: Option<(f64, f64)>,
    redacted: bool,
    expects_reference: bool,
    /// Facts that the capture lacked.
    assumed: Vec<ArgReport>,
    /// Libraries in the case.
    brought: Vec<KernelCode>,
    scene_key: String,
}

/// Whether a path looks like a case, without reading it.
pub fn looks_like_case(path: &Path) -> bool {
    if path.is_dir() {
        return path.join(CASE_FILE).is_file();
    }
    path.is_file()
        && (path.extension().is_some_and(|e| e == "safetensors")
            || path.file_name().is_some_and(|n| n == CASE_FILE))
}

impl CaseCapture {
    /// Opens a case: its folder, its `case.json`, or its one file.
    pub fn open(path: &Path) -> Result<CaseCapture, ReplayError> {
        let bad = |reason: String| ReplayError::BadCase { path: path.to_owned(), reason };
        let single = path.extension().is_some_and(|e| e == "safetensors");
        let folder = if path.is_dir() { path.to_owned() } else { path.parent().unwrap_or(path).to_owned() };
        let tensors = if single { path.to_owned() } else { folder.join(TENSORS_FILE) };
        let (arrays, notes) = NamedArrays::open_safetensors(&tensors).map_err(|error| match error {
            InterchangeError::Io { action, path, source } => ReplayError::Io { action, path, source },
            damaged => bad(damaged.to_string()),
        })?;
        let text = if single {
            let no_case =
                || bad(format!("its metadata has no key `{CASE_KEY}`: this safetensors file is not a case"));
            notes.into_iter().find(|(key, _)| key == CASE_KEY).ok_or_else(no_case)?.1
        } else {
            read_text(&folder.join(CASE_FILE))?
        };
        let case: CaseFile = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        let folder = Some(folder).filter(|_| !single);
        CaseCapture::new(path, folder.as_deref(), arrays, &case).map_err(bad)
    }

    fn new(
        path: &Path,
        folder: Option<&Path>,
        arrays: NamedArrays,
        case: &CaseFile,
    ) -> Result<CaseCapture, String> {
        if case.kind != CASE_KIND {
            return Err(format!("its kind is `{}`, not `{CASE_KIND}`", case.kind));
        }
        if case.schema_version != CASE_VERSION {
            let version = case.schema_version;
            return Err(format!(
                "it has version {version}, but this program reads version {CASE_VERSION}; use a newer tensortap"
            ));
        }
        let (facts, arguments) = (task_facts(case)?, arguments(case)?);
        let contents =
            case.tensors.iter().map(|tensor| contents(tensor, &arrays)).collect::<Result<_, _>>()?;
        let tolerance = tolerance(case)?;
        let expects_reference = match case.expected.as_str() {
            EXPECTS_CAPTURED => false,
            EXPECTS_REFERENCE => true,
            other => return Err(format!("unknown value `{other}` for `expected`")),
        };
        let run = CapturedRun {
            scene: case.scene.clone(),
            platform: case.platform.clone(),
            runtime: case.runtime.clone(),
            params: case.params.clone(),
            device_base: case.device_base,
            kernels: case.subtasks.iter().map(|s| s.kernel.clone()).collect(),
            inject_fault: case.inject_fault.clone(),
            is_foreign: case.captured_by.is_some(),
            scene_folder: case.scene_folder.as_ref().map(Into::into),
            golden: None,
        };
        let mut assembler = Assembler::default();
        assembler.take(TaskPart::Task(facts));
        arguments.into_iter().for_each(|argument| assembler.take(TaskPart::Argument(argument)));
        Ok(CaseCapture {
            path: path.to_owned(),
            arrays,
            tasks: assembler.finish(&run.kernels),
            run,
            contents,
            tolerance,
            redacted: case.redacted.is_some(),
            expects_reference,
            assumed: case.assumed.iter().map(assumed).collect::<Result<_, _>>()?,
            scene_key: scene_key(path, case),
            brought: brought(folder, case)?,
        })
    }
}

/// Key of its scene. A case with its own libraries gets a scene of its own.
fn scene_key(path: &Path, case: &CaseFile) -> String {
    if case.captured_by.is_none() && case.libraries.is_empty() {
        return case.scene.clone();
    }
    let path = content_hash(path.as_os_str().as_encoded_bytes());
    format!("{} {path:032x}", case.scene)
}

/// The libraries of a case. All are in the case's own folder.
fn brought(folder: Option<&Path>, case: &CaseFile) -> Result<Vec<KernelCode>, String> {
    let mut brought = Vec::new();
    for library in &case.libraries {
        let CaseLibrary { kernel, file, symbol, abi, build_id } = library;
        let abi = KernelAbi::from_name(abi).ok_or_else(|| format!("unknown ABI `{abi}`"))?;
        let folder = folder.ok_or("a single-file case cannot have libraries")?;
        let mut parts = Path::new(file).components();
        let is_plain = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
        if !is_plain {
            return Err(format!("`{file}` is not a plain file name"));
        }
        brought.push(KernelCode {
            name: kernel.clone(),
            path: folder.join(KERNELS_FOLDER).join(file),
            symbol: symbol.clone(),
            abi: Some(abi),
            of_case: Some(build_id.clone()),
        });
    }
    Ok(brought)
}

fn assumed(said: &CaseAssumption) -> Result<ArgReport, String> {
    let CaseAssumption { arg_index, grade, reason } = said;
    let known = Grade::ALL.into_iter().find(|known| known.name() == grade);
    let grade = known.ok_or_else(|| format!("unknown grade `{grade}`"))?;
    Ok(ArgReport { arg_index: *arg_index, role: None, grade, reason: Some(reason.clone()) })
}

impl Capture for CaseCapture {
    fn run(&self) -> &CapturedRun {
        &self.run
    }

    fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    fn content(&self, _: Task<'_>, tensor: Argument<'_>, stage: DumpStage) -> Content {
        let [before, after] = &self.contents[usize::from(tensor.arg_index)];
        if stage == DumpStage::BeforeDispatch { before.clone() } else { after.clone() }
    }

    fn why_missing(&self, _: Task<'_>, _: u16) -> String {
        "it was not captured".into()
    }

    fn damage(&self, _: Task<'_>) -> Option<String> {
        None
    }

    fn tolerance(&self, _: Task<'_>) -> Option<(f64, f64)> {
        self.tolerance
    }

    fn assumed(&self, _: Task<'_>) -> Vec<ArgReport> {
        self.assumed.clone()
    }

    fn case_code(&self) -> &[KernelCode] {
        &self.brought
    }

    fn scene_key(&self) -> &str {
        &self.scene_key
    }

    fn read(&self, blob: &Blob, into: &mut Vec<u8>) -> Result<(), ReplayError> {
        let bad = |reason: String| ReplayError::BadCase { path: self.path.clone(), reason };
        let array = usize::try_from(blob.id).ok().and_then(|id| self.arrays.arrays().get(id));
        let array = array.ok_or_else(|| bad("a tensor is missing".into()))?;
        *into = array.content().map_err(|error| bad(error.to_string()))?;
        Ok(())
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn expects_reference(&self) -> bool {
        self.expects_reference
    }

    fn redacted(&self) -> bool {
        self.redacted
    }
}

fn open_regular(path: &Path) -> Result<File, ReplayError> {
    let io = |source| ReplayError::Io { action: "open", path: path.to_owned(), source };
    // Opening a pipe would block.
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Err(ReplayError::BadCase {
            path: path.to_owned(),
            reason: "it is not a regular file".into(),
        });
    }
    File::open(path).map_err(io)
}

fn read_text(path: &Path) -> Result<String, ReplayError> {
    let io = |source| ReplayError::Io { action: "read", path: path.to_owned(), source };
    let mut text = String::new();
    open_regular(path)?.take(MAX_DESCRIPTION_BYTES).read_to_string(&mut text).map_err(io)?;
    Ok(text)
}

fn task_facts(case: &CaseFile) -> Result<TaskFacts, String> {
    let (tensors, scalars) = (case.tensors.len(), case.scalars.len());
    if !can_be_passed(tensors, scalars) {
        return Err(format!("it has {tensors} tensors and {scalars} scalars"));
    }
    let mut func_id = [NO_KERNEL; SLOTS_PER_TASK];
    for subtask in &case.subtasks {
        let slot = usize::try_from(subtask.subtask_id).ok().and_then(|slot| func_id.get_mut(slot));
        *slot.ok_or_else(|| format!("invalid subtask slot {}", subtask.subtask_id))? = subtask.kernel.func_id;
    }
    let count = |count: usize| u32::try_from(count).map_err(|error| error.to_string());
    Ok(TaskFacts {
        func_id,
        block_num: case.block_num,
        completed_ns: Some(0),
        tensor_count: count(tensors)?,
        scalar_count: count(scalars)?,
        ..TaskFacts::unknown(TaskKey { step: 0, task_id: case.task_id })
    })
}

fn tolerance(case: &CaseFile) -> Result<Option<(f64, f64)>, String> {
    let tolerance = case.tolerance.map(|t| (t.rtol, t.atol));
    if tolerance.is_some_and(|(rtol, atol)| !(rtol >= 0.0 && atol >= 0.0)) {
        return Err("its tolerance is not a positive number".into());
    }
    Ok(tolerance)
}

/// Tensors, then scalars.
fn arguments(case: &CaseFile) -> Result<Vec<ArgumentRecord<'_>>, String> {
    let indices = case.tensors.iter().map(|t| t.arg_index).chain(case.scalars.iter().map(|s| s.arg_index));
    if !indices.eq((0_u16..).take(case.tensors.len() + case.scalars.len())) {
        return Err("its arguments must be numbered from 0, tensors first".into());
    }
    let blank = ArgumentRecord {
        number: 0,
        task: TaskKey { step: 0, task_id: case.task_id },
        func_id: [NO_KERNEL; SLOTS_PER_TASK],
        stage: DumpStage::BeforeDispatch,
        arg_index: 0,
        kind: ArgumentKind::Tensor,
        role: Role::Input,
        dtype: DType::UInt64,
        dtype_known: true,
        role_known: true,
        extent_known: true,
        host_writable: false,
        shape: &[],
        strides: &[],
        start_offset: 0,
        address: 0,
        scalar_bits: None,
        hash: None,
        payload: PayloadState::None,
        bytes: 0,
        in_flight: false,
        name: 0,
    };
    let tensors = case.tensors.iter().map(|t| tensor(t, &blank));
    tensors.chain(case.scalars.iter().map(|s| scalar(s, &blank))).collect()
}

fn scalar<'c>(scalar: &'c CaseScalar, blank: &ArgumentRecord<'c>) -> Result<ArgumentRecord<'c>, String> {
    let bits = |text: &String| {
        let bits = parse_hex(text).and_then(|bits| u64::try_from(bits).ok());
        bits.ok_or_else(|| format!("`{text}` is not a 64-bit hex number"))
    };
    Ok(ArgumentRecord {
        arg_index: scalar.arg_index,
        kind: ArgumentKind::Scalar,
        dtype: dtype(&scalar.dtype)?,
        scalar_bits: scalar.bits.as_ref().map(bits).transpose()?,
        ..*blank
    })
}

fn tensor<'c>(tensor: &'c CaseTensor, blank: &ArgumentRecord<'c>) -> Result<ArgumentRecord<'c>, String> {
    let named = |reason: String| format!("argument {}: {reason}", tensor.arg_index);
    let role = Role::parse(&tensor.role).ok_or_else(|| named(format!("unknown role `{}`", tensor.role)))?;
    if tensor.shape.len() > MAX_DIMS || tensor.strides.len() != tensor.shape.len() {
        return Err(named("its shape and strides have different lengths, or too many dimensions".into()));
    }
    Ok(ArgumentRecord {
        arg_index: tensor.arg_index,
        role,
        dtype: dtype(&tensor.dtype).map_err(named)?,
        dtype_known: tensor.dtype_known,
        shape: &tensor.shape,
        strides: &tensor.strides,
        start_offset: tensor.start_offset,
        address: tensor.address,
        ..*blank
    })
}

/// Content of a tensor before and after the task.
fn contents(tensor: &CaseTensor, arrays: &NamedArrays) -> Result<[Content; 2], String> {
    let named = |reason: String| format!("argument {}: {reason}", tensor.arg_index);
    let numel = if tensor.shape.contains(&0) {
        Some(0)
    } else {
        tensor.shape.iter().try_fold(1_u64, |numel, &size| numel.checked_mul(size))
    };
    let whole = numel.and_then(|numel| dtype(&tensor.dtype).ok()?.packed_bytes(numel));
    let whole = whole.ok_or_else(|| named("it is too large".into()))?;
    let of = |said: &Option<CaseContent>| match said {
        Some(said) => content(said, whole, arrays).map_err(named),
        None => Ok(Content::Missing("the case does not contain it".into())),
    };
    Ok([of(&tensor.before)?, of(&tensor.after)?])
}

fn content(content: &CaseContent, whole: u64, arrays: &NamedArrays) -> Result<Content, String> {
    if content.payload == "missing" {
        return Ok(Content::Missing(
            content.reason.clone().unwrap_or_else(|| "the case gives no reason".into()),
        ));
    }
    let name = content.tensor.as_ref().ok_or("a stored payload has no tensor")?;
    let id = arrays.position(name).ok_or_else(|| format!("tensor `{name}` is not in the file"))?;
    let bytes = arrays.arrays()[id].bytes();
    let hash = match &content.hash {
        None => None,
        Some(text) => Some(parse_hex(text).ok_or_else(|| format!("`{text}` is not a hash"))?),
    };
    let blob = Blob { id: id as u64, bytes, hash };
    let unhashed = Blob { hash: None, ..blob };
    match content.payload.as_str() {
        "truncated" if bytes <= whole => Ok(Content::Part(unhashed)),
        "stored" if bytes == whole => Ok(Content::Whole(blob)),
        // The hash is that of the captured content, not of the noise.
        "noise" if bytes == whole => Ok(Content::Noise(unhashed)),
        "stored" | "noise" | "truncated" => {
            Err(format!("tensor `{name}` has {bytes} bytes, but its description has {whole}"))
        }
        other => Err(format!("unknown payload state `{other}`")),
    }
}

fn dtype(name: &str) -> Result<DType, String> {
    DType::parse(name).ok_or_else(|| format!("unknown dtype `{name}`"))
}
