//! Options about recording: what is recorded, how it is written, and which dump a run is compared with meanwhile.
//! `run`, `test` and `record` share them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tensortap::abi::MAX_ARGS;
use tensortap::{
    DumpCollect, DumpConfig, DumpLevel, DumpPolicy, DumpStage, LiveConfig, MAX_WRITERS, PayloadPath,
    UnknownName,
};
use tensortap_query::ids::{IdRange, parse_task_range};

use crate::error::UsageError;
use crate::parse::{Limit, choice, parse_limit, parse_size, stage, whole};
use crate::verbs::payload_paths;

/// Position of the last argument of a task.
#[expect(clippy::cast_possible_truncation, reason = "a few dozen")]
const LAST_ARG: u16 = MAX_ARGS as u16 - 1;

const HEADING: &str = "Dump";

/// Options about tensor contents. They have no effect on the arguments of dispatches.
const ABOUT_CONTENT: [&str; 5] =
    ["--dump-arg", "--dump-stage", "--dump-max-bytes", "--no-dedup", "--dump-write"];

/// What a run records. `test` has the same options for its trials.
#[derive(Args)]
pub struct LevelArgs {
    /// Record the inputs and outputs of every task; levels: marked, full, meta, hash, or their numbers 1 to 4
    /// [without LEVEL: full]
    #[arg(
        long,
        value_name = "LEVEL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = DumpLevel::Full.name(),
        value_parser = parse_level
    )]
    dump_tensor: Option<DumpLevel>,

    /// Record the final arguments of every dispatch and the arguments of the orchestration; with or without --dump-tensor
    #[arg(long)]
    dump_args: bool,
}

impl LevelArgs {
    /// What to record. `default` is the level if no option names one.
    pub fn config(&self, default: DumpLevel) -> DumpConfig {
        DumpConfig { dump_args: self.dump_args, ..DumpConfig::new(self.level(default)) }
    }

    fn level(&self, default: DumpLevel) -> DumpLevel {
        self.dump_tensor.unwrap_or(default)
    }
}

/// Filters and writing options, the same for scenes and for programs.
#[derive(Args)]
#[command(next_help_heading = HEADING)]
pub struct RecordingArgs {
    /// Record only these tasks, by id or range: 3,0x100000000-0x10000000f
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_tasks)]
    dump_task: Vec<IdRange>,

    /// Record only tasks with these kernels, by name, pattern or func_id: add*,3
    #[arg(long, value_name = "NAME_OR_ID", value_delimiter = ',')]
    dump_func: Vec<String>,

    /// Record only these arguments, by position: tensors first, then scalars
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = parse_arg)]
    dump_arg: Vec<u16>,

    /// Record only the inputs of tasks (before) or only their outputs (after)
    #[arg(long, value_name = "STAGE", value_parser = stage())]
    dump_stage: Option<DumpStage>,

    /// Record only the first N tasks that are dispatched
    #[arg(long, value_name = "N", value_parser = whole(0_u64..))]
    dump_first: Option<u64>,

    /// Keep only the newest N tasks on disk
    #[arg(long, value_name = "N", value_parser = whole(0_u64..))]
    dump_last: Option<u64>,

    /// Record at most this much content, such as 2GiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    dump_max_bytes: Option<u64>,

    /// Store every payload, even if an equal one is stored already
    #[arg(long)]
    no_dedup: bool,

    /// If the dump cannot keep up: block the device, or drop records and count them [default: block]
    #[arg(long, value_name = "POLICY", value_parser = choice([("block", DumpPolicy::Block), ("drop", DumpPolicy::Drop)]))]
    dump_policy: Option<DumpPolicy>,

    /// Read records while the device runs, or once after the run [default: live]
    #[arg(long, value_name = "WHEN", value_parser = choice([("live", DumpCollect::Live), ("batch", DumpCollect::Batch)]))]
    dump_collect: Option<DumpCollect>,

    /// Continue without a dump if the host does not respond for this time; 0 means never [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_limit)]
    dump_liveness: Option<Limit>,

    /// Flush to disk so that the dump survives a power loss; slower
    #[arg(long)]
    dump_sync: bool,

    /// Buffer for content on its way to the host, per device thread [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    dump_arena: Option<u64>,

    /// Record buffers per thread [default: 8, more for a large arena]
    #[arg(long, value_name = "N", value_parser = whole(DumpConfig::BUFFERS))]
    dump_buffers: Option<u32>,

    /// Records per buffer [default: 4096]
    #[arg(long, value_name = "N", value_parser = whole(DumpConfig::RECORDS))]
    dump_records: Option<u32>,

    /// Write payloads through the page cache, around it, or around it once the dump is large [default: auto]
    #[arg(long, value_name = "WAY", value_parser = payload_paths())]
    dump_write: Option<PayloadPath>,

    /// Number of threads that write large payloads [default: 1, more for a large dump that arrives fast]
    #[arg(long, value_name = "N", value_parser = whole(1..=MAX_WRITERS))]
    dump_writers: Option<usize>,

    /// Number of files for large payloads, which several threads can write at once [default: 1, one for each writing
    /// thread for a large dump that arrives fast]
    #[arg(long, value_name = "N", value_parser = whole(1..=MAX_WRITERS))]
    dump_files: Option<usize>,
}

