//! Computes medians, quartiles and ratios with an interval. Nothing here assumes that times are
//! normally distributed: a disturbed start is an outlier, and one outlier changes none of these
//! figures much.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};
use statrs::statistics::{Data, Max, Min, OrderStatistics};

/// Confidence level: 95 of 100 such intervals include the true value.
const LEVEL: f64 = 0.95;

/// Up to this number of pairs the distribution of the signed-rank statistic is computed exactly.
/// For more pairs the normal distribution is accurate enough.
const COUNTED: usize = 60;

/// Distribution of a sample, in the sample's unit. All fields are zero for an empty sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The minimum.
    pub least: f64,
    /// The lower quartile.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The upper quartile.
    pub high: f64,
    /// The maximum.
    pub most: f64,
    /// Number of values further than one and a half times the interquartile range outside the
    /// quartiles (Tukey's fences).
    pub outliers: usize,
}

impl Spread {
    /// Computes the distribution of values in any order.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        let mut data = Data::new(values.to_vec());
        let (low, high) = (data.lower_quartile(), data.upper_quartile());
        let fence = 1.5 * (high - low);
        let beyond = |value: &&f64| **value < low - fence || **value > high + fence;
        Self {
            least: data.min(),
            low,
            median: data.median(),
            high,
            most: data.max(),
            outliers: values.iter().filter(beyond).count(),
        }
    }
}

/// The ratio of a variant's time to the first variant's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The Hodges-Lehmann estimate.
    pub ratio: f64,
    /// The lower end of the signed-rank interval; null below 6 rounds.
    pub low: Option<f64>,
    /// The upper end of the interval; null below 6 rounds.
    pub high: Option<f64>,
    /// The level of the interval.
    pub level: f64,
}

impl Ratio {
    /// Computes the ratio from paired times, with `times[n]` and `base[n]` of the same round. The
    /// estimate is that of Hodges and Lehmann, and the interval is that of Wilcoxon's signed-rank
    /// test (Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, § 3.2 and 3.3). Both use
    /// logarithms, so that a ratio and its inverse are treated alike.
    ///
    /// Only pairs with two times above 0 count. Without such pairs the ratio is not a number.
    #[must_use]
    pub(crate) fn of_pairs(times: &[f64], base: &[f64]) -> Self {
        let logs: Vec<f64> = times
            .iter()
            .zip(base)
            .filter(|(one, other)| **one > 0.0 && **other > 0.0)
            .map(|(one, other)| (one / other).ln())
            .collect();
        let averages = walsh_averages(&logs);
        let interval = cut(logs.len()).and_then(|cut| {
            let from = averages.get(cut - 1)?;
            let to = averages.get(averages.len().checked_sub(cut)?)?;
            Some((from.exp(), to.exp()))
        });
        let (low, high) = interval.unzip();
        Self { ratio: Data::new(averages).median().exp(), low, high, level: LEVEL }
    }

    /// Returns both ends of the interval.
    #[must_use]
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }

    /// Returns true if the interval includes 1, so that no difference was shown.
    #[must_use]
    pub fn holds_one(&self) -> bool {
        self.interval().is_none_or(|(from, to)| from <= 1.0 && 1.0 <= to)
    }
}

/// Returns the mean of every two values, including each value with itself, in ascending order.
fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let mut averages = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (at, one) in values.iter().enumerate() {
        averages.extend(values[at..].iter().map(|other| f64::midpoint(*one, *other)));
    }
    averages.sort_by(f64::total_cmp);
    averages
}

/// Returns the position of the Walsh average that bounds the interval, counted from 1 from either
/// end. Returns `None` if even the outermost average is not reliable enough.
fn cut(pairs: usize) -> Option<usize> {
    let tail = (1.0 - LEVEL) / 2.0;
    if pairs <= COUNTED {
        return counted_cut(pairs, tail);
    }
    let pairs = pairs as f64;
    let mean = pairs * (pairs + 1.0) / 4.0;
    let deviation = (pairs * (pairs + 1.0) * (2.0 * pairs + 1.0) / 24.0).sqrt();
    let quantile = Normal::standard().inverse_cdf(tail);
    Some(((mean + quantile * deviation).floor() as usize).max(1))
}

