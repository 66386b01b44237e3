//! Groups of every size leave a double barrier in every order, with members that die or time out.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::task::JoinHandle;
use zk_coordination::session::Client;
use zk_coordination::{BarrierError, Entered};
use zk_testing::{Rng, TestServer};

use crate::double_barrier::{barrier, entered, entering, leaving, nodes};
use crate::{T, client, settle};

const SHORT: Duration = Duration::from_millis(100);

/// How a member ends its stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Leave,
    /// It waits for a time, and then without a limit.
    LeaveAfterTimeout,
    /// Its session is closed while it is inside.
    Close,
    /// Its session expires while it is inside.
    Expire,
    /// Its session expires while it leaves.
    ExpireInLeave,
    /// It leaves, and does not wait.
    Drop,
}

const ENDINGS: [Ending; 6] = [
    Ending::Leave,
    Ending::LeaveAfterTimeout,
    Ending::Close,
    Ending::Expire,
    Ending::ExpireInLeave,
    Ending::Drop,
];

/// The members that have entered, sorted by the names of their nodes.
struct Group {
    server: TestServer,
    members: Vec<Option<(Client, Entered)>>,
    /// The members that are alive and have not begun to leave.
    inside: BTreeSet<usize>,
    leaving: Vec<JoinHandle<Result<(), BarrierError>>>,
}

impl Group {
    /// Enters with so many members. The last of them gives up once before.
    async fn enter(server: &TestServer, size: u32) -> Self {
        let mut clients = Vec::new();
        for number in 0..size {
            clients.push(client(server, u128::from(number)).await);
        }
        let (early, late) = clients.split_at(clients.len().saturating_sub(2));
        let mut waiting: Vec<_> =
            early.iter().map(|client| (client.clone(), entering(client, size))).collect();
        settle().await;
        if size > 1 {
            let barrier = barrier(&late[1], size);
            assert!(barrier.enter_timeout(SHORT).await.unwrap().is_none());
        }
        waiting.extend(late.iter().map(|client| (client.clone(), entering(client, size))));
        let mut members = Vec::new();
        for (client, entering) in waiting {
            members.push(Some((client, entered(entering).await)));
        }
        members.sort_by_key(|member| member.as_ref().map(|(_, entered)| entered.node().to_owned()));
        let inside = (0..members.len()).collect();
        Self { server: server.clone(), members, inside, leaving: Vec::new() }
    }

    /// Ends the stay of one member.
    async fn end(&mut self, place: usize, ending: Ending) {
        let (client, mut member) = self.members[place].take().unwrap();
        self.inside.remove(&place);
        match ending {
            Ending::Leave => self.leaving.push(leaving(member)),
            Ending::LeaveAfterTimeout => {
                let has_left = member.leave_timeout(SHORT).await.unwrap();
                assert_eq!(has_left, self.inside.is_empty());
                self.leaving.push(leaving(member));
            }
            Ending::Close => client.close().await,
            Ending::Expire => assert!(self.server.expire(client.session_id())),
            Ending::ExpireInLeave => {
                let leaving = leaving(member);
                settle().await;
                self.server.expire(client.session_id());
                drop(leaving.await.unwrap()); // it is dead, whatever it returns
            }
            Ending::Drop => drop(member),
        }
        settle().await;
        let is_early = self.leaving.iter().any(JoinHandle::is_finished) && !self.inside.is_empty();
        assert!(!is_early, "{:?} are inside", self.inside);
    }

    /// Expects that each member that is alive has left, and that the barrier can be used again.
    async fn expect_end(self, size: u32) {
        for leaving in self.leaving {
            let left = tokio::time::timeout(3 * T, leaving).await;
            left.expect("a member waits for ever").unwrap().unwrap();
        }
        settle().await;
        assert!(nodes(&self.server).iter().all(|name| name == "ready"));
        let mut next = Vec::new();
        for number in 0..size {
            let client = client(&self.server, 100 + u128::from(number)).await;
            next.push(entering(&client, size));
        }
        for next in next {
            let entered = tokio::time::timeout(3 * T, entered(next)).await;
            drop(entered.expect("the barrier cannot be used again"));
        }
    }
}

/// Lets a group enter, and ends the stays in this order.
async fn run(size: u32, order: &[(usize, Ending)]) {
    eprintln!("{order:?}");
    let server = TestServer::in_memory();
    let mut group = Group::enter(&server, size).await;
    for (place, ending) in order {
        group.end(*place, *ending).await;
    }
    group.expect_end(size).await;
}

/// Returns the orders of so many places.
fn orders(size: usize) -> Vec<Vec<usize>> {
    let Some(last) = size.checked_sub(1) else { return vec![Vec::new()] };
    let insert = |order: Vec<usize>| {
        (0..size).map(move |at| {
            let mut order = order.clone();
            order.insert(at, last);
            order
        })
    };
    orders(last).into_iter().flat_map(insert).collect()
}

/// All members of larger groups leave.
#[tokio::test(start_paused = true)]
async fn small_groups_leave_together_with_each_pair_of_endings() {
    for order in orders(4) {
        let order: Vec<_> = order.into_iter().map(|place| (place, Ending::Leave)).collect();
        run(4, &order).await;
    }
    for size in 2..=3 {
        for order in orders(size as usize) {
            for first in ENDINGS {
                for second in ENDINGS {
                    let endings = [first, second, Ending::Leave];
                    let order: Vec<_> = order.iter().copied().zip(endings).collect();
                    run(size, &order).await;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn groups_leave_together_with_random_endings() {
    for seed in 0..100 {
        let mut random = Rng::new(seed);
        let size = random.pick(&[1, 2, 3, 4, 5]);
        let all = orders(size as usize);
        let order = all[random.index(all.len())].clone();
        let mut ending = |place| (place, random.pick(&ENDINGS));
        let order: Vec<_> = order.into_iter().map(&mut ending).collect();
        eprintln!("seed {seed}");
        run(size, &order).await;
    }
}
