//! Tests of the options for secured ensembles, and of the commands for access control lists.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use xtask::zookeeper::certificate;
use zk_testing::{ErrorCode, Op, TestServer};
use zk_tests::{Scratch, Settings, Zk, poll, shared_zookeeper, zookeeper_with};

use crate::{LIMIT, expect_identity, expect_refused, own_zk, zk};

const ALICE: &str = "digest:alice:sesame";

#[test]
fn created_node_is_for_those_with_the_credential() {
    let Some(zk) = zk("credentials") else { return };
    let alice = zk.clone().env("ZK_AUTH", ALICE);
    alice.ok("create /a/b hers --acl auth::cdrwa --parents");
    alice.prints("get /a/b", "hers");
    zk.clone().option("--auth", ALICE).prints("get /a/b", "hers");
    // An orchestrator hands on a secret with the newline at its end, and a shell without it.
    for end in ["\n", "\r\n"] {
        zk.clone().env("ZK_AUTH", format!("{ALICE}{end}")).prints("get /a/b", "hers");
    }
    for path in ["/a/b", "/a"] {
        let nobody = zk.run(&["get", path]);
        nobody.expect_failure(1, "NoAuth");
        nobody.expect_failure(1, "without credentials; see --auth");
    }
    let bob = zk.option("--auth", "digest:bob:sesame").fails(
        "set /a/b his",
        1,
        "presented: digest as bob",
    );
    assert!(!bob.stderr.contains("sesame"), "{bob:?}");
}

#[test]
fn parents_that_exist_need_no_permission_to_create_them() {
    let Some(zk) = zk("protected-parents") else { return };
    let alice = zk.clone().env("ZK_AUTH", ALICE);
    alice.ok("create /app --acl auth::cdrwa");
    zk.ok("setacl / world:anyone:ra");
    alice.ok("create /app/a/b --parents");
    zk.ok("setacl / world:anyone:cdrwa");
}

#[test]
fn credentials_are_read_from_a_file() {
    let Some(zk) = zk("credential-file") else { return };
    let scratch = Scratch::new();
    let file = scratch.path("credentials");
    std::fs::write(&file, format!("# for the shop\n\n{ALICE}\ndigest:bob:sesame\n")).unwrap();
    let both = zk.clone().option("--auth-file", file.to_str().unwrap());
    for identity in ["digest:alice", "digest:bob"] {
        expect_identity(&both, shared_zookeeper().unwrap(), identity);
    }
    zk.clone().option("--auth-file", "/dev/zero").fails("whoami", 1, "/dev/zero: more than");
    zk.clone().option("--auth-file", "/none").fails("whoami", 1, "cannot read /none");
    // A file with a secret that all can read is noted.
    let file = file.to_str().unwrap();
    let noted = |mode: u32| {
        std::fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
        zk.clone().option("--auth-file", file).run("ls /").stderr
    };
    assert_eq!(noted(0o640), "");
    let says = format!("zk: {file}: all users of this machine can read it: chmod o= it\n");
    assert_eq!(noted(0o644), says);
}

/// Expects that the nodes are Alice's alone.
fn expect_hers(alice: &Zk, paths: &[&str]) {
    for path in paths {
        let printed = alice.ok(&["getacl", path]);
        assert!(printed.starts_with("digest:alice:"), "{path}: {printed}");
    }
}

