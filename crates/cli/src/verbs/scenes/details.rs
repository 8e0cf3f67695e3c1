//! All about one scene.

use tensortap::scene::{FaultKind, KernelDef, ParamKind, ParamSpec, Scene};

use crate::verbs::platform_names;

/// Parameters with their ranges, and kernels with their arguments and the faults that can be injected.
pub fn of(scene: &dyn Scene) -> String {
    let mut text = format!("{}: {}\n\n", scene.name(), scene.about());
    text += &format!("  platforms  {}\n", platform_names().join(", "));
    text +=
        &format!("  runtimes   {} (the first is the default)\n", tensortap::runtimes_of(scene).join(", "));
    text += "\nParameters\n";
    text += &rows(&scene.params().iter().map(param).collect::<Vec<_>>());
    text += "\nKernels\n";
    text += &kernels(scene.kernels());
    let shows = |kind: &FaultKind| scene.kernels().iter().any(|kernel| kernel.faults.contains(kind));
    let faults = crate::faults::lines(FaultKind::ALL.into_iter().filter(shows));
    if !faults.is_empty() {
        text += "\nFaults, for run --inject-fault KERNEL=KIND\n";
        text += &faults;
    }
    text
}

fn param(param: &ParamSpec) -> [String; 3] {
    let values = match param.kind {
        ParamKind::Int { min, max: u64::MAX } => format!("{min} or more"),
        ParamKind::Int { min, max } => format!("{min} to {max}"),
        ParamKind::Choice(words) => words.join(", "),
    };
    [format!("{}={}", param.name, param.default), values, param.about.into()]
}

/// A row per kernel, and under it what it takes.
fn kernels(kernels: &[KernelDef]) -> String {
    let table = rows(&kernels.iter().map(kernel).collect::<Vec<_>>());
    let arguments = kernels.iter().map(|kernel| {
        let each = kernel.signature.iter().map(|arg| format!("{} {}", arg.kind().name(), arg.name()));
        format!("    {}\n", each.collect::<Vec<_>>().join(", "))
    });
    table
        .lines()
        .zip(arguments.chain(std::iter::repeat(String::new())))
        .fold(String::new(), |text, (row, arguments)| text + row + "\n" + &arguments)
}

fn kernel(kernel: &KernelDef) -> [String; 3] {
    let faults = if kernel.faults.is_empty() {
        "no faults".into()
    } else {
        format!("faults: {}", kernel.faults.iter().map(|f| f.name()).collect::<Vec<_>>().join(", "))
    };
    [kernel.name.into(), format!("func_id {}, {}", kernel.func_id, kernel.core_type), faults]
}

/// Cells under one another; the last column ends where it ends.
fn rows(rows: &[[String; 3]]) -> String {
    if rows.is_empty() {
        return "  none\n".into();
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    rows.iter().map(|[a, b, c]| format!("  {a:first$}  {b:second$}  {c}\n")).collect()
}
