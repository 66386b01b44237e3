//! TLS against peers that lie.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use zk_session::{Config, TlsFailure};

use crate::{connect, failure, trusting};

/// Starts a peer that sends these bytes to every connection, and closes it.
async fn liar(says: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut greeting = [0; 5];
            let _ = stream.read_exact(&mut greeting).await;
            let _ = stream.write_all(says).await;
            // The rest of the greeting is read, so that the close is no reset.
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        }
    });
    address
}

#[tokio::test]
async fn lying_peers_are_refused_with_their_own_words() {
    for (says, expected) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], TlsFailure::NotSpoken),
        // Alerts of TLS: handshake_failure, protocol_version.
        (&[0x15, 3, 3, 0, 2, 2, 40], TlsFailure::NothingInCommon),
        (&[0x15, 3, 3, 0, 2, 2, 70], TlsFailure::NothingInCommon),
    ] {
        let to = liar(says).await.to_string();
        assert_eq!(failure(connect(&to, trusting("ca.pem")).await), expected);
    }
    // The alert internal_error.
    let to = liar(&[0x15, 3, 3, 0, 2, 2, 80]).await.to_string();
    let config = Config::new(&to).unwrap().refused_timeout(Duration::ZERO);
    let error = config.connector(trusting("ca.pem").build().unwrap()).connect().await.unwrap_err();
    assert!(error.to_string().contains("the alert InternalError"), "{error}");
}

/// A close with unread bytes is a reset.
#[tokio::test]
async fn peer_that_resets_the_handshake_has_closed_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read_exact(&mut [0; 5]).await;
        }
    });
    let config = Config::new(&to).unwrap().refused_timeout(Duration::ZERO);
    let error = config.connector(trusting("ca.pem").build().unwrap()).connect().await.unwrap_err();
    assert!(error.to_string().contains(&TlsFailure::ClosedByServer.to_string()), "{error}");
}
