//! Tests of the features of a server, as a client detects them.

use zk_session::{CreateMode, ErrorCode};
use zk_testing::{Op, Settings, TestServer, Version};

use crate::in_memory::client_of;

#[tokio::test(start_paused = true)]
async fn events_have_zxids_from_servers_since_3_9() {
    for (version, expected) in [(Version::V3_8, false), (Version::V3_9, true)] {
        let server = TestServer::in_memory_with(Settings::new().version(version));
        let client = client_of(&server, 0).await;
        let again = server.on(Op::CheckWatches).nth(2).never_answer();
        for _ in 0..3 {
            assert_eq!(client.events_have_zxids().await, expected, "{version:?}");
        }
        assert_eq!(again.count(), 0, "the answer is kept");
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_server_feature_counts_as_missing_until_answered() {
    let server = TestServer::in_memory_with(Settings::new().version(Version::V3_9));
    let client = client_of(&server, 0).await;
    server.on(Op::CheckWatches).answer(ErrorCode::NO_AUTH);
    assert!(!client.events_have_zxids().await);
    assert!(client.events_have_zxids().await, "the next call asks again");
    for code in [ErrorCode::MARSHALLING_ERROR, ErrorCode::UNIMPLEMENTED] {
        let client = client_of(&server, 0).await;
        server.on(Op::CheckWatches).answer(code);
        assert!(!client.events_have_zxids().await);
        assert!(!client.events_have_zxids().await, "{code}: the answer is kept");
    }
}

#[tokio::test(start_paused = true)]
async fn client_works_with_every_server_that_has_create2() {
    for version in Version::ALL.into_iter().filter(|version| version.has_op(Op::Create2)) {
        let server = TestServer::in_memory_with(Settings::new().version(version));
        let client = client_of(&server, 0).await;
        client.create("/a", b"", CreateMode::Persistent).await.unwrap();
        let number = client.create("/a/n-", b"", CreateMode::EphemeralSequential).await.unwrap();
        assert_eq!(number.path, "/a/n-0000000000", "{version:?}");
        assert_eq!(client.get_children("/a").await.unwrap().names.len(), 1);
        client.close().await;
        assert!(
            server.with(|ensemble| ensemble.tree().node("/a").unwrap().children().count() == 0)
        );
    }
}
