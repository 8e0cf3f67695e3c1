use serde::Serialize;

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
    fn the_median_of_an_even_number_of_measurements_lies_between_the_middle_two() {
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Spread::of(vec![7.0]), Spread { median: 7.0, min: 7.0, max: 7.0 });
    }
}
