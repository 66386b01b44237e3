//! Tests of semaphores: the lists of permits, a shared limit, and revocation.

use zk_recipes::{Semaphore, SharedCount, revoke};
use zk_tests::contenders;

use crate::both;

#[tokio::test(flavor = "multi_thread")]
async fn permits_of_both_clients_are_counted_and_listed_together() {
    let Some((client, mut curator)) = both().await else { return };
    let semaphore = Semaphore::new(&client, "/interop/s", 4).unwrap().with_data("ours");
    let theirs = curator.ok("a", "acquire semaphore /interop/s 4 2 -1");
    let lease = semaphore.acquire_many(2).await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    assert_eq!(curator.ask("b", "acquire semaphore /interop/s 4 1 200"), ["timeout"]);
    contenders(&client, "/interop/s/leases", 4).await; // the timed-out ones are gone
    let listed = semaphore.participants().await.unwrap();
    let names: Vec<&str> = listed.iter().map(|it| it.path.rsplit('/').next().unwrap()).collect();
    let ours: Vec<&str> = lease.nodes().map(|node| node.rsplit('/').next().unwrap()).collect();
    assert_eq!(names, [theirs.iter().map(String::as_str).collect(), ours].concat());
    let mut curators = curator.ok("observer", "participants semaphore /interop/s");
    curators.sort_by(|a, b| a[a.len() - 10..].cmp(&b[b.len() - 10..])); // Curator does not sort
    assert_eq!(curators, names);
    let data = [&listed[0].data, &listed[3].data].map(Vec::as_slice);
    assert_eq!(data, [&b"127.0.0.1"[..], b"ours"]);

    // A permit that one client releases is granted to the other.
    curator.tell("b", "acquire semaphore /interop/s 4 1 -1");
    contenders(&client, "/interop/s/leases", 5).await;
    lease.release().await.unwrap();
    assert_eq!(curator.answer("b")[0], "ok");
    let waiting = tokio::spawn(async move { semaphore.acquire_many(3).await });
    contenders(&client, "/interop/s/leases", 6).await;
    assert!(!waiting.is_finished());
    curator.ok("a", "release");
    let lease = waiting.await.unwrap().unwrap();
    curator.ok("b", "release");
    lease.release().await.unwrap();
    for below in ["leases", "locks"] {
        contenders(&client, &format!("/interop/s/{below}"), 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_count_set_by_curator_is_the_limit() {
    let Some((client, mut curator)) = both().await else { return };
    curator.ok("a", "count /interop/limit 1");
    let count = SharedCount::new(&client, "/interop/limit", 9).unwrap();
    let semaphore = Semaphore::with_shared_limit(&client, "/interop/limited", &count).unwrap();
    let one = semaphore.acquire().await.unwrap();
    let other = semaphore.clone();
    let two_more = tokio::spawn(async move { other.acquire_many(2).await });
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    curator.ok("a", "count /interop/limit 3");
    let two = two_more.await.unwrap().unwrap();
    assert!(one.is_held() && two.is_held());
}

/// Curator does not support revocation of permits (CURATOR-650), but any client may request it.
#[tokio::test(flavor = "multi_thread")]
async fn permit_revocation_reaches_us_and_leaves_curator_holding() {
    let Some((client, mut curator)) = both().await else { return };
    let semaphore = Semaphore::new(&client, "/interop/revoked", 3).unwrap();
    let ours = semaphore.acquire_many(2).await.unwrap();
    let theirs = curator.ok("a", "acquire semaphore /interop/revoked 3 1 -1");
    assert_eq!(curator.ok("a", "lease-data"), ["127.0.0.1"]);
    curator.ok("revoker", &format!("revoke {}", ours.nodes().last().unwrap()));
    ours.revocation_requested().await.unwrap();
    assert!(ours.is_held(), "to be asked is not to lose");
    let node = format!("/interop/revoked/leases/{}", theirs[0]);
    assert!(revoke(&client, &node).await.unwrap());
    assert_eq!(curator.ok("a", "lease-data"), ["__REVOKE__"]);
    assert!(semaphore.try_acquire().await.unwrap().is_none(), "it goes on holding it");
    curator.ok("a", "release");
    assert!(!revoke(&client, &node).await.unwrap());
    ours.release().await.unwrap();
}