/// All recording options of `run`.
#[derive(Args)]
#[command(next_help_heading = HEADING)]
pub struct RunDumpArgs {
    #[command(flatten)]
    level: LevelArgs,

    /// Folder for the dump, new or empty [default: outputs/tensor_dump_DATE_TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    #[command(flatten)]
    how: RecordingArgs,

    #[command(flatten)]
    live: LiveArgs,
}

impl RecordingArgs {
    /// The values of `--dump-func`.
    pub fn funcs(&self) -> &[String] {
        &self.dump_func
    }

    /// Applies the given options and leaves the rest.
    pub fn set(&self, config: &mut DumpConfig) {
        config.tasks.clone_from(&self.dump_task);
        config.funcs.clone_from(&self.dump_func);
        config.args.clone_from(&self.dump_arg);
        config.stage = self.dump_stage;
        config.first = self.dump_first;
        config.last = self.dump_last;
        config.max_bytes = self.dump_max_bytes;
        config.dedup = !self.no_dedup;
        config.sync = self.dump_sync;
        config.write = self.dump_write.unwrap_or(config.write);
        config.writers = self.dump_writers.unwrap_or(config.writers);
        config.files = self.dump_files.unwrap_or(config.files);
        config.policy = self.dump_policy.unwrap_or(config.policy);
        config.collect = self.dump_collect.unwrap_or(config.collect);
        // The device treats zero as no limit.
        config.liveness =
            self.dump_liveness.map_or(config.liveness, |Limit(limit)| limit.unwrap_or(Duration::ZERO));
        config.arena_bytes = self.dump_arena.unwrap_or(config.arena_bytes);
        config.arena_grows &= self.dump_arena.is_none();
        config.records = self.dump_records.unwrap_or(config.records);
        let usual = config.buffers.max(DumpConfig::buffers_for(config.arena_bytes, config.records));
        config.buffers = self.dump_buffers.unwrap_or(usual);
    }

