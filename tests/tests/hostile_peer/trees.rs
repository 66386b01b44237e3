//! Commands that walk over a tree, at a server that invents nodes without end.

use zk_tests::Zk;

use crate::liar::{self, Lie};
use crate::{MEMORY_MAX_KIB, SESSION_TIMEOUT};

const WALKS: [&[&str]; 10] = [
    &["ls", "/", "--recursive"],
    &["find", "/", "--name", "x"],
    &["find", "/", "--contains", "x"],
    &["ephemerals", "/"],
    &["export", "/"],
    &["tree", "/", "--depth", "500"],
    &["top", "/", "--count", "1"],
    &["watch", "/", "--recursive"],
    &["delete", "/a", "--recursive"],
    &["setacl", "/a", "world:anyone:r", "--recursive"],
];

#[test]
fn walk_over_an_endless_tree_ends_with_a_way_out() {
    let full = "its paths take 8 MiB; raise --tree-limit, or name a node further down";
    let short_names = Lie { names: vec!["a".to_owned(); 100_000], ..Lie::endless(1) };
    for (lie, limit, advice) in [
        (Lie::endless(1), "8", "more than 1000 levels; name a node further down"),
        (Lie::endless(1_000), "8", full),
        (short_names, "8", full),
    ] {
        let children = lie.names.len();
        let address = liar::start(lie);
        for walk in WALKS {
            // A drawing ends at its depth.
            if walk[0] == "tree" && children == 1 {
                continue;
            }
            let zk = Zk::new(address.to_string()).option("--tree-limit", limit);
            let zk = zk.session_timeout(SESSION_TIMEOUT * 10).data_limit_kib(2 * MEMORY_MAX_KIB);
            let ended = zk.run(walk);
            assert_eq!(ended.code(), Some(1), "{walk:?}: {ended:?}");
            assert!(ended.stderr.contains(advice), "{walk:?}: {}", ended.stderr);
            assert_eq!(ended.stdout, "", "{walk:?}");
        }
    }
}
