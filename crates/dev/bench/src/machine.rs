//! The machine of a benchmark, and statistics of measurements.

use std::fs;

use serde::Serialize;
use tensortap::cpu_count;

/// Properties of the machine that affect the results.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// CPUs that this process may use.
    pub cpus: usize,
    /// Name of the processor.
    pub cpu_model: Option<String>,
    /// Such as `x86_64`.
    pub architecture: &'static str,
    /// Such as `linux`.
    pub os: &'static str,
    /// Version of tensortap.
    pub version: &'static str,
    /// Whether debug assertions slow down this build.
    pub debug_assertions: bool,
}

impl Machine {
    /// Reads the properties of this machine.
    pub fn read() -> Machine {
        Machine {
            cpus: cpu_count(),
            cpu_model: fs::read_to_string("/proc/cpuinfo").ok().as_deref().and_then(model_name),
            architecture: std::env::consts::ARCH,
            os: std::env::consts::OS,
            version: env!("CARGO_PKG_VERSION"),
            debug_assertions: cfg!(debug_assertions),
        }
    }
}

/// Average number of runnable threads over the last minute. Results under load are less reliable.
pub fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

fn model_name(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim().into())
}

/// Median and range of several measurements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// The spread of at least one measurement.
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
    fn finds_the_model_name() {
        let cpuinfo = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Fast CPU @ 3 GHz\n";
        assert_eq!(model_name(cpuinfo).as_deref(), Some("Fast CPU @ 3 GHz"));
        assert_eq!(model_name("processor: 0\n"), None);
    }

    #[test]
    fn an_even_number_of_measurements_has_the_middle_as_median() {
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Spread::of(vec![7.0]), Spread { median: 7.0, min: 7.0, max: 7.0 });
    }
}