    /// The given options. The pattern names every field so that a new option cannot be forgotten.
    fn given(&self) -> Vec<&'static str> {
        let RecordingArgs {
            dump_task,
            dump_func,
            dump_arg,
            dump_stage,
            dump_first,
            dump_last,
            dump_max_bytes,
            no_dedup,
            dump_policy,
            dump_collect,
            dump_liveness,
            dump_sync,
            dump_arena,
            dump_buffers,
            dump_records,
            dump_write,
            dump_writers,
            dump_files,
        } = self;
        let all = [
            ("--dump-task", !dump_task.is_empty()),
            ("--dump-func", !dump_func.is_empty()),
            ("--dump-arg", !dump_arg.is_empty()),
            ("--dump-stage", dump_stage.is_some()),
            ("--dump-first", dump_first.is_some()),
            ("--dump-last", dump_last.is_some()),
            ("--dump-max-bytes", dump_max_bytes.is_some()),
            ("--no-dedup", *no_dedup),
            ("--dump-policy", dump_policy.is_some()),
            ("--dump-collect", dump_collect.is_some()),
            ("--dump-liveness", dump_liveness.is_some()),
            ("--dump-sync", *dump_sync),
            ("--dump-arena", dump_arena.is_some()),
            ("--dump-buffers", dump_buffers.is_some()),
            ("--dump-records", dump_records.is_some()),
            ("--dump-write", dump_write.is_some()),
            ("--dump-writers", dump_writers.is_some()),
            ("--dump-files", dump_files.is_some()),
        ];
        all.into_iter().filter(|&(_, given)| given).map(|(option, _)| option).collect()
    }
}

impl RunDumpArgs {
    /// What to record, if anything. Rejects options that would have no effect.
    pub fn config(&self) -> Result<Option<DumpConfig>, UsageError> {
        self.refuse_idle_options()?;
        self.refuse_partial_comparison()?;
        let mut config = self.level.config(self.default_level());
        if !config.records_anything() {
            return Ok(None);
        }
        self.how.set(&mut config);
        config.live = self.live.config();
        Ok(Some(config))
    }

    /// The folder of `--out`.
    pub fn out(&self) -> Option<PathBuf> {
        self.out.clone()
    }

    fn level(&self) -> DumpLevel {
        self.level.level(self.default_level())
    }

    /// The level if no option names one. A comparison needs the full content.
    fn default_level(&self) -> DumpLevel {
        if self.live.is_given() { DumpLevel::Full } else { DumpLevel::Off }
    }

    /// Rejects options without effect: all of them without a dump, and those about content without `--dump-tensor`.
    fn refuse_idle_options(&self) -> Result<(), UsageError> {
        let LevelArgs { dump_tensor, dump_args } = self.level;
        let idle: Vec<&str> = match (self.level(), dump_args) {
            (DumpLevel::Off, false) => self.given(),
            (DumpLevel::Off, true) => {
                self.given().into_iter().filter(|option| ABOUT_CONTENT.contains(option)).collect()
            }
            _ => return Ok(()),
        };
        if idle.is_empty() {
            return Ok(());
        }
        let need = if idle.len() == 1 { "needs" } else { "need" };
        let either = if dump_args { "" } else { " or --dump-args" };
        let hint = match dump_tensor {
            Some(_) => "level off records nothing; choose another level, or remove the option",
            None => "add --dump-tensor, or --dump-tensor=LEVEL for a level other than full",
        };
        let message = format!("{} {need} --dump-tensor{either}", idle.join(", "));
        Err(UsageError::new(message, hint))
    }

    /// A comparison needs all content of a task, so all of it must be recorded.
    fn refuse_partial_comparison(&self) -> Result<(), UsageError> {
        if !self.live.is_given() || self.level() == DumpLevel::Full {
            return Ok(());
        }
        let message = format!("--live needs level full, not {}", self.level().name());
        Err(UsageError::new(message, "remove --dump-tensor: --live records everything by itself"))
    }

    /// The given options, except those that turn recording on.
    fn given(&self) -> Vec<&'static str> {
        let RunDumpArgs { level: _, out, how, live: _ } = self;
        let out = out.as_ref().map(|_| "--out");
        out.into_iter().chain(how.given()).collect()
    }
}

/// Reads a dump level, by name or number.
pub fn parse_level(text: &str) -> Result<DumpLevel, String> {
    DumpLevel::parse(text).ok_or_else(|| {
        let names = DumpLevel::ALL.map(DumpLevel::name);
        UnknownName::new("dump level", text, names).to_string() + ", or 0 to 4 in that order"
    })
}

