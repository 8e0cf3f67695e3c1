//! `tensortap scenes`: lists the scenes or describes one.

use std::path::Path;

use clap::Args;
use tensortap::scene::{FaultKind, KernelDef, ParamKind, ParamSpec, Registry, Scene};
use tensortap::{Error, FolderOptions, RunConfig};
use tensortap_query::document::SceneDocument;
use tensortap_query::number::counted;
use tensortap_test_scenes::TEST_ONLY;

use crate::error::{Exit, TEST_SCENES_COMMAND};
use crate::output::{Output, terminal_width};
use crate::program::{is_tensortap, program};
use crate::table::{Column, Fit, Layout, Overflow, plain_rows};
use crate::verbs::platform_names;

/// Arguments of `tensortap scenes`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap scenes\n  \
    tensortap scenes bgemm             parameters and their ranges, kernels, faults\n  \
    tensortap scenes --all             also scenes that fail on purpose, such as crash_segv and hang\n  \
    tensortap scenes --json")]
pub struct ScenesArgs {
    /// Describe this scene, given by name or folder
    #[arg(value_name = "SCENE")]
    pub scene: Option<String>,

    /// Also list hidden scenes, which crash, hang or are wrong on purpose
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
                if args.all && is_tensortap() && !cfg!(feature = "test-scenes") {
                    let count = counted(TEST_ONLY.len() as u64, "scene");
                    output.text(&format!(
                        "{count} for tests are not part of this build: {TEST_SCENES_COMMAND} scenes --all\n"
                    ))?;
                }
            }
        }
    }
    Ok(Exit::Good)
}

/// The scene of this name or folder. An unknown name causes the same error as in `run`.
fn find(name: &str, registry: &Registry) -> Result<&'static dyn Scene, Error> {
    let path = Path::new(name);
    if registry.find(name).is_none() && tensortap::folders::is_folder(path) {
        return tensortap::open_folder(path, &FolderOptions::default())
            .map(|scene| scene as &'static dyn Scene);
    }
    let config = RunConfig { registry: registry.clone(), ..RunConfig::new(name) };
    tensortap::resolve(&config).map(|request| request.scene)
}

/// The parameters with their ranges, and the kernels with their arguments and valid faults.
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
        text += "\nFaults for run --inject-fault KERNEL=KIND\n";
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

/// A row for each kernel, followed by its arguments.
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

fn rows(rows: &[[String; 3]]) -> String {
    if rows.is_empty() { "  none\n".into() } else { plain_rows(rows, 2) }
}

const fn wrapped(heading: &'static str, width: usize) -> Column {
    Column { overflow: Overflow::Wrap, ..Column::text(heading, width) }
}

const COLUMNS: [Column; 4] =
    [Column::text("SCENE", 19), wrapped("ABOUT", 27), wrapped("RUNTIMES", 24), wrapped("PARAMETERS", 24)];

/// The columns that fit. The descriptions get the room that missing columns leave.
fn layout(width: Option<usize>) -> Layout {
    let fit = Fit { width, drop_first: &["PARAMETERS", "RUNTIMES"], ..Fit::default() };
    let mut layout = Layout::new(&COLUMNS, fit);
    if !layout.left_out().is_empty() {
        layout.stretch("ABOUT");
    }
    layout
}

/// Name, description, runtimes and parameters of each scene.
fn table_of(scenes: &[&dyn Scene], width: Option<usize>) -> String {
    let layout = layout(width);
    let mut text = layout.head();
    for scene in scenes {
        text.push('\n');
        let runtimes = tensortap::runtimes_of(*scene).join("\n");
        text += &layout.row(&[scene.name(), scene.about(), &runtimes, &params(*scene)]);
    }
    let program = program();
    let left_out = layout.left_out_line(&format!("`{program} scenes SCENE` shows them."));
    format!(
        "{text}\nThe first runtime is the default. More about one scene: {program} scenes SCENE\n{left_out}"
    )
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
    fn a_narrow_terminal_leaves_columns_out_and_widens_the_descriptions() {
        let head = |width| layout(width).head();
        assert_eq!(head(Some(100)), head(None));
        assert_eq!(head(Some(80)), format!("{:19}  {:33}  RUNTIMES\n", "SCENE", "ABOUT"));
        assert_eq!(layout(Some(60)).left_out(), ["PARAMETERS", "RUNTIMES"]);
    }
}
