//! The default data of a contender's node, which identifies the contender.

use std::fs;
use std::net::IpAddr;
use std::sync::OnceLock;

use zk_session::Client;

use crate::limits::CONTENDER_NAME_MAX;

/// Identity of a contender, from the default data of its node.
///
/// The data is one line of text: the address, the name of the host, the id of the process and the
/// name of the client, for example `10.0.0.7 web3 4711 checkout`. A Curator client writes its
/// address only. The text is for people; nothing in a lock depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContenderInfo {
    /// The local address of its connection.
    pub address: IpAddr,
    /// Name of its host.
    pub host: Option<String>,
    /// Id of its process on that host.
    pub process_id: Option<u32>,
    /// Name of the client, see [`Config::name`](zk_session::Config::name).
    pub name: Option<String>,
}

impl ContenderInfo {
    /// Reads the data of a node. Returns `None` if it does not begin with an address, as data of the
    /// application's own.
    #[must_use]
    pub fn parse(data: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(data).ok()?;
        let mut words = text.splitn(4, ' ');
        let address = words.next()?.parse().ok()?;
        let host = words.next().filter(|host| *host != UNKNOWN).map(str::to_owned);
        let process_id = words.next().and_then(|id| id.parse().ok());
        let name = words.next().map(str::to_owned);
        Some(Self { address, host, process_id, name })
    }
}

/// Returns the default data of this client's nodes. It is empty for a connection without an address.
pub(crate) fn own(client: &Client) -> Vec<u8> {
    let Some(address) = client.local_address() else { return Vec::new() };
    let name = in_one_line(client.name().unwrap_or_else(|| program()));
    let text = format!("{address} {} {} {name}", host(), std::process::id());
    text.trim_end().to_owned().into_bytes()
}

/// Returns the name of this host.
fn host() -> &'static str {
    static HOST: OnceLock<String> = OnceLock::new();
    HOST.get_or_init(|| {
        // Linux has both files; other systems often set a variable.
        let files = ["/proc/sys/kernel/hostname", "/etc/hostname"];
        let of_file = files.iter().find_map(|file| fs::read_to_string(file).ok());
        let found = of_file.or_else(|| std::env::var("HOSTNAME").ok());
        let found = found.or_else(|| std::env::var("COMPUTERNAME").ok()).unwrap_or_default();
        match found.split_whitespace().next() {
            Some(name) => in_one_line(name),
            None => UNKNOWN.to_owned(),
        }
    })
}

/// Returns the name of this program; empty if it is not known.
fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let path = std::env::current_exe().unwrap_or_default();
        path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    })
}

/// Stands for a host without a name.
const UNKNOWN: &str = "-";

/// Cuts a name to the limit, and replaces control characters.
fn in_one_line(name: &str) -> String {
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    name.chars().take(CONTENDER_NAME_MAX).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_own_and_of_curators_nodes_is_read() {
        let own = ContenderInfo::parse(b"10.0.0.7 web3 4711 checkout worker").unwrap();
        assert_eq!(own.address, IpAddr::from([10, 0, 0, 7]));
        assert_eq!((own.host.as_deref(), own.process_id), (Some("web3"), Some(4711)));
        assert_eq!(own.name.as_deref(), Some("checkout worker"));
        let curators = ContenderInfo::parse(b"fe80::1").unwrap();
        assert_eq!((curators.host, curators.process_id, curators.name), (None, None, None));
        let nameless = ContenderInfo::parse(b"10.0.0.7 - 4711").unwrap();
        assert_eq!((nameless.host, nameless.process_id), (None, Some(4711)));
    }

    #[test]
    fn other_data_is_not_taken_for_an_address() {
        for data in [&b""[..], b"order 17", b"10.0.0.7\n", b"\xff\xfe", b" 10.0.0.7"] {
            assert_eq!(ContenderInfo::parse(data), None, "{data:?}");
        }
    }

    #[test]
    fn names_fit_into_one_line() {
        assert_eq!(in_one_line("a\nb"), "a b");
        assert_eq!(in_one_line(&"é".repeat(1_000)).chars().count(), CONTENDER_NAME_MAX);
        assert!(!host().is_empty() && !host().contains(' '), "{}", host());
    }
}
