//! Tests of `zk top`.

use serde_json::Value;
use zk_testing::{ErrorCode, Op, TestServer};
use zk_tests::{Zk, poll};

use crate::screen::Screen;
use crate::{LIMIT, expect_refused, until, zk};

/// Looks until the locks are as they should be.
fn look(zk: &Zk, line: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let locks = poll(LIMIT, || Some(zk.json(line)).filter(&is_so)).expect("other locks");
    assert_eq!(locks.as_array().unwrap().len(), 1, "{locks}");
    locks[0].clone()
}

#[test]
fn top_lists_locks_with_holders_and_waiters() {
    let Some(zk) = zk("top") else { return };
    assert_eq!(zk.ok("top /").lines().count(), 1, "only the head");
    let holder = zk.hold("lock /locks/stock");
    let waiter = zk.start("lock /locks/stock -- true");
    let lock = look(&zk, "top /locks --json", |locks| locks[0]["waiters"] == 1);
    assert_eq!((&lock["path"], &lock["kind"]), (&"/locks/stock".into(), &"mutex".into()));
    assert!(lock["holder"].as_str().unwrap().starts_with("sh "), "{lock}");
    assert!(lock["since_s"].is_number() && lock["longest_wait_s"].is_number(), "{lock}");

    let tables = zk.ok("top /locks --count 2 --interval 0.1");
    let lines: Vec<&str> = tables.lines().collect();
    assert_eq!(lines.len(), 4, "{tables}");
    assert!(lines[0].starts_with("LOCK"), "{tables}");
    assert!(lines[1].starts_with("/locks/stock  mutex"), "{tables}");
    assert!(lines[3].ends_with(" 0.0"), "the second look knows the rate: {tables}");
    holder.finish();
    waiter.ends(0);
    let holder = zk.hold("semaphore /s --permits 1");
    zk.ok("delete /locks --recursive");
    let lock = look(&zk, "top --json", |locks| locks[0]["holder"] == "1 lease");
    assert_eq!((&lock["path"], &lock["kind"]), (&"/s".into(), &"semaphore".into()));
    holder.finish();
    zk.fails("top /nowhere", 1, "NoNode");
    expect_refused("top relative", "path");
    expect_refused("top / --interval 0", "above 0");
    expect_refused("top / --count 0", "0");
}

/// Servers delete empty containers. The path of the locks may be one.
#[test]
fn top_goes_on_without_the_path_of_the_locks() {
    let Some(zk) = zk("top-vanished") else { return };
    let lock = || zk.ok("create /locks/a/x-lock- --sequential --parents");
    let first = lock();
    let top = zk.start("top /locks --json --count 100000 --interval 0.05");
    let shows = |text: &str| {
        until(text, || top.stdout().lines().last().is_some_and(|line| line.contains(text)));
    };
    shows("/locks/a");
    zk.ok("delete /locks --recursive");
    shows("[]");
    assert_eq!(lock(), first);
    shows("/locks/a");
    top.signal("INT");
    top.ends(0);
}

/// Most looks at a busy lock fall between two holders.
#[test]
fn lock_is_listed_between_two_holders() {
    let Some(zk) = zk("top-busy") else { return };
    let hold = || zk.ok("create /locks/a/x-lock- --sequential --parents");
    let node = hold();
    zk.ok("create /locks/other");
    let top = zk.start("top /locks --json --count 100000 --interval 0.05");
    let looks = || -> Vec<Value> {
        let whole = top.stdout();
        let whole = whole.rsplit_once('\n').map(|(whole, _)| whole.to_owned()).unwrap_or_default();
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    until("no look", || !looks().is_empty());
    zk.ok(&["delete", node.trim()]);
    let is_free = |look: &Value| look[0]["holder"] == "" && look[0]["since_s"].is_null();
    until("not free", || looks().last().is_some_and(is_free));
    let rate = |look: &Value| look[0]["handoffs_per_s"].as_f64().unwrap_or(0.0);
    // A look may list the node, and then find it deleted: only the next one counts that.
    until("no hand-off", || looks().iter().any(|look| rate(look) > 0.0));
    hold();
    until("still free", || !looks().last().is_some_and(is_free));
    assert!(looks().iter().all(|look| look.as_array().unwrap().len() == 1), "{}", top.stdout());
    top.signal("INT");
    top.ends(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn list_is_sorted_filtered_and_fits_on_a_narrow_terminal() {
    let server = TestServer::start().await.unwrap();
    let zk = Zk::new(server.connect_string());
    for (lock, contenders) in [("a", 1), ("orders", 3), ("stock", 2)] {
        for _ in 0..contenders {
            let path = format!("/l/{lock}/x-lock-");
            zk.ok(&["create", &path, "10.0.0.7 web3 4711 checkout", "--sequential", "--parents"]);
        }
    }
    let mut screen = Screen::start(&zk, "stty cols 60; zk top --interval 1000");
    screen.shows("zk top /: 3 locks, by path", 1);
    screen.shows("HAND-OFFS/S\u{1b}[K", 1);
    screen.press("ss");
    screen.shows("zk top /: 3 locks, by waiters", 1);
    // The screen arrives line by line.
    let rows = || {
        let printed = screen.printed();
        let (_, sorted) = printed.rsplit_once("by waiters")?;
        Some((sorted.find("/l/orders")?, sorted.find("/l/stock")?))
    };
    let (orders, stock) = poll(LIMIT, rows).expect("not all rows");
    assert!(orders < stock, "{}", screen.printed());
    screen.press("/sto\n");
    screen.shows(": 3 locks, 1 with sto,", 1);
    // The queue of the only lock that passes the filter.
    screen.press("\n");
    screen.shows("/l/stock\u{1b}[K", 1);
    screen.press("q");
    screen.ends();
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_page_shows_rejections_and_obeys_keys() {
    let server = TestServer::start().await.unwrap();
    let zk = Zk::new(server.connect_string());
    zk.ok("create /l/x-lock- --sequential --parents");
    let mut screen = Screen::start(&zk, "zk top --interval 1000");
    screen.shows("zk top /: 1 locks", 1);
    let refused = server.on(Op::GetChildren2).always().answer(ErrorCode::NO_AUTH);
    screen.press("\n");
    screen.shows("NoAuth", 1);
    screen.press("\x1b");
    screen.shows("zk top /: 1 locks", 2);
    refused.cancel();

    let silent = server.on(Op::GetChildren2).always().never_answer();
    for (key, number) in [("\x1b", 1), ("q", 2)] {
        screen.press("\n");
        until("the queue is not read", || silent.count() >= number);
        screen.press(key);
    }
    screen.shows("zk top /: 1 locks", 3);
    screen.ends();
}

/// Other commands take the path of the node. A terminal without a size has 80 columns here.
#[tokio::test(flavor = "multi_thread")]
async fn queue_page_shows_nodes_on_a_narrow_terminal() {
    let server = TestServer::start().await.unwrap();
    let zk = Zk::new(server.connect_string());
    let holder = zk.hold("lock /locks/l --name nightly");
    let node = zk.ok("ls /locks/l");
    let mut screen = Screen::start(&zk, "zk top --interval 1000");
    screen.shows("zk top /: 1 locks", 1);
    screen.press("\n");
    screen.shows(node.trim(), 1);
    screen.shows("nightly", 2);
    screen.press("q");
    screen.ends();
    holder.finish();
}
