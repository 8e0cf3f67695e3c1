//! The kernel definitions. Their code is in the submodules.

mod attention;
mod matrix;
mod vector;

use tensortap_abi::{CoreType, KernelEntry};
use tensortap_scene::KernelArg::{self, In, InOut, Out, Scalar};
use tensortap_scene::{FaultKind, KernelDef, Reference, Tolerance, kernel_entry};

use super::reference;

/// Tolerance for sums of hundreds to thousands of signed products, added one after the other in f32. The
/// error depends on the magnitudes of the terms, not on the result.
const LONG_SUM: Option<Tolerance> = Some(Tolerance { rtol: 1.3e-6, atol: 5e-5 });

const EVERY_FAULT: &[FaultKind] = &FaultKind::ALL;

/// All faults except `race`. A race affects an early task. At the first position, attention has only one key,
/// so neither query nor key nor score matters. When other data is read, the task has already run.
const EVERY_FAULT_BUT_RACE: &[FaultKind] = &[
    FaultKind::Sign,
    FaultKind::Last,
    FaultKind::Stale,
    FaultKind::Nan,
    FaultKind::Shift,
    FaultKind::Overflow,
];

/// All faults except `nan`, which integers do not have.
const INTEGER_FAULTS: &[FaultKind] = &[
    FaultKind::Sign,
    FaultKind::Last,
    FaultKind::Stale,
    FaultKind::Shift,
    FaultKind::Overflow,
    FaultKind::Race,
];

const fn kernel(
    func_id: u32,
    name: &'static str,
    core_type: CoreType,
    signature: &'static [KernelArg],
    entry: KernelEntry,
    reference: &'static dyn Reference,
) -> KernelDef {
    KernelDef {
        func_id,
        name,
        core_type,
        signature,
        entry,
        reference: Some(reference),
        tolerance: None,
        faults: EVERY_FAULT,
    }
}

const fn on_aiv(
    func_id: u32,
    name: &'static str,
    signature: &'static [KernelArg],
    entry: KernelEntry,
    reference: &'static dyn Reference,
) -> KernelDef {
    kernel(func_id, name, CoreType::Aiv, signature, entry, reference)
}

const fn on_aic(
    func_id: u32,
    name: &'static str,
    signature: &'static [KernelArg],
    entry: KernelEntry,
    reference: &'static dyn Reference,
) -> KernelDef {
    let kernel = kernel(func_id, name, CoreType::Aic, signature, entry, reference);
    KernelDef { tolerance: LONG_SUM, ..kernel }
}

const fn with_faults(kernel: KernelDef, faults: &'static [FaultKind]) -> KernelDef {
    KernelDef { faults, ..kernel }
}

pub(super) static EMBED: KernelDef = on_aiv(
    0,
    "embed",
    &[In("token"), In("embedding"), Out("x")],
    kernel_entry::<vector::Embed>,
    &reference::embed,
);

pub(super) static RMS_NORM: KernelDef = on_aiv(
    1,
    "rms_norm",
    &[In("x"), In("gain"), Out("normed"), Scalar("epsilon")],
    kernel_entry::<vector::RmsNorm>,
    &reference::rms_norm,
);

pub(super) static PROJECT_BF16: KernelDef = with_faults(
    on_aic(
        2,
        "project_bf16",
        &[In("x"), In("weight"), Out("y")],
        kernel_entry::<matrix::ProjectBf16>,
        &reference::project,
    ),
    EVERY_FAULT_BUT_RACE,
);

pub(super) static PROJECT_F16: KernelDef = on_aic(
    3,
    "project_f16",
    &[In("x"), In("weight"), Out("y")],
    kernel_entry::<matrix::ProjectF16>,
    &reference::project,
);

pub(super) static PROJECT_I8: KernelDef = on_aic(
    4,
    "project_i8",
    &[In("x"), In("weight"), In("scale"), Out("y")],
    kernel_entry::<matrix::ProjectI8>,
    &reference::project_scaled,
);

pub(super) static ROPE: KernelDef = with_faults(
    on_aiv(
        5,
        "rope",
        &[InOut("q"), Scalar("position"), Scalar("base")],
        kernel_entry::<attention::Rope>,
        &reference::rope,
    ),
    EVERY_FAULT_BUT_RACE,
);

pub(super) static APPEND_KV: KernelDef = with_faults(
    on_aiv(
        6,
        "append_kv",
        &[In("k"), In("v"), Out("k_cache"), Out("v_cache"), Scalar("position"), Scalar("base")],
        kernel_entry::<attention::AppendKv>,
        &reference::append_kv,
    ),
    EVERY_FAULT_BUT_RACE,
);

pub(super) static ATTENTION_SCORES: KernelDef = with_faults(
    on_aic(
        7,
        "attention_scores",
        &[In("q"), In("k"), Out("scores")],
        kernel_entry::<attention::AttentionScores>,
        &reference::attention_scores,
    ),
    EVERY_FAULT_BUT_RACE,
);

pub(super) static SOFTMAX: KernelDef = on_aiv(
    8,
    "softmax",
    &[In("scores"), Out("weights")],
    kernel_entry::<attention::Softmax>,
    &reference::softmax,
);

pub(super) static ATTENTION_VALUES: KernelDef = on_aic(
    9,
    "attention_values",
    &[In("weights"), In("v"), Out("context")],
    kernel_entry::<attention::AttentionValues>,
    &reference::attention_values,
);

pub(super) static ADD_RESIDUAL: KernelDef = on_aiv(
    10,
    "add_residual",
    &[InOut("x"), In("delta")],
    kernel_entry::<vector::AddResidual>,
    &reference::add_residual,
);

pub(super) static SWIGLU: KernelDef = on_aiv(
    11,
    "swiglu",
    &[In("gate"), In("up"), Out("activated")],
    kernel_entry::<vector::Swiglu>,
    &reference::swiglu,
);

pub(super) static ARGMAX: KernelDef = with_faults(
    on_aiv(12, "argmax", &[In("logits"), Out("token")], kernel_entry::<vector::Argmax>, &reference::argmax),
    INTEGER_FAULTS,
);

pub(super) static ALL: [KernelDef; 13] = [
    EMBED,
    RMS_NORM,
    PROJECT_BF16,
    PROJECT_F16,
    PROJECT_I8,
    ROPE,
    APPEND_KV,
    ATTENTION_SCORES,
    SOFTMAX,
    ATTENTION_VALUES,
    ADD_RESIDUAL,
    SWIGLU,
    ARGMAX,
];
