//! Tests of `zk config` and `zk reconfig`.

use zk_tests::{Ensemble, Settings, Zk, or_skip, poll};

use crate::{LIMIT, expect_refused, zk};

/// Starts an ensemble of three servers, in which everybody may change the members.
pub(crate) fn reconfigurable_ensemble() -> Option<Ensemble> {
    let settings = Settings::default()
        .tick_ms(500)
        .config("reconfigEnabled", "true")
        .jvm_flag("-Dzookeeper.skipACL=yes");
    or_skip(settings.start_ensemble(3))
}

/// The examples of the help, with the id of a follower and the address of the ensemble.
#[test]
fn examples_of_reconfig_run() {
    // The password of `super` is `PASS`.
    let hash = "super:l6CozLnj0FfmrrG+iDSfkxqzMtE=";
    let settings = Settings::default()
        .tick_ms(500)
        .config("reconfigEnabled", "true")
        .jvm_flag(format!("-Dzookeeper.DigestAuthenticationProvider.superDigest={hash}"));
    let Some(ensemble) = or_skip(settings.start_ensemble(3)) else { return };
    let leader = ensemble.server(ensemble.leader().unwrap()).address().to_string();
    let leaving = ensemble.server(ensemble.follower().unwrap()).address().to_string();
    let zk = Zk::new(leader);
    let members = zk.ok("config");
    assert_eq!(members.lines().count(), 3, "{members}");
    let leaving = members.lines().find(|line| line.contains(&leaving)).unwrap();
    let id = leaving.split('\t').next().unwrap();
    let config = zk.json("config --json");
    let version = config["version"].as_str().unwrap();
    let help = zk.ok("reconfig --help");
    let examples: Vec<&str> = help.lines().filter(|line| line.starts_with("  zk ")).collect();
    let [remove, add] = examples[..] else { panic!("{help}") };
    assert!(remove.ends_with(" --remove 3"), "{remove}");
    let remove = remove.replace("--remove 3", &format!("--remove {id}"));
    let late = zk.shell(&format!("{remove} --from-version fffffffff")).output().unwrap();
    assert!(String::from_utf8_lossy(&late.stderr).contains("BadVersion"), "{late:?}");
    let removed = run(&zk, &format!("{remove} --from-version {version}"));
    assert!(removed.lines().count() == 2 && !removed.contains(leaving), "{removed}");
    assert_eq!(zk.ok("config"), removed);
    let added = run(&zk, add);
    assert!(added.contains("zk4:2181"), "{added}");
}

/// Runs an example, which must succeed, and returns its output.
fn run(zk: &Zk, example: &str) -> String {
    let ended = zk.shell(example).output().unwrap();
    assert!(ended.status.success(), "{example}: {ended:?}");
    String::from_utf8(ended.stdout).unwrap()
}

#[test]
fn server_without_majority_serves_reads_if_asked() {
    let settings = Settings::default()
        .tick_ms(500)
        .jvm_flag("-Dreadonlymode.enabled=true")
        .config("localSessionsEnabled", "true")
        .config("localSessionsUpgradingEnabled", "true");
    let Some(ensemble) = or_skip(settings.start_ensemble(3)) else { return };
    let all = Zk::new(ensemble.connect_string()).option("--retry", "3");
    all.ok("--read-only create /a x");
    all.ok("sync");
    let last = ensemble.follower().unwrap();
    for other in (0..3).filter(|other| *other != last) {
        ensemble.server(other).kill();
    }
    let reads = || Some(all.run("--read-only get /a")).filter(|ended| ended.code() == Some(0));
    let read = poll(LIMIT, reads).expect("no read");
    assert_eq!((read.stdout.as_str(), read.stderr.as_str()), ("x", ""));
    assert_eq!(all.run("get /a").code(), Some(69));
    all.fails("--read-only set /a y", 69, "the server is read-only, for it has lost the majority");
    let lock = all.run("--read-only lock /l --timeout 0 -- true");
    assert!([69, 75].contains(&lock.code().unwrap()), "{lock:?}");
}

#[test]
fn reconfig_tells_what_the_servers_need() {
    let Some(zk) = zk("reconfig") else { return };
    zk.fails("reconfig --remove 3", 1, "reconfigEnabled=true");
    expect_refused("reconfig", "--remove");
    expect_refused("reconfig --remove three", "three");
}
