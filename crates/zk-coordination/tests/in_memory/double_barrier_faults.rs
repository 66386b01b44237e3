//! Members that enter and leave at random, under random faults. An observer of the server's
//! transactions judges them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_coordination::session::{RetryOn, SessionId, SessionManager};
use zk_testing::server::Effect;
use zk_testing::{Cut, Op, Rng, Settings, TestServer};

use crate::double_barrier::{barrier, children};
use crate::{MS, T, sessions};

const MEMBERS: u32 = 3;
const SECOND: Duration = Duration::from_secs(1);

/// One opening of the barrier.
#[derive(Debug, Default)]
struct Generation {
    /// The members that were alive.
    alive: BTreeSet<String>,
    /// Number of members whose `enter` has returned.
    entered: u32,
    /// Members that have entered and not begun to leave, with the ids of their sessions.
    inside: BTreeSet<(String, SessionId)>,
}

type Generations = Arc<Mutex<Vec<Generation>>>;

/// Records the members at each opening.
fn observe(server: &TestServer) -> Generations {
    let generations = Generations::default();
    let record = generations.clone();
    server.with(|ensemble| {
        ensemble.observe(move |tree, commit| {
            if commit.effect == Effect::Created("/b/ready") {
                let names = tree.node("/b").unwrap().children().filter(|name| *name != "ready");
                let alive: BTreeSet<String> = names.map(|name| format!("/b/{name}")).collect();
                assert!(alive.len() >= MEMBERS as usize, "it opens with too few: {alive:?}");
                record.lock().unwrap().push(Generation { alive, ..Generation::default() });
            }
        });
    });
    generations
}

/// Cuts connections and expires sessions now and then.
fn add_faults(server: &TestServer, random: &mut Rng) {
    let mut chance = |most: f64| most * random.unit();
    for op in [Op::Create2, Op::Multi, Op::Delete, Op::GetChildren2, Op::Exists, Op::GetData] {
        let fault = |chance| server.on(op).always().with_probability(chance).by(Cut::Rst);
        fault(chance(0.05)).apply_then_drop_reply();
        fault(chance(0.05)).drop_before_applying();
        fault(chance(0.03)).delay(SECOND / 10);
        fault(chance(0.02)).apply_then_expire_session();
    }
}

/// Enters and leaves, until the end of the faults.
async fn play(
    server: TestServer,
    sessions: SessionManager,
    generations: Generations,
    mut random: Rng,
) {
    for _ in 0..30 {
        let client = sessions.open_client().await.unwrap();
        let (barrier, id) = (barrier(&client, MEMBERS), client.session_id());
        let mut entered = match barrier.enter_timeout(random.millis(4_000 * MS)).await {
            Ok(Some(entered)) => entered,
            Ok(None) => continue,
            Err(error) => {
                assert_ne!(error.retry_on(), RetryOn::Never, "{error}");
                continue;
            }
        };
        let member = (entered.node().to_owned(), id);
        let number = {
            let mut generations = generations.lock().unwrap();
            let number =
                generations.iter().position(|generation| generation.alive.contains(&member.0));
            let number = number.expect("a member that was alive at an opening");
            let generation = &mut generations[number];
            generation.entered += 1;
            assert!(generation.entered <= MEMBERS, "too many have entered: {generation:?}");
            generation.inside.insert(member.clone());
            number
        };
        tokio::time::sleep(random.millis(300 * MS)).await; // reason: virtual time, the work of the member
        generations.lock().unwrap()[number].inside.remove(&member);
        if random.below(8) == 0 {
            continue; // it leaves without waiting
        }
        if let Ok(true) = entered.leave_timeout(random.millis(20_000 * MS)).await {
            let mut inside = generations.lock().unwrap()[number].inside.clone();
            inside.retain(|(_, id)| server.with(|ensemble| ensemble.is_alive(*id)));
            assert!(inside.is_empty(), "others have not left: {inside:?}");
        }
    }
}

async fn play_at_random(seed: u64) {
    let mut random = Rng::new(seed);
    let server = TestServer::in_memory_with(Settings::new().seed(seed));
    let generations = observe(&server);
    let mut playing = Vec::new();
    for n in 0..u64::from(MEMBERS) + random.below(3) {
        let sessions = sessions(&server, u128::from(seed << 8 | n)).await;
        let random = Rng::new(seed << 8 | n);
        playing.push(tokio::spawn(play(server.clone(), sessions, generations.clone(), random)));
    }
    add_faults(&server, &mut random);
    for playing in playing {
        let played = playing.await;
        assert!(played.is_ok(), "seed {seed}: {played:?}");
    }
    server.clear_faults();
    // reason: virtual time, in which the sessions remove what is left
    tokio::time::sleep(2 * T).await;
    let left = children(&server);
    assert!(left.iter().all(|name| name == "ready"), "seed {seed}: {left:?}");
    assert!(generations.lock().unwrap().len() > 1, "seed {seed}: nobody has entered");
    // The barrier can be used again.
    let mut entering = Vec::new();
    for n in 0..3 {
        let sessions = sessions(&server, u128::from(seed << 8 | 0x80 | n)).await;
        let barrier = barrier(&sessions.client(), MEMBERS);
        entering
            .push((sessions, tokio::spawn(async move { barrier.enter().await?.leave().await })));
    }
    for (_sessions, entering) in entering {
        let left = tokio::time::timeout(T, entering).await;
        left.unwrap_or_else(|_| panic!("seed {seed}: the barrier is stuck")).unwrap().unwrap();
    }
    assert!(children(&server).is_empty(), "seed {seed}");
}

#[tokio::test(start_paused = true)]
async fn random_members_never_enter_early_or_leave_alone() {
    for seed in 0..20 {
        play_at_random(seed).await;
    }
}
