//! The model: a job's start is a sequence of steps, each for all nodes at once.
//!
//! The calls that reach the file system are a closed network: each customer (a rank, or one of several threads of
//! a node) waits for its answer before its next call. Mean value analysis solves such networks exactly, for servers
//! whose service times vary (exponential). A simulation of single calls takes 10⁹ events for 10,000 nodes and has
//! the same result: a test compares the two.

use serde::Deserialize;

/// Capacities that the nodes share.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Site {
    /// Lookups and opens that the metadata server answers in a second.
    pub(super) metadata_calls_per_second: f64,
    /// Time of a call without its waiting and service, in seconds.
    pub(super) round_trip_seconds: f64,
    /// Bandwidth of the file system's data, of all nodes together.
    pub(super) storage_bytes_per_second: f64,
    /// Bandwidth of one node to the file system.
    pub(super) node_bytes_per_second: f64,
    /// Bandwidth of one node's link in a broadcast tree.
    pub(super) link_bytes_per_second: f64,
}

/// A step of a job's start.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Step {
    /// All ranks start. The calls and bytes of a node; `at_once` of the calls wait at the same time.
    Start { calls: f64, at_once: f64, bytes: f64 },
    /// One process of the job makes calls, one after another.
    Once { calls: f64 },
    /// Files go to all nodes through a tree. A node gives a file to its children one after another, once it has it.
    Broadcast { bytes: f64, files: f64, fan_out: f64 },
    /// Each node works for itself.
    Local { seconds: f64 },
    /// The job's launcher starts one node after another.
    Launch { seconds_per_node: f64 },
}

impl Step {
    /// Returns the calls that reach the file system, and the bytes that reach a node, of a job.
    pub(super) fn calls_and_bytes(self, nodes: f64) -> (f64, f64) {
        match self {
            Self::Start { calls, bytes, .. } => (calls * nodes, bytes),
            Self::Once { calls } => (calls, 0.0),
            Self::Broadcast { bytes, .. } => (0.0, bytes),
            Self::Local { .. } | Self::Launch { .. } => (0.0, 0.0),
        }
    }

    /// Returns the seconds until the last node is through the step. `local` is the time of one start on a node
    /// that waits for nothing.
    pub(super) fn seconds(self, site: &Site, nodes: f64, local: f64) -> f64 {
        match self {
            Self::Start { calls: 0.0, bytes, .. } => {
                let shared = bytes * nodes / site.storage_bytes_per_second;
                local + shared.max(bytes / site.node_bytes_per_second)
            }
            Self::Start { calls, at_once, bytes } => {
                let (chain, of_a_call) = (calls / at_once, bytes / calls);
                let own = of_a_call * at_once / site.node_bytes_per_second;
                let think = local / chain + site.round_trip_seconds + own;
                let metadata = 1.0 / site.metadata_calls_per_second;
                let servers = [metadata, of_a_call / site.storage_bytes_per_second];
                chain * cycle((nodes * at_once) as u64, think, servers)
            }
            Self::Once { calls } => {
                calls * (site.round_trip_seconds + 1.0 / site.metadata_calls_per_second)
            }
            Self::Broadcast { bytes, files, fan_out } => {
                let children = fan_out.min(nodes);
                let level =
                    children * bytes / site.link_bytes_per_second + files * site.round_trip_seconds;
                f64::from(levels(nodes, fan_out)) * level
            }
            Self::Local { seconds } => seconds,
            Self::Launch { seconds_per_node } => nodes * seconds_per_node,
        }
    }
}

/// Returns the mean time between two calls of a customer: exact mean value analysis of a closed network with a delay
/// and queues. `servers` are the service times of a call.
fn cycle<const N: usize>(customers: u64, think: f64, servers: [f64; N]) -> f64 {
    let (mut queues, mut cycle) = ([0.0; N], think);
    for present in 1..=customers {
        let mut waits = [0.0; N];
        for at in 0..N {
            // An arriving customer sees the queue of a network with one customer less.
            waits[at] = servers[at] * (1.0 + queues[at]);
        }
        cycle = think + waits.iter().sum::<f64>();
        for at in 0..N {
            queues[at] = waits[at] * present as f64 / cycle;
        }
    }
    cycle
}

