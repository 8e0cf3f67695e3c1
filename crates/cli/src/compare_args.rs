//! What decides whether a record is as it should be: the same options in `diff` and `blame`.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tensortap::analysis::compare::with_kernels_of;
use tensortap::format::{Dump, RunInfo};
use tensortap::judge::{Profile, RuleBook, Rules};
use tensortap_query::golden::Golden;
use tensortap_query::ids::{IdRange, holds, parse_range};
use tensortap_query::words::printable_path;

use crate::error::UsageError;
use crate::program::program;

/// The options.
#[derive(Args)]
#[command(next_help_heading = "Judging")]
pub struct CompareArgs {
    /// Rules file (TOML): the first rule that matches a task, kernel and argument decides
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// What decides where no rule does: tolerances of kernel and dtype, or the same bits [default: default; of blame --rerun, bitexact]
    #[arg(long, value_name = "PROFILE", value_parser = profiles())]
    profile: Option<Profile>,

    /// Relative tolerance of floats, instead of their own
    #[arg(long, value_name = "NUMBER", value_parser = parse_tolerance)]
    rtol: Option<f64>,

    /// Absolute tolerance of floats, instead of their own
    #[arg(long, value_name = "NUMBER", value_parser = parse_tolerance)]
    atol: Option<f64>,

    /// Let the golden have another float dtype
    #[arg(long)]
    pub golden_dtype: bool,

    /// Hold against these steps of the golden, where it holds several runs: 1,5-7
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    pub golden_step: Vec<IdRange>,

    /// Do not fail because of tasks or records that have nothing to be compared with
    #[arg(long)]
    pub allow_unmatched: bool,
}

impl CompareArgs {
    /// The rules for a dump, which says what its kernels tolerate; `usual` is the profile unless something else is asked for.
    pub fn rules(&self, info: &RunInfo, usual: Profile) -> anyhow::Result<RuleBook> {
        let has_tolerance = self.rtol.is_some() || self.atol.is_some();
        let usual = if has_tolerance { Profile::Default } else { usual };
        let profile = self.profile.unwrap_or(usual);
        let rules = match &self.rules {
            None => Rules::default(),
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("cannot read the rules file {}", path.display()))
                    .map_err(|error| usage(format!("{error:#}")))?;
                Rules::parse(&text, profile)
                    .map_err(|error| usage(format!("rules file {}: {error}", path.display())))?
            }
        };
        let book = RuleBook { rules, profile, rtol: self.rtol, atol: self.atol, ..RuleBook::default() };
        Ok(with_kernels_of(book, info))
    }

    /// The steps of the golden to hold against: those that were asked for, which it must have.
    pub fn golden_steps(&self, golden: &Golden) -> Result<Vec<IdRange>, UsageError> {
        let steps = &self.golden_step;
        let Some(dump) = golden.dump().filter(|_| !steps.is_empty()) else {
            return match steps.is_empty() {
                true => Ok(Vec::new()),
                false => Err(UsageError {
                    message: "--golden-step chooses among the steps of a dump, and the golden is files"
                        .into(),
                    hint: "leave it away: files of one step are named after it".into(),
                }),
            };
        };
        let there = dump.steps();
        if there.iter().any(|&step| holds(steps, step.into())) {
            return Ok(steps.clone());
        }
        Err(UsageError {
            message: "the golden has none of the steps that --golden-step names".into(),
            hint: its_steps(&there),
        })
    }
}

/// That a dump has a step of those that are asked for, if any are.
pub fn check_steps(dump: &Dump, steps: &[IdRange]) -> Result<(), UsageError> {
    let there = dump.steps();
    if steps.is_empty() || there.iter().any(|&step| holds(steps, step.into())) {
        return Ok(());
    }
    Err(UsageError {
        message: format!("{} has none of the steps that --step names", printable_path(dump.dir())),
        hint: its_steps(&there),
    })
}

fn its_steps(there: &[u32]) -> String {
    let there: Vec<String> = there.iter().map(u32::to_string).collect();
    format!("its steps are {}", there.join(", "))
}

fn usage(message: String) -> UsageError {
    UsageError { message, hint: format!("`{} help rules` describes rules files", program()) }
}

fn profiles() -> impl TypedValueParser<Value = Profile> {
    PossibleValuesParser::new(["default", "bitexact"]).map(|word| match word.as_str() {
        "bitexact" => Profile::BitExact,
        _ => Profile::Default,
    })
}

fn parse_tolerance(text: &str) -> Result<f64, &'static str> {
    match text.parse::<f64>() {
        Ok(value) if value >= 0.0 => Ok(value),
        _ => Err("a tolerance is a number that is not negative, such as 1e-3"),
    }
}
