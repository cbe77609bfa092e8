//! The clock by which glibc's loader times itself (`HP_TIMING_NOW`): the time-stamp counter on x86.
//! On most other machines it does not time itself.

use std::time::{Duration, Instant};

/// A moment on both clocks, the loader's and the system's. The longer ago it is, the better the
/// conversion.
#[derive(Clone, Copy, Debug)]
pub struct LoaderClock {
    began: Instant,
    ticks: u64,
}

impl LoaderClock {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        Self { began: Instant::now(), ticks: ticks() }
    }

    /// Converts the loader's time, by the clocks' progress since that moment; `None` if the loader of
    /// this machine has no such clock.
    #[must_use]
    pub fn duration(&self, ticks_of_loader: u64) -> Option<Duration> {
        let (elapsed, ticks) = (self.began.elapsed(), ticks().saturating_sub(self.ticks));
        let share = ticks_of_loader as f64 / ticks as f64;
        (ticks > 0).then(|| Duration::try_from_secs_f64(elapsed.as_secs_f64() * share).ok())?
    }
}

/// The counter; 0 if there is none.
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "an instruction of every x86_64 processor")]
    // SAFETY: it reads a counter and touches no memory.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// True if a time on both clocks is the same. It is not if the thread waits between two readings.
    fn agree() -> bool {
        let clock = LoaderClock::now();
        while clock.began.elapsed() < Duration::from_millis(5) {}
        let passed = ticks().saturating_sub(clock.ticks);
        let (least, most) = (Duration::from_millis(5), clock.began.elapsed());
        match clock.duration(passed) {
            Some(time) => least.mul_f64(0.9) <= time && time <= most.mul_f64(1.1),
            None => ticks() == 0,
        }
    }

    #[test]
    fn what_the_counter_advanced_is_the_time_that_passed() {
        assert!((0..100).any(|_| agree()));
    }
}