#[test]
fn commands_create_their_nodes_with_the_list() {
    let Some(zk) = zk("lists-of-all") else { return };
    let alice = zk.clone().env("ZK_AUTH", ALICE);
    for (line, nodes, denied) in [
        ("lock /mutex -- true", &["/mutex"][..], ""),
        ("lock /rw --write -- true", &["/rw"], ""),
        ("semaphore /semaphore --permits 1 -- true", &["/semaphore"], ""),
        ("multilock /multi -- true", &["/multi"], ""),
        ("elect /election -- true", &["/election"], ""),
        ("counter /c/n --add 1 --once a", &["/c", "/c/n", "/c/n/operation-a"], ""),
        ("counter /i/n --integer --set 1", &["/i", "/i/n"], ""),
        ("barrier /b/migration --set", &["/b", "/b/migration"], "barrier /b/migration --remove"),
        ("set /s hers --create", &["/s"], "get /s"),
        ("txn 'create /t x' 'create /t/b y'", &["/t", "/t/b"], "get /t/b"),
    ] {
        let (options, command) = line.split_at(line.find(" -- ").unwrap_or(line.len()));
        alice.ok(&format!("{options} --acl auth::cdrwa{command}"));
        expect_hers(&alice, nodes);
        let denied = if denied.is_empty() { line } else { denied };
        zk.fails(denied, 1, "without credentials");
    }
    alice.prints("get /s", "hers");
    expect_refused("set /a x --acl world:anyone:r", "--create");

    let kept = alice.hold("register /r/a --acl auth::cdrwa");
    expect_hers(&alice, &["/r", "/r/a"]);
    zk.fails("delete /r/a", 1, "without credentials");
    kept.finish();
    alice.prints("ls /r", "");

    let bench = alice.start("bench /bench/m --seconds 60 --acl auth::cdrwa");
    let root = poll(LIMIT, || {
        let below = alice.run("ls /bench -R").stdout;
        below.lines().find_map(|path| path.strip_suffix("/data").map(str::to_owned))
    });
    let root = root.expect("no nodes");
    expect_hers(&alice, &["/bench", "/bench/m", &root, &format!("{root}/data")]);
    bench.signal("INT");
    assert_eq!(bench.wait(LIMIT).signal(), Some(2));
}

