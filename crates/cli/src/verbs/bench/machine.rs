use std::fs;
use std::thread::available_parallelism;

use serde::Serialize;

use tensortap_query::number::counted;

/// What figures depend on.
#[derive(Serialize)]
pub struct Machine {
    /// CPUs this process may use.
    pub cpus: usize,
    cpu_model: Option<String>,
    architecture: &'static str,
    os: &'static str,
    version: &'static str,
    /// Built with checks that cost time.
    debug_assertions: bool,
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

    /// One line for people.
    pub fn describe(&self) -> String {
        let Machine { cpus, cpu_model, architecture, os, version, debug_assertions } = self;
        let model = cpu_model.as_ref().map_or(String::new(), |model| format!(" ({model})"));
        let build = if *debug_assertions {
            "with debug assertions, slower than a release build"
        } else {
            "release build"
        };
        format!("{}{model}, {architecture} {os}, tensortap {version} {build}", counted(*cpus as u64, "CPU"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_found_among_other_lines() {
        let cpuinfo = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Fast CPU @ 3 GHz\n";
        assert_eq!(model_name(cpuinfo).as_deref(), Some("Fast CPU @ 3 GHz"));
        assert_eq!(model_name("processor: 0\n"), None);
    }
}
