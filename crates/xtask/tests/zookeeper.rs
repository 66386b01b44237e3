//! Tests of the harness, against real ZooKeeper servers.

use std::process::Command;
use std::time::Duration;
use std::{fs, thread};

use xtask::poll::poll;
use xtask::zookeeper::{Ensemble, ErrorKind, Mode, Settings, Standalone, or_skip};

#[test]
fn standalone_server_restarts_with_same_address_and_data() {
    let Some(zk) = or_skip(Standalone::start()) else {
        return;
    };
    let status = zk.status().unwrap().unwrap();
    assert_eq!(status.mode, Mode::Standalone);
    assert!(zk.four_letter("conf").unwrap().contains("tickTime=2000"));
    let (address, first_pid) = (zk.connect_string(), zk.pid());

    zk.kill();
    assert_eq!(zk.pid(), None);
    zk.four_letter("ruok").unwrap_err();

    zk.restart().unwrap();
    assert_eq!(zk.connect_string(), address);
    assert_ne!(zk.pid(), first_pid);
    assert_eq!(zk.four_letter("ruok").unwrap(), "imok");
}

#[test]
fn settings_reach_the_server() {
    let settings =
        Settings::default().tick_ms(500).container_check_ms(50).config("maxSessionTimeout", "7000");
    let Some(zk) = or_skip(settings.start()) else {
        return;
    };
    let conf = zk.four_letter("conf").unwrap();
    assert!(conf.contains("tickTime=500") && conf.contains("maxSessionTimeout=7000"), "{conf}");
    assert!(conf.contains("maxClientCnxns=0"), "{conf}");
}

#[test]
fn paused_server_does_not_reply() {
    let Some(zk) = or_skip(Standalone::start()) else {
        return;
    };
    zk.pause().unwrap();
    zk.four_letter("ruok").unwrap_err();
    zk.resume().unwrap();
    zk.await_serving().unwrap();
    // A paused server can be killed, too.
    zk.pause().unwrap();
    zk.kill();
    assert_eq!(zk.pause().unwrap_err().kind(), ErrorKind::Failed);
}

#[test]
fn dropped_server_leaves_no_process_and_no_files() {
    let Some(zk) = or_skip(Standalone::start()) else {
        return;
    };
    let pid = zk.pid().unwrap();
    let command_line = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    let command_line = String::from_utf8(command_line).unwrap();
    let config = command_line.split('\0').find(|word| word.ends_with("zoo.cfg")).unwrap();
    assert!(fs::exists(config).unwrap());
    drop(zk);
    assert!(!fs::exists(format!("/proc/{pid}")).unwrap());
    assert!(!fs::exists(config).unwrap());
}

#[test]
fn server_outlives_the_thread_that_started_it() {
    let started = thread::spawn(Standalone::start).join().unwrap();
    let Some(zk) = or_skip(started) else { return };
    assert_eq!(zk.four_letter("ruok").unwrap(), "imok");
}

/// Runs itself in a child process, which a signal terminates while its server runs.
#[test]
fn server_dies_with_its_killed_test_process() {
    if let Some(report) = std::env::var_os(CHILD) {
        let zk = Standalone::start().unwrap();
        fs::write(report, zk.pid().unwrap().to_string()).unwrap();
        std::process::abort();
    }
    let Some(_) = or_skip(xtask::zookeeper::Distribution::shared()) else {
        return;
    };
    let report = std::env::temp_dir().join(format!("zk-killed-{}", std::process::id()));
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "server_dies_with_its_killed_test_process", "--nocapture"])
        .env(CHILD, &report)
        .output()
        .unwrap();
    let pid = fs::read_to_string(&report)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    fs::remove_file(&report).unwrap();
    let process = format!("/proc/{pid}");
    poll(LIMIT, || (!fs::exists(&process).unwrap()).then_some(())).expect("the server lives on");
}