/// Reads tasks by number. A running device only knows numbers; names and scopes are in the dump.
fn parse_tasks(text: &str) -> Result<IdRange, String> {
    let is_name = text.trim().starts_with(|c: char| !c.is_ascii_digit() && c != '-' && c != ':');
    parse_task_range(text).map_err(|error| match is_name {
        true => "a running device knows tasks only by id or range (3, 1:2, 0x100000000-0x10000000f); choose kernels with \
                 --dump-func, or select names and scopes when reading the dump: list --task NAME"
            .into(),
        false => error.to_string(),
    })
}

/// Reads arguments by position, for the same reason.
fn parse_arg(text: &str) -> Result<u16, String> {
    let is_name = text.trim().starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '*');
    match text.trim().parse::<u16>() {
        Ok(arg) if arg <= LAST_ARG => Ok(arg),
        _ if is_name => {
            Err("a running device knows arguments only by position, tensors first (0, 2); select names when \
                             reading the dump: list --arg NAME"
                .into())
        }
        _ => Err(format!("expected a whole number from 0 to {LAST_ARG}")),
    }
}

/// Options about comparing a run with a golden while it runs.
#[derive(Args)]
#[command(next_help_heading = "Comparing while running")]
struct LiveArgs {
    /// Compare with this dump of the same scene, parameters and runtime, and keep payloads only of tasks that differ;
    /// implies --dump-tensor
    #[arg(long, value_name = "GOLDEN")]
    live: Option<PathBuf>,

    /// Stop the run within milliseconds after the first task that is wrong although its inputs are right
    #[arg(long, requires = "live")]
    stop_at_first: bool,

    /// Payload bytes that may wait for a verdict; tasks beyond this limit are kept without one [default: 4GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "live")]
    live_scratch: Option<u64>,
}

impl LiveArgs {
    /// Whether a golden is given.
    pub fn is_given(&self) -> bool {
        self.live.is_some()
    }

