//! Trials with the built-in scenes: a kernel is damaged on purpose, and both runs keep different parts of the
//! truth, on platforms and runtimes that may differ.
//!
//! The rule of judgment follows from what `--inject-fault` documents: every task with the damaged kernel is
//! guilty and no other task is. No scene reads uninitialized memory or data that differs between runs, so
//! nothing is `fed`. A race has the damaged kernel on one side. A faulty run must fail and the first task that
//! is named must be guilty, if both dumps are complete and the run's own golden failed. A right run must pass if
//! both dumps have hashes of everything. What the headline says about a task is judged like its label.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::answer::{self, Answer};
use crate::mentions::{Claim, Mention};
use crate::oracle::Judgment;
use crate::trial::Verdict;

/// A scene with small parameters, its kernels, and the kinds of faults that they can show.
struct Scene {
    name: &'static str,
    params: &'static [&'static str],
    kernels: &'static [&'static str],
    kinds: &'static [&'static str],
    /// Kernels of which a successor can start too early.
    racing: &'static [&'static str],
}

const SCENES: &[Scene] = &[
    Scene {
        name: "vector_example",
        params: &["n=256"],
        kernels: &["add", "add_scalar", "mul"],
        kinds: &["last", "stale", "nan", "shift"],
        racing: &["add", "add_scalar", "mul"],
    },
    Scene {
        name: "bgemm",
        params: &["m=64", "k=96", "n=64", "batch=2"],
        kernels: &["gemm_tile", "tile_add"],
        kinds: &["sign", "last", "stale", "nan", "shift"],
        racing: &["gemm_tile", "tile_add"],
    },
    Scene {
        name: "mixed_example",
        params: &["n=8", "rounds=2"],
        kernels: &["project", "bend", "tally", "blend", "turn", "fold", "step", "join", "settle"],
        kinds: &["sign", "last", "stale", "shift"],
        racing: &["project", "blend", "turn", "join"],
    },
    Scene {
        name: "paged_attention",
        params: &["batch=1", "heads=2", "head_dim=8", "block=4", "context=16"],
        kernels: &["qk", "softmax", "pv", "online_update"],
        kinds: &["sign", "last", "stale", "nan", "shift", "overflow"],
        racing: &["qk", "softmax", "pv"],
    },
    Scene {
        name: "tiny_llm",
        params: &["tokens=1", "prompt=1", "layers=1", "hidden=32", "vocab=64", "ffn=64", "tile=16"],
        kernels: &[
            "rms_norm",
            "project_f16",
            "project_i8",
            "softmax",
            "attention_values",
            "add_residual",
            "swiglu",
        ],
        kinds: &["sign", "last", "stale", "nan"],
        racing: &["rms_norm", "softmax", "swiglu"],
    },
    Scene {
        name: "stream",
        params: &["tasks=30", "bytes=1024"],
        kernels: &["advance"],
        kinds: &["sign", "last", "stale", "shift"],
        racing: &[],
    },
];

const RUNTIMES: [&str; 3] = ["tensormap_and_ringbuffer", "aicpu_build_graph", "host_build_graph"];

/// The options of one run, and what its dump has.
struct Options {
    args: Vec<String>,
    is_filtered: bool,
    level: &'static str,
}

impl Options {
    /// Whether the dump has the content of everything.
    fn is_complete(&self) -> bool {
        !self.is_filtered && self.level == "full"
    }

    /// Whether the dump has hashes of everything.
    fn has_hashes(&self) -> bool {
        !self.is_filtered && matches!(self.level, "full" | "hash")
    }
}

/// Only the next reader's input shows a race, so dumps of races have everything.
fn options(random: &mut fastrand::Rng, scene: &Scene, is_race: bool) -> Options {
    let levels = if is_race { ["full"; 4] } else { ["full", "full", "hash", "meta"] };
    let level = *random.choice(levels.iter()).expect("not empty");
    let mut args = vec![format!("--dump-tensor={level}")];
    let is_filtered = !is_race && random.u8(..4) == 0;
    if is_filtered {
        args.extend(filter(random, scene));
    }
    if random.u8(..3) == 0 {
        args.extend([
            "--runtime".to_owned(),
            (*random.choice(RUNTIMES.iter()).expect("not empty")).to_owned(),
        ]);
    }
    if random.u8(..4) == 0 {
        args.extend(["--platform", "a5sim"].map(str::to_owned));
    }
    Options { args, is_filtered, level }
}

