//! What figures depend on, and what several of them come to.

use std::fs;
use std::thread::available_parallelism;

use serde::Serialize;

/// What figures depend on.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// CPUs this process may use.
    pub cpus: usize,
    /// What the system calls the processor.
    pub cpu_model: Option<String>,
    /// Such as `x86_64`.
    pub architecture: &'static str,
    /// Such as `linux`.
    pub os: &'static str,
    /// Of tensortap.
    pub version: &'static str,
    /// Built with checks that cost time.
    pub debug_assertions: bool,
}

impl Machine {
    /// This machine.
    pub fn read() -> Machine {
        Machine {
            cpus: available_parallelism().map_or(1, usize::from),
            cpu_model: fs::read_to_string("/proc/cpuinfo").ok().as_deref().and_then(model_name),
            architecture: std::env::consts::ARCH,
            os: std::env::consts::OS,
            version: env!("CARGO_PKG_VERSION"),
            debug_assertions: cfg!(debug_assertions),
        }
    }
}

/// How many threads wanted a CPU over the last minute, on average. Figures taken under load say less.
pub fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

fn model_name(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim().into())
}

/// The middle and the ends of several measurements of one thing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of at least one measurement.
    pub fn of(mut measured: Vec<f64>) -> Spread {
        measured.sort_by(f64::total_cmp);
        let middle = measured.len() / 2;
        let median = if measured.len() % 2 == 1 {
            measured[middle]
        } else {
            f64::midpoint(measured[middle - 1], measured[middle])
        };
        Spread { median, min: measured[0], max: measured[measured.len() - 1] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_found_among_other_lines() {
        let cpuinfo = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Fast CPU @ 3 GHz\n";
        assert_eq!(model_name(cpuinfo).as_deref(), Some("Fast CPU @ 3 GHz"));
        assert_eq!(model_name("processor: 0\n"), None);
    }

    #[test]
    fn the_median_of_an_even_number_of_measurements_lies_between_the_middle_two() {
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Spread::of(vec![7.0]), Spread { median: 7.0, min: 7.0, max: 7.0 });
    }
}