#[test]
fn access_control_lists_are_printed_and_replaced() {
    let Some(zk) = zk("lists") else { return };
    zk.ok("create /a");
    zk.prints("getacl /a", "world:anyone:cdrwa\n");
    let alice = zk.clone().option("--auth", ALICE);
    alice.prints("setacl /a auth::cdrwa world:anyone:r", "");
    let printed = alice.ok("getacl /a");
    let [hers, all] = printed.lines().collect::<Vec<_>>()[..] else { panic!("{printed}") };
    assert!(hers.starts_with("digest:alice:") && hers.ends_with("=:cdrwa"), "{hers}");
    assert_eq!(all, "world:anyone:r");
    // The command accepts the entries that it prints.
    alice.prints(&["setacl", "/a", hers, all, "--version", "1"], "");
    alice.fails(&["setacl", "/a", hers, "--version", "1"], 1, "BadVersion");
    zk.fails("setacl /a world:anyone:cdrwa", 1, "NoAuth");
    zk.fails("setacl /a auth::r", 1, "InvalidACL");
    zk.fails("export /a", 1, "/a: no permission to read the hashes");
    assert!(alice.ok("export /a").contains("digest:alice:"));
    let json = zk.ok("getacl /a --json");
    assert!(json.contains(r#"{"id":"anyone","perms":"r","scheme":"world"}"#), "{json}");
}

#[test]
fn command_speaks_tls_with_a_certificate() {
    let settings = Settings::default().tls(&certificate("server.pem"), &certificate("ca.pem"));
    let Some(server) = zookeeper_with(&settings.config("ssl.clientAuth", "need")) else { return };
    let address = server.tls_address().unwrap();
    let over_tls = |zk: Zk| zk.option("--tls-name", "localhost");
    let file = |name: &str| certificate(name).to_str().unwrap().to_owned();
    let anonymous = over_tls(Zk::new(format!("tls://{address}")).env("ZK_CACERT", file("ca.pem")));
    let app = anonymous.clone().option("--cert", &file("client.pem"));
    let subject = "x509:O=example,OU=shop,CN=app";
    expect_identity(&app, &server, subject);
    let by_variables = Zk::new(format!("tls://{address}")).env("ZK_TLS_NAME", "localhost");
    let by_variables = by_variables.env("ZK_CACERT", file("ca.pem"));
    expect_identity(&by_variables.env("ZK_CERT", file("client.pem")), &server, subject);
    app.ok("lock /l --acl auth::cdrwa -- true");
    let plain = Zk::new(server.connect_string()).run("get /l");
    plain.expect_failure(1, "without credentials");
    anonymous.fails("ls /", 69, "certificate");
    let examined = app.ok("doctor");
    for text in [
        "ok       this client's certificate (--cert) expires in",
        "a certificate for localhost, 127.0.0.1; its chain expires in",
        "standalone",
    ] {
        assert!(examined.contains(text), "{text}: {examined}");
    }
    let expired = anonymous.option("--cert", &file("expired.pem")).run("doctor");
    assert!(expired.stdout.contains("(--cert) expired "), "{expired:?}");
    assert!(expired.stdout.ends_with("(1 of 1 servers)\n"), "{expired:?}");
    let stranger = over_tls(Zk::new(address.to_string()).option("--cacert", &file("other-ca.pem")));
    stranger.fails("ls /", 69, "authority");
    let examined = stranger.option("--cert", &file("client.pem")).run("doctor");
    assert_eq!(examined.code(), Some(69), "{examined:?}");
    assert!(examined.stdout.contains("of an unknown authority"), "{examined:?}");
    assert!(!examined.stdout.contains("no majority"), "{examined:?}");
}

#[test]
fn command_authenticates_by_sasl() {
    let settings = Settings::default().sasl_user("alice", "sesame");
    let Some(server) = zookeeper_with(&settings) else { return };
    let zk = Zk::new(server.connect_string());
    let alice = zk.clone().option("--sasl", "alice");
    let by_environment = alice.clone().env("ZK_SASL_PASSWORD", "sesame");
    expect_identity(&by_environment, &server, "sasl:alice");
    by_environment.ok("create /a hers --acl sasl:alice:cdrwa");
    let scratch = Scratch::new();
    let file = scratch.path("password");
    std::fs::write(&file, "sesame\n").unwrap();
    let by_file = alice.clone().option("--sasl-password-file", file.to_str().unwrap());
    by_file.prints("get /a", "hers");
    let doctor = by_environment.run("doctor");
    assert_eq!(doctor.code(), Some(1), "{doctor:?}");
    assert!(doctor.stdout.contains("SASL does not protect the requests"), "{doctor:?}");
    assert!(!doctor.stdout.contains("passwords"), "{doctor:?}");
    alice.env("ZK_SASL_PASSWORD", "open").fails("get /a", 1, "the server rejected the credentials");
    zk.fails("get /a", 1, "NoAuth");
}

#[test]
fn list_is_set_on_all_nodes_from_the_leaves_up() {
    let Some(zk) = own_zk("setacl-all") else { return };
    for path in ["/a/b/c", "/a/d", "/other"] {
        zk.ok(&["create", path, "--parents"]);
    }
    // After this, nobody may list or create anything, nor set a list.
    let told = zk.ok("setacl /a ip:127.0.0.9:cdrwa world:anyone:a -R --json");
    assert_eq!(told, "{\"nodes\":4,\"path\":\"/a\"}\n");
    for path in ["/a", "/a/b", "/a/b/c", "/a/d"] {
        zk.prints(&["getacl", path], "ip:127.0.0.9:cdrwa\nworld:anyone:a\n");
    }
    zk.prints("getacl /other", "world:anyone:cdrwa\n");
    zk.fails("setacl /a world:anyone:r -R", 1, "NoAuth");
    zk.ok("setacl /a world:anyone:cdrwa");
    let says = "children of 2 of the nodes, such as /a/b: no list was changed";
    zk.fails("setacl /a world:anyone:r --recursive", 1, says);
    let both = ["setacl", "/a", "world:anyone:r", "--recursive", "--version", "1"];
    expect_refused(&both, "--version");
}

#[test]
fn doctor_examines_servers_despite_an_unusable_certificate() {
    let scratch = Scratch::new();
    let cert = scratch.path("cert.pem");
    std::fs::write(&cert, "no certificate").unwrap();
    let zk = Zk::new("127.0.0.2:1").option("--cacert", certificate("ca.pem").to_str().unwrap());
    let ended = zk.option("--cert", cert.to_str().unwrap()).run("doctor");
    assert_eq!(ended.code(), Some(69), "{ended:?}");
    assert!(ended.stdout.contains("error    this client's certificate (--cert): "), "{ended:?}");
    assert!(ended.stdout.contains("error    127.0.0.2:1: "), "{ended:?}");
    assert!(ended.stdout.ends_with("(1 of 1 servers)\n"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn recursive_setacl_counts_the_changed_nodes() {
    let server = TestServer::start().await.unwrap();
    let zk = Zk::new(server.connect_string());
    zk.ok("create /a/b --parents");
    let lost = server.on(Op::SetAcl).apply_then_drop_reply();
    let told = zk.ok("setacl / world:anyone:cdrwa --recursive --json");
    assert_eq!((told.as_str(), lost.count()), ("{\"nodes\":3,\"path\":\"/\"}\n", 1));
    server.on(Op::SetAcl).nth(2).answer(ErrorCode::NO_AUTH);
    zk.fails("setacl /a world:anyone:r --recursive", 1, "NoAuth (-102); 1 of 2 nodes were changed");
}

#[test]
fn pipe_is_refused_where_files_are_read_again() {
    let zk = Zk::new("127.0.0.2:1");
    let pipe = "/dev/fd/0"; // standard input, as a shell's <(...) is a descriptor
    let by_pipe = zk.clone().option("--cacert", pipe);
    for zk in [by_pipe, zk.option("--sasl", "alice").option("--sasl-password-file", pipe)] {
        zk.fails("ls /", 1, "not a regular file");
    }
}

#[test]
fn empty_or_useless_variable_is_refused_by_name() {
    let zk = Zk::new("127.0.0.2:1");
    for name in ["ZK_AUTH", "ZK_CACERT", "ZK_TLS_NAME", "ZK_SASL_USER", "ZK_SASL_PASSWORD"] {
        let ended = zk.clone().env(name, "").run("ls /");
        ended.expect_failure(64, &format!("variable {name} is empty"));
    }
    let alice = zk.clone().option("--sasl", "alice");
    alice.env("ZK_SASL_PASSWORD", "\n").fails(
        "ls /",
        64,
        "the password in ZK_SASL_PASSWORD is empty",
    );
    let ended =
        zk.env("ZK_SASL_PASSWORD", "sesame").fails("ls /", 64, "ZK_SASL_PASSWORD needs --sasl");
    assert!(!ended.stderr.contains("sesame"), "{ended:?}");
}

#[test]
fn unusable_options_are_refused_before_connecting() {
    expect_refused("ls / --auth sesame", "SCHEME:CREDENTIAL");
    expect_refused("ls / --auth digest:alice", "digest:USER:PASSWORD");
    expect_refused("ls / --cert a.pem", "--cert needs --cacert");
    expect_refused("ls / --connect tcp://h --cacert f", "has no effect");
    expect_refused("ls / --connect tls://h", "tls:// needs --cacert");
    let file = |name: &str| certificate(name).to_str().unwrap().to_owned();
    let trusting = ["ls", "/", "--cacert", &file("ca.pem")];
    expect_refused(&[&trusting[..], &["--tls-name", "a b"]].concat(), "--tls-name");
    let (cert, key) = (file("client.pem"), file("server.pem"));
    let other_key = [&trusting[..], &["--cert", &cert, "--key", &key]].concat();
    let ended = Zk::new("127.0.0.2:1").run(&other_key);
    ended.expect_failure(1, "server.pem: the client's key does not fit its certificate");
    expect_refused("ls / --sasl alice", "ZK_SASL_PASSWORD");
    expect_refused("ls / --sasl-password-file f", "needs --sasl");
    expect_refused("create /a --acl world:anyone:rx", "letters of cdrwa");
    expect_refused("setacl /a", "SCHEME:ID:PERMS");
}

/// The files and hosts of the examples do not exist.
#[test]
fn commands_of_the_guide_are_understood() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/secured-ensembles.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let commands: Vec<&str> = blocks.flat_map(str::lines).collect();
    assert!(commands.len() > 5, "{commands:?}");
    let zk = Zk::new("127.0.0.2:1");
    for command in commands {
        let ended = zk.shell(command).output().unwrap();
        assert!(matches!(ended.status.code(), Some(1 | 69)), "{command}: {ended:?}");
    }
}
