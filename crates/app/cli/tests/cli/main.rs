//! The `tensortap` binary from the outside: its output and its exit status.

mod architecture;
mod args_alone;
mod bench;
mod blame_arrays;
mod blame_evidence;
mod blame_filtered;
mod blame_orchestration;
mod blame_rerun;
#[path = "../common/mod.rs"]
mod common;
mod compare;
mod damage;
mod docs;
mod docs_pages;
mod dump_options;
mod dump_run;
mod dumps;
mod export;
mod failing;
mod folder_faults;
mod folder_memory;
mod folder_mistakes;
mod folder_orchestrations;
mod folder_sanitize;
mod folders;
mod given_kernels;
mod golden_dtype;
mod gone;
mod graph;
mod help;
mod hints;
mod hostile_text;
mod json;
mod list;
mod live;
mod made;
mod names;
mod nan;
mod payload_files;
mod peer_export;
mod peers;
mod ranks;
mod repair;
mod report;
mod run;
mod scenes;
mod sets;
mod show;
mod simpler_dtypes;
mod simpler_dumps;
mod simpler_generations;
mod simpler_kernels;
mod stats;
mod steps;
mod suite;
mod summary;
mod terminal;
mod trace;
#[cfg(feature = "tui")]
mod tui;
mod usage;
mod verdict;
mod verify;

use std::process::{Command, Stdio};

/// The result of one call.
#[derive(Debug)]
struct Outcome {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// The binary, without inherited variables that change its output.
fn command(args: &[&str]) -> Command {
    common::count_call(args);
    let mut command = Command::new(common::executable());
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"] {
        command.env_remove(variable);
    }
    command.env("TENSORTAP_CACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"));
    command.args(args).stdin(Stdio::null());
    command
}

fn outcome(mut command: Command) -> Outcome {
    let output = command.output().expect("the binary starts");
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Calls the binary with words separated by spaces.
fn tensortap(line: &str) -> Outcome {
    outcome(command(&line.split_whitespace().collect::<Vec<_>>()))
}

/// Compares with a file in `tests/snapshots`, without values that differ between runs.
fn assert_snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.add_filter(r"[\d.]+ (µs|ms|s), [\d,]+ tasks/s", "[time], [rate] tasks/s");
    settings.add_filter(r"(rate    )[\d.]+ [kMG]?B/s", "$1[rate]");
    settings.add_filter(r"(device waited )[\d.]+ (µs|ms|s)", "$1[time]");
    // The number of digits of times changes the size of the files.
    settings.add_filter(r"(folder  \S+, )[\d.]+ \w+ in all", "$1[size] in all");
    // Rounding may differ between machines.
    settings.add_filter(r"max error \d*\.[\d.e-]+", "max error [error]");
    settings.add_filter(r"is -?[\d.]+, expected -?[\d.]+", "is [actual], expected [expected]");
    settings.bind(|| insta::assert_snapshot!(name, text));
}
