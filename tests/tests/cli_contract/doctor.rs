//! `zk doctor` on healthy servers, on one that is missing, and on several that do not belong together.

use serde_json::Value;
use zk_testing::{TestServer, Version};
use zk_tests::{
    Settings, WHO_AM_I, Zk, ensemble, own_shared_zookeeper, poll, release, shared_zookeeper,
    zookeeper, zookeeper_with,
};

use crate::ensemble::reconfigurable_ensemble;
use crate::{LIMIT, zk};

fn findings(zk: &Zk, code: i32) -> Vec<Value> {
    let ended = zk.run("doctor --json");
    let found: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is_slow = found.iter().filter(|finding| is_about_speed(finding)).any(is_slow);
    let code = if code == 0 && is_slow { 1 } else { code };
    assert_eq!(ended.code(), Some(code), "{ended:?}");
    found
}

/// Returns true for the findings that are warnings on a busy machine.
fn is_about_speed(finding: &Value) -> bool {
    ["round_trip", "write"].map(Value::from).contains(&finding["code"])
}

/// Returns whether a finding about speed is a warning, which it must be from half a second on.
fn is_slow(finding: &Value) -> bool {
    let times = ["round_trip_ms", "leader_round_trip_ms", "write_ms"];
    let slowest = times.iter().filter_map(|name| finding[name].as_f64()).reduce(f64::max);
    let slowest = slowest.expect("a time");
    let is_warning = finding["level"] == "warning";
    assert_eq!(is_warning, slowest > 500.0, "{finding}");
    assert!(is_warning || finding["level"] == "ok", "{finding}");
    is_warning
}

fn warnings(findings: &[Value]) -> Vec<&Value> {
    let is_warning = |it: &&Value| it["level"] == "warning" && !is_about_speed(it);
    findings.iter().filter(is_warning).collect()
}

fn has(findings: &[Value], level: &str, text: &str) -> bool {
    let fits = |finding: &&Value| {
        finding["level"] == level && finding["finding"].as_str().unwrap().contains(text)
    };
    findings.iter().any(|finding| fits(&finding))
}

#[test]
fn healthy_server_has_no_warning() {
    let Some(server) = own_shared_zookeeper() else { return };
    let zk = zk("doctor").unwrap();
    let found = findings(&zk, 0);
    for text in [
        "connected in the clear",
        "standalone",
        "session timeout 10.0 s",
        "a tick is 2.0 s; the lease assumes at most 6.7 s",
        "the leader's clock agrees",
    ] {
        assert!(has(&found, "ok", text), "{text}: {found:#?}");
    }
    assert_eq!(found.iter().filter(|finding| is_about_speed(finding)).count(), 2, "{found:#?}");
    assert!(warnings(&found).is_empty(), "{found:#?}");
    let (level, text) = if release(server) >= WHO_AM_I {
        ("ok", "this client is ip:")
    } else {
        ("note", "it lacks whoAmI (3.7)")
    };
    assert!(has(&found, level, text), "{found:#?}");
    zk.prints("ls /", "");
    let plain = zk.run("doctor").stdout;
    let is_fine = |line: &str| {
        let is_about_speed = line.contains("round trip") || line.contains("a write took");
        line.starts_with("ok ") || line.starts_with("note ") || is_about_speed
    };
    assert!(plain.lines().all(is_fine), "{plain}");
}

