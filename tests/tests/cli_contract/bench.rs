//! Tests of `zk bench`.

use serde_json::Value;
use zk_testing::TestServer;
use zk_tests::Zk;

use crate::{LIMIT, expect_refused, until, zk};

const WORK: [&str; 7] = ["sync", "read", "write", "reads", "writes", "lock", "hand-off"];

#[test]
fn bench_measures_each_kind_of_work() {
    let Some(zk) = zk("bench") else { return };
    zk.ok("create /b data");
    let printed = zk.ok("bench /b --seconds 0.05");
    let mut lines = printed.lines();
    assert!(lines.next().unwrap().starts_with("WORK"), "{printed}");
    let names: Vec<&str> = lines.filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, WORK, "{printed}");
    // It deletes all that it has created, and nothing else.
    zk.prints("ls /b", "");
    zk.prints("get /b", "data");

    let printed = zk.ok("bench --json --seconds 0.05 --size 0");
    zk.prints("ls /", "b\n");
    let lines = printed.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    assert_eq!(lines.iter().map(|line| &line["work"]).collect::<Vec<_>>(), WORK);
    for line in lines {
        let figure = |name: &str| line[name].as_f64().unwrap();
        assert!(figure("count") >= 1.0 && figure("per_second") > 0.0, "{line}");
        let times = ["p50_us", "p99_us", "max_us"].map(figure);
        assert!(times.is_sorted(), "{line}");
    }
}

/// In this process: a hundred reads of a megabyte are much for the heap of a shared server.
#[tokio::test(flavor = "multi_thread")]
async fn bench_writes_a_megabyte_and_removes_missing_parents() {
    let server = TestServer::start().await.unwrap();
    let zk = Zk::new(server.connect_string());
    zk.ok("create /keep");
    let printed = zk.ok("bench /keep/a/b --seconds 0.5 --size 1000000");
    assert!(printed.contains("\nwrites "), "{printed}");
    zk.prints("ls /keep -R", "/keep\n");
}

#[test]
fn interrupted_bench_deletes_its_nodes() {
    let Some(zk) = zk("bench-interrupted") else { return };
    zk.ok("create /keep");
    let bench = zk.start("bench /keep --seconds 60");
    until("no nodes", || zk.ok("count /keep") == "2\n");
    bench.signal("INT");
    assert_eq!(bench.wait(LIMIT).signal(), Some(2));
    zk.prints("ls / -R", "/\n/keep\n");
    expect_refused("bench --seconds 61", "at most 60");
    expect_refused("bench --seconds 0", "above 0");
}