#[test]
fn loopback_ensemble_elects_a_new_leader_after_a_kill() {
    let Some(ensemble) = or_skip(Ensemble::start(3, 500)) else {
        return;
    };
    let leader = ensemble.leader().unwrap();
    assert!(ensemble.server(leader).is_leader().unwrap());
    assert_ne!(ensemble.follower().unwrap(), leader);
    assert_eq!(ensemble.connect_string().split(',').count(), 3);
    assert_eq!(ensemble.cut_from_leader(leader).unwrap_err().kind(), ErrorKind::Failed);
    let follower = ensemble.follower().unwrap();
    assert_eq!(ensemble.cut_from_leader(follower).unwrap_err().kind(), ErrorKind::Unsupported);

    ensemble.server(leader).kill();
    assert_ne!(ensemble.leader().unwrap(), leader);
    ensemble.server(leader).restart().unwrap();
    ensemble.await_serving().unwrap();
}

#[test]
fn follower_cut_from_its_leader_stays_reachable() {
    let Some(ensemble) = or_skip(Ensemble::in_namespaces(500)) else {
        return;
    };
    let (leader, follower) = (ensemble.leader().unwrap(), ensemble.follower().unwrap());
    let synced = || {
        let mntr = ensemble.server(leader).four_letter("mntr").unwrap_or_default();
        mntr.lines().find_map(|line| line.strip_prefix("zk_synced_followers\t").map(str::to_owned))
    };
    let await_synced = |wanted: &str| {
        let reached = || synced().is_some_and(|count| count.starts_with(wanted)).then_some(());
        poll(LIMIT, reached).unwrap_or_else(|| panic!("the leader never has {wanted} followers"));
    };
    await_synced("2");

    ensemble.cut_from_leader(follower).unwrap();
    // The follower has not detected the cut, so it replies as before.
    let status = ensemble.server(follower).status().unwrap().unwrap();
    assert_eq!(status.mode, Mode::Follower);
    await_synced("1");
    assert!(ensemble.server(leader).is_leader().unwrap());
    // Clients still reach the follower after it lost its leader.
    ensemble.server(follower).four_letter("ruok").unwrap();

    ensemble.heal().unwrap();
    ensemble.await_serving().unwrap();
    assert_ne!(ensemble.follower().unwrap(), ensemble.leader().unwrap());

    // A cut in one direction suffices: the leader still sends, but receives no acknowledgement.
    let (leader, follower) = (ensemble.leader().unwrap(), ensemble.follower().unwrap());
    ensemble.cut_one_way(follower, leader).unwrap();
    await_synced("1");
    ensemble.heal().unwrap();
    assert!(ensemble.server(leader).is_leader().unwrap());
}

#[test]
fn ensemble_may_have_observers() {
    let settings = Settings::default().tick_ms(500).namespaces(4, 1);
    let Some(ensemble) = or_skip(settings.start_in_namespaces()) else { return };
    let modes = ensemble.servers().iter().map(|server| server.status().unwrap().unwrap().mode);
    let modes: Vec<Mode> = modes.collect();
    assert_eq!(modes[3], Mode::Observer);
    assert!(modes[..3].iter().all(|mode| *mode != Mode::Observer), "{modes:?}");
}

#[test]
fn reconfigured_server_reads_new_settings_after_restart() {
    let Some(ensemble) = or_skip(Ensemble::start(3, 500)) else {
        return;
    };
    let settings = Settings::default().tick_ms(500).config("maxSessionTimeout", "3000");
    ensemble.reconfigure(1, &settings).unwrap();
    ensemble.server(1).restart().unwrap();
    let conf = |index: usize| ensemble.server(index).four_letter("conf").unwrap();
    assert!(conf(1).contains("maxSessionTimeout=3000"), "{}", conf(1));
    assert!(conf(0).contains("maxSessionTimeout=10000"), "{}", conf(0));
}

/// Longer than any of the waits takes on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Environment variable with the file to which the child of `server_dies_with_its_killed_test_process`
/// reports.
const CHILD: &str = "ZK_HARNESS_CHILD_REPORT";

#[test]
fn existing_server_has_a_chroot_and_is_left_alone() {
    let server = Standalone::existing("127.0.0.1:1/below/here").unwrap();
    assert_eq!(server.connect_string(), "127.0.0.1:1/below/here");
    assert_eq!((server.chroot(), server.pid()), ("/below/here", None));
    let proxy = "127.0.0.1:2".parse().unwrap();
    assert_eq!(server.connect_string_through(proxy), "127.0.0.1:2/below/here");
    assert_eq!(server.restart().unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(server.pause().is_err());
    assert_eq!(Standalone::existing("127.0.0.1:1").unwrap().connect_string(), "127.0.0.1:1");
}
