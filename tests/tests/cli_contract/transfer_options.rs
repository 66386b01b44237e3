//! Tests of `--skip-unreadable` and `--no-acl` of `zk export` and `zk import`.

use zk_tests::{Ended, Zk};

use crate::{LIMIT, expect_failure, expect_refused, zk};

fn import(zk: &Zk, root: &str, lines: &str, options: &[&str]) -> Ended {
    let mut running = zk.start(&[&["import", root], options].concat());
    running.give(lines.as_bytes());
    running.end_input();
    running.wait(LIMIT)
}

/// Creates /app with two children that only Alice may read, and one whose hash only she may read. Returns
/// her command.
fn partly_hidden(zk: &Zk) -> Zk {
    let alice = zk.clone().option("--auth", "digest:alice:sesame");
    for path in ["/app", "/app/a", "/app/z"] {
        zk.ok(&["create", path, path]);
    }
    for path in ["/app/hers", "/app/hers/below", "/app/own"] {
        alice.ok(&["create", path, "secret", "--acl", "auth::cdrwa"]);
    }
    alice.ok(&["create", "/app/hash", "public", "--acl", "auth::cdrwa", "--acl", "world:anyone:r"]);
    zk.ok(&["create", "/app/z/open"]);
    alice
}

/// Returns the paths in the lines of an export.
fn paths(lines: &str) -> Vec<&str> {
    lines.lines().filter_map(|line| line.split_once(r#""path":""#)?.1.split('"').next()).collect()
}

#[test]
fn export_leaves_out_unreadable_nodes_if_asked_to() {
    let Some(zk) = zk("export-unreadable") else { return };
    let alice = partly_hidden(&zk);
    expect_failure(&zk.run(&["export", "/app"]), 1, "see --skip-unreadable");
    let ended = zk.run(&["export", "/app", "--skip-unreadable"]);
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(paths(&ended.stdout), ["/", "/a", "/z", "/z/open"], "{ended:?}");
    assert!(ended.stdout.ends_with("{\"nodes\":4,\"unreadable\":3}\n"), "{ended:?}");
    let says = "zk: /app/hash is left out: no permission to read the hashes in its access control list\n\
                zk: /app/hers is left out: no permission to read it\n\
                zk: /app/own is left out: no permission to read it\n\
                zk: 3 nodes are left out: no permission to read them\n";
    assert_eq!(ended.stderr, says);
    let json = zk.run(&["export", "/app", "--skip-unreadable", "--json"]);
    assert!(json.stderr.contains("\"unreadable\":3}"), "{json:?}");
    let imported = import(&zk, "/copy", &ended.stdout, &[]);
    assert_eq!(imported.stdout, "4 nodes imported, 0 of which existed\n", "{imported:?}");

    let whole = alice.run(&["export", "/app", "--skip-unreadable"]);
    assert!(whole.stdout.ends_with("{\"nodes\":8,\"unreadable\":0}\n"), "{whole:?}");
    assert_eq!(whole.stderr, "");
    expect_failure(&zk.run(&["export", "/app/own", "--skip-unreadable"]), 1, "NoAuth");
}

/// A node without its parent could not be imported.
#[test]
fn export_leaves_out_what_is_below_an_unreadable_node() {
    let Some(zk) = zk("export-below") else { return };
    let alice = partly_hidden(&zk);
    alice.ok(&["create", "/app/hash/below"]);
    let ended = zk.run(&["export", "/app", "--skip-unreadable"]);
    assert_eq!(paths(&ended.stdout), ["/", "/a", "/z", "/z/open"], "{ended:?}");
    assert!(ended.stdout.ends_with("{\"nodes\":4,\"unreadable\":4}\n"), "{ended:?}");
}

#[test]
fn nodes_are_exported_and_imported_without_lists() {
    let Some(zk) = zk("export-no-acl") else { return };
    let alice = zk.clone().option("--auth", "digest:alice:sesame");
    let list = ["--acl", "auth::cdrwa", "--acl", "world:anyone:r"];
    alice.ok(&[&["create", "/app", "public"], &list[..]].concat());
    alice.ok(&[&["create", "/app/a"], &list[..]].concat());
    expect_failure(&zk.run(&["export", "/app"]), 1, "see --no-acl");
    let lines = zk.ok(&["export", "/app", "--no-acl"]);
    let says =
        "{\"data\":\"public\",\"path\":\"/\"}\n{\"data\":\"\",\"path\":\"/a\"}\n{\"nodes\":2}\n";
    assert_eq!(lines, says);
    expect_failure(&import(&zk, "/copy", &lines, &[]), 1, "line 1: no list `acl`; --no-acl");
    let ended = import(&zk, "/copy", &lines, &["--no-acl"]);
    let says = "2 nodes imported, 0 of which existed, 0 access control lists ignored\n";
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), (says, ""), "{ended:?}");
    assert_eq!(zk.ok(&["getacl", "/copy/a"]), "world:anyone:cdrwa\n");

    // The lists of the input are ignored, and so are those of existing nodes.
    zk.ok(&["setacl", "/copy", "world:anyone:crw"]);
    let lines = alice.ok(&["export", "/app"]);
    let options = ["--no-acl", "--overwrite", "--json"];
    let ended = import(&zk, "/copy", &lines, &options);
    let says = "{\"created\":0,\"ignored_acl\":2,\"imported\":2,\"other_acl\":0,\"unread\":0}\n";
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), (says, ""), "{ended:?}");
    assert_eq!(zk.ok(&["getacl", "/copy"]), "world:anyone:crw\n");
    expect_refused(&["import", "/copy", "--no-acl", "--resume", "x"], "--resume");
}