fn filter(random: &mut fastrand::Rng, scene: &Scene) -> Vec<String> {
    let count = 1 + usize::from(random.u8(..3) == 0) + usize::from(random.u8(..6) == 0);
    let mut options = Vec::new();
    for kind in random.choose_multiple(0..5_u8, count) {
        let number = random.u32(1..12).to_string();
        let option = match kind {
            0 => vec![if random.bool() { "--dump-first" } else { "--dump-last" }, &number],
            1 => vec!["--dump-stage", if random.bool() { "before" } else { "after" }],
            2 => vec!["--dump-func", *random.choice(scene.kernels.iter()).expect("not empty")],
            3 => vec!["--dump-arg", if random.bool() { "0" } else { "1" }],
            _ if random.bool() => vec!["--dump-policy", "drop", "--dump-arena", "64KiB"],
            _ => vec!["--dump-collect", "batch", "--dump-arena", "64KiB"],
        };
        options.extend(option.into_iter().map(str::to_owned));
    }
    options
}

/// Runs a scene. Returns its report.
fn run(tensortap: &Path, scene: &Scene, options: &[String], out: &Path) -> Result<Value, String> {
    let mut command = Command::new(tensortap);
    command.arg("run").arg(scene.name).args(["--json", "--quiet", "--blocks", "2"]).arg("--out").arg(out);
    command.args(scene.params.iter().flat_map(|param| ["-p", param])).args(options);
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run: {error}"))?;
    let report: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr).trim_end()))?;
    match report["status"].as_str() {
        Some("complete") => Ok(report),
        _ => Err(format!("a run of {} ended as {}", scene.name, report["status"])),
    }
}

/// The kernels of every task, from the graph that the runtime wrote.
fn tasks(dump: &Path) -> Result<Vec<(u64, Vec<String>)>, String> {
    let text = std::fs::read_to_string(dump.join("graph.json")).map_err(|error| error.to_string())?;
    let graph: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let task = |value: &Value| {
        let id = value["task_id"].as_str()?.strip_prefix("0x")?;
        let kernels = value["kernels"].as_array()?.iter().filter_map(Value::as_str).map(str::to_owned);
        Some((u64::from_str_radix(id, 16).ok()?, kernels.collect()))
    };
    Ok(graph["tasks"].as_array().ok_or("a graph without tasks")?.iter().filter_map(task).collect())
}

/// Runs one trial in an empty folder.
pub fn trial(seed: u64, tensortap: &Path, dir: &Path) -> Result<Verdict, String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (scene, fault) = fault(&mut random);
    let [wrong, right] = ["wrong", "right"].map(|name| dir.join(name));
    let is_race = fault.is_some_and(|(_, kind)| kind == "race");
    let options = [options(&mut random, scene, is_race), options(&mut random, scene, is_race)];
    let mut damaged = options[0].args.clone();
    if let Some((kernel, kind)) = fault {
        damaged.extend(["--inject-fault".to_owned(), format!("{kernel}={kind}")]);
    }
    let report = run(tensortap, scene, &damaged, &wrong)?;
    run(tensortap, scene, &options[1].args, &right)?;
    let case = Case {
        kernel: fault.map(|(kernel, _)| kernel),
        is_race,
        tasks: tasks(&wrong)?,
        is_complete: options.iter().all(Options::is_complete),
        has_hashes: options.iter().all(Options::has_hashes),
        is_wrong: report["golden"] == "fail",
    };
    let answer = answer::ask(tensortap, &wrong, &right, seed);
    let judgment = answer.as_ref().map(|answer| case.judge(answer)).map_err(Clone::clone);
    let mut story = format!("  {} {damaged:?}\n  golden: {:?}\n", scene.name, options[1].args);
    if let Ok(answer) = &answer {
        story.push_str(&case.tell(answer));
    }
    let levels = match options.each_ref().map(|options| options.level) {
        _ if options.iter().any(|options| options.is_filtered) => "filtered",
        [left, right] if left == right => left,
        ["meta", _] | [_, "meta"] => "meta, other",
        _ => "full, hash",
    };
    let kind = fault.map_or("none", |(_, kind)| kind);
    Ok(Verdict { cell: ("scene", levels, kind.to_owned()), is_right: fault.is_none(), judgment, story })
}

/// Kinds of faults. All are equally frequent, and `none` is twice as frequent.
const KINDS: [&str; 9] = ["none", "none", "race", "sign", "last", "stale", "nan", "shift", "overflow"];

