//! Loopback addresses that no other process uses.
//!
//! The servers of a test process listen at an address from 127.64.0.1 up, which encodes the process id. Their
//! ports are counted up. Compared with `127.0.0.1` and ports of the kernel's choice, this has three
//! advantages:
//!
//! * Two test processes cannot collide.
//! * The port of a killed server stays free until its restart, because outgoing connections on loopback start
//!   at 127.0.0.1.
//! * For the same reason, a client that retries while its server is down cannot connect to itself. On a port
//!   of the ephemeral range this happens sooner or later.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

use super::Error;

/// Returns the next free port at the address of this process.
pub(super) fn next() -> Result<SocketAddrV4, Error> {
    let host = host_of(process::id());
    for _ in FIRST_PORT..LAST_PORT {
        let port = NEXT_PORT
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |port| {
                Some(if port >= LAST_PORT { FIRST_PORT } else { port + 1 })
            })
            .unwrap_or(FIRST_PORT);
        let address = SocketAddrV4::new(host, port);
        // Skips ports that another process uses on all addresses, and ports of own servers after a wrap.
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err(Error::failed(format!("no free port at {host}")))
}

/// Returns the address for a process id, which has at most 22 bits on Linux.
///
/// The last number is never 0 or 255. Java treats an address that ends in 255 as a broadcast address and does
/// not listen on it.
fn host_of(pid: u32) -> Ipv4Addr {
    let (rest, low) = (pid / 254, pid % 254 + 1);
    let [_, high, middle, _] = (rest << 8).to_be_bytes();
    let [_, _, _, low] = low.to_be_bytes();
    Ipv4Addr::new(127, 64 + (high & 127), middle, low)
}

static NEXT_PORT: AtomicU16 = AtomicU16::new(FIRST_PORT);

/// The ports are below the ephemeral range of Linux (32768 and up).
const FIRST_PORT: u16 = 20_000;
const LAST_PORT: u16 = 32_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_encodes_the_process_id() {
        assert_eq!(host_of(1), Ipv4Addr::new(127, 64, 0, 2));
        assert_eq!(host_of(254), Ipv4Addr::new(127, 64, 1, 1));
        let hosts: std::collections::BTreeSet<_> = (0..1 << 22).map(host_of).collect();
        assert_eq!(hosts.len(), 1 << 22, "no two processes share one");
        assert!(
            hosts.iter().all(|host| host.is_loopback() && !matches!(host.octets()[3], 0 | 255))
        );
    }

    #[test]
    fn consecutive_ports_differ() {
        let (one, two) = (next().unwrap(), next().unwrap());
        assert_eq!(one.ip(), two.ip());
        assert_ne!(one.port(), two.port());
    }
}
