//! Tests of the access control lists that `zk import` sets.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use zk_tests::{Ended, Scratch, WHO_AM_I, Zk, own_shared_zookeeper, release, skip};

use crate::transfer::import;
use crate::{own_zk, until, zk};

/// The file for the one-time identity of an import.
struct Identity {
    path: String,
    _scratch: Scratch,
}

impl Identity {
    fn new() -> Self {
        let scratch = Scratch::new();
        Self { path: scratch.path("identity").display().to_string(), _scratch: scratch }
    }

    /// Imports with this identity.
    fn import(&self, zk: &Zk, root: &str, lines: &str) -> Ended {
        import(zk, &format!("{root} --resume {}", self.path), lines)
    }

    /// Imports everything, and expects that nothing is open to the identity then.
    fn complete(&self, zk: &Zk, lines: &str, told: &str) {
        let whole = self.import(zk, "/copy", lines);
        assert_eq!(whole.stdout, told, "{whole:?}");
        zk.prints("export /copy", lines);
        assert!(!Path::new(&self.path).exists());
    }

    fn set_mode(&self, mode: u32) {
        fs::set_permissions(&self.path, fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// Creates /ro with children that its list denies to everybody, and exports it.
fn closed_tree(zk: &Zk) -> String {
    zk.ok("create /ro/c/d x --parents");
    zk.ok("create /ro/e");
    for path in ["/ro/c/d", "/ro/c", "/ro"] {
        zk.ok(&["setacl", path, "world:anyone:r"]);
    }
    zk.ok("export /ro")
}

fn first(lines: &str, count: usize) -> Vec<&str> {
    lines.lines().take(count).collect()
}

/// Returns the command like [`zk`], for tests that leave behind what nobody may delete. `zk import`
/// opens lists to its own address, which it learns by `whoAmI`.
fn zk_that_opens_lists(chroot: &str) -> Option<Zk> {
    if release(own_shared_zookeeper()?) < WHO_AM_I {
        skip("zk import needs whoAmI of ZooKeeper 3.7 to open a list");
        return None;
    }
    zk(chroot)
}

/// An entry for the address would open the nodes to everybody behind the same address.
#[test]
fn import_opens_lists_to_a_one_time_identity() {
    let Some(zk) = zk_that_opens_lists("import-one-time") else { return };
    let (lines, identity) = (closed_tree(&zk), Identity::new());
    let half = [&first(&lines, 2)[..], &["{}"]].concat().join("\n");
    let ended = identity.import(&zk, "/copy", &half);
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    for says in [
        "are open to a one-time identity until the import is complete: ",
        "the one-time identity crosses the network in the clear: use TLS (--cacert)\n",
        &format!("an import of these nodes with --resume {} that succeeds", identity.path),
        "zk: /copy/c is open\n",
        "the lists of 2 nodes have an entry more, with which this client creates what is below",
    ] {
        assert!(ended.stderr.contains(says), "{says}: {ended:?}");
    }
    assert!(ended.stderr.lines().last().unwrap().contains("line 3: no text `path`"), "{ended:?}");
    let file = fs::read_to_string(&identity.path).unwrap();
    let (secret, open) = file.split_once('\n').unwrap();
    assert_eq!(open, "/copy\n/copy/c\n");
    assert_eq!(fs::metadata(&identity.path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!ended.stderr.contains(secret.trim()), "{ended:?}");
    let list = zk.ok("getacl /copy");
    assert!(list.starts_with("world:anyone:r\ndigest:zk-import-"), "{list}");
    assert!(!list.contains("ip:"), "{list}");
    // Everybody else behind this address is denied.
    zk.fails("create /copy/x", 1, "NoAuth");
    zk.clone().option("--auth", secret.trim()).ok("getacl /copy/c");
    // A repetition that fails early has not seen what is open.
    for input in ["", "{}"] {
        assert_eq!(identity.import(&zk, "/copy", input).code(), Some(1));
        assert_eq!(fs::read_to_string(&identity.path).unwrap(), file);
    }
    zk.ok("create /leaf");
    let other = identity.import(&zk, "/other", &zk.ok("export /leaf"));
    let stays = "2 nodes, such as /copy, are still open to the identity of an earlier import";
    assert!(other.code() == Some(0) && other.stderr.contains(stays), "{other:?}");
    identity.set_mode(0o640);
    let refused = identity.import(&zk, "/copy", &lines);
    refused.expect_failure(1, "it must be yours alone (chmod 600)");
    identity.set_mode(0o600);
    identity.complete(&zk, &lines, "4 nodes imported, 2 of which existed\n");

    fs::write(&identity.path, "something else\n").unwrap();
    identity.set_mode(0o600);
    let refused = identity.import(&zk, "/copy", &lines);
    refused.expect_failure(1, "not an identity of zk import");
}

/// Lists that deny everybody the creation of children deny it to the importer, too.
#[test]
fn imported_nodes_below_a_closed_parent_get_their_lists() {
    let Some(zk) = zk_that_opens_lists("import-closed") else { return };
    for (name, options) in [("plain", ""), ("digest", "--auth digest:alice:sesame")] {
        zk.ok(&format!("create /{name}"));
        let zk = zk.chroot(&format!("/{name}"));
        let lines = closed_tree(&zk);
        let ended = import(&zk, &format!("/copy {options}"), &lines);
        assert_eq!(ended.stdout, "4 nodes imported, 0 of which existed\n", "{ended:?}");
        zk.prints("export /copy", &lines);
        // All of them exist, and the list of the first one denies the creation.
        let told = "4 nodes imported, 4 of which existed\n";
        import(&zk, &format!("/copy {options}"), &lines).expect(0, told, "");
        let again = import(&zk, &format!("/copy {options} --overwrite"), &lines);
        assert_eq!(again.stdout, told, "{again:?}");
    }
}

/// The list of the parent permits the importer to change it, but not to create children.
#[test]
fn new_child_of_an_imported_closed_parent_is_imported() {
    let Some(zk) = own_zk("import-new-child") else { return };
    let alice = zk.clone().option("--auth", "digest:alice:sesame");
    zk.ok("create /from/old --parents");
    alice.ok("setacl /from auth::ra");
    let lines = alice.ok("export /from");
    assert_eq!(import(&alice, "/to", &lines).stdout, "2 nodes imported, 0 of which existed\n");
    alice.ok("setacl /from world:anyone:cdrwa");
    zk.ok("create /from/new");
    alice.ok("setacl /from auth::ra");
    let lines = alice.ok("export /from");
    // Without a node that it denies, the list is not touched. The input has no last line here.
    let is_old = |line: &&str| line.contains("/old") || line.contains(r#""path":"/""#);
    let old: Vec<&str> = lines.lines().filter(is_old).collect();
    for (input, told) in [
        (old.join("\n"), "2 nodes imported, 2 of which existed\n"),
        (lines.clone(), "3 nodes imported, 2 of which existed\n"),
    ] {
        let ended = import(&alice, "/to --overwrite", &input);
        assert_eq!(ended.stdout, told, "{ended:?}");
    }
    alice.prints("export /to", &lines);
}

/// With its own list, the first node would keep the repetition from creating what is missing.
#[test]
fn cut_import_below_a_closed_parent_is_completed() {
    let Some(zk) = zk_that_opens_lists("import-cut-closed") else { return };
    let (lines, identity) = (closed_tree(&zk), Identity::new());
    let cut = first(&lines, 3);
    let ended = identity.import(&zk, "/copy", &cut.join("\n"));
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    let says = "has no last line with the number of nodes, and may be incomplete: if it is whole, \
                add the line {\"nodes\":3}";
    assert!(ended.stderr.contains(says), "{ended:?}");
    // A filtered export, for example, has no last line of its own.
    let part = cut.join("\n") + "\n{\"nodes\":3}\n";
    identity.complete(&zk, &part, "3 nodes imported, 3 of which existed\n");
    zk.ok("create /cut");
    let (zk, identity) = (zk.chroot("/cut"), Identity::new());
    let lines = closed_tree(&zk);
    assert_eq!(identity.import(&zk, "/copy", &cut.join("\n")).code(), Some(1));
    identity.complete(&zk, &lines, "4 nodes imported, 3 of which existed\n");
}

/// Its access control list is of no interest then.
#[test]
fn export_leaves_out_an_ephemeral_node_with_hidden_hashes() {
    let Some(zk) = zk("export-hidden") else { return };
    zk.ok("create /app");
    let alice = zk.clone().option("--auth", "digest:alice:sesame");
    let _holder = alice.hold("elect /app --acl auth::cdrwa --acl world:anyone:r");
    until("no candidate", || !zk.ok("ls /app").is_empty());
    let exported = zk.ok("export /app");
    assert!(exported.ends_with("{\"nodes\":1}\n"), "{exported}");
}

/// The same input fails at the same line again, so no repetition would set the lists.
#[test]
fn import_of_a_wrong_number_of_nodes_leaves_no_list_open() {
    let Some(zk) = zk_that_opens_lists("import-count") else { return };
    let exported = closed_tree(&zk);
    let lines: Vec<&str> = exported.lines().collect();
    let fewer = [&lines[..3], &lines[4..]].concat().join("\n");
    let more = [&lines[..3], &lines[2..]].concat().join("\n");
    for (root, input, says) in [
        ("/fewer", fewer, "line 4: 3 nodes came before, of 4 that were exported"),
        ("/more", more, "line 6: 5 nodes came before, of 4 that were exported"),
    ] {
        let identity = Identity::new();
        let ended = identity.import(&zk, root, &input);
        assert_eq!(ended.code(), Some(1), "{ended:?}");
        assert!(ended.stderr.ends_with(&format!("zk: {says}\n")), "{ended:?}");
        assert!(!Path::new(&identity.path).exists());
        for below in ["", "/c", "/c/d"] {
            zk.prints(&format!("getacl {root}{below}"), "world:anyone:r\n");
        }
        import(&zk, root, &input).expect_failure(1, says);
    }
}

#[test]
fn import_of_lists_of_somebody_else_is_repeated() {
    let Some(zk) = zk_that_opens_lists("import-hers") else { return };
    let alice = zk.clone().option("--auth", "digest:alice:sesame");
    let bob = zk.option("--auth", "digest:bob:sesame");
    for path in ["/from", "/from/c", "/from/c/d", "/from/e"] {
        alice.ok(&["create", path, path, "--acl", "auth::cdrwa"]);
    }
    let exported = alice.ok("export /from");
    let half = exported.replace("{\"nodes\":4}", "{}");
    let ended = import(&bob, "/copy", &half);
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    // Bob may read and write the nodes that his import has left open.
    let other = half.replace("\"/from/c\"", "\"new\"");
    let ended = import(&bob, "/copy --overwrite", &other);
    assert!(ended.stderr.contains("line 5: no text `path`"), "{ended:?}");
    bob.prints("get /copy/c", "new");

    let exported = exported.replace("\"/from/c\"", "\"new\"");
    let ended = import(&bob, "/copy", &exported);
    assert_eq!(ended.stdout, "4 nodes imported, 4 of which existed\n", "{ended:?}");
    let says = "zk: /copy/c/d exists and is not compared: no permission to read it\n\
                zk: 1 of the existing nodes are not compared: no permission to read them\n";
    assert_eq!((ended.code(), &*ended.stderr), (Some(0), says), "{ended:?}");
    alice.prints("export /copy", &exported);
    let again = import(&bob, "/copy --json", &exported);
    assert!(again.stdout.contains("\"unread\":4"), "{again:?}");
    let again = import(&bob, "/copy --overwrite", &exported);
    assert_eq!(again.code(), Some(1), "{again:?}");
    assert!(again.stderr.contains("4 of the existing nodes are not replaced"), "{again:?}");
}

/// An entry of somebody else, or one with other permissions, is no rest of an import.
#[test]
fn import_keeps_lists_with_entries_that_it_has_not_added() {
    let Some(zk) = zk("import-entries") else { return };
    zk.ok("create /from");
    zk.ok("setacl /from world:anyone:ra");
    let lines = zk.ok("export /from");
    for entry in ["ip:127.0.0.9:ca", "ip:127.0.0.9:crwa", "ip:127.0.0.1:ca"] {
        zk.ok("create /to");
        zk.ok(&["setacl", "/to", "world:anyone:ra", entry]);
        let ended = import(&zk, "/to", &lines);
        assert!(ended.stderr.contains("/to keeps another access control list"), "{ended:?}");
        zk.prints("getacl /to", &format!("world:anyone:ra\n{entry}\n"));
        zk.ok("delete /to");
    }
}

#[test]
fn lists_of_existing_nodes_are_compared_and_overwritten() {
    let Some(zk) = zk("import-lists") else { return };
    for path in ["/from/a", "/from/b", "/to/a", "/to/b"] {
        zk.ok(&["create", path, "--parents"]);
    }
    zk.ok("setacl /from/a world:anyone:r ip:127.0.0.1:cdrwa");
    let lines = zk.ok("export /from");
    let ended = import(&zk, "/to", &lines);
    assert_eq!(ended.stdout, "3 nodes imported, 3 of which existed\n", "{ended:?}");
    let says = "zk: /to/a keeps another access control list than in the input\n\
                zk: 1 of the existing nodes keep other access control lists; see --overwrite\n";
    assert_eq!(ended.stderr, says);
    let json = import(&zk, "/to --json", &lines);
    let told = "{\"created\":0,\"imported\":3,\"other_acl\":1,\"unread\":0}\n";
    assert_eq!(json.stdout, told, "{json:?}");
    let ended = import(&zk, "/to --overwrite", &lines);
    assert_eq!((ended.code(), &*ended.stderr), (Some(0), ""), "{ended:?}");
    zk.prints("export /to", &lines);
}
