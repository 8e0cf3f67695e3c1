//! How records are compared: the options that `diff` and `blame` share.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use tensortap::analysis::compare::with_kernels_of;
use tensortap::format::{Dump, RunInfo};
use tensortap::judge::{Profile, RuleBook, Rules};
use tensortap_query::golden::Golden;
use tensortap_query::ids::{IdRange, holds, parse_range};
use tensortap_query::words::printable_path;

use crate::error::UsageError;
use crate::parse::choice;
use crate::program::program;

/// Options about the rules of a comparison.
#[derive(Args)]
#[command(next_help_heading = "Comparing")]
pub struct CompareArgs {
    /// Rules file (TOML); the first rule that matches task, kernel and argument applies
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// Rule for records that no rule of --rules matches: tolerances of kernel and dtype, or equal bits [default: default; blame --rerun: bitexact, except for kernels of --kernel]
    #[arg(long, value_name = "PROFILE", value_parser = choice([("default", Profile::Default), ("bitexact", Profile::BitExact)]))]
    profile: Option<Profile>,

    /// Relative tolerance for all floats
    #[arg(long, value_name = "NUMBER", value_parser = parse_tolerance)]
    rtol: Option<f64>,

    /// Absolute tolerance for all floats
    #[arg(long, value_name = "NUMBER", value_parser = parse_tolerance)]
    atol: Option<f64>,

    /// Allow the golden to have a different float dtype
    #[arg(long)]
    pub golden_dtype: bool,

    /// Compare with these steps of a golden that contains several runs: 1,5-7
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_range)]
    pub golden_step: Vec<IdRange>,

    /// Do not fail because of tasks or records without a counterpart
    #[arg(long)]
    pub allow_unmatched: bool,
}

impl CompareArgs {
    /// Whether the user chose the profile.
    pub fn has_profile(&self) -> bool {
        self.profile.is_some()
    }

    /// The rules for a dump, whose kernels state their tolerances. `usual` is the profile if no option chooses one.
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

    /// The steps of the golden that `--golden-step` chooses. It is an error if the golden has none of them.
    pub fn golden_steps(&self, golden: &Golden) -> Result<Vec<IdRange>, UsageError> {
        let steps = &self.golden_step;
        let Some(dump) = golden.dump().filter(|_| !steps.is_empty()) else {
            return match steps.is_empty() {
                true => Ok(Vec::new()),
                false => Err(UsageError {
                    message: "--golden-step chooses steps of a dump, but the golden consists of array files"
                        .into(),
                    hint: "remove --golden-step: the names of array files contain the step".into(),
                }),
            };
        };
        let there = dump.steps();
        if there.iter().any(|&step| holds(steps, step.into())) {
            return Ok(steps.clone());
        }
        Err(UsageError {
            message: "the golden has none of the steps in --golden-step".into(),
            hint: steps_hint(&there),
        })
    }
}

/// Checks that a dump has at least one of the requested steps.
pub fn check_steps(dump: &Dump, steps: &[IdRange]) -> Result<(), UsageError> {
    let there = dump.steps();
    if steps.is_empty() || there.iter().any(|&step| holds(steps, step.into())) {
        return Ok(());
    }
    Err(UsageError {
        message: format!("{} has none of the steps in --step", printable_path(dump.dir())),
        hint: steps_hint(&there),
    })
}

fn steps_hint(there: &[u32]) -> String {
    let there: Vec<String> = there.iter().map(u32::to_string).collect();
    format!("its steps are {}", there.join(", "))
}

fn usage(message: String) -> UsageError {
    UsageError { message, hint: format!("`{} help rules` explains rules files", program()) }
}

fn parse_tolerance(text: &str) -> Result<f64, &'static str> {
    match text.parse::<f64>() {
        Ok(value) if value >= 0.0 => Ok(value),
        _ => Err("a tolerance must be a non-negative number, such as 1e-3"),
    }
}
