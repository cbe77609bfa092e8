//! Computes medians and ratios of rounds.

use serde::Serialize;

/// A median with its quartiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// The median.
    pub(crate) median: f64,
    /// The lower quartile.
    pub(crate) low: f64,
    /// The upper quartile.
    pub(crate) high: f64,
    /// Number of values.
    pub(crate) count: usize,
}

impl Spread {
    /// Computes the median of values in any order; all fields are zero if there are none.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * values.len().saturating_sub(1) as f64;
            let (below, above) = (place.floor() as usize, place.ceil() as usize);
            match (values.get(below), values.get(above)) {
                (Some(a), Some(b)) => a + (b - a) * place.fract(),
                _ => 0.0,
            }
        };
        Self { median: at(0.5), low: at(0.25), high: at(0.75), count: values.len() }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = if self.median < 100.0 { 2 } else { 0 };
        write!(f, "{:.digits$} ({:.digits$} to {:.digits$})", self.median, self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_their_neighbours() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0]);
        assert_eq!(spread, Spread { median: 2.5, low: 1.75, high: 3.25, count: 4 });
        assert_eq!(Spread::of([]).count, 0);
        assert_eq!(Spread::of([7.0]).median, 7.0);
    }
}
