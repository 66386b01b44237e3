//! Tests of `zk discover`.

use serde_json::{Value, json};

use crate::{expect_refused, until, zk};

fn instance(id: &str, port: u16) -> String {
    json!({ "name": "web", "id": id, "address": "10.0.0.7", "port": port }).to_string()
}

#[test]
fn services_and_instances_are_listed() {
    let Some(zk) = zk("discover") else { return };
    zk.fails("discover", 1, "/services: there is no service; see --base");
    zk.fails("discover web", 1, "/services/web: there is no instance");
    zk.ok(&["create", "/services/web/b", &instance("b", 81), "--parents"]);
    zk.ok(&["create", "/services/web/a", &instance("a", 80)]);
    zk.ok(&["create", "/services/web/c", &instance("c", 82).replace('}', ",\"enabled\":false}")]);
    zk.ok("create /services/idle");
    zk.prints("discover", "idle\t0\nweb\t3\n");
    let listed = "a\t10.0.0.7:80\nb\t10.0.0.7:81\nc\t10.0.0.7:82\tdisabled\n";
    zk.prints("discover web", listed);
    zk.prints("discover --base / services/web", listed);

    let lines = zk.ok("discover --json");
    assert_eq!(lines.lines().last(), Some("{\"instances\":3,\"service\":\"web\"}"));
    let lines = zk.ok("discover web --json");
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((&first["id"], &first["port"]), (&json!("a"), &json!(80)), "{first}");
    assert_eq!(lines.lines().count(), 3);

    zk.ok("set /services/web/b none");
    zk.ok("delete /services/web/c");
    let notes = "zk: /services/web/b is ignored: ";
    zk.gives("discover web", 0, "a\t10.0.0.7:80\n", notes);
    expect_refused("discover --watch", "SERVICE");
    expect_refused("discover --base services", "services");
    expect_refused("discover web/", "/services/web/");
}

#[test]
fn instances_are_followed_until_a_signal() {
    let Some(zk) = zk("discover-watch") else { return };
    zk.ok(&["create", "/services/web/a", &instance("a", 80), "--parents"]);
    let follows = zk.start("discover web --watch");
    let mut expected = String::new();
    let mut shows = |line: &str| {
        expected += &format!("{line}\n");
        until(line, || follows.stdout() == expected);
    };
    shows("added\ta\t10.0.0.7:80");
    zk.ok(&["create", "/services/web/b", &instance("b", 81)]);
    shows("added\tb\t10.0.0.7:81");
    zk.ok(&["set", "/services/web/a", &instance("a", 8080)]);
    shows("changed\ta\t10.0.0.7:8080");
    zk.ok("delete /services/web/b");
    shows("removed\tb\t10.0.0.7:81");
    zk.ok("set /services/web/a none");
    shows("removed\ta\t10.0.0.7:8080");
    follows.signal("TERM");
    follows.ends(0).expect(0, &expected, "watching /services/web");
}
