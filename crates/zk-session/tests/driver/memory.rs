//! Memory of an idle session, counted. The server answers in place, so that all memory that is counted
//! belongs to the client.

use allocation_counter::measure;
use bytes::Bytes;
use tokio::runtime::{Builder, Runtime};

use super::*;
use crate::in_place::InPlace;

/// Of a session, including its driver, its events and its share of the runtime.
const IDLE_BYTES_MAX: i64 = 24 * 1024;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// Sets the data of the node this often, and waits for all answers.
async fn set(client: &Client, times: usize, data: &[u8]) {
    let written: Vec<_> = (0..times).map(|_| client.set_data("/n", data, None)).collect();
    for answer in written {
        answer.await.unwrap();
    }
}

#[test]
fn idle_session_memory_is_bounded_after_a_burst() {
    const SESSIONS: i64 = 50;
    let runtime = runtime();
    let mut clients = Vec::with_capacity(SESSIONS.try_into().unwrap());
    let data = Bytes::from(vec![7; 200_000]);
    let held = measure(|| {
        for _ in 0..SESSIONS {
            clients.push(runtime.block_on(async {
                let network = InPlace::new();
                network.server().script.data = data.clone();
                let client = network.client().await;
                set(&client, 4, &data).await;
                assert_eq!(client.get_data("/n").await.unwrap().data, data);
                // Several requests in one write, whose buffer grows with room to spare.
                set(&client, 8, &data[..12_000]).await;
                set(&client, 1, b"").await;
                tokio::time::sleep(T).await; // reason: idle, with a few pings
                assert!(client.is_connected());
                client
            }));
        }
    });
    let each = held.bytes_current / SESSIONS;
    println!("{each} bytes for an idle session");
    assert!(each <= IDLE_BYTES_MAX, "{each} bytes");
    assert!(each > 1000, "{each}: something was counted");
}

#[test]
fn small_node_data_does_not_keep_the_read_buffer() {
    const KEPT: i64 = 1000;
    let (runtime, network) = (runtime(), InPlace::new());
    network.server().script.data = Bytes::from_static(b"0123456789");
    let client = runtime.block_on(network.client());
    runtime.block_on(set(&client, 1, b"0123456789"));
    let mut kept = Vec::with_capacity(KEPT.try_into().unwrap());
    let held = measure(|| {
        for _ in 0..KEPT {
            kept.push(runtime.block_on(client.get_data("/n")).unwrap());
        }
    });
    let each = held.bytes_current / KEPT;
    assert!(each < 256, "{each} bytes are kept for 10 bytes of data");
}
