//! A distribution as one line of blocks: all variants on one axis.

use becalm_lib::bench::Figures;

/// Heights of a block.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Start and end of the lines of all variants, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Axis {
    /// The least time of all.
    pub from: f64,
    /// The highest time that is not an outlier (Tukey's fences); higher times are in the last bin.
    pub to: f64,
}

impl Axis {
    /// Returns the axis for all variants.
    pub(crate) fn of(variants: &[Figures]) -> Self {
        let from = variants.iter().map(|it| it.least_ns).min().unwrap_or(0) as f64;
        let fence = |it: &Figures| it.high_ns as f64 + 1.5 * (it.high_ns - it.low_ns) as f64;
        let to = variants.iter().map(|it| fence(it).min(it.most_ns as f64)).fold(from, f64::max);
        Self { from, to }
    }

    /// Counts the starts in each of a number of bins.
    pub(crate) fn bins(self, wall_ns: &[u64], bins: usize) -> Vec<usize> {
        let mut counts = vec![0; bins];
        let width = (self.to - self.from) / bins as f64;
        for ns in wall_ns {
            let place = if width > 0.0 { (*ns as f64 - self.from) / width } else { 0.0 };
            // Casting a value out of range saturates.
            let at = (place as usize).min(bins.saturating_sub(1));
            if let Some(count) = counts.get_mut(at) {
                *count += 1;
            }
        }
        counts
    }
}

/// Returns the counts as blocks, the highest one full; empty bins are blank.
pub(crate) fn blocks(counts: &[usize]) -> String {
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    counts
        .iter()
        .map(|&count| match count {
            0 => ' ',
            count => BLOCKS[(count * BLOCKS.len()).div_ceil(most).clamp(1, BLOCKS.len()) - 1],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use becalm_host::bench::stats::Spread;

    use super::*;

    fn axis(times: &[u64]) -> Axis {
        let walls: Vec<f64> = times.iter().map(|&ns| ns as f64).collect();
        let spread = Spread::of(&walls);
        let [least_ns, low_ns, high_ns, most_ns] =
            [spread.least, spread.low, spread.high, spread.most].map(|ns| ns.round() as u64);
        Axis::of(&[Figures { least_ns, low_ns, high_ns, most_ns, ..Figures::default() }])
    }

    #[test]
    fn every_start_is_in_one_bin_and_an_outlier_in_the_last() {
        let times = [10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 5000];
        let axis = axis(&times);
        assert!(axis.to < 100.0, "{axis:?}");
        let bins = axis.bins(&times, 5);
        assert_eq!(bins.iter().sum::<usize>(), 11);
        assert!(bins[4] >= 1);
    }

    #[test]
    fn equal_times_make_one_block() {
        let times = [7; 4];
        assert_eq!(blocks(&axis(&times).bins(&times, 3)), "█  ");
    }

    #[test]
    fn a_bin_with_anything_in_it_is_never_blank() {
        assert_eq!(blocks(&[1, 0, 1000]), "▁ █");
    }
}
