//! Providers: strategies, filters, and instances that fail.

use std::collections::BTreeMap;
use std::sync::Arc;

use zk_discovery::limits::{DOWN_ERRORS_MAX, DOWN_TIME};
use zk_discovery::{
    Provider, ProviderStrategy, Random, Registration, RoundRobin, ServiceInstance, Sticky,
};
use zk_testing::TestServer;

use crate::{MS, T, discovery, pass, process, register, register_all, settle, web};

/// A provider of some instances.
async fn provider_of(ids: &[&str]) -> (Provider, Vec<Registration>, TestServer) {
    let (server, _sessions, discovery) = process().await;
    let registrations = register_all(&discovery, ids).await;
    (discovery.provider("web").await.unwrap(), registrations, server)
}

fn choose(provider: &Provider) -> String {
    provider.instance().map(|instance| instance.id().to_owned()).unwrap_or_default()
}

fn choices(provider: &Provider, count: usize) -> String {
    (0..count).map(|_| choose(provider)).collect()
}

#[tokio::test(start_paused = true)]
async fn round_robin_returns_the_instances_in_turn() {
    let (provider, mut registrations, _server) = provider_of(&["a", "b", "c"]).await;
    assert_eq!(choices(&provider, 7), "abcabca");
    registrations.pop().unwrap().unregister().await.unwrap();
    settle().await;
    let two = choices(&provider, 4);
    assert!(two == "abab" || two == "baba", "{two}");
    drop(registrations);
    settle().await;
    assert_eq!(provider.instance(), None);
}

#[tokio::test(start_paused = true)]
async fn random_choices_repeat_with_the_seed_and_are_even() {
    let (provider, _registrations, _server) = provider_of(&["a", "b", "c"]).await;
    let provider = provider.with_strategy(Random::with_seed(7));
    let first = choices(&provider, 3_000);
    let provider = provider.with_strategy(Random::with_seed(7));
    assert_eq!(choices(&provider, 3_000), first);
    let mut counts = BTreeMap::<char, usize>::new();
    first.chars().for_each(|id| *counts.entry(id).or_default() += 1);
    assert!(counts.len() == 3 && counts.values().all(|count| *count > 900), "{counts:?}");
    assert_ne!(choices(&provider.with_strategy(Random::new()), 3_000), first);
}

#[tokio::test(start_paused = true)]
async fn sticky_choice_lasts_until_the_instance_is_gone() {
    let (provider, mut registrations, server) = provider_of(&["a", "b", "c"]).await;
    let provider = provider.with_strategy(Sticky::new(RoundRobin::new()));
    assert_eq!(choices(&provider, 5), "aaaaa");
    let a = registrations.remove(0);
    a.update(a.instance().with_payload("busy")).await.unwrap();
    settle().await;
    assert_eq!(provider.instance().unwrap().payload(), "busy");
    a.unregister().await.unwrap();
    settle().await;
    assert_eq!(choices(&provider, 3), "ccc");
    let discovery = discovery(&server, 2).await;
    let _a = register(&discovery, web("a")).await;
    settle().await;
    assert_eq!(choices(&provider, 3), "ccc");
}

#[test]
fn strategies_return_none_without_instances() {
    let strategies: [&dyn ProviderStrategy; 3] =
        [&RoundRobin::new(), &Random::new(), &Sticky::new(Random::new())];
    for strategy in strategies {
        assert_eq!(strategy.choose(&[]), None, "{strategy:?}");
    }
}

#[test]
fn sticky_keeps_a_random_choice() {
    let instances: Vec<_> = (0..100).map(|n| Arc::new(web(&n.to_string()))).collect();
    let sticky = Sticky::new(Random::with_seed(1));
    let first = sticky.choose(&instances).unwrap();
    assert_eq!(sticky.choose(&instances), Some(first));
}

#[tokio::test(start_paused = true)]
async fn instance_is_down_after_some_errors_for_a_time() {
    for (limits, errors, time) in [
        (None, 2, DOWN_TIME),
        (Some((3, T / 10)), 3, T / 10),
        (Some((0, DOWN_TIME)), 1, DOWN_TIME),
        (Some((u32::MAX, DOWN_TIME)), DOWN_ERRORS_MAX, DOWN_TIME),
    ] {
        let (provider, _registrations, _server) = provider_of(&["a", "b"]).await;
        let provider = match limits {
            Some((limit, time)) => provider.with_down_after(limit, time),
            None => provider,
        };
        let a = provider.instances()[0].clone();
        for _ in 1..errors {
            provider.note_error(&a);
        }
        assert_eq!(provider.instances().len(), 2, "{limits:?}");
        provider.note_error(&a);
        assert_eq!(choices(&provider, 4), "bbbb", "{limits:?}");
        pass(time - MS).await;
        assert_eq!(provider.instances().len(), 1, "{limits:?}");
        pass(MS).await;
        assert_eq!(provider.instances().len(), 2, "{limits:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn instance_is_down_only_while_all_its_errors_are_recent() {
    let (provider, _registrations, _server) = provider_of(&["a"]).await;
    let a = provider.instance().unwrap();
    provider.note_error(&a);
    pass(DOWN_TIME * 2 / 3).await; // virtual time between two errors
    provider.note_error(&a);
    assert!(provider.instance().is_none());
    pass(DOWN_TIME / 3).await; // until the first error is old
    assert!(provider.instance().is_some());
    provider.note_error(&a);
    assert!(provider.instance().is_none(), "the second error is still recent");
}

#[tokio::test(start_paused = true)]
async fn errors_outlast_an_update_but_not_a_restart() {
    let (provider, mut registrations, server) = provider_of(&["a"]).await;
    let a = provider.instance().unwrap();
    provider.note_error(&a);
    provider.note_error(&a);
    let registration = registrations.remove(0);
    registration.update(registration.instance().with_payload(1)).await.unwrap();
    settle().await;
    assert!(provider.instance().is_none());
    registration.unregister().await.unwrap();
    let later = a.registration_time_utc() + 1;
    let restarted = web("a").with_registration_time_utc(later);
    let _restarted = register(&discovery(&server, 2).await, restarted).await;
    settle().await;
    assert!(provider.instance().is_some());
}

#[tokio::test(start_paused = true)]
async fn disabled_and_filtered_instances_are_not_returned() {
    let (provider, registrations, _server) = provider_of(&["a", "b", "c"]).await;
    let is_not_c = |instance: &ServiceInstance| instance.id() != "c";
    let provider =
        provider.with_filter(is_not_c).with_filter(|instance| instance.port() == Some(8080));
    assert_eq!(choices(&provider, 4), "abab");
    let a = &registrations[0];
    a.update(a.instance().disabled()).await.unwrap();
    settle().await;
    assert_eq!(choices(&provider, 3), "bbb");
    assert_eq!(provider.cache().instances().len(), 3);
    a.update(a.instance().enabled()).await.unwrap();
    settle().await;
    assert_eq!(provider.instances().len(), 2);
}
