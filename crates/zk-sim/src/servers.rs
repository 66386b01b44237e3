//! Servers of a seed: their differences, and the longest delay of their flushes.

use std::time::Duration;

use zk_testing::{Rng, Settings};

/// Settings of one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerPlan {
    /// The tick by which the server expires sessions and pings its followers, while it leads.
    pub(crate) tick: Duration,
    /// The shortest session timeout that the server grants; `longest` is the longest.
    shortest: Duration,
    longest: Duration,
}

impl ServerPlan {
    /// Draws the servers of a seed. In at least half of the seeds they are all the same.
    ///
    /// Every granted timeout is at least two ticks of every server, which is ZooKeeper's default
    /// minimum. The longest timeout that a client is granted is at most twice the shortest one.
    pub(crate) fn draw(seed: u64, count: usize, tick: Duration, asked: &[Duration]) -> Vec<Self> {
        let mut rng = Rng::new(seed ^ 0x6469_6666_6572);
        let same = Self::plain(tick);
        if count == 1 || rng.chance(0.5) {
            return vec![same; count];
        }
        let slower = rng.pick(&[1, 1, 2]);
        let mut ticks: Vec<Duration> = (0..count).map(|_| tick * rng.pick(&[1, slower])).collect();
        if rng.chance(0.3) {
            ticks[rng.index(count)] = tick / 2;
        }
        let two_ticks = ticks.iter().max().copied().unwrap_or(tick) * 2;
        let longest = (rng.pick(asked) * rng.pick(&[1, 1, 2])).max(two_ticks * 2);
        let differ = rng.chance(0.8);
        let own = ticks.into_iter().map(|tick| Self {
            tick,
            shortest: if differ { two_ticks * rng.pick(&[1, 1, 2]) } else { two_ticks },
            longest: if differ && rng.chance(0.5) { longest / 2 } else { longest },
        });
        own.collect()
    }

    /// Returns the plan of a server with the usual limits of a timeout.
    pub(crate) fn plain(tick: Duration) -> Self {
        Self { tick, shortest: tick * 2, longest: tick * 20 }
    }

    pub(crate) fn granted(&self, asked: Duration) -> Duration {
        asked.max(self.shortest).min(self.longest)
    }

    /// Applies this plan to the settings of server `number`.
    pub(crate) fn set_up(&self, number: usize, settings: Settings) -> Settings {
        settings
            .tick_time_of(number, self.tick)
            .min_session_timeout_of(number, self.shortest)
            .max_session_timeout_of(number, self.longest)
    }
}

/// Returns the longest timeout that a client may be granted.
pub(crate) fn longest_granted(servers: &[ServerPlan], asked: Duration) -> Duration {
    servers.iter().map(|server| server.granted(asked)).max().unwrap_or(asked)
}

/// Returns the longest delay of flushes that keeps two of them less than a third of a timeout
/// apart, as a lease assumes. Half a tick passes between two pings.
pub(crate) fn longest_flush_lag(servers: &[ServerPlan], asked: &[Duration]) -> Duration {
    let all = servers.iter().flat_map(|server| asked.iter().map(|asked| server.granted(*asked)));
    let shortest = all.min().unwrap_or_default();
    let tick = servers.iter().map(|server| server.tick).max().unwrap_or_default();
    (shortest / 3).saturating_sub(tick / 2) * 9 / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_servers_satisfy_lease_assumptions() {
        let tick = Duration::from_millis(100);
        let asked = [2, 3, 8, 20].map(|ticks| tick * ticks);
        let mut any_differ = false;
        for seed in 0..1_000 {
            let servers = ServerPlan::draw(seed, 3, tick, &asked);
            let slowest = servers.iter().map(|server| server.tick).max().unwrap();
            for asked in asked {
                let granted = servers.iter().map(|server| server.granted(asked));
                let (least, most) = (granted.clone().min().unwrap(), granted.max().unwrap());
                any_differ |= least < most;
                assert!(least >= slowest * 2 && least * 2 >= most, "{seed}: {servers:?}");
                assert_eq!(longest_granted(&servers, asked), most);
            }
            let lag = longest_flush_lag(&servers, &asked);
            assert!(!lag.is_zero());
            assert!(servers.iter().all(|server| slowest / 2 + lag < server.granted(asked[0]) / 3));
        }
        assert!(any_differ);
    }
}
