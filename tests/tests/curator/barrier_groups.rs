//! Groups of our members and Curator's in a double barrier, on a real server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use zk_coordination::session::{Client, ParentMode};
use zk_coordination::{BarrierError, DoubleBarrier, Entered};
use zk_tests::{Curator, LIMIT, connect, eventually};

use crate::{SHORT, address, both_with};

/// Far more groups than it takes to see every order of the random names.
const GROUPS_MAX: usize = 1_000;

const COUNTERS: &str = "CuratorCounters.java";

/// A member that is inside or that leaves.
enum Member {
    Ours(Entered),
    OursLeaving(JoinHandle<Result<(), BarrierError>>),
    /// The actor of Curator's process.
    Curators(String),
}

/// The members of one generation, by the names of their nodes.
struct Group {
    path: String,
    members: BTreeMap<String, Member>,
    /// The members that have not begun to leave.
    inside: BTreeSet<String>,
}

impl Group {
    /// Lets members of both kinds enter: ours where `is_ours` is true. The first one of ours gives up
    /// once before.
    async fn enter(client: &Client, curator: &mut Curator, path: String, is_ours: &[bool]) -> Self {
        client.ensure_path(&path, ParentMode::Containers).await.unwrap();
        let size = u32::try_from(is_ours.len()).unwrap();
        let barrier = DoubleBarrier::new(client, &path, size).unwrap();
        let short = Duration::from_millis(1);
        assert!(barrier.enter_timeout(short).await.unwrap().is_none());
        let (mut names, mut entering) = (BTreeSet::new(), Vec::new());
        let mut members = BTreeMap::new();
        for (number, is_ours) in is_ours.iter().enumerate() {
            let actor = format!("actor-{number}");
            if *is_ours {
                let barrier = barrier.clone();
                entering.push(tokio::spawn(async move { barrier.enter().await }));
            } else {
                curator.tell(&actor, &format!("enter {path} {size} -1"));
            }
            let name = newcomer(client, &path, &mut names).await;
            if !is_ours {
                members.insert(name, Member::Curators(actor));
            }
        }
        for entering in entering {
            let entered = entering.await.unwrap().unwrap();
            let name = entered.node().rsplit('/').next().unwrap().to_owned();
            members.insert(name, Member::Ours(entered));
        }
        for member in members.values() {
            if let Member::Curators(actor) = member {
                assert_eq!(curator.answer(actor), ["ok"]);
            }
        }
        assert_eq!(members.len(), is_ours.len());
        // The event of `ready` would wake a member of Curator's that leaves, which then takes the last
        // node for the first one.
        let_events_arrive(curator);
        Self { path, members, inside: names }
    }

    /// Returns the kinds of the members, in the order of their names.
    fn kinds(&self) -> Vec<bool> {
        self.members.values().map(|member| !matches!(member, Member::Curators(_))).collect()
    }

    /// The member at this place begins to leave.
    async fn leave(&mut self, curator: &mut Curator, place: usize) {
        let name = self.members.keys().nth(place).unwrap().clone();
        self.inside.remove(&name);
        let member = match self.members.remove(&name).unwrap() {
            Member::Ours(mut member) => {
                Member::OursLeaving(tokio::spawn(async move { member.leave().await }))
            }
            Member::Curators(actor) => {
                curator.tell(&actor, "leave -1");
                Member::Curators(actor)
            }
            Member::OursLeaving(_) => panic!("it has begun to leave"),
        };
        self.members.insert(name, member);
    }

    /// Waits until the members that leave have deleted their nodes. The first one by name keeps its
    /// node until it is alone. Expects that none has left while another one is inside.
    async fn expect_inside(&self, client: &Client, curator: &mut Curator) {
        if self.inside.is_empty() {
            return;
        }
        let first = self.members.keys().next();
        let expected: BTreeSet<String> = self.inside.iter().chain(first).cloned().collect();
        let seen = eventually(LIMIT, async || {
            (members(client, &self.path).await == expected).then_some(())
        });
        assert!(seen.await.is_some(), "{:?}", members(client, &self.path).await);
        let_events_arrive(curator);
        for (name, member) in &self.members {
            let has_left = match member {
                Member::Ours(_) => false,
                Member::OursLeaving(leaving) => leaving.is_finished(),
                Member::Curators(actor) => curator.has_answered(actor),
            };
            assert!(!has_left, "{name} of {:?} has left {:?}", self.kinds(), self.inside);
        }
    }

    /// Expects that all members have left.
    async fn expect_end(self, client: &Client, curator: &mut Curator) {
        for (name, member) in self.members {
            match member {
                Member::Ours(_) => panic!("{name} has not begun to leave"),
                Member::OursLeaving(leaving) => {
                    timeout(LIMIT, leaving).await.expect(&name).unwrap().unwrap();
                }
                Member::Curators(actor) => assert_eq!(curator.answer(&actor), ["ok"], "{name}"),
            }
        }
        assert!(members(client, &self.path).await.is_empty());
    }
}

