//! Random additions under random faults. The sum of their results is the number in the node.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_coordination::AtomicLong;
use zk_coordination::session::{Outcome, RetryOn};
use zk_testing::{Cut, ErrorCode, Op, Rng, Settings, TestServer};

use crate::atomic::data;
use crate::{MS, sessions};

const CLIENTS: u128 = 4;
const ADDITIONS: i64 = 12;

/// Sums of the additions, by their results.
#[derive(Default)]
struct Told {
    applied: i64,
    unknown: i64,
    by_id: i64,
}

/// Breaks connections and sessions now and then.
fn add_faults(server: &TestServer, random: &mut Rng) {
    let chance = |random: &mut Rng| 0.12 * random.unit();
    for op in [Op::SetData, Op::Multi, Op::GetData] {
        let cut = if random.below(2) == 0 { Cut::Fin } else { Cut::Rst };
        let fault = |chance| server.on(op).always().with_probability(chance).by(cut);
        fault(chance(random)).apply_then_drop_reply();
        fault(chance(random)).drop_before_applying();
        fault(chance(random) / 2.0).never_answer();
        fault(chance(random)).answer(ErrorCode::THROTTLED_OP);
    }
    let expiry = server.on(Op::SetData).always().with_probability(chance(random) / 4.0);
    expiry.apply_then_expire_session();
}

async fn add_at_random(seed: u64) {
    let mut random = Rng::new(seed);
    let server = TestServer::in_memory_with(Settings::new().seed(seed));
    let told = Arc::new(Mutex::new(Told::default()));
    let mut adding = Vec::new();
    for n in 0..CLIENTS {
        let sessions = sessions(&server, u128::from(seed) << 8 | n).await;
        let (told, mut random) = (told.clone(), Rng::new(seed << 8 | u64::try_from(n).unwrap()));
        adding.push(tokio::spawn(async move {
            for round in 0..ADDITIONS {
                let client = sessions.open_client().await.unwrap();
                let client = client.with_timeout(Duration::from_secs(4));
                let counter = AtomicLong::new(&client, "/c").unwrap();
                let counter = match random.below(2) {
                    0 => counter,
                    _ => counter.promote_to_lock("/lock", 1).unwrap(),
                };
                let delta = random.pick(&[1, 2, 3]);
                if random.below(3) > 0 {
                    match counter.add(delta).await {
                        Ok(_) => told.lock().unwrap().applied += delta,
                        Err(error) if error.outcome() == Outcome::Unknown => {
                            told.lock().unwrap().unknown += delta;
                        }
                        Err(error) => assert_eq!(error.outcome(), Outcome::NotApplied, "{error}"),
                    }
                    continue;
                }
                // Two clients run each operation, over as many sessions as it takes.
                let id = format!("{}-{round}", n / 2);
                loop {
                    let client = sessions.open_client().await.unwrap();
                    let counter = AtomicLong::new(&client, "/c").unwrap();
                    match counter.add_once(&id, 1_000).await {
                        Ok(_) => break,
                        Err(error) if error.retry_on() == RetryOn::Never => {
                            assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
                        }
                        Err(_) => {}
                    }
                    // reason: virtual time, the pause of a service between attempts
                    tokio::time::sleep(random.millis(500 * MS)).await;
                }
            }
        }));
    }
    add_faults(&server, &mut random);
    for adding in adding {
        adding.await.unwrap();
    }
    server.clear_faults();
    let number = i64::from_be_bytes(data(&server, "/c").unwrap().try_into().unwrap());
    let operations = server.with(|ensemble| ensemble.tree().node("/c").unwrap().children().count());
    let mut told = told.lock().unwrap();
    told.by_id = 1_000 * i64::try_from(operations).unwrap();
    let least = told.applied + told.by_id;
    let most = least + told.unknown;
    assert!((least..=most).contains(&number), "seed {seed}: {number} is not in {least}..={most}");
}

#[tokio::test(start_paused = true)]
async fn random_additions_match_their_results() {
    for seed in 0..40 {
        add_at_random(seed).await;
    }
}