/// Returns the smallest rank sum whose probability, together with that of all smaller ones, reaches
/// `tail`. Every rank is added with probability one half.
fn counted_cut(pairs: usize, tail: f64) -> Option<usize> {
    let greatest = pairs * (pairs + 1) / 2;
    let mut chance = vec![0.0_f64; greatest + 1];
    chance[0] = 1.0;
    for rank in 1..=pairs {
        for sum in (0..=greatest).rev() {
            let with = sum.checked_sub(rank).map_or(0.0, |rest| chance[rest]);
            chance[sum] = f64::midpoint(chance[sum], with);
        }
    }
    let mut so_far = 0.0;
    let least = chance.iter().position(|chance| {
        so_far += chance;
        so_far >= tail
    })?;
    (least > 0).then_some(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_and_median_are_those_of_the_sample() {
        let spread = Spread::of(&[5.0, 1.0, 3.0, 2.0, 4.0]);
        assert_eq!((spread.least, spread.median, spread.most), (1.0, 3.0, 5.0));
        assert!(spread.low > 1.0 && spread.low < 3.0 && spread.high > 3.0);
        assert_eq!(Spread::of(&[]), Spread::default());
        assert_eq!(Spread::of(&[7.0]).median, 7.0);
    }

    #[test]
    fn one_disturbed_start_is_an_outlier_and_changes_no_ratio() {
        let base = [10.0; 20];
        let mut times = [20.0; 20];
        times[3] = 9000.0;
        let ratio = Ratio::of_pairs(&times, &base);
        assert!((ratio.ratio - 2.0).abs() < 1e-9, "{ratio:?}");
        let (from, to) = ratio.interval().expect("20 pairs");
        assert!((from - 2.0).abs() < 1e-9 && (to - 2.0).abs() < 1e-9, "{ratio:?}");
        assert_eq!(Spread::of(&times).outliers, 1);
    }

    /// The positions in published tables of the signed-rank distribution at 95 % (two-sided
    /// critical values plus one).
    #[test]
    fn the_interval_has_the_bounds_of_published_tables() {
        let cuts: Vec<Option<usize>> = [5, 6, 8, 10, 15, 20].into_iter().map(cut).collect();
        assert_eq!(cuts, [None, Some(1), Some(4), Some(9), Some(26), Some(53)]);
    }

    #[test]
    fn exact_and_normal_cuts_agree() {
        let counted = counted_cut(COUNTED, 0.025).expect("enough") as f64;
        let normal = cut(COUNTED + 1).expect("enough") as f64;
        assert!((counted / normal - 1.0).abs() < 0.06, "{counted} {normal}");
    }

    #[test]
    fn a_ratio_and_its_inverse_are_treated_alike() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 9.0], [2.0, 5.0, 4.0, 9.0, 9.0, 20.0]);
        let (there, back) = (Ratio::of_pairs(&a, &b), Ratio::of_pairs(&b, &a));
        assert!((there.ratio * back.ratio - 1.0).abs() < 1e-12);
        let ((low, _), (_, high)) = (there.interval().expect("6"), back.interval().expect("6"));
        assert!((low * high - 1.0).abs() < 1e-12);
    }

    /// The interval has its level also for skewed noise that both times of a pair share in part.
    #[test]
    fn about_95_of_100_intervals_include_the_true_ratio() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut noise = || 0.1 * -rng.f64().max(1e-9).ln();
        let runs = 2000;
        let including = (0..runs).filter(|_| {
            let (mut times, mut base) = (Vec::new(), Vec::new());
            for _ in 0..15 {
                let shared = noise();
                times.push(1.5 * (1.0 + shared + noise()));
                base.push(1.0 + shared + noise());
            }
            let (from, to) = Ratio::of_pairs(&times, &base).interval().expect("15 pairs");
            from <= 1.5 && 1.5 <= to
        });
        let share = including.count() as f64 / f64::from(runs);
        assert!((0.935..=0.965).contains(&share), "{share}");
    }

    #[test]
    fn too_few_pairs_have_no_interval_and_no_pairs_no_ratio() {
        assert_eq!(Ratio::of_pairs(&[2.0; 5], &[1.0; 5]).interval(), None);
        assert!(Ratio::of_pairs(&[], &[]).ratio.is_nan());
        assert!(Ratio::of_pairs(&[0.0], &[0.0]).ratio.is_nan());
        assert!(Ratio::of_pairs(&[], &[]).holds_one());
    }
}
