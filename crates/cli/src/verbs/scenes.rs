//! `tensortap scenes`: what can be run.

use std::path::Path;

use clap::Args;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use tensortap::scene::{FaultKind, KernelDef, ParamKind, ParamSpec, Registry, Scene};
use tensortap::{Error, FolderOptions, RunConfig};
use tensortap_query::document::SceneDocument;

use crate::error::Exit;
use crate::fit::{GAP, left_out_line, total};
use crate::output::{Output, terminal_width};
use crate::program::program;
use crate::verbs::platform_names;

/// What `tensortap scenes` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap scenes\n  \
    tensortap scenes bgemm             parameters with their ranges, kernels, faults\n  \
    tensortap scenes --all             those made for tests, too, such as crash_segv and hang\n  \
    tensortap scenes --json")]
pub struct ScenesArgs {
    /// Tell all about one scene, by its name or its folder
    #[arg(value_name = "SCENE")]
    pub scene: Option<String>,

    /// List scenes made for tests, too: kernels that crash, hang or race
    #[arg(long, conflicts_with = "scene")]
    all: bool,
}

/// Lists the scenes.
pub fn run(args: &ScenesArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    match &args.scene {
        Some(name) => {
            let scene = find(name, registry)?;
            if output.json {
                output.document(&[SceneDocument::of(scene)])?;
            } else {
                output.text(&details(scene))?;
            }
        }
        None => {
            let listed: Vec<&dyn Scene> =
                registry.scenes().iter().copied().filter(|s| args.all || !s.hidden()).collect();
            if output.json {
                let documents: Vec<_> = listed.into_iter().map(SceneDocument::of).collect();
                output.document(&documents)?;
            } else {
                output.text(&table_of(&listed, terminal_width()))?;
            }
        }
    }
    Ok(Exit::Good)
}

/// The same error as `run` gives for a name nobody knows.
fn find(name: &str, registry: &Registry) -> Result<&'static dyn Scene, Error> {
    let path = Path::new(name);
    if registry.find(name).is_none() && tensortap::folders::is_folder(path) {
        return tensortap::open_folder(path, &FolderOptions::default())
            .map(|scene| scene as &'static dyn Scene);
    }
    let config = RunConfig { registry: registry.clone(), ..RunConfig::new(name) };
    tensortap::resolve(&config).map(|request| request.scene)
}

/// Parameters with their ranges, and kernels with their arguments and the faults that can be injected.
fn details(scene: &dyn Scene) -> String {
    let mut text = format!("{}: {}\n\n", scene.name(), scene.about());
    text += &format!("  platforms  {}\n", platform_names().join(", "));
    text +=
        &format!("  runtimes   {} (the first is the default)\n", tensortap::runtimes_of(scene).join(", "));
    text += "\nParameters\n";
    text += &rows(&scene.params().iter().map(param_row).collect::<Vec<_>>());
    text += "\nKernels\n";
    text += &kernels(scene.kernels());
    let shows = |kind: &FaultKind| scene.kernels().iter().any(|kernel| kernel.faults.contains(kind));
    let faults = crate::verbs::faults::lines(FaultKind::ALL.into_iter().filter(shows));
    if !faults.is_empty() {
        text += "\nFaults, for run --inject-fault KERNEL=KIND\n";
        text += &faults;
    }
    text
}

fn param_row(param: &ParamSpec) -> [String; 3] {
    let values = match param.kind {
        ParamKind::Int { min, max: u64::MAX } => format!("{min} or more"),
        ParamKind::Int { min, max } => format!("{min} to {max}"),
        ParamKind::Choice(words) => words.join(", "),
    };
    [format!("{}={}", param.name, param.default), values, param.about.into()]
}

/// A row per kernel, and under it what it takes.
fn kernels(kernels: &[KernelDef]) -> String {
    let table = rows(&kernels.iter().map(kernel_row).collect::<Vec<_>>());
    let arguments = kernels.iter().map(|kernel| {
        let each = kernel.signature.iter().map(|arg| format!("{} {}", arg.kind().name(), arg.name()));
        format!("    {}\n", each.collect::<Vec<_>>().join(", "))
    });
    table
        .lines()
        .zip(arguments.chain(std::iter::repeat(String::new())))
        .fold(String::new(), |text, (row, arguments)| text + row + "\n" + &arguments)
}

fn kernel_row(kernel: &KernelDef) -> [String; 3] {
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

const NAMES: [&str; 4] = ["SCENE", "ABOUT", "RUNTIMES", "PARAMETERS"];
/// Widths of the columns without the gap.
const WIDTHS: [usize; 4] = [19, 27, 24, 24];
/// The column of sentences, which takes what others leave.
const ABOUT: usize = 1;

/// Name, about, runtimes and parameters with defaults of each scene. A narrow terminal goes without the last columns.
fn table_of(scenes: &[&dyn Scene], width: Option<usize>) -> String {
    let widths = fitting(width);
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.add_row(&NAMES[..widths.len()]);
    for scene in scenes {
        table.add_row([""]);
        let cells = [
            scene.name().to_string(),
            scene.about().to_string(),
            tensortap::runtimes_of(*scene).join("\n"),
            params(*scene),
        ];
        table.add_row(&cells[..widths.len()]);
    }
    let gap = u16::try_from(GAP).unwrap_or(u16::MAX);
    for (column, width) in table.column_iter_mut().zip(&widths) {
        let width = u16::try_from(*width).unwrap_or(u16::MAX).saturating_add(gap);
        column.set_padding((0, gap)).set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
    }
    let left_out =
        left_out_line(&NAMES[widths.len()..], width, &format!("`{} scenes SCENE` has them", program()));
    format!(
        "{}\n\nThe first runtime is the default. More about one: {} scenes SCENE\n{}",
        table.trim_fmt(),
        program(),
        left_out.map_or(String::new(), |line| line + "\n")
    )
}

/// The widths of as many columns as there is room for.
fn fitting(width: Option<usize>) -> Vec<usize> {
    let mut widths = WIDTHS.to_vec();
    let Some(width) = width else { return widths };
    while widths.len() > ABOUT + 1 && total(widths.iter().copied()) > width {
        widths.pop();
    }
    if widths.len() < WIDTHS.len() {
        let others = total(widths.iter().copied()) - widths[ABOUT];
        widths[ABOUT] = width.saturating_sub(others).max(WIDTHS[0]);
    }
    widths
}

fn params(scene: &dyn Scene) -> String {
    scene
        .params()
        .iter()
        .map(|param| format!("{}={}", param.name, param.default))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_columns_go_first_and_sentences_take_the_room() {
        assert_eq!(fitting(None), WIDTHS);
        assert_eq!(fitting(Some(100)), WIDTHS);
        assert_eq!(fitting(Some(80)), [19, 33, 24]);
        assert_eq!(fitting(Some(60)), [19, 39]);
        assert_eq!(fitting(Some(10)), [19, 19]);
    }
}