/// Programs need no sentence.
#[test]
fn findings_have_codes_and_values() {
    let Some(server) = own_shared_zookeeper() else { return };
    let found = findings(&zk("doctor-values").unwrap(), 0);
    let of = |code: &str| {
        let mut all = found.iter().filter(|finding| finding["code"] == code);
        all.next().unwrap_or_else(|| panic!("{code}: {found:#?}"))
    };
    for finding in &found[..found.len() - 1] {
        assert!(finding["code"].is_string() && finding["finding"].is_string(), "{finding}");
        assert_eq!(finding["server"], server.address().to_string(), "{finding}");
    }
    assert_eq!(of("connected")["tls"], false);
    assert_eq!(of("version")["mode"], "standalone");
    assert!(of("version")["version"].as_str().unwrap().starts_with("3."));
    let timeout = of("session_timeout");
    assert_eq!(
        (&timeout["granted_ms"], &timeout["requested_ms"]),
        (&10_000.into(), &10_000.into())
    );
    assert!(of("lease")["lease_min_ms"].as_u64().unwrap() > 1_000);
    assert_eq!(
        (&of("tick")["tick_ms"], &of("tick")["tick_max_ms"]),
        (&2_000.into(), &6_666.into())
    );
    assert_eq!(of("clock")["clock_ahead_ms"], 0);
    assert!(of("operations")["lacking"].is_array());
    for (code, name) in
        [("connected", "connect_ms"), ("round_trip", "round_trip_ms"), ("write", "write_ms")]
    {
        assert!(of(code)[name].as_f64().unwrap() >= 0.0, "{code}");
    }
    let verdict = of("majority");
    assert_eq!(verdict, found.last().unwrap());
    let numbers = ["examined", "serving", "rejecting"].map(|name| verdict[name].as_u64());
    assert_eq!((&verdict["majority"], numbers), (&true.into(), [Some(1), Some(1), Some(0)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn keeper_is_named_with_what_is_emulated() {
    let settings = zk_testing::Settings::new().version(Version::Keeper25_8);
    let server = TestServer::start_with(settings).await.unwrap();
    let found = findings(&Zk::new(server.connect_string()), 0);
    let kind = found.iter().find(|finding| finding["code"] == "server_kind").expect("no finding");
    assert_eq!((&kind["level"], &kind["kind"]), (&"note".into(), &"keeper".into()));
    let emulated = ["create2", "createContainer", "setWatches"].map(Value::from).to_vec();
    assert_eq!(kind["emulated"], Value::from(emulated));
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_with_different_ticks_are_a_warning() {
    let tick = |ms| std::time::Duration::from_millis(ms);
    let settings = zk_testing::Settings::new().servers(3).tick_time_of(1, tick(2_500));
    let server = TestServer::start_with(settings).await.unwrap();
    let zk = Zk::new(server.connect_string());
    let found = findings(&zk, 1);
    let differ =
        found.iter().find(|finding| finding["code"] == "ticks_differ").expect("no finding");
    assert_eq!(differ["level"], "warning");
    let ticks: Vec<_> = differ["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| server["tick_ms"].as_u64())
        .collect();
    assert_eq!(ticks, [Some(2_000), Some(2_500), Some(2_000)], "{differ}");
    assert!(!found.iter().any(|finding| finding["code"] == "versions_differ"), "{found:#?}");
}

#[test]
fn unreachable_server_is_an_error_beside_the_others() {
    let Some(server) = shared_zookeeper() else { return };
    let zk = Zk::new(format!("127.0.0.2:1,{}", server.connect_string()));
    let found = findings(&zk, 69);
    assert_eq!(found[0]["server"], "127.0.0.2:1", "{found:#?}");
    assert_eq!(found[0]["code"], "not_connected", "{found:#?}");
    assert!(has(&found, "error", "connection refused"), "{found:#?}");
    assert!(!has(&found, "error", "connect to 127.0.0.2"), "named twice: {found:#?}");
    assert!(found.iter().any(is_about_speed), "{found:#?}");
    assert_eq!(majority(&found), Some((true, "a majority serves (1 of 2 servers)".to_owned())));
}

/// Returns the verdict on the ensemble: the field, and the finding.
fn majority(findings: &[Value]) -> Option<(bool, String)> {
    let last = findings.last()?;
    Some((last["majority"].as_bool()?, last["finding"].as_str()?.to_owned()))
}

#[test]
fn lost_member_and_lost_majority_differ() {
    let Some(ensemble) = ensemble(500) else { return };
    let zk = Zk::new(ensemble.connect_string());
    let serve = |serving| (true, format!("a majority serves ({serving} of 3 servers)"));
    let found = findings(&zk, 0);
    assert_eq!(majority(&found), Some(serve(3)), "{found:#?}");

    ensemble.server(ensemble.follower().unwrap()).kill();
    let found = findings(&zk, 69);
    assert_eq!(majority(&found), Some(serve(2)), "{found:#?}");

    ensemble.server(ensemble.follower().unwrap()).kill();
    let lost = |found: Vec<Value>| majority(&found).filter(|(serves, _)| !serves);
    // The leader notices it after a while.
    let lost = poll(LIMIT, || lost(findings(&zk, 69))).expect("a majority serves");
    assert!(lost.1.contains("no majority") && lost.1.contains("(0 of 3 servers)"), "{lost:?}");
    zk.fails("ls /", 69, "may have no majority; see zk doctor");
}

#[test]
fn missing_repeated_and_removed_servers_are_warnings() {
    let Some(ensemble) = reconfigurable_ensemble() else { return };
    let addresses: Vec<_> = ensemble.servers().iter().map(|server| server.address()).collect();
    let [first, second, third] = addresses[..] else { panic!("{addresses:?}") };
    let found = findings(&Zk::new(format!("{first},{second}")), 1);
    let [missing] = warnings(&found)[..] else { panic!("{found:#?}") };
    assert_eq!(missing["server"], third.to_string(), "{found:#?}");
    assert!(has(&found, "warning", "which the connect string lacks"), "{found:#?}");

    let twice = format!("{first},{second},{third},{first},{second}");
    let found = findings(&Zk::new(twice), 1);
    assert_eq!(warnings(&found).len(), 2, "{found:#?}");
    assert!(has(&found, "warning", &format!("twice, first as {first}")), "{found:#?}");
    assert!(has(&found, "ok", "a majority serves (3 of 3 servers)"), "{found:#?}");

    // A removed server still follows the leader, and serves clients.
    let leader = ensemble.server(ensemble.leader().unwrap()).address().to_string();
    let leaving = ensemble.server(ensemble.follower().unwrap()).address().to_string();
    let members = Zk::new(&leader).ok("config");
    let id = members.lines().find(|line| line.contains(&leaving)).unwrap();
    Zk::new(&leader).ok(&["reconfig", "--remove", id.split('\t').next().unwrap()]);
    let found = findings(&Zk::new(ensemble.connect_string()), 1);
    let [warning] = warnings(&found)[..] else { panic!("{found:#?}") };
    assert_eq!(warning["server"], leaving, "{found:#?}");
    assert!(has(&found, "warning", "not a member of the ensemble"), "{found:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_in_memory_is_a_warning() {
    let server = TestServer::start().await.unwrap();
    let zk = Zk::new(server.connect_string());
    assert!(has(&findings(&zk, 1), "warning", "in memory: it keeps no node when it ends"));
}

#[tokio::test(flavor = "multi_thread")]
async fn new_server_knows_all_operations() {
    let settings = zk_testing::Settings::new().version(Version::V3_9);
    let server = TestServer::start_with(settings).await.unwrap();
    let found = findings(&Zk::new(server.connect_string()), 1);
    assert!(has(&found, "ok", "the server knows all operations that zk uses"), "{found:#?}");
}

#[test]
fn unreadable_configuration_is_noted() {
    // The password of `super` is `admin`.
    let hash = "super:xQJmxLMiHGwaqBvst5y6rkB6HQs=";
    let flag = format!("-Dzookeeper.DigestAuthenticationProvider.superDigest={hash}");
    let Some(server) = zookeeper_with(&Settings::default().jvm_flag(flag)) else { return };
    let zk = Zk::new(server.connect_string());
    let hidden = ["setacl", "/zookeeper/config", "ip:127.0.0.9:r", "--auth", "digest:super:admin"];
    zk.ok(&hidden);
    assert!(has(&findings(&zk, 0), "note", "no permission to read /zookeeper/config"));
}

#[test]
fn shortened_timeout_and_open_password_are_warnings() {
    let Some(zk) = zk("doctor-warnings") else { return };
    let ended = zk.run("doctor --session-timeout 300 --auth digest:alice:sesame");
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    let warnings = ended.stdout.lines().filter(|line| line.starts_with("warning"));
    let warnings: Vec<&str> = warnings.collect();
    assert_eq!(warnings.len(), 2, "{ended:?}");
    assert!(warnings[0].contains("in the clear: use TLS"), "{warnings:?}");
    assert!(warnings[1].contains("session timeout 40.0 s of 300.0 s"), "{warnings:?}");
    assert!(!ended.stdout.contains("sesame"), "{ended:?}");
}

#[test]
fn servers_of_different_ensembles_are_an_error() {
    let (Some(one), Some(other)) = (shared_zookeeper(), zookeeper()) else { return };
    let both = format!("{},{}", one.connect_string(), other.connect_string());
    assert!(has(&findings(&Zk::new(both), 69), "error", "not one ensemble"));
}
