//! Checks kernels and their arguments.

use std::path::PathBuf;

use tensortap_abi::{CoreType, DType, KernelName};
use tensortap_abi::{MAX_SCALARS, MAX_TENSORS};
use tensortap_scene::{FaultKind, KernelArg};
use toml::Spanned;

use super::check::{dtype, kernel_symbol};
use super::{CodeFile, Function, KernelDecl, Lines, leak, tolerance};
use crate::Mistake;
use crate::raw::RawKernel;

/// Limit on kernel numbers, because kernel tables have an entry for each number up to the largest one.
const MAX_FUNC_ID: u32 = 65_535;

pub fn kernels(lines: &Lines<'_>, raw: Vec<Spanned<RawKernel>>) -> Result<Vec<KernelDecl>, Mistake> {
    let mut kernels: Vec<KernelDecl> = Vec::new();
    for (place, raw) in (0_u32..).zip(raw) {
        let line = lines.of(&raw);
        let raw = raw.into_inner();
        let kernel = kernel(lines, &raw, place, line)?;
        if let Some(other) = kernels.iter().find(|known| known.name == kernel.name) {
            let problem = format!("two kernels have the name `{}`", other.name);
            return Err(lines.at(&raw.name, problem, "rename one of them"));
        }
        if let Some(other) = kernels.iter().find(|known| known.func_id == kernel.func_id) {
            let problem = format!(
                "kernels `{}` and `{}` both have func_id {}",
                other.name, kernel.name, kernel.func_id
            );
            let line = raw.func_id.as_ref().map_or(line, |id| lines.of(id));
            return Err(lines.mistake(line, problem, "give each kernel its own func_id"));
        }
        kernels.push(kernel);
    }
    Ok(kernels)
}

fn kernel(lines: &Lines<'_>, raw: &RawKernel, place: u32, line: usize) -> Result<KernelDecl, Mistake> {
    let name = raw.name.get_ref();
    if name.is_empty() || name.len() > KernelName::MAX_BYTES || name.contains('=') {
        let problem = format!("`{name}` is not a valid kernel name");
        let remedy = format!("use 1 to {} bytes, without `=`", KernelName::MAX_BYTES);
        return Err(lines.at(&raw.name, problem, remedy));
    }
    let func_id = raw.func_id.as_ref().map_or(place, |id| *id.get_ref());
    if func_id > MAX_FUNC_ID {
        let problem = format!("the func_id {func_id} of kernel `{name}` is too large");
        return Err(lines.mistake(line, problem, format!("use a number up to {MAX_FUNC_ID}")));
    }
    let core_type = match raw.core.as_ref().map_or("aiv", |core| core.get_ref().as_str()) {
        "aic" => CoreType::Aic,
        "aiv" => CoreType::Aiv,
        other => {
            let at = raw.core.as_ref().map_or(line, |core| lines.of(core));
            let problem = format!("kernel `{name}` has the unknown core type `{other}`");
            return Err(lines.mistake(at, problem, "write `aic` (matrix) or `aiv` (vector)"));
        }
    };
    let code = code(lines, raw, line)?;
    let (signature, dtypes) = signature(lines, raw)?;
    let reference = raw.reference.as_ref().map(|symbol| Function {
        file: code.file.clone(),
        symbol: symbol.get_ref().clone(),
        line: lines.of(symbol),
    });
    let shows = faults(lines, raw, &signature)?;
    Ok(KernelDecl {
        name: leak(name),
        func_id,
        core_type,
        signature: Vec::leak(signature),
        dtypes,
        code,
        reference,
        tolerance: raw.tolerance.map(tolerance),
        faults: Vec::leak(shows),
    })
}

fn code(lines: &Lines<'_>, raw: &RawKernel, line: usize) -> Result<Function, Mistake> {
    let (file, at) = match (&raw.source, &raw.library) {
        (Some(source), None) => (CodeFile::Source(PathBuf::from(source.get_ref())), lines.of(source)),
        (None, Some(library)) => (CodeFile::Library(PathBuf::from(library.get_ref())), lines.of(library)),
        _ => {
            let problem = format!("kernel `{}` must have either a source or a library", raw.name.get_ref());
            return Err(lines.mistake(
                line,
                problem,
                "write source = \"kernel.c\" or library = \"libkernel.so\"",
            ));
        }
    };
    let line = raw.symbol.as_ref().map_or(at, |symbol| lines.of(symbol));
    Ok(Function { file, symbol: kernel_symbol(raw.symbol.as_ref()), line })
}

