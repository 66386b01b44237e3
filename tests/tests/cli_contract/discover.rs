//! Tests of `zk discover`.

use serde_json::{Value, json};
use zk_tests::poll;

use crate::{LIMIT, expect_failure, expect_refused, zk};

fn instance(id: &str, port: u16) -> String {
    let instance = json!({ "name": "web", "id": id, "address": "10.0.0.7", "port": port });
    instance.to_string()
}

#[test]
fn services_and_instances_are_listed() {
    let Some(zk) = zk("discover") else { return };
    expect_failure(&zk.run(&["discover"]), 1, "/services: there is no service; see --base");
    expect_failure(&zk.run(&["discover", "web"]), 1, "/services/web: there is no instance");
    zk.ok(&["create", "/services/web/b", &instance("b", 81), "--parents"]);
    zk.ok(&["create", "/services/web/a", &instance("a", 80)]);
    zk.ok(&["create", "/services/web/c", &instance("c", 82).replace('}', ",\"enabled\":false}")]);
    zk.ok(&["create", "/services/idle"]);
    assert_eq!(zk.ok(&["discover"]), "idle\t0\nweb\t3\n");
    let listed = zk.ok(&["discover", "web"]);
    assert_eq!(listed, "a\t10.0.0.7:80\nb\t10.0.0.7:81\nc\t10.0.0.7:82\tdisabled\n");
    assert_eq!(zk.ok(&["discover", "--base", "/", "services/web"]), listed);

    let lines = zk.ok(&["discover", "--json"]);
    assert_eq!(lines.lines().last(), Some("{\"instances\":3,\"service\":\"web\"}"));
    let lines = zk.ok(&["discover", "web", "--json"]);
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((&first["id"], &first["port"]), (&json!("a"), &json!(80)), "{first}");
    assert_eq!(lines.lines().count(), 3);
}

#[test]
fn nodes_without_an_instance_are_noted() {
    let Some(zk) = zk("discover-other") else { return };
    zk.ok(&["create", "/services/web/a", &instance("a", 80), "--parents"]);
    zk.ok(&["create", "/services/web/b", "none"]);
    let listed = zk.run(&["discover", "web"]);
    assert_eq!((listed.code(), &*listed.stdout), (Some(0), "a\t10.0.0.7:80\n"), "{listed:?}");
    assert!(listed.stderr.starts_with("zk: /services/web/b is ignored: "), "{listed:?}");
}

#[test]
fn instances_are_followed_until_a_signal() {
    let Some(zk) = zk("discover-watch") else { return };
    zk.ok(&["create", "/services/web/a", &instance("a", 80), "--parents"]);
    let follows = zk.start(&["discover", "web", "--watch"]);
    let shows = |line: &str| {
        let is_shown = || follows.stdout().lines().any(|shown| shown == line).then_some(());
        poll(LIMIT, is_shown).unwrap_or_else(|| panic!("{line}: {}", follows.stdout()));
    };
    shows("added\ta\t10.0.0.7:80");
    zk.ok(&["create", "/services/web/b", &instance("b", 81)]);
    shows("added\tb\t10.0.0.7:81");
    zk.ok(&["set", "/services/web/a", &instance("a", 8080)]);
    shows("changed\ta\t10.0.0.7:8080");
    zk.ok(&["delete", "/services/web/b"]);
    shows("removed\tb\t10.0.0.7:81");
    zk.ok(&["set", "/services/web/a", "none"]);
    shows("removed\ta\t10.0.0.7:8080");
    follows.signal("TERM");
    let ended = follows.wait(LIMIT);
    assert_eq!((ended.code(), ended.stdout.lines().count()), (Some(0), 5), "{ended:?}");
    assert!(ended.stderr.contains("watching /services/web"), "{ended:?}");
}

#[test]
fn discover_checks_its_arguments() {
    expect_refused(&["discover", "--watch"], "SERVICE");
    expect_refused(&["discover", "--base", "services"], "services");
    expect_refused(&["discover", "web/"], "/services/web/");
}