    /// The comparison, if a golden is given.
    pub fn config(&self) -> Option<LiveConfig> {
        let mut config = LiveConfig::new(self.live.as_ref()?);
        config.stop_at_first = self.stop_at_first;
        config.scratch_bytes = self.live_scratch.unwrap_or(config.scratch_bytes);
        Some(config)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct DumpLine {
        #[command(flatten)]
        dump: RunDumpArgs,
    }

    fn config(line: &str) -> Result<Option<DumpConfig>, UsageError> {
        DumpLine::try_parse_from(["run"].into_iter().chain(line.split_whitespace()))
            .expect(line)
            .dump
            .config()
    }

    #[test]
    fn parses_levels_by_name_or_number_with_full_as_default() {
        for (line, level) in [
            ("--dump-tensor", DumpLevel::Full),
            ("--dump-tensor=marked", DumpLevel::Marked),
            ("--dump-tensor=3", DumpLevel::Meta),
            ("--dump-tensor=hash", DumpLevel::Hash),
        ] {
            assert_eq!(config(line).unwrap(), Some(DumpConfig::new(level)), "{line}");
        }
        for line in ["", "--dump-tensor=off", "--dump-tensor=0"] {
            assert_eq!(config(line).unwrap(), None, "{line}");
        }
    }

    #[test]
    fn rejects_an_unknown_level_and_lists_the_valid_ones() {
        let refusal = parse_level("ful").unwrap_err();
        assert!(refusal.contains("did you mean `full`?") && refusal.contains("hash"), "{refusal}");
        assert!(parse_level("5").is_err() && parse_level("").is_err());
    }

    #[test]
    fn every_option_sets_the_configuration() {
        let line = "--dump-tensor=hash --dump-args --dump-task 1,0x5-9 --dump-task 12 --dump-func add,3 --dump-arg 0,2 \
                    --dump-stage after --dump-first 5 --dump-last 4 --dump-max-bytes 1MiB --no-dedup \
                    --dump-policy drop --dump-collect batch --dump-liveness 2min --dump-sync --dump-arena 1MiB \
                    --dump-buffers 3 --dump-records 17 --dump-write direct --dump-writers 3 \
                    --dump-files 2 --out here";
        let expected = DumpConfig {
            level: DumpLevel::Hash,
            dump_args: true,
            tasks: vec![(1, 1), (5, 9), (12, 12)],
            funcs: vec!["add".into(), "3".into()],
            args: vec![0, 2],
            stage: Some(DumpStage::AfterCompletion),
            first: Some(5),
            last: Some(4),
            max_bytes: Some(1 << 20),
            policy: DumpPolicy::Drop,
            collect: DumpCollect::Batch,
            liveness: Duration::from_secs(120),
            dedup: false,
            sync: true,
            write: PayloadPath::Direct,
            writers: 3,
            files: 2,
            arena_bytes: 1 << 20,
            buffers: 3,
            records: 17,
            ..DumpConfig::new(DumpLevel::Off)
        };
        assert_eq!(config(line).unwrap(), Some(expected));
        let args =
            DumpLine::try_parse_from(["run"].into_iter().chain(line.split_whitespace())).ok().unwrap().dump;
        assert_eq!(args.out(), Some("here".into()));
        // All options except those that turn recording on.
        assert_eq!(args.given().len(), 19);
    }

    #[test]
    fn names_and_scopes_are_rejected_with_an_alternative() {
        for (text, works) in
            [("mul", "--dump-func"), ("layer 1/k_proj", "1:2"), ("*norm", "list --task NAME")]
        {
            let refusal = parse_tasks(text).unwrap_err();
            assert!(refusal.contains(works), "{text}: {refusal}");
        }
        assert_eq!(parse_tasks("1:2"), Ok((0x1_0000_0002, 0x1_0000_0002)));
        assert!(!parse_tasks("5-3").unwrap_err().contains("--dump-func"));
        assert_eq!(parse_arg("2"), Ok(2));
        assert!(parse_arg("scores").unwrap_err().contains("list --arg NAME"));
        assert!(parse_arg("48").unwrap_err().contains("from 0 to 47"));
    }

    #[test]
    fn a_liveness_of_zero_means_no_limit() {
        let config = config("--dump-tensor --dump-liveness 0").unwrap().unwrap();
        assert_eq!(config.liveness, Duration::ZERO);
    }

    #[test]
    fn dump_args_works_with_and_without_tensors() {
        assert_eq!(config("--dump-args").unwrap(), Some(DumpConfig::args_only()));
        assert_eq!(config("--dump-args --dump-tensor=off").unwrap(), Some(DumpConfig::args_only()));
        let both = DumpConfig { dump_args: true, ..DumpConfig::new(DumpLevel::Full) };
        assert_eq!(config("--dump-args --dump-tensor").unwrap(), Some(both));
        let narrowed = config("--dump-args --dump-func add --dump-last 4 --dump-task 1").unwrap().unwrap();
        assert_eq!(
            (narrowed.funcs, narrowed.last, narrowed.tasks),
            (vec!["add".into()], Some(4), vec![(1, 1)])
        );
    }

    #[test]
    fn options_about_content_need_dump_tensor() {
        let error = config("--dump-args --dump-stage after --dump-first 2 --no-dedup --dump-write direct")
            .unwrap_err();
        assert_eq!(error.message, "--dump-stage, --no-dedup, --dump-write need --dump-tensor");
        assert!(config("--dump-args --dump-tensor --dump-stage after --no-dedup").is_ok());
    }

    #[test]
    fn options_without_a_dump_are_rejected_by_name() {
        let error = config("--dump-first 3 --out x").unwrap_err();
        assert_eq!(error.message, "--out, --dump-first need --dump-tensor or --dump-args");
        let error = config("--dump-tensor=off --no-dedup").unwrap_err();
        assert_eq!(error.message, "--no-dedup needs --dump-tensor or --dump-args");
        assert!(error.hint.contains("level off"), "{}", error.hint);
    }
}