type Signature = (Vec<KernelArg>, Vec<Option<DType>>);

/// Parses arguments such as `in x`, `out y: float32`, `scalar factor: float32`.
fn signature(lines: &Lines<'_>, raw: &RawKernel) -> Result<Signature, Mistake> {
    let (mut args, mut dtypes): Signature = Default::default();
    for raw_arg in &raw.args {
        let text = raw_arg.get_ref();
        let odd = || {
            let problem = format!("kernel `{}` has the invalid argument `{text}`", raw.name.get_ref());
            lines.at(
                raw_arg,
                problem,
                "write `in x`, `out y`, `inout z` or `scalar n: uint32`; a dtype may follow each name",
            )
        };
        let (head, after) =
            text.split_once(':').map_or((text.as_str(), None), |(head, dtype)| (head, Some(dtype)));
        let mut words = head.split_whitespace();
        let (Some(kind), Some(name), None) = (words.next(), words.next(), words.next()) else {
            return Err(odd());
        };
        let named = leak(name);
        let arg = match kind {
            "in" => KernelArg::In(named),
            "out" => KernelArg::Out(named),
            "inout" => KernelArg::InOut(named),
            "scalar" => KernelArg::Scalar(named),
            _ => return Err(odd()),
        };
        if args.iter().any(|known: &KernelArg| known.name() == name) {
            let problem = format!("kernel `{}` has two arguments with the name `{name}`", raw.name.get_ref());
            return Err(lines.at(raw_arg, problem, "rename one of them"));
        }
        let is_tensor = |arg: &KernelArg| !matches!(arg, KernelArg::Scalar(_));
        if is_tensor(&arg) && args.last().is_some_and(|last| !is_tensor(last)) {
            let problem = format!("kernel `{}` has the tensor `{name}` after a scalar", raw.name.get_ref());
            return Err(lines.at(raw_arg, problem, "put all tensors before all scalars"));
        }
        dtypes.push(
            after.map(|word| dtype(lines, &Spanned::new(raw_arg.span(), word.trim().into()))).transpose()?,
        );
        args.push(arg);
    }
    let scalars = args.iter().filter(|arg| matches!(arg, KernelArg::Scalar(_))).count();
    if scalars > MAX_SCALARS || args.len() - scalars > MAX_TENSORS {
        let problem = format!("kernel `{}` has too many arguments", raw.name.get_ref());
        return Err(lines.at(
            &raw.name,
            problem,
            format!("use at most {MAX_TENSORS} tensors and {MAX_SCALARS} scalars"),
        ));
    }
    Ok((args, dtypes))
}

/// The faults that can be injected into a kernel. Faults without effect on its arguments are removed, and the
/// description can remove more.
fn faults(lines: &Lines<'_>, raw: &RawKernel, signature: &[KernelArg]) -> Result<Vec<FaultKind>, Mistake> {
    let reads = signature.iter().any(|arg| matches!(arg, KernelArg::In(_)));
    let writes = signature.iter().any(|arg| matches!(arg, KernelArg::Out(_) | KernelArg::InOut(_)));
    let can = |kind: &FaultKind| if *kind == FaultKind::Shift { reads } else { writes };
    let all: Vec<FaultKind> = FaultKind::ALL.into_iter().filter(can).collect();
    let Some(named) = &raw.faults else { return Ok(all) };
    let fault = |named: &Spanned<String>| {
        let known = named.get_ref().parse::<FaultKind>().ok().filter(|kind| all.contains(kind));
        known.ok_or_else(|| {
            let names: Vec<_> = all.iter().map(|kind| kind.name()).collect();
            let problem =
                format!("kernel `{}` does not support the fault `{}`", raw.name.get_ref(), named.get_ref());
            lines.at(named, problem, format!("choose from: {}", names.join(", ")))
        })
    };
    named.iter().map(fault).collect()
}