/// Sends requests to Curator's server. Meanwhile the events of all that has happened arrive.
fn let_events_arrive(curator: &mut Curator) {
    for _ in 0..10 {
        curator.ok("probe", "get /interop/groups/other");
    }
}

/// Returns the names of the members' nodes.
async fn members(client: &Client, path: &str) -> BTreeSet<String> {
    let children = client.get_children(path).await.unwrap();
    let names = children.names.names();
    let is_member = |name: &str| name != "ready" && !name.starts_with("closing-");
    names.filter(|name| is_member(name)).map(|name| name.into_owned()).collect()
}

/// Waits for one more member, and returns the name of its node.
async fn newcomer(client: &Client, path: &str, known: &mut BTreeSet<String>) -> String {
    let seen = eventually(LIMIT, async || {
        members(client, path).await.into_iter().find(|name| !known.contains(name))
    });
    let name = seen.await.expect("a member creates its node");
    known.insert(name.clone());
    name
}

/// Returns an order of so many places. Different numbers have different orders.
fn order(size: usize, mut number: usize) -> Vec<usize> {
    let mut left: Vec<usize> = (0..size).collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        let place = left.remove(number % left.len());
        number /= left.len() + 1;
        order.push(place);
    }
    order
}

/// The names are random, so groups are formed until each order of the kinds was seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mixed_groups_leave_together_in_every_order_by_name() {
    let Some((client, mut curator)) = both_with(COUNTERS).await else { return };
    let mut groups = 0;
    for size in 2_u32..=4 {
        // Each order of the kinds is a number whose bits are the members of ours.
        let mut missing: BTreeSet<u32> = (1..(1 << size) - 1).collect();
        while let Some(next) = missing.first() {
            let ours_are_first = groups % 2 == 0;
            let (ours, theirs) = (next.count_ones(), size - next.count_ones());
            let is_ours = |number| if ours_are_first { number < ours } else { number >= theirs };
            let kinds: Vec<bool> = (0..size).map(is_ours).collect();
            groups += 1;
            assert!(groups < GROUPS_MAX, "{missing:?} are missing");
            let path = format!("/interop/groups/{groups}");
            let mut group = Group::enter(&client, &mut curator, path, &kinds).await;
            let seen = group.kinds();
            let bits = seen.iter().enumerate().map(|(place, ours)| u32::from(*ours) << place);
            missing.remove(&bits.sum());
            for place in order(seen.len(), groups) {
                group.leave(&mut curator, place).await;
                group.expect_inside(&client, &mut curator).await;
            }
            group.expect_end(&client, &mut curator).await;
        }
    }
}

/// One member of each kind dies. Curator's members may then leave while another one is inside, because
/// they take the last node for the first one. They do not wait for ever, and ours still leave last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mixed_group_leaves_after_a_member_of_each_kind_died() {
    let Some((client, mut curator)) = both_with(COUNTERS).await else { return };
    for is_leaving in [false, true] {
        let mut killed = Curator::with_program(COUNTERS, &address().unwrap(), SHORT).unwrap();
        let dying = connect(&address().unwrap(), SHORT).await;
        let path = &format!("/interop/groups/killed-{is_leaving}");
        client.ensure_path(path, ParentMode::Containers).await.unwrap();
        let enter = format!("enter {path} 4 -1");
        curator.tell("one", &enter);
        killed.tell("two", &enter);
        let entering = |client: &Client| {
            let barrier = DoubleBarrier::new(client, path, 4).unwrap();
            tokio::spawn(async move { barrier.enter().await.unwrap() })
        };
        let (ours, theirs) = (entering(&client), entering(&dying));
        let (mut ours, mut dead) = (ours.await.unwrap(), theirs.await.unwrap());
        assert_eq!([curator.answer("one"), killed.answer("two")], [["ok"], ["ok"]]);
        if is_leaving {
            killed.tell("two", "leave -1");
            assert!(!dead.leave_timeout(Duration::from_millis(100)).await.unwrap());
            let_events_arrive(&mut killed);
        }
        killed.kill();
        dying.detach(); // the session goes on without its process
        let leaving = tokio::spawn(async move { ours.leave().await });
        let dead_are_gone =
            eventually(LIMIT, async || (members(&client, path).await.len() <= 2).then_some(()));
        assert!(dead_are_gone.await.is_some(), "{:?}", members(&client, path).await);
        assert!(!leaving.is_finished(), "a member of Curator's is inside");
        assert_eq!(curator.ask("one", "leave -1"), ["ok"]);
        timeout(LIMIT, leaving).await.expect("it waits for ever").unwrap().unwrap();
        assert!(members(&client, path).await.is_empty());
    }
}
