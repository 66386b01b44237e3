//! Questions to name servers.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::message::{Answer, Name, Response, parse, question};

/// Asks the name servers, or those of the system, until one answers.
pub(crate) async fn ask(name: &Name, name_servers: &[SocketAddr]) -> io::Result<Answer> {
    let of_system;
    let servers = if name_servers.is_empty() {
        of_system = system_name_servers();
        &of_system[..]
    } else {
        name_servers
    };
    let mut last = io::Error::from(io::ErrorKind::TimedOut);
    for server in servers.iter().cycle().take(ATTEMPTS.max(servers.len())) {
        let asked = timeout(ATTEMPT_TIMEOUT, ask_one(name, *server)).await;
        last = match asked {
            Ok(Ok(Response::Found(answer))) => return Ok(answer),
            Ok(Ok(Response::NoService(why))) => {
                return Err(io::Error::new(io::ErrorKind::NotFound, why));
            }
            Ok(Ok(Response::Failed(code))) => {
                io::Error::other(format!("the name server {server} failed with code {code}"))
            }
            Ok(Ok(_)) => {
                let why = format!("the answer of the name server {server} is malformed");
                io::Error::new(io::ErrorKind::InvalidData, why)
            }
            Ok(Err(error)) => {
                io::Error::new(error.kind(), format!("the name server {server} failed: {error}"))
            }
            Err(_) => {
                let why = format!("the name server {server} did not answer");
                io::Error::new(io::ErrorKind::TimedOut, why)
            }
        };
    }
    Err(last)
}

/// Asks one name server over UDP; over TCP if the answer is too long.
async fn ask_one(name: &Name, server: SocketAddr) -> io::Result<Response> {
    let any = match server.ip() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    // A random port, and only packets from the server: the rest of what an answer must guess is the id.
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    let id = random_id();
    socket.send(&question(id, name)).await?;
    let mut packet = [0; PACKET_MAX];
    loop {
        let len = socket.recv(&mut packet).await?;
        match parse(&packet[..len], id, name) {
            Response::Unrelated => {}
            Response::Truncated => return ask_over_tcp(name, server).await,
            response => return Ok(response),
        }
    }
}

async fn ask_over_tcp(name: &Name, server: SocketAddr) -> io::Result<Response> {
    let mut stream = TcpStream::connect(server).await?;
    let id = random_id();
    let question = question(id, name);
    let len = u16::try_from(question.len()).map_err(io::Error::other)?;
    stream.write_all(&[&len.to_be_bytes(), &question[..]].concat()).await?;
    let mut answer = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut answer).await?;
    Ok(parse(&answer, id, name))
}

/// Returns the name servers of the operating system.
fn system_name_servers() -> Vec<SocketAddr> {
    let servers = std::fs::read_to_string(RESOLV_CONF).map(|text| name_servers_of(&text));
    // The default of resolv.conf(5).
    servers
        .ok()
        .filter(|servers| !servers.is_empty())
        .unwrap_or_else(|| vec![SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))])
}

fn name_servers_of(text: &str) -> Vec<SocketAddr> {
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        let is_one = words.next() == Some("nameserver");
        let address: IpAddr = words.next().filter(|_| is_one)?.parse().ok()?;
        Some(SocketAddr::new(address, PORT))
    };
    text.lines().filter_map(of_line).take(NAME_SERVERS_MAX).collect()
}

/// Returns a random number. The standard library seeds its hash maps from the operating system; the process
/// id distinguishes a forked child.
pub(crate) fn random() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish()
}

fn random_id() -> u16 {
    let [high, low, ..] = random().to_be_bytes();
    u16::from_be_bytes([high, low])
}

const RESOLV_CONF: &str = "/etc/resolv.conf";
const PORT: u16 = 53;
/// As many as resolv.conf(5) has.
const NAME_SERVERS_MAX: usize = 3;
/// Questions to all name servers together, at least: a packet may be lost.
const ATTEMPTS: usize = 3;
/// Time limit of a question to one name server. That of all is within
/// [`DISCOVERY_TIMEOUT`](zk_session::limits::DISCOVERY_TIMEOUT).
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(1_500);
/// Longer than any packet that was not asked for with EDNS.
const PACKET_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_are_those_of_resolv_conf() {
        let text = "# nameserver 10.0.0.9\nsearch a.b\n nameserver 10.0.0.1 \nnameserver ::1\n\
                    nameserver x\nnameserver\nnameservers 10.0.0.3\nnameserver 10.0.0.4\nnameserver 10.0.0.5";
        let expected = ["10.0.0.1:53", "[::1]:53", "10.0.0.4:53"];
        assert_eq!(name_servers_of(text), expected.map(|address| address.parse().unwrap()));
    }

    #[test]
    fn attempts_end_within_the_time_of_a_discovery() {
        let attempts = u32::try_from(ATTEMPTS.max(NAME_SERVERS_MAX)).unwrap();
        assert!(ATTEMPT_TIMEOUT * attempts < zk_session::limits::DISCOVERY_TIMEOUT);
    }

    /// An id that can be guessed makes forged answers easy.
    #[test]
    fn ids_differ() {
        let ids: std::collections::BTreeSet<u16> = (0..100).map(|_| random_id()).collect();
        assert!(ids.len() > 90, "{ids:?}");
    }
}
