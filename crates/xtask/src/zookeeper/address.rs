//! Addresses on loopback that no other process uses.
//!
//! The servers of a test process listen at an address from 127.64.0.1 up that the process id
//! spells, and on ports that are counted up. Against `127.0.0.1` and ports picked by the kernel
//! this has three merits: two test processes cannot collide; the port of a killed server stays free
//! until its restart, because outgoing connections on loopback start at 127.0.0.1; and for the same
//! reason a client that retries while its server is down cannot connect to itself, as it will
//! sooner or later on a port from the ephemeral range.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

use super::Error;

/// Takes the next free port at the address of this process.
pub(super) fn next() -> Result<SocketAddrV4, Error> {
    let host = host_of(process::id());
    for _ in FIRST_PORT..LAST_PORT {
        let port = NEXT_PORT
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |port| {
                Some(if port >= LAST_PORT { FIRST_PORT } else { port + 1 })
            })
            .unwrap_or(FIRST_PORT);
        let address = SocketAddrV4::new(host, port);
        // Passes over ports that somebody holds on all addresses, and own servers after a wrap.
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err(Error::failed(format!("no free port at {host}")))
}

/// Process ids on Linux have at most 22 bits. The last number is never 0 or 255: Java takes an
/// address that ends in 255 for that of a broadcast and does not listen on it.
fn host_of(pid: u32) -> Ipv4Addr {
    let (rest, low) = (pid / 254, pid % 254 + 1);
    let [_, high, middle, _] = (rest << 8).to_be_bytes();
    let [_, _, _, low] = low.to_be_bytes();
    Ipv4Addr::new(127, 64 + (high & 127), middle, low)
}

static NEXT_PORT: AtomicU16 = AtomicU16::new(FIRST_PORT);

/// Below the ephemeral range of Linux (32768 and up).
const FIRST_PORT: u16 = 20_000;
const LAST_PORT: u16 = 32_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_spells_the_process_id() {
        assert_eq!(host_of(1), Ipv4Addr::new(127, 64, 0, 2));
        assert_eq!(host_of(254), Ipv4Addr::new(127, 64, 1, 1));
        let hosts: std::collections::BTreeSet<_> = (0..1 << 22).map(host_of).collect();
        assert_eq!(hosts.len(), 1 << 22, "no two processes share one");
        assert!(
            hosts.iter().all(|host| host.is_loopback() && !matches!(host.octets()[3], 0 | 255))
        );
    }

    #[test]
    fn two_calls_give_two_ports() {
        let (one, two) = (next().unwrap(), next().unwrap());
        assert_eq!(one.ip(), two.ip());
        assert_ne!(one.port(), two.port());
    }
}
