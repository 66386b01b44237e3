//! Tests of the command when servers reject its credentials, and of its messages then.

use std::time::Duration;

use serde_json::Value;
use zk_testing::{Cut, ErrorCode, Op, Settings, TestServer};
use zk_tests::{Scratch, Zk};

async fn start(settings: Settings) -> (TestServer, Zk) {
    let settings = settings.tick_time(Duration::from_millis(200));
    let server = TestServer::start_with(settings).await.unwrap();
    let zk = Zk::new(server.connect_string()).session_timeout(Duration::from_secs(4));
    (server, zk)
}

/// Starts a server, and returns the command as its user.
async fn start_as_alice() -> (TestServer, Zk) {
    let (server, zk) = start(Settings::new().sasl_user("alice", "sesame")).await;
    (server, zk.option("--sasl", "alice").env("ZK_SASL_PASSWORD", "sesame"))
}

#[tokio::test(flavor = "multi_thread")]
async fn registration_ends_with_its_credentials() {
    let (server, zk) = start_as_alice().await;
    let mut kept = zk.hold("register /r");
    // The first token is empty, and the second one is the proof.
    server.on(Op::Sasl).nth(2).answer(ErrorCode::AUTH_FAILED);
    server.connections().cut(Cut::Rst);
    let says = "/r: the node is not kept any longer: the server rejected the credentials, or has no \
                key for its own Kerberos principal (the request was not applied) (presented: sasl as \
                alice)\n";
    kept.notes(says);
    assert!(!kept.has_ended(), "the command runs on");
    kept.end_input();
    let ended = kept.ends(1);
    // The state between, that the node is lost, may be over before it is read.
    let lines = ended.stderr.lines().filter(|line| !line.contains("creating it again"));
    assert_eq!(lines.count(), 2, "{ended:?}");
    assert!(!ended.stderr.contains("closed"), "{ended:?}");
    assert_eq!(ended.stderr.matches("rejected the credentials").count(), 1, "{ended:?}");
    assert!(ended.stderr.contains("zk: /r: the command ended without its node"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn registration_without_credentials_fails_with_one_line() {
    let (_server, zk) = start(Settings::new().require_auth(["sasl"])).await;
    let ended = zk.run("register /r -- true");
    ended.expect_failure(1, "requires authentication");
    ended.expect_failure(1, "without credentials; see --auth");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_lock_is_reported_with_the_cause_of_failed_reconnects() {
    let (server, zk) = start_as_alice().await;
    let held = zk.hold("-v lock /l");
    server.on(Op::Sasl).always().answer(ErrorCode::UNIMPLEMENTED);
    server.connections().cut(Cut::Rst);
    let ended = held.ends(74);
    let cause = "the server ended the SASL exchange: Unimplemented";
    let says =
        |text: &str| ended.stderr.lines().any(|line| line.contains(text) && line.contains(cause));
    assert!(says("not connected: "), "{ended:?}");
    assert!(says("the lock was lost: "), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_tells_a_rejection_from_a_lost_majority() {
    let (_server, nobody) = start(Settings::new().require_auth(["sasl"])).await;
    let (_other, alice) = start_as_alice().await;
    let wrong = alice.env("ZK_SASL_PASSWORD", "wrong");
    for (zk, says) in [(nobody, "requires authentication"), (wrong, "rejected the credentials")] {
        let ended = zk.run("doctor --json");
        assert_eq!(ended.code(), Some(69), "{ended:?}");
        let found: Vec<Value> =
            ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let told =
            found.iter().filter(|finding| finding["finding"].as_str().unwrap().contains(says));
        assert_eq!(told.count(), 1, "{found:#?}");
        let last = found.last().unwrap();
        assert!(last["majority"].is_null(), "{last}");
        assert!(last["finding"].as_str().unwrap().contains("do not accept each other"), "{last}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_do_not_get_the_secrets() {
    let (_server, zk) = start_as_alice().await;
    let zk = zk.env("ZK_AUTH", "digest:alice:sesame");
    let script = "echo ${ZK_AUTH-none} ${ZK_SASL_PASSWORD-none} $ZK_LOCK_NODE$ZK_NODE";
    for command in ["lock", "register"] {
        let path = format!("/{command}");
        let printed = zk.ok(&[command, &path, "--", "sh", "-c", script]);
        assert!(printed.starts_with(&format!("none none {path}")), "{command}: {printed}");
    }
    // Without secrets, a command gets no word of them.
    let (_other, zk) = start(Settings::new()).await;
    zk.prints("lock /l -- sh -c 'echo ${ZK_SECRETS_REMOVED-none}'", "none\n");
}

/// A command that calls `zk` finds it without the credentials of the `zk` that runs the command.
#[tokio::test(flavor = "multi_thread")]
async fn denial_names_the_secrets_kept_from_the_command() {
    let settings = Settings::new().sasl_user("alice", "sesame").require_auth(["digest", "sasl"]);
    let (_server, zk) = start(settings).await;
    let kept =
        |name: &str| format!("zk keeps {name} from the commands that it runs: use {name}_FILE");
    let (auth, password) = (kept("ZK_AUTH"), kept("ZK_SASL_PASSWORD"));
    let run = |command: &str, environment: &[(&str, &str)]| {
        let mut shell = zk.shell(&format!("zk lock /l -- sh -c '{command}' 2>&1 || :"));
        shell.envs(environment.iter().copied());
        String::from_utf8(shell.output().unwrap().stdout).unwrap()
    };
    let digest = [("ZK_AUTH", "digest:alice:sesame")];
    assert_eq!(run("echo $ZK_SECRETS_REMOVED", &digest), "ZK_AUTH\n");
    let told = run("zk ls /", &digest);
    assert!(told.contains("requires authentication"), "{told}");
    assert!(told.contains(&format!("(without credentials; {auth})")), "{told}");
    let told = run("zk --auth digest:alice:sesame lock /m -- zk ls /", &digest);
    assert!(told.contains(&auth), "{told}");
    let told = run("zk --auth digest:bob:sesame get /l", &digest);
    assert_eq!(told, "", "the command has credentials of its own");
    let alice = [("ZK_SASL_USER", "alice"), ("ZK_SASL_PASSWORD", "sesame")];
    let told = run("zk ls /", &alice);
    assert!(told.contains("--sasl needs") && told.contains(&password), "{told}");
    let told = run("unset ZK_SASL_USER; zk ls /", &alice);
    assert!(told.contains(&format!("(without credentials; {password})")), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_nodes_are_reported_with_what_was_presented() {
    let (_server, zk) = start(Settings::new()).await;
    zk.ok("create /a/hers --parents");
    zk.ok("setacl /a/hers world:anyone:c");
    let bob = zk.option("--auth", "digest:bob:sesame");
    for line in ["tree /a", "ls -R /a", "find /a"] {
        let ended = bob.run(line);
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        let says = "children of 1 of the nodes, such as /a/hers (presented: digest as bob)";
        assert!(ended.stderr.contains(says), "{ended:?}");
    }
    bob.fails("export /a", 1, "such as /a/hers: the export would not be");
    bob.fails("export /a", 1, "presented: digest as bob");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_list_names_what_was_presented() {
    let (_server, zk) = start(Settings::new()).await;
    let kept = zk.env("ZK_SECRETS_REMOVED", "ZK_AUTH");
    for line in [
        "create /n --acl auth::cdrwa",
        "lock /l --acl auth::cdrwa -- true",
        "lock /r --read --acl auth::cdrwa -- true",
        "elect /e --acl auth::cdrwa -- true",
        "semaphore /s --permits 1 --acl auth::cdrwa -- true",
        "multilock /m /n --acl auth::cdrwa -- true",
        "register /s --acl auth::cdrwa -- true",
        "barrier /b --set --acl auth::cdrwa",
    ] {
        let ended = kept.fails(line, 1, "(auth:: without credentials, or ");
        ended.expect_failure(1, "; without credentials; zk keeps ZK_AUTH from the commands");
    }
}

#[test]
fn unusable_sasl_options_are_refused_before_a_connection() {
    let scratch = Scratch::new();
    let (empty, latin) = (scratch.path("empty"), scratch.path("latin"));
    std::fs::write(&empty, "\n").unwrap();
    std::fs::write(&latin, [0xff, 0xfe]).unwrap();
    let zk = Zk::new("127.0.0.2:1");
    for (file, reason) in [(&empty, "the password is empty"), (&latin, "not UTF-8")] {
        let file = file.to_str().unwrap();
        let ended = zk.run(&["--sasl", "alice", "--sasl-password-file", file, "ls", "/"]);
        ended.expect_failure(1, reason);
        assert!(ended.stderr.contains(file), "{ended:?}");
    }
    let nobody = zk.env("ZK_SASL_PASSWORD", "sesame").run("--sasl '' ls /");
    nobody.expect_failure(64, "--sasl needs the name of a user");
}
