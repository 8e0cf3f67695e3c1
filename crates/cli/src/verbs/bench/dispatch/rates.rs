use serde::Serialize;

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
    pub fn of(mut runs: Vec<f64>) -> Rates {
        runs.sort_by(f64::total_cmp);
        let middle = runs.len() / 2;
        let median =
            if runs.len() % 2 == 1 { runs[middle] } else { f64::midpoint(runs[middle - 1], runs[middle]) };
        Rates { median, min: runs[0], max: runs[runs.len() - 1] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_of_runs_lies_between_the_middle_two() {
        assert_eq!(Rates::of(vec![3.0, 1.0, 2.0]), Rates { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Rates::of(vec![4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Rates::of(vec![7.0]), Rates { median: 7.0, min: 7.0, max: 7.0 });
    }
}
