//! Tests of the four-letter words.

use zk_testing::{Settings, Switch, Version};

use crate::world::World;

fn ask(world: &mut World, word: &str) -> String {
    let id = world.open(0);
    world.write(id, word.as_bytes());
    assert!(world.closed(id).is_some(), "{word}");
    String::from_utf8(world.rest(id).to_vec()).unwrap()
}

#[test]
fn four_letter_words_are_answered_and_connection_closed() {
    let mut world = World::new();
    let client = world.connect();
    world.stat(&client, "/").unwrap();
    assert_eq!(ask(&mut world, "ruok"), "imok");
    assert_eq!(ask(&mut world, "isro\n"), "rw");

    let srvr = ask(&mut world, "srvr");
    assert!(srvr.starts_with("Zookeeper version: 3.8.0"), "{srvr}");
    for line in ["Zxid: 0x1", "Mode: standalone", "Node count: 5", "Connections: 2"] {
        assert!(srvr.lines().any(|found| found == line), "{line}: {srvr}");
    }
    let stat = ask(&mut world, "stat");
    let line = " /127.0.0.1:4000[1](queued=0,recved=2,sent=2)";
    assert!(stat.contains("Clients:\n") && stat.lines().any(|found| found == line), "{stat}");
    let cons = ask(&mut world, "cons");
    let sid = format!("sid={},lop=exists", client.session.session_id);
    assert!(cons.contains(&sid), "{cons}");
    let mntr = ask(&mut world, "mntr");
    for line in ["zk_server_state\tstandalone", "zk_znode_count\t5", "zk_global_sessions\t1"] {
        assert!(mntr.lines().any(|found| found == line), "{line}: {mntr}");
    }
    let wchs = ask(&mut world, "wchs");
    assert_eq!(wchs, "0 connections watching 0 paths\nTotal watches:0\n");
    let conf = ask(&mut world, "conf");
    for line in ["tickTime=2000", "minSessionTimeout=4000", "maxSessionTimeout=40000"] {
        assert!(conf.lines().any(|found| found == line), "{line}: {conf}");
    }
    let envi = ask(&mut world, "envi");
    assert!(envi.starts_with("Environment:\nzookeeper.version=3.8.0-"), "{envi}");
}

#[test]
fn four_letter_words_report_read_only_server() {
    let mut world = World::new();
    world.zk.read_only(world.now, 0, Switch::On);
    assert_eq!(ask(&mut world, "isro"), "ro");
    assert!(ask(&mut world, "srvr").contains("READ-ONLY mode; serving only read-only clients\n"));
}

#[test]
fn four_letter_words_outside_whitelist_are_refused() {
    let mut world = World::with(Settings::new().four_letter_words(["srvr"]));
    let refused = "ruok is not executed because it is not in the whitelist.\n";
    assert_eq!(ask(&mut world, "ruok"), refused);
    assert!(ask(&mut world, "srvr").contains("Mode: standalone"));
}

#[test]
fn unknown_word_is_parsed_as_excessive_frame_length() {
    let mut world = World::new();
    assert_eq!(ask(&mut world, "abcd"), "");
}

#[test]
fn srvr_names_the_product_and_its_version() {
    for version in Version::ALL {
        let srvr = ask(&mut World::of(version), "srvr");
        let (product, number) = match version.name().split_once('-') {
            Some((_, number)) => ("ClickHouse Keeper", number),
            None if version == Version::RaftKeeper => ("RaftKeeper", "RaftKeeper"),
            None => ("Zookeeper", version.name()),
        };
        let line = srvr.lines().next().unwrap();
        let (found, text) = line.split_once(" version: ").unwrap();
        assert_eq!(found, product);
        assert!(text.trim_start_matches('v').starts_with(number), "{line}");
    }
}