/// A scene, and the kernel that is damaged and how.
fn fault(random: &mut fastrand::Rng) -> (&'static Scene, Option<(&'static str, &'static str)>) {
    let kind = *random.choice(KINDS.iter()).expect("not empty");
    let has_it = |scene: &&Scene| match kind {
        "none" => true,
        "race" => !scene.racing.is_empty(),
        _ => scene.kinds.contains(&kind),
    };
    let scenes: Vec<&'static Scene> = SCENES.iter().filter(has_it).collect();
    let scene = *random.choice(scenes.iter()).expect("some scene has each kind");
    let kernels = if kind == "race" { scene.racing } else { scene.kernels };
    let kernel = random.choice(kernels.iter()).filter(|_| kind != "none");
    (scene, kernel.map(|kernel| (*kernel, kind)))
}

/// Everything about a trial except for the answer.
struct Case {
    kernel: Option<&'static str>,
    is_race: bool,
    tasks: Vec<(u64, Vec<String>)>,
    is_complete: bool,
    /// Whether both dumps have hashes of everything.
    has_hashes: bool,
    /// Whether the run's own golden failed.
    is_wrong: bool,
}

impl Case {
    fn is_damaged(&self, task: u64) -> bool {
        let kernels = self.tasks.iter().find(|(id, _)| *id == task).map(|(_, kernels)| kernels.as_slice());
        kernels.unwrap_or_default().iter().any(|kernel| Some(kernel.as_str()) == self.kernel)
    }

    fn may_be(&self, task: u64, label: &str, partner: Option<u64>) -> bool {
        match (label, self.is_race) {
            ("raced", true) => self.is_damaged(task) || partner.is_none_or(|task| self.is_damaged(task)),
            ("raced", false) | (_, true) => false,
            _ => self.is_damaged(task),
        }
    }

    /// Whether what an answer claims about a task besides its label is true. Both runs perform the same tasks. One task of
    /// a likely race is damaged, but the words do not tell which one.
    fn is_true(&self, mention: &Mention) -> bool {
        match mention.claim {
            Claim::Wrong | Claim::Fed | Claim::Other => !self.is_race && self.is_damaged(mention.task),
            // Nothing shows what tasks wrote, but some output is wrong.
            Claim::WrongOutput => self.is_wrong,
            Claim::Raced => self.is_race && !mention.of_golden,
            Claim::Extra | Claim::Missing | Claim::Stopped => false,
        }
    }

    fn judge(&self, answer: &Answer) -> Judgment {
        let mut judgment =
            Judgment { is_decidable: self.is_complete && self.is_wrong, ..Judgment::default() };
        let mut named = Vec::new();
        for labeled in &answer.tasks {
            if !matches!(labeled.label.as_str(), "wrong_here" | "fed" | "raced") {
                continue;
            }
            if self.may_be(labeled.task, &labeled.label, labeled.raced_with) {
                named.extend([Some(labeled.task), labeled.raced_with].into_iter().flatten());
            } else {
                let kernels = self.tasks.iter().find(|(id, _)| *id == labeled.task);
                let label =
                    format!("{}: {:?} is not damaged", labeled.label, kernels.map(|(_, kernels)| kernels));
                judgment.innocents.push((labeled.task, label));
            }
        }
        for mention in answer.mentions.iter().filter(|mention| !self.is_true(mention)) {
            if !judgment.innocents.iter().any(|(innocent, _)| *innocent == mention.task) {
                let label = format!("{:?} in `{}`", mention.claim, mention.words);
                judgment.innocents.push((mention.task, label));
            }
        }
        judgment.named = !named.is_empty();
        judgment.named_first = answer.first_wrong.first().is_some_and(|first| named.contains(first));
        let passes = answer.verdict == "pass";
        let is_accused =
            answer.verdict == "fail" && ["outside", "stopped"].contains(&answer.failure.as_str());
        judgment.right_run_failed = self.kernel.is_none() && (is_accused || self.has_hashes && !passes);
        judgment.wrong_run_passed = judgment.is_decidable && passes;
        judgment
    }

    fn tell(&self, answer: &Answer) -> String {
        let line = |(task, kernels): &(u64, Vec<String>)| {
            let label = answer.label(*task);
            let raced =
                answer.tasks.iter().find(|labeled| labeled.task == *task).and_then(|of| of.raced_with);
            let damaged = if self.is_damaged(*task) { "damaged" } else { "" };
            format!("    {task:x} {} {label} {raced:x?} {damaged}\n", kernels.join("+"))
        };
        let tasks: String = self.tasks.iter().map(line).collect();
        format!("{tasks}  blame: {}, first_wrong {:x?}\n", answer.verdict, answer.first_wrong)
    }
}
