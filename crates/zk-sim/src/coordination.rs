//! Plan of a seed with the recipes of `zk-coordination`.

use std::time::Duration;

use zk_coordination::NodeMode;
use zk_testing::Rng;

use crate::recipe::Recipe;

/// Parameters of the recipes of `zk-coordination`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoordinationPlan {
    pub(crate) recipe: Recipe,
    /// Whether all additions to a counter add 1. Otherwise no two additions add the same number.
    pub(crate) adds_one: bool,
    /// Probability that an addition has an id, so that it counts once.
    pub(crate) once: f64,
    /// The number of conflicts after which an addition acquires a lock.
    pub(crate) promoted_after: Option<u32>,
    /// The number of different ids of the members of a group. Several clients share an id if there
    /// are fewer.
    pub(crate) ids: usize,
    /// Whether the members are `GroupMember`s, which restore their data, or `PersistentNode`s.
    pub(crate) restores_data: bool,
    /// Probability that a restarted member passes the session of its last run.
    pub(crate) knows_previous: f64,
    /// Levels below the root of a cache; `None` for all.
    pub(crate) depth: Option<usize>,
    /// Changes that wait for a subscriber of a cache.
    pub(crate) changes_kept: usize,
    pub(crate) reads_in_flight: usize,
    /// Number of members that enter a double barrier together.
    pub(crate) members: usize,
    /// The mean pause between two changes by an operator.
    pub(crate) operated_every: Duration,
    /// Probability that an addition to a counter reads the number, and compares and sets it.
    pub(crate) compares: f64,
    /// Whether a process may have two handles of its member.
    pub(crate) has_twins: bool,
    /// Whether a cache leaves out some names.
    pub(crate) filters: bool,
    /// Whether the tree of a cache has nodes that nobody may read.
    pub(crate) hides: bool,
    /// Mode of kept nodes.
    pub(crate) mode: NodeMode,
}

/// Probability that a seed has one of the [`LATER_RECIPES`].
const LATER: f64 = 0.3;

/// Recipes that were added later. They are drawn last, so that the other draws are unchanged.
const LATER_RECIPES: [Recipe; 3] = [Recipe::Barrier, Recipe::KeptNode, Recipe::Discovery];

/// The time to live outlasts short faults only, or most of them.
const MODES: [NodeMode; 4] = [
    NodeMode::Persistent,
    NodeMode::Ttl(Duration::from_secs(2)),
    NodeMode::Ttl(Duration::from_secs(60)),
    NodeMode::EphemeralSequential,
];

const RECIPES: [Recipe; 4] =
    [Recipe::Counter, Recipe::Registration, Recipe::Cache, Recipe::DoubleBarrier];

impl CoordinationPlan {
    pub(crate) fn draw(seed: u64, clients: usize) -> Self {
        let mut rng = Rng::new(seed ^ 0x636f_6f72_6469);
        let mut plan = Self {
            recipe: rng.pick(&RECIPES),
            adds_one: rng.chance(0.5),
            once: rng.pick(&[0.0, 0.5, 1.0]),
            promoted_after: rng.pick(&[None, None, Some(0), Some(1), Some(3)]),
            ids: 1 + rng.index(clients.max(2)),
            restores_data: rng.chance(0.5),
            knows_previous: rng.pick(&[0.0, 0.5, 1.0]),
            depth: rng.pick(&[None, None, None, Some(0), Some(1)]),
            changes_kept: rng.pick(&[2, 1_024, 1_024]),
            reads_in_flight: rng.pick(&[1, 2, 256]),
            members: 1 + rng.index(clients.max(2)),
            operated_every: Duration::from_millis(rng.pick(&[100, 1_000, 100_000])),
            compares: rng.pick(&[0.0, 0.0, 0.5]),
            has_twins: rng.chance(0.3),
            filters: rng.chance(0.3),
            hides: rng.chance(0.3),
            mode: rng.pick(&MODES),
        };
        if rng.chance(LATER) {
            plan.recipe = rng.pick(&LATER_RECIPES);
        }
        plan
    }
}
