use serde::Serialize;

use crate::verbs::bench::spread::Spread;

/// Tasks per second over several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// The median.
    #[serde(rename = "tasks_per_s")]
    pub median: f64,
    /// The slowest run.
    #[serde(rename = "tasks_per_s_min")]
    pub min: f64,
    /// The fastest run.
    #[serde(rename = "tasks_per_s_max")]
    pub max: f64,
}

impl Rates {
    /// Of at least one run.
    pub fn of(runs: Vec<f64>) -> Rates {
        let Spread { median, min, max } = Spread::of(runs);
        Rates { median, min, max }
    }
}