/// Returns the number of levels below the root of a tree that reaches all nodes.
fn levels(nodes: f64, fan_out: f64) -> u32 {
    let (mut reached, mut width, mut levels) = (0.0, 1.0, 0);
    while reached < nodes {
        width *= fan_out;
        reached += width;
        levels += 1;
    }
    levels
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;

    const SITE: Site = Site {
        metadata_calls_per_second: 1000.0,
        round_trip_seconds: 0.01,
        storage_bytes_per_second: 1e6,
        node_bytes_per_second: 1e5,
        link_bytes_per_second: 1e6,
    };

    fn close(is: f64, expected: f64, part: f64) {
        assert!((is / expected - 1.0).abs() < part, "{is}, expected {expected}");
    }

    /// Simulates each call of each customer at one server, in microseconds, and returns when the last one ends.
    fn simulated(customers: u64, calls: u64, think: f64, service: f64) -> f64 {
        let mut random = 1_u64;
        let mut drawn = |mean: f64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let even = ((random >> 33) as f64 + 0.5) / f64::from(1_u32 << 31);
            (-even.ln() * mean * 1e6) as u64
        };
        let mut arrivals: BinaryHeap<_> =
            (0..customers).map(|_| Reverse((drawn(think), calls))).collect();
        let (mut free, mut end) = (0, 0);
        while let Some(Reverse((time, left))) = arrivals.pop() {
            free = free.max(time) + drawn(service);
            end = end.max(free);
            if left > 1 {
                arrivals.push(Reverse((free + drawn(think), left - 1)));
            }
        }
        end as f64 / 1e6
    }

    #[test]
    fn the_solution_is_that_of_a_simulation_of_each_call() {
        for customers in [1, 5, 10, 20, 200] {
            let (think, service) = (0.01, 0.001);
            let solved = 2000.0 * cycle(customers, think, [service]);
            close(simulated(customers, 2000, think, service), solved, 0.08);
        }
    }

    #[test]
    fn one_rank_waits_for_no_other_and_many_for_the_server() {
        let start = Step::Start { calls: 100.0, at_once: 1.0, bytes: 0.0 };
        close(start.seconds(&SITE, 1.0, 5.0), 5.0 + 100.0 * 0.011, 1e-9);
        close(start.seconds(&SITE, 10_000.0, 5.0), 1000.0, 0.01);
        assert_eq!(start.calls_and_bytes(10.0), (1000.0, 0.0));
    }

    #[test]
    fn data_is_bound_by_a_node_or_by_the_storage() {
        let start = Step::Start { calls: 100.0, at_once: 1.0, bytes: 1e6 };
        close(start.seconds(&SITE, 1.0, 0.0), 100.0 * (0.011 + 0.1 + 0.01), 1e-9);
        close(start.seconds(&SITE, 1000.0, 0.0), 1000.0, 0.01);
        let without_calls = Step::Start { calls: 0.0, at_once: 1.0, bytes: 1e6 };
        close(without_calls.seconds(&SITE, 1.0, 2.0), 12.0, 1e-9);
        close(without_calls.seconds(&SITE, 100.0, 2.0), 102.0, 1e-9);
    }

    #[test]
    fn a_broadcast_passes_each_level_of_its_tree() {
        assert_eq!([1.0, 2.0, 3.0, 6.0, 7.0].map(|nodes| levels(nodes, 2.0)), [1, 1, 2, 2, 3]);
        let step = Step::Broadcast { bytes: 1e6, files: 10.0, fan_out: 2.0 };
        close(step.seconds(&SITE, 7.0, 0.0), 3.0 * (2.0 + 0.1), 1e-9);
        close(Step::Once { calls: 10.0 }.seconds(&SITE, 7.0, 0.0), 0.11, 1e-9);
    }
}
