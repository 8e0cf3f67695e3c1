//! Prints listed phrases, long sentences and crowded table cells of the project's prose: `scripts/check-writing --help`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use tensortap_writing::{Audience, Problem, check, passages, sentences, tree};

const HELP: &str = "\
Checks the prose of the project: documentation, help, messages, the page and, with --comments, comments.

usage: scripts/check-writing [--comments] [--counts] [PATH…]
       scripts/check-writing --sample N [--seed S] [PATH…]

  --comments   check comments too
  --counts     print the number of findings of each kind, not the findings
  --sample N   print N sentences that users read, drawn at random
  --seed S     the number that decides which sentences are drawn (1)
  PATH         only files whose path from the project's root begins with PATH

example: scripts/check-writing docs README.md";

/// What the user asked for.
#[derive(Default)]
struct Options {
    comments: bool,
    counts: bool,
    sample: Option<usize>,
    seed: u64,
    paths: Vec<String>,
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("error: {message}\nrun scripts/check-writing --help for the options");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: cannot read the project's files: {error}");
            ExitCode::from(2)
        }
    }
}

fn options() -> Result<Option<Options>, String> {
    let mut options = Options { seed: 1, ..Options::default() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = |name: &str| {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a number"))?;
            value.parse::<u64>().map_err(|_| format!("{name} needs a number, not '{value}'"))
        };
        match argument.as_str() {
            "--help" | "-h" => return Ok(None),
            "--comments" => options.comments = true,
            "--counts" => options.counts = true,
            "--sample" => options.sample = Some(usize::try_from(number("--sample")?).unwrap_or(usize::MAX)),
            "--seed" => options.seed = number("--seed")?,
            option if option.starts_with('-') => return Err(format!("unknown option '{option}'")),
            path => options.paths.push(path.to_string()),
        }
    }
    Ok(Some(options))
}

fn run(options: &Options) -> std::io::Result<()> {
    let mut counts = BTreeMap::<String, usize>::new();
    let mut drawn = Vec::new();
    for path in tree::files(Path::new("."))? {
        let name = path.to_string_lossy();
        if !options.paths.is_empty() && !options.paths.iter().any(|start| name.starts_with(start.as_str())) {
            continue;
        }
        // Files that are not text have no prose.
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        for passage in passages(&name, &text) {
            if passage.audience == Audience::Developers && !options.comments {
                continue;
            }
            if options.sample.is_some() {
                drawn.extend(sentences(&passage).into_iter().map(|sentence| (name.to_string(), sentence)));
                continue;
            }
            for finding in check(&passage) {
                let (kind, advice) = describe(&finding.problem);
                *counts.entry(kind.clone()).or_default() += 1;
                if !options.counts {
                    println!("{name}:{}: {kind}{advice}\n    {}", passage.line, finding.text);
                }
            }
        }
    }
    if let Some(wanted) = options.sample {
        drawn.retain(|(_, sentence)| sentence.split_whitespace().count() > 5);
        shuffle(&mut drawn, options.seed);
        drawn.iter().take(wanted).for_each(|(name, sentence)| println!("{name}: {sentence}"));
        return Ok(());
    }
    for (kind, count) in &counts {
        println!("{count:6}  {kind}");
    }
    println!("{:6}  in all", counts.values().sum::<usize>());
    Ok(())
}

/// A problem in words, and what to write in its place.
fn describe(problem: &Problem) -> (String, String) {
    match problem {
        Problem::Phrase(phrase, instead) => (format!("'{phrase}'"), format!(" (write: {instead})")),
        Problem::LongSentence(words) => ("long sentence".into(), format!(" ({words} words)")),
        Problem::CrowdedCell(words) => ("crowded cell".into(), format!(" ({words} words)")),
    }
}

/// Puts items into an order that the seed alone decides.
fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for end in (1..items.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let other = usize::try_from(state % (end as u64 + 1)).unwrap_or(0);
        items.swap(end, other);
    }
}
